// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles programs to machine code for CPUs, through the plugin that holds Halide's back end.
//
// The plugin is one shared object, libtw_halide.so, which is built with this library and has the
// same version. It is opened when code is generated, so a program that only runs kernels does not
// need it. The functions of the generated object follow runtime/artifact.h and import nothing.
//
// Generated code may reassociate and contract float arithmetic, and may assume that there are no
// NaN. Thread-safe.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// A program, and the prefix of the symbols of its functions (codegen/abi.h), which is unique in a
/// batch.
struct NamedProgram {
  std::string prefix;
  const schedules::Program* program = nullptr;
};

struct CompiledObjects {
  std::string object;  ///< the bytes of one relocatable ELF object with all functions
  /// One for each program, in order; the object has no functions of a program that failed.
  std::vector<Status> programs;
};

struct CpuCodegenOptions {
  /// Directories to search for libtw_halide.so, in order; empty: plugin_directories().
  std::vector<std::string> plugin_directories = {};
};

/// Returns the default search path of the plugin: the directory of this program, ../lib/tilewright
/// relative to that directory, and the build directory.
std::vector<std::string> plugin_directories();

/// Compiles the programs together. Environment: the plugin is absent, or has another version. Any
/// other error concerns the code generation as a whole, although a single program may cause it: to
/// find that program, compile them one by one.
Result<CompiledObjects> compile_cpu(std::span<const NamedProgram> programs, const Target& target,
                                    const CpuCodegenOptions& options = {});

/// Returns the compiler in the plugin and its version: "halide-21.0.0". Fails with Environment as
/// compile_cpu().
Result<std::string> cpu_toolchain(const CpuCodegenOptions& options = {});

/// Numbers of accesses to a buffer in the code that the back end receives, by kind. An access
/// counts once, whatever loops surround it. Each unrolled copy of an access counts.
struct AccessCounts {
  int64_t contiguous = 0;  ///< vectors of contiguous elements
  /// Vectors with an index for each lane: strided accesses, gathers, scatters.
  int64_t lanewise = 0;
  int64_t scalar = 0;  ///< single elements
  /// Vectors under a mask for which the target has no masked instruction, so LLVM makes a branch
  /// for each lane. Accesses in a fallback do not count: code that runs only if a test for the
  /// whole vector fails.
  int64_t branching = 0;
};
/// Counts the accesses of a program, by name of the buffer. Compiles nothing, so it takes only
/// about a millisecond. Fails with Environment as compile_cpu().
Result<std::map<std::string, AccessCounts>> count_accesses(const schedules::Program& program,
                                                           const Target& target,
                                                           const CpuCodegenOptions& options = {});

/// The types of the functions that the plugin exports. Their names, with C linkage, are in the
/// comments.
inline constexpr int plugin_version = 3;
using PluginVersion = int();            // tw_halide_version
using PluginToolchain = const char*();  // tw_halide_toolchain
using PluginCounts = void(const schedules::Program* program, const Target* target,
                          Result<std::map<std::string, AccessCounts>>* result);  // tw_halide_count
using PluginCompile = void(const NamedProgram* programs, size_t count, const Target* target,
                           Result<CompiledObjects>* result);  // tw_halide_compile

}  // namespace tw::codegen
