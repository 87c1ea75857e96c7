// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `explain` says of a kernel for a GPU beyond the times of its resources: how its blocks fill
// the multiprocessors, how its warps use memory, and what the compiler made of it. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "codegen/nvrtc.h"
#include "cost_model/gpu_facts.h"
#include "cost_model/occupancy.h"
#include "schedules/program.h"
#include "tools/report.h"

namespace tw::tools {

struct GpuPhase {
  cost_model::GpuPhaseFacts facts;
  std::optional<codegen::CudaFunctionFacts> compiled;  ///< none: registers are an estimate
  cost_model::Residency residency;

  double registers() const { return compiled ? compiled->registers : facts.registers; }
  double spilled_bytes() const;
  double occupancy(const Gpu& gpu) const;
  double waves(const Machine& machine) const;
  /// Cycles of the banks for an access of a warp, on average; 0 where there is none.
  double bank_cycles() const;
};

struct GpuExplanation {
  Machine machine;
  std::string compiler;  ///< "nvrtc-13.0"; empty: there is none to ask
  std::string estimated_because;
  std::vector<std::string> advice;  ///< the compiler's (codegen/nvrtc.h)
  std::vector<GpuPhase> phases;

  double spilled_bytes() const;
};

/// Compiles the program where NVRTC is there; where it is not, or has nothing to say, what a
/// thread takes is estimated, and the reason is part of the result.
GpuExplanation explain_gpu(const schedules::Program& program, const cost_model::GpuFacts& facts,
                           const Target& target, const codegen::NvrtcOptions& nvrtc);

/// For people; the names of several phases begin with their number.
Facts as_facts(const GpuExplanation& explanation);
nlohmann::json as_json(const GpuExplanation& explanation);

}  // namespace tw::tools
