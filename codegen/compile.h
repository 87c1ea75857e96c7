// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles programs to artifacts, which runtime/kernel.h can call.
//
//   KernelSpec spec{workload.key(), schedule.to_string(), program, flops};
//   TW_TRY(auto artifacts, compile({&spec, 1}, host_target()));
//   if (artifacts[0]) runtime::write_artifact(path, *artifacts[0]);
//
// Kernels for GPUs are compiled by codegen/gpu/compile.h and have no packs.
//
// Thread-safe. Deterministic: the same specs give the same bytes. A kernel's description and its
// instructions do not depend on the other kernels of a call, but its object may contain unused
// constants of these.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "codegen/cpu_codegen.h"
#include "codegen/gpu/nvrtc.h"
#include "codegen/link.h"
#include "runtime/artifact.h"
#include "schedules/program/program.h"

namespace tw::codegen {

struct KernelSpec {
  std::string workload;  ///< text key
  std::string schedule;  ///< text
  schedules::Program program;
  int64_t flops = 0;
  bool packs = true;  ///< add a packing kernel for each argument that is not row-major
};

struct CompileOptions {
  CpuCodegenOptions cpu = {};
  LinkOptions link = {};
  NvrtcOptions nvrtc = {};
  /// Number of kernels that are compiled together. A kernel takes 28 ms alone, 20 ms in a batch of
  /// 8, and 18.5 ms in a batch of 32 (Zen 4).
  int batch = 8;
  /// True to fill in KernelInfo::spills. It costs one run of objdump per kernel, in addition to the
  /// run for a batch with prefetches.
  bool count_spills = false;
};

/// Compiles the specs, and returns one result for each, in order; a kernel that cannot be compiled
/// fails alone. The whole call fails only for an error of the installation (Environment).
Result<std::vector<Result<runtime::Artifact>>> compile(std::span<const KernelSpec> specs,
                                                       const Target& target,
                                                       const CompileOptions& options = {});

/// A kernel of a processor before it is linked.
struct RelocatableKernel {
  runtime::KernelInfo info;
  std::string object;  ///< an ELF object that defines the functions of all phases and packs
};
/// Compiles one kernel without linking it. Fails as one kernel of compile() does, and with
/// Unsupported for a GPU.
Result<RelocatableKernel> compile_relocatable(const KernelSpec& spec, const Target& target,
                                              const CompileOptions& options = {});

/// Returns the name and version of the compiler for the target, as records store them:
/// "halide-21.0.0", "nvrtc-13.0". Environment if the compiler is not installed.
Result<std::string> toolchain(const Target& target, const CompileOptions& options = {});

/// Returns a hash of everything that decides what a call of the kernel does: instructions,
/// constants, tasks, layouts and scratch memory, but no names. Kernels of one workload with equal
/// hashes are the same kernel. Equal kernels may have different hashes, because kernels that are
/// compiled in the same batch may leave constants in the object.
std::string code_hash(const runtime::Artifact& artifact);

}  // namespace tw::codegen
