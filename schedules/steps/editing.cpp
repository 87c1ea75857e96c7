// SPDX-License-Identifier: Apache-2.0
#include "schedules/steps/editing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"
#include "base/text.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

tl::unexpected<Error> illegal(std::string_view step, const std::string& why) {
  return fail(ErrorCode::Invalid, fmt::format("[{}] {}", step, why));
}

std::vector<NestLoop> default_loops(const Stage& stage, const std::string& prefix,
                                    const std::vector<int64_t>& extents) {
  std::vector<NestLoop> loops;
  const auto add = [&](const Axis& axis, int64_t extent, bool reduction) {
    loops.push_back({axis.name, prefix + axis.name, extent, LoopKind::Serial, false, reduction});
  };
  const size_t scanned = stage.scan ? stage.scanned_axis() : stage.axes.size();
  for (size_t i = 0; i < stage.axes.size(); ++i)
    if (i != scanned) add(stage.axes[i], extents[i], false);
  if (stage.scan) {
    add(stage.axes[scanned], extents[scanned], true);
    return loops;
  }
  for (const Axis& axis : stage.reduction) add(axis, axis.extent, true);
  return loops;
}

void follow_scanned_axis(StageNest& stage) {
  if (stage.stage.scan)
    stage.axis[stage.stage.reduction[0].name] = stage.axis[stage.stage.scan->along];
}

StageNest make_stage_nest(const Stage& stage, bool is_last) {
  StageNest nest;
  nest.stage = stage;
  nest.loops = default_loops(stage, is_last ? "" : stage.name + ".", stage.shape());
  for (const NestLoop& loop : nest.loops) nest.axis[loop.name] = dsl::var(loop.variable);
  follow_scanned_axis(nest);
  return nest;
}

namespace {

/// True if an existing loop of the stage has this name, as its own name or as its derived name.
bool is_taken(const StageNest& stage, const std::string& name) {
  return stage.find_loop(name) >= 0 ||
         std::any_of(stage.own_names.begin(), stage.own_names.end(), [&](const auto& own) {
           return own.name == name && stage.find_loop(own.loop) >= 0;
         });
}

}  // namespace

Status name_loops(StageNest& stage, std::string_view step,
                  std::initializer_list<std::string_view> loops,
                  const std::vector<std::string>& own) {
  for (size_t i = 0; i < own.size(); ++i) {
    if (!dsl::is_valid_name(own[i]))
      return illegal(
          step,
          fmt::format("'{}' is no name for a loop: use letters, digits and '_', and no word of "
                      "the language of expressions",
                      own[i]));
    if (is_taken(stage, own[i]))
      return illegal(step,
                     fmt::format("stage '{}' has a loop '{}' already", stage.stage.name, own[i]));
    std::erase_if(stage.own_names, [&](const auto& other) { return other.name == own[i]; });
    stage.own_names.push_back({own[i], std::string(loops.begin()[i])});
  }
  return {};
}

Status check_iterations(const std::vector<int64_t>& extents, std::string_view step,
                        const std::string& stage) {
  constexpr int64_t most_iterations = int64_t{1} << 58;
  const auto iterations = checked_product(extents);
  if (iterations && *iterations <= most_iterations) return {};
  return illegal(step,
                 fmt::format("the loops of '{}' would have more than 2^58 iterations", stage));
}

Status check_untouched(const Nest& nest, const StageNest& stage, std::string_view step,
                       int outermost) {
  for (const StageNest& other : nest.stages) {
    if (!other.at || other.at->consumer != stage.stage.name) continue;
    if (stage.find_loop(other.at->loop) >= outermost)
      return illegal(step,
                     fmt::format("'{}' is computed at loop '{}' of '{}': schedule the loops around "
                                 "it first",
                                 other.stage.name, other.at->loop, stage.stage.name));
    if (other.is_staged_operand || other.copies_results())
      return illegal(step, fmt::format("'{}' is indexed by the loops of '{}': schedule them first",
                                       other.stage.name, stage.stage.name));
  }
  return {};
}

