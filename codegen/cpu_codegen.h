// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs -> machine code for CPUs, through the plugin that holds Halide's back end.
//
// The plugin is opened when code is generated; a program that only runs kernels never needs it. It
// is one shared object, libtw_halide.so, built with this library and of the same version. The
// functions of the object follow runtime/artifact.h and import nothing.
//
// Generated arithmetic on floats may reassociate, contract and ignore NaN. Thread-safe.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// A program and the prefix of its functions' symbols (codegen/abi.h), unique in a batch.
struct NamedProgram {
  std::string prefix;
  const schedules::Program* program = nullptr;
};

struct CompiledObjects {
  std::string object;            ///< the bytes of one relocatable ELF object with all functions
  std::vector<Status> programs;  ///< one each, in order; functions of a failed one are absent
};

struct CpuCodegenOptions {
  /// Directories to search for libtw_halide.so, in order; empty: plugin_directories().
  std::vector<std::string> plugin_directories = {};
};

/// Default search path of the plugin: the directory of this program, ../lib/tilewright relative to
/// it, and the build directory.
std::vector<std::string> plugin_directories();

/// Environment: the plugin is absent, or of another version. Any other error is one of the code
/// generation as a whole, which one program can cause: compile them one by one to find it.
Result<CompiledObjects> compile_cpu(std::span<const NamedProgram> programs, const Target& target,
                                    const CpuCodegenOptions& options = {});

/// The compiler in the plugin and its version: "halide-21.0.0". Fails with Environment as
/// compile_cpu does.
Result<std::string> cpu_toolchain(const CpuCodegenOptions& options = {});

/// Number of accesses to a buffer in the code that the back end receives, by kind. Each access
/// counts once, whatever loops surround it; each unrolled copy counts as an access.
struct AccessCounts {
  int64_t contiguous = 0;  ///< vectors of neighbours
  int64_t lanewise = 0;    ///< vectors with an index for each lane: steps, gathers, scatters
  int64_t scalar = 0;      ///< single elements
  /// Vectors under a mask for which the target has no masked instruction, so that LLVM branches for
  /// each lane. Masked accesses in the fallback of a branch that is tested once for the whole
  /// vector do not count.
  int64_t branching = 0;
};
/// The accesses by name of the buffer. Compiles nothing, which takes about a millisecond. Fails
/// with Environment as compile_cpu does.
Result<std::map<std::string, AccessCounts>> count_accesses(const schedules::Program& program,
                                                           const Target& target,
                                                           const CpuCodegenOptions& options = {});

/// The functions that the plugin exports, with these names and C linkage.
inline constexpr int plugin_version = 3;
using PluginVersion = int();            // tw_halide_version
using PluginToolchain = const char*();  // tw_halide_toolchain
using PluginCounts = void(const schedules::Program* program, const Target* target,
                          Result<std::map<std::string, AccessCounts>>* result);  // tw_halide_count
using PluginCompile = void(const NamedProgram* programs, size_t count, const Target* target,
                           Result<CompiledObjects>* result);  // tw_halide_compile

}  // namespace tw::codegen
