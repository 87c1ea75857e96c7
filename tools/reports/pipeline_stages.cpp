// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/pipeline_stages.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/text.h"
#include "schedules/schedule.h"
#include "tools/reports/kernel_limits.h"

namespace tw::tools {
namespace {

using schedules::Pipeline;
using schedules::Step;

/// Returns the name of the stage that reads `copy`, a stage that cache_operand made: "product" for
/// "a@product".
std::string consumer_of(const std::string& copy) { return copy.substr(copy.find('@') + 1); }

/// Returns the schedule with another depth of all pipelines of the stage.
Result<schedules::Schedule> with_depth(const schedules::Schedule& schedule,
                                       const std::string& stage, int64_t depth) {
  schedules::Schedule changed(schedule.compute());
  for (Step step : schedule.steps()) {
    if (auto* pipeline = std::get_if<Pipeline>(&step);
        pipeline && consumer_of(pipeline->stage) == stage)
      pipeline->depth = depth;
    changed.add(std::move(step));
  }
  if (changed.error()) return tl::unexpected(*changed.error());
  return changed;
}

Result<double> expected_ns(const Result<schedules::Schedule>& schedule,
                           const dsl::Workload& workload, const Target& target) {
  if (!schedule) return tl::unexpected(schedule.error());
  TW_TRY(const schedules::Program program, schedule->program(schedules::limits_of(target)));
  TW_TRY(const KernelLimits limits, kernel_limits(program, workload, target, 1));
  return limits.analytic_ns;
}

}  // namespace

Result<std::vector<PipelineStages>> pipeline_stages(const dsl::Workload& workload,
                                                    const std::string& schedule,
                                                    const Target& target) {
  TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(workload.compute, schedule));
  std::map<std::string, int64_t> depths;
  for (const Step& step : parsed.steps())
    if (const auto* pipeline = std::get_if<Pipeline>(&step))
      depths[consumer_of(pipeline->stage)] = pipeline->depth;
  std::vector<PipelineStages> pipelines;
  for (const auto& [stage, depth] : depths) {
    PipelineStages& one = pipelines.emplace_back(stage, depth);
    if (const auto ns = expected_ns(with_depth(parsed, stage, depth + 1), workload, target))
      one.deeper_ns = *ns;
    else
      one.illegal_because = ns.error().message;
  }
  return pipelines;
}

Facts as_facts(const std::vector<PipelineStages>& pipelines) {
  Facts facts;
  for (const PipelineStages& one : pipelines)
    facts.emplace_back(pipelines.size() > 1 ? fmt::format("stages of {}", one.stage) : "stages",
                       one.deeper_ns
                           ? fmt::format("{} in shared memory; with {} the model expects {}",
                                         one.depth, one.depth + 1, time_text(*one.deeper_ns))
                           : fmt::format("{} in shared memory; {} are illegal: {}", one.depth,
                                         one.depth + 1, split(one.illegal_because, '\n').front()));
  return facts;
}

nlohmann::json as_json(const std::vector<PipelineStages>& pipelines) {
  nlohmann::json list = nlohmann::json::array();
  for (const PipelineStages& one : pipelines) {
    nlohmann::json json = {{"stage", one.stage}, {"depth", one.depth}};
    if (one.deeper_ns)
      json["deeper_ns"] = *one.deeper_ns;
    else
      json["illegal_because"] = one.illegal_because;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace tw::tools