Result<int> loop_index(const StageNest& stage, std::string_view step, const std::string& name) {
  const int index = stage.find_loop(name);
  if (index >= 0) return index;
  std::vector<std::string> names, shown;
  for (const NestLoop& loop : stage.loops) {
    names.push_back(loop.name);
    shown.push_back(shown_name(stage, loop));
  }
  for (const StageNest::OwnName& own : stage.own_names)
    if (stage.find_loop(own.loop) >= 0) names.push_back(own.name);
  const auto guess = nearest(name, names);
  return illegal(step, fmt::format("stage '{}' has no loop '{}': its loops are {}{}",
                                   stage.stage.name, name, join(shown, ", "),
                                   guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

Result<StageNest*> stage_of(Nest& nest, std::string_view step, const std::string& name) {
  if (StageNest* stage = nest.find(name)) return stage;
  std::vector<std::string> names;
  for (const StageNest& stage : nest.stages) names.push_back(stage.stage.name);
  return illegal(step,
                 fmt::format("there is no stage '{}': the stages are {}", name, join(names, ", ")));
}

void replace_variable(StageNest& stage, const std::string& variable, const Expr& replacement) {
  TW_CHECK(!dsl::uses_var(replacement, variable),
           "the replacement of a loop variable uses the variable");
  for (auto& [name, expr] : stage.axis) expr = dsl::substitute(expr, variable, replacement);
  for (Expr& guard : stage.guards) guard = dsl::substitute(guard, variable, replacement);
}

void rewrite_reads(Stage& stage, const std::string& tensor,
                   const std::function<Expr(const dsl::Read&)>& rewrite) {
  stage.body = dsl::transform(stage.body, [&](const Expr& e) -> std::optional<Expr> {
    const dsl::Read* r = e.as<dsl::Read>();
    if (!r || r->tensor != tensor) return std::nullopt;
    return rewrite(*r);
  });
}

Stage& definition(Nest& nest, const std::string& name) {
  for (Stage& stage : nest.compute.stages)
    if (stage.name == name) return stage;
  TW_CHECK(false, "a stage of the nest is a stage of its compute");
}

void erase_stage(Nest& nest, const std::string& name) {
  std::erase_if(nest.stages, [&](const StageNest& s) { return s.stage.name == name; });
}

void insert_before(Nest& nest, const std::string& name, const Stage& stage) {
  const auto at = std::find_if(nest.compute.stages.begin(), nest.compute.stages.end(),
                               [&](const Stage& s) { return s.name == name; });
  nest.compute.stages.insert(at, stage);
  const auto place = std::find_if(nest.stages.begin(), nest.stages.end(),
                                  [&](const StageNest& s) { return s.stage.name == name; });
  nest.stages.insert(place, make_stage_nest(stage, false));
}

void compute_region(StageNest& stage, const std::vector<Expr>& low,
                    const std::vector<int64_t>& extents) {
  stage.loops = default_loops(stage.stage, stage.stage.name + ".", extents);
  stage.guards.clear();
  for (const NestLoop& loop : stage.loops) stage.axis[loop.name] = dsl::var(loop.variable);
  for (size_t d = 0; d < low.size(); ++d) {
    const Axis& axis = stage.stage.axes[d];
    Expr& value = stage.axis[axis.name];
    value = low[d] + value;
    if (dsl::is_int(low[d], 0) && extents[d] <= axis.extent) continue;
    stage.guards.push_back(Expr(0) <= value);
    stage.guards.push_back(value < Expr(axis.extent));
  }
  follow_scanned_axis(stage);
}

std::string runs_in_order(const std::string& loop) {
  return fmt::format(
      "loop '{}' scans: each of its iterations continues from the one before it, so "
      "they run one after the other",
      loop);
}

Status check_no_scan(const StageNest& stage, std::string_view step) {
  if (!stage.stage.scan) return {};
  return illegal(step, fmt::format("'{}' is a scan along '{}': it keeps its running values by "
                                   "itself, and its terms come one after the other",
                                   stage.stage.name, stage.stage.scan->along));
}

bool has_fresh_loops(const Nest& nest, const StageNest& stage) {
  if (stage.at || stage.cache) return false;
  for (const StageNest& other : nest.stages)
    if (other.at && other.at->consumer == stage.stage.name) return false;
  const auto untouched = default_loops(stage.stage, "", stage.stage.shape());
  return std::equal(stage.loops.begin(), stage.loops.end(), untouched.begin(), untouched.end(),
                    [](const NestLoop& a, const NestLoop& b) {
                      return a.name == b.name && a.kind == b.kind && a.parallel == b.parallel;
                    });
}

bool is_fresh(const Nest& nest, const StageNest& stage) {
  return !stage.epilogue && !stage.prepared && has_fresh_loops(nest, stage);
}

std::vector<const StageNest*> placed_inside(const Nest& nest, const StageNest& stage,
                                            const std::string& consumer) {
  std::vector<const StageNest*> chain = {&stage};
  while (chain.back()->at && chain.back()->at->consumer != consumer)
    chain.push_back(nest.find(chain.back()->at->consumer));
  return chain.back()->at ? chain : std::vector<const StageNest*>{};
}

Result<StageNest*> operand_stage_of(Nest& nest, std::string_view step, const std::string& name) {
  TW_TRY(StageNest * stage, stage_of(nest, step, name));
  if (!stage->is_staged_operand)
    return illegal(step,
                   fmt::format("'{}' holds no operand: cache_operand makes stages that do", name));
  return stage;
}

Result<StageNest*> cached_stage_of(Nest& nest, std::string_view step, const std::string& name) {
  TW_TRY(StageNest * stage, stage_of(nest, step, name));
  if (!stage->is_staged_operand && !stage->copies_results())
    return illegal(step, fmt::format("'{}' holds neither an operand nor results: cache_operand and "
                                     "cache_result make stages that do",
                                     name));
  return stage;
}

}  // namespace tw::schedules
