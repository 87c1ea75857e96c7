// SPDX-License-Identifier: Apache-2.0
#pragma once
// Facts that `explain` prints about a GPU kernel in addition to the times of its resources: how its
// blocks fill the multiprocessors, how its warps access memory, and the registers, the spills and
// the performance advice that the compiler reports. The kernel is either compiled for this purpose,
// or taken from the file of a network (gpu_network.h). Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "codegen/gpu/nvrtc.h"
#include "cost_model/facts/gpu_facts.h"
#include "cost_model/facts/occupancy.h"
#include "runtime/artifact.h"
#include "schedules/program/program.h"
#include "tools/reports/report.h"

namespace tw::tools {

struct GpuPhase {
  cost_model::GpuPhaseFacts facts;
  /// Facts from the compiler; nullopt: registers and spills are estimates.
  std::optional<codegen::CudaFunctionFacts> compiled;
  /// Bytes of spilled registers of a thread; nullopt: unknown.
  std::optional<double> spilled_bytes;
  cost_model::Residency residency;

  double registers() const { return compiled ? compiled->registers : facts.registers; }
  double occupancy(const Gpu& gpu) const;
  /// Returns the number of blocks that are launched. A persistent phase launches at most as many
  /// as run at once; any other phase launches a block for each task.
  double blocks(const Machine& machine) const;
  /// Returns the number of blocks that run at once on all multiprocessors.
  double blocks_at_once(const Machine& machine) const;
  /// Returns the number of waves: the number of tasks divided by the number of blocks that are
  /// resident at once.
  double waves(const Machine& machine) const;
  /// Average number of cycles of the memory banks that an access of a warp to shared memory takes,
  /// bank conflicts included. The copies of TMA and the reads of wgmma do not count. 0 if no warp
  /// accesses shared memory.
  double bank_cycles() const;
};

struct GpuExplanation {
  Machine machine;
  std::string compiler;  ///< such as "nvrtc-13.0"; empty: no compiler reported
  std::string estimated_because;
  std::vector<std::string> advice;  ///< advice of the compiler (codegen/gpu/nvrtc.h)
  std::vector<GpuPhase> phases;

  /// Returns the sum over all phases whose spills are known.
  double spilled_bytes() const;
};

/// Compiles the program for the target to get the registers and spills of each phase from the
/// compiler. If there is no compiler, or it does not compile the program or reports nothing about
/// the phases, registers and spills are estimates, and `estimated_because` has the reason. Fails
/// with Unsupported if the program has no kernel for GPUs, as codegen::emit_gpu() does.
Result<GpuExplanation> explain_gpu(const schedules::Program& program,
                                   const cost_model::GpuFacts& facts, const Target& target,
                                   const codegen::NvrtcOptions& nvrtc);

/// Does the same for a compiled kernel. The registers of each phase are those of its code. The code
/// does not tell the spills of a phase: they are 0 if the artifact has none, and unknown otherwise.
/// OpenCL C does not tell the registers; for such code, registers and spills are estimates.
GpuExplanation explain_gpu(const runtime::Artifact& artifact, const cost_model::GpuFacts& facts,
                           const Target& target);

/// Returns the explanation as facts for people. If there are several phases, the name of each fact
/// about a phase begins with the index of the phase.
Facts as_facts(const GpuExplanation& explanation);
nlohmann::json as_json(const GpuExplanation& explanation);
/// Returns the field "phases" of as_json(): an object for each phase.
nlohmann::json phases_json(const GpuExplanation& explanation);

}  // namespace tw::tools
