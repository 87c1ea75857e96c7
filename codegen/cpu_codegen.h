// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles programs to machine code for CPUs, through a plugin that contains Halide's back end.
//
// The plugin is one shared object, libtw_halide.so. It is built with this library and must have the
// same version. It is opened when code is generated, so a program that only runs kernels does not
// need it. The functions of the generated object follow runtime/artifact.h and import nothing.
//
// Generated code may reassociate and contract float arithmetic, and may assume that no float is
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

/// A program, and the prefix of the symbols of its functions (codegen/abi.h). No two programs that
/// are compiled together may have the same prefix.
struct NamedProgram {
  std::string prefix;
  const schedules::Program* program = nullptr;
};

struct CompiledObjects {
  std::string object;  ///< the bytes of one relocatable ELF object with all functions
  /// The outcome of each program, in order. `object` has no functions of the programs that failed.
  std::vector<Status> programs;
  /// For each program, in order: true if it has strict float operations. For these LLVM must not
  /// assume that floats are finite. One such program changes the instructions of all programs of
  /// the object. False for a program that failed.
  std::vector<bool> strict;
};

struct CpuCodegenOptions {
  /// Directories in which to search for libtw_halide.so, in order. If empty, plugin_directories()
  /// are searched.
  std::vector<std::string> plugin_directories = {};
};

/// Returns the directories in which the plugin is searched for by default: the directory of this
/// program; ../lib/tilewright relative to that directory; the folder `tilewright` beside
/// libtilewright.so, if the program links that library; and the build directory.
std::vector<std::string> plugin_directories();

/// Compiles the programs together. The status of a single program that fails is in
/// CompiledObjects::programs. Fails with Environment if the plugin is absent or has another
/// version. Any other error means that code generation as a whole failed. A single program may
/// still be the cause; to find it, compile the programs one by one.
Result<CompiledObjects> compile_cpu(std::span<const NamedProgram> programs, const Target& target,
                                    const CpuCodegenOptions& options = {});

/// Returns the name and version of the compiler in the plugin: "halide-21.0.0". Fails with
/// Environment if the plugin is absent or has another version.
Result<std::string> cpu_toolchain(const CpuCodegenOptions& options = {});

/// Numbers of accesses to one buffer, by kind, in the statements that Halide's back end receives.
/// An access in a loop counts once, however often it is executed. But if the loop is unrolled, each
/// copy counts.
struct AccessCounts {
  int64_t contiguous = 0;  ///< vector accesses to contiguous elements
  /// Vector accesses with a separate index for each lane: strided accesses, gathers, scatters.
  int64_t lanewise = 0;
  int64_t scalar = 0;  ///< accesses to single elements
  /// Vector accesses under a mask for which the target has no masked instruction, so LLVM makes a
  /// branch for each lane. Accesses in a fallback do not count. A fallback is code that runs only
  /// if a test for the whole vector fails.
  int64_t branching = 0;
};
/// Counts the accesses of a program. The keys of the result are the names of the buffers. Nothing
/// is compiled, so the call takes about a millisecond. Fails with Environment if the plugin is
/// absent or has another version.
Result<std::map<std::string, AccessCounts>> count_accesses(const schedules::Program& program,
                                                           const Target& target,
                                                           const CpuCodegenOptions& options = {});

/// The types of the functions that the plugin exports with C linkage. The comment behind each type
/// is the name of the function.
inline constexpr int plugin_version = 4;
using PluginVersion = int();            // tw_halide_version
using PluginToolchain = const char*();  // tw_halide_toolchain
using PluginCounts = void(const schedules::Program* program, const Target* target,
                          Result<std::map<std::string, AccessCounts>>* result);  // tw_halide_count
using PluginCompile = void(const NamedProgram* programs, size_t count, const Target* target,
                           Result<CompiledObjects>* result);  // tw_halide_compile

}  // namespace tw::codegen
