// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/accumulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "schedules/lowering/conditions.h"

namespace tw::schedules {
namespace {

Accumulator buffer_for_accumulator(const StageNest& s, size_t start, Scope scope) {
  Accumulator acc{{s.stage.name + ".acc", s.stage.type, {}, scope}, {}};
  for (size_t i = start; i < s.loops.size(); ++i) {
    if (s.loops[i].reduction) continue;
    acc.buffer.extents.push_back(s.loops[i].extent);
    acc.at.push_back(dsl::var(s.loops[i].variable));
  }
  if (acc.at.empty()) return {{acc.buffer.name, s.stage.type, {1}, scope}, {Expr(0)}};
  return acc;
}

/// Returns the scope of a scan's running values: registers, unless a spatial loop of the core is
/// serial. Unrolled and vector loops leave no loop in the code that would index the values.
Scope scope_of_running_values(const StageNest& s, size_t start) {
  const bool any_serial =
      std::any_of(s.loops.begin() + static_cast<ptrdiff_t>(start), s.loops.end(),
                  [](const NestLoop& l) { return !l.reduction && l.kind == LoopKind::Serial; });
  return any_serial ? Scope::Local : Scope::Register;
}

}  // namespace

size_t core_start(const StageNest& s) {
  if (s.cache) return static_cast<size_t>(s.find_loop(s.cache->loop)) + 1;
  const auto first = std::find_if(s.loops.begin(), s.loops.end(),
                                  [](const NestLoop& loop) { return loop.reduction; });
  return static_cast<size_t>(first - s.loops.begin());
}

Accumulator accumulator_of_sums(const StageNest& s, size_t start, std::vector<Expr> result_at) {
  if (s.cache) return buffer_for_accumulator(s, start, s.cache->scope);
  return {{s.result(), s.stage.type, {}, Scope::Register}, std::move(result_at)};
}

Accumulator accumulator_of_running_values(const StageNest& s, size_t start) {
  return buffer_for_accumulator(s, start, scope_of_running_values(s, start));
}

OuterBlocks blocks_outside(const StageNest& s, size_t start) {
  std::vector<Expr> first, later, last, earlier;
  for (size_t i = 0; i < start; ++i) {
    if (!s.loops[i].reduction) continue;
    const Expr v = dsl::var(s.loops[i].variable), end(s.loops[i].extent - 1);
    first.push_back(v <= Expr(0));
    later.push_back(Expr(1) <= v);
    last.push_back(end <= v);
    earlier.push_back(v < end);
  }
  return {!first.empty(), conjunction(first), disjunction(later), conjunction(last),
          disjunction(earlier)};
}

Status check_accumulation(const StageNest& s) {
  if (!s.epilogue || s.epilogue->type == s.stage.type || s.stage.scan) return {};
  const bool continues =
      std::any_of(s.loops.begin(), s.loops.begin() + static_cast<ptrdiff_t>(core_start(s)),
                  [](const NestLoop& loop) { return loop.reduction; });
  if (s.cache && !continues) return {};
  return fail(
      ErrorCode::Invalid,
      fmt::format("[epilogue] '{}' sums in {} and '{}' stores {}: give it a cache_write outside of "
                  "its reduction loops\n  {}",
                  s.stage.name, to_string(s.stage.type), s.epilogue->name,
                  to_string(s.epilogue->type), describe(s)));
}

Status check_result_copy(const Nest& nest, const StageNest& s) {
  if (!copy_of_results(nest, s.stage.name)) return {};
  const auto illegal = [&](const std::string& why) {
    return fail(ErrorCode::Invalid, fmt::format("[cache_result] {}\n  {}", why, describe(s)));
  };
  const size_t start = core_start(s);
  if (blocks_outside(s, start).any)
    return illegal(
        fmt::format("'{}' continues its sums in a loop outside of '{}', the loop of "
                    "the accumulator: an iteration has partial sums",
                    s.stage.name, s.cache->loop));
  for (size_t i = start; i < s.loops.size(); ++i)
    if (s.loops[i].parallel)
      return illegal(
          fmt::format("loop '{}' inside of '{}', the loop of the accumulator, is "
                      "parallel: a task has a part of the results",
                      s.loops[i].name, s.cache->loop));
  return {};
}

}  // namespace tw::schedules
