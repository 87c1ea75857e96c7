// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reports the number of stages of each pipeline of a GPU kernel, and the time that the analytic
// model expects with one stage more, or the reason why one more is illegal. `explain` prints for
// example "3 in shared memory; with 4 the model expects 12.1 µs". Nothing is compiled or run.
// Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "tools/reports/report.h"

namespace tw::tools {

/// The pipelines in which a stage of the compute copies its operands to shared memory.
struct PipelineStages {
  std::string stage;  ///< such as "product"
  int64_t depth = 0;  ///< iterations whose data are in shared memory at once
  /// Expected time with one stage more; nullopt if that schedule is illegal.
  std::optional<double> deeper_ns;
  std::string illegal_because;  ///< the error of the schedule with one stage more; empty if legal
};

/// Returns one element for each stage of the compute that has a pipeline in the schedule (tw1 text)
/// of the workload. Empty if it has no step `pipeline`. Fails with the errors of parse_schedule().
Result<std::vector<PipelineStages>> pipeline_stages(const dsl::Workload& workload,
                                                    const std::string& schedule,
                                                    const Target& target);

Facts as_facts(const std::vector<PipelineStages>& pipelines);
nlohmann::json as_json(const std::vector<PipelineStages>& pipelines);

}  // namespace tw::tools
