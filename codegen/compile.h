// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles programs to artifacts, which runtime/kernel.h can call.
//
//   KernelSpec spec{workload.key(), schedule.to_string(), program, flops};
//   TW_TRY(auto artifacts, compile({&spec, 1}, host_target()));
//   if (artifacts[0]) runtime::write_artifact(path, *artifacts[0]);
//
// Kernels for GPUs are compiled by codegen/gpu/compile.h and have no packing kernels.
//
// Thread-safe. Deterministic: the same specs give the same bytes. A kernel's KernelInfo and
// instructions do not depend on the other kernels of the call. But the kernel's object may contain
// constants of the other kernels, which it does not use.

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
  std::string workload;  ///< key of the workload (dsl::Workload::key())
  std::string schedule;  ///< text of the schedule
  schedules::Program program;
  int64_t flops = 0;
  bool packs = true;  ///< add a packing kernel for each argument that is not row-major
};

struct CompileOptions {
  CpuCodegenOptions cpu = {};
  LinkOptions link = {};
  NvrtcOptions nvrtc = {};
  /// Number of kernels that are compiled together. Larger batches save time: a kernel takes 28 ms
  /// alone, 20 ms in a batch of 8, and 18.5 ms in a batch of 32 (Zen 4).
  int batch = 8;
  /// True to count the register spills of each kernel (KernelInfo::spills), for which objdump runs
  /// once for each kernel. Even if this is false, objdump runs once for each batch that has
  /// prefetches (codegen/prefetch_hints.h).
  bool count_spills = false;
};

/// Compiles the specs. Returns one result for each spec, in order, so a kernel that cannot be
/// compiled does not affect the others. The call as a whole fails only with Environment, if a
/// compiler is missing or unusable.
Result<std::vector<Result<runtime::Artifact>>> compile(std::span<const KernelSpec> specs,
                                                       const Target& target,
                                                       const CompileOptions& options = {});

/// A kernel of a processor before it is linked.
struct RelocatableKernel {
  runtime::KernelInfo info;
  std::string object;  ///< an ELF object that defines the functions of all phases and packs
};
/// Compiles one kernel without linking it. Fails with Unsupported if the target is a GPU, and
/// otherwise as compile() does for one kernel.
Result<RelocatableKernel> compile_relocatable(const KernelSpec& spec, const Target& target,
                                              const CompileOptions& options = {});

/// Returns the name and version of the compiler for the target, as records store them:
/// "halide-21.0.0", "nvrtc-13.0". Fails with Environment if the compiler is not installed.
Result<std::string> toolchain(const Target& target, const CompileOptions& options = {});

/// Returns a hash of everything that decides what a call of the kernel does: instructions,
/// constants, tasks, layouts and scratch memory, but not the names of functions. Two kernels of one
/// workload with equal hashes do the same. Two kernels that do the same may have different hashes,
/// because an object may contain constants of other kernels of its batch.
std::string code_hash(const runtime::Artifact& artifact);

}  // namespace tw::codegen
