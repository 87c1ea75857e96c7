// SPDX-License-Identifier: Apache-2.0
#include "schedules/nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/integer.h"
#include "base/text.h"
#include "schedules/box.h"
#include "schedules/bulk_copies.h"
#include "schedules/tensor_tiles.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

tl::unexpected<Error> illegal(std::string_view step, const std::string& why) {
  return fail(ErrorCode::Invalid, fmt::format("[{}] {}", step, why));
}

std::vector<NestLoop> default_loops(const Stage& stage, const std::string& prefix,
                                    const std::vector<int64_t>& extents) {
  std::vector<NestLoop> loops;
  for (size_t i = 0; i < stage.axes.size(); ++i)
    loops.push_back({stage.axes[i].name, prefix + stage.axes[i].name, extents[i]});
  for (const Axis& axis : stage.reduction)
    loops.push_back({axis.name, prefix + axis.name, axis.extent, LoopKind::Serial, false, true});
  return loops;
}

StageNest make_stage_nest(const Stage& stage, bool is_last) {
  StageNest nest;
  nest.stage = stage;
  nest.loops = default_loops(stage, is_last ? "" : stage.name + ".", stage.shape());
  for (const NestLoop& loop : nest.loops) nest.axis[loop.name] = dsl::var(loop.variable);
  return nest;
}

/// Loops that a placement or an accumulator hangs on must stay what they are, and so must all
/// around.
Status check_untouched(const Nest& nest, const StageNest& stage, std::string_view step,
                       int outermost) {
  for (const StageNest& other : nest.stages) {
    if (!other.at || other.at->consumer != stage.stage.name) continue;
    if (stage.find_loop(other.at->loop) >= outermost)
      return illegal(step,
                     fmt::format("'{}' is computed at loop '{}' of '{}': schedule the loops around "
                                 "it first",
                                 other.stage.name, other.at->loop, stage.stage.name));
    if (other.holds_operand)
      return illegal(step, fmt::format("'{}' is indexed by the loops of '{}': schedule them first",
                                       other.stage.name, stage.stage.name));
  }
  return {};
}

Result<int> loop_index(const StageNest& stage, std::string_view step, const std::string& name) {
  const int index = stage.find_loop(name);
  if (index >= 0) return index;
  std::vector<std::string> names;
  for (const NestLoop& loop : stage.loops) names.push_back(loop.name);
  const auto guess = nearest(name, names);
  return illegal(step, fmt::format("stage '{}' has no loop '{}': its loops are {}{}",
                                   stage.stage.name, name, join(names, ", "),
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
  for (auto& [name, expr] : stage.axis) expr = dsl::substitute(expr, variable, replacement);
  for (Expr& guard : stage.guards) guard = dsl::substitute(guard, variable, replacement);
}

/// Every read of `tensor` in the stage and its epilogue is passed through `rewrite`.
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

bool has_axis(const Stage& stage, const std::string& name) {
  const auto is_it = [&](const Axis& axis) { return axis.name == name; };
  return std::any_of(stage.axes.begin(), stage.axes.end(), is_it) ||
         std::any_of(stage.reduction.begin(), stage.reduction.end(), is_it);
}

/// Whether the loops of the stage are as default_nest() made them, and nothing is computed inside.
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

/// Whether nothing has been done to the stage.
bool is_fresh(const Nest& nest, const StageNest& stage) {
  return !stage.epilogue && has_fresh_loops(nest, stage);
}

/// The stages from this one outwards, each computed in a loop of the next, up to the one that is
/// computed in a loop of `consumer`; none where it is not inside.
std::vector<const StageNest*> placed_inside(const Nest& nest, const StageNest& stage,
                                            const std::string& consumer) {
  std::vector<const StageNest*> chain = {&stage};
  while (chain.back()->at && chain.back()->at->consumer != consumer)
    chain.push_back(nest.find(chain.back()->at->consumer));
  return chain.back()->at ? chain : std::vector<const StageNest*>{};
}

// ---- the steps ------------------------------------------------------------------------------

Status run(Nest& nest, const Split& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  TW_RETURN_IF_ERROR(check_untouched(nest, *stage, s.name, index));
  const NestLoop loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name,
                   fmt::format("loop '{}' is already unrolled, vectorized or parallel", s.loop));
  if (stage->cache && stage->cache->loop == s.loop)
    return illegal(s.name,
                   fmt::format("loop '{}' carries the accumulator of '{}'", s.loop, s.stage));
  if (s.factor < 1) return illegal(s.name, fmt::format("the factor {} is not positive", s.factor));
  const bool divides = loop.extent % s.factor == 0;
  if (!divides && s.tail == Tail::Exact)
    return illegal(s.name,
                   fmt::format("{} does not divide the extent {} of '{}' and its tail is exact",
                               s.factor, loop.extent, s.loop));
  if (!divides && s.tail == Tail::Shift &&
      (loop.reduction || stage->stage.combine != Combine::None))
    return illegal(s.name, "a shifted tail computes elements twice: not for reductions");
  if (s.tail == Tail::Shift && s.factor > loop.extent)
    return illegal(s.name, fmt::format("a shifted tile of {} is longer than the extent {}",
                                       s.factor, loop.extent));
  NestLoop outer = loop, inner = loop;
  outer.name += ".0", outer.variable += ".0", outer.extent = ceil_div(loop.extent, s.factor);
  inner.name += ".1", inner.variable += ".1", inner.extent = s.factor;
  const Expr outer_var = dsl::var(outer.variable), inner_var = dsl::var(inner.variable);
  Expr start = outer_var * Expr(s.factor);
  if (!divides && s.tail == Tail::Shift) {
    start = dsl::min(start, Expr(loop.extent - s.factor));
    outer.overlaps = inner.overlaps = true;
  }
  replace_variable(*stage, loop.variable, start + inner_var);
  if (!divides && s.tail == Tail::Guard)
    stage->guards.push_back(start + inner_var < Expr(loop.extent));
  stage->loops[static_cast<size_t>(index)] = outer;
  stage->loops.insert(stage->loops.begin() + index + 1, inner);
  return {};
}

Status run(Nest& nest, const Fuse& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int outer_index, loop_index(*stage, s.name, s.outer));
  TW_TRY(const int inner_index, loop_index(*stage, s.name, s.inner));
  if (inner_index != outer_index + 1)
    return illegal(
        s.name, fmt::format("'{}' is not directly inside '{}': reorder first", s.inner, s.outer));
  TW_RETURN_IF_ERROR(check_untouched(nest, *stage, s.name, outer_index));
  const NestLoop outer = stage->loops[static_cast<size_t>(outer_index)];
  const NestLoop inner = stage->loops[static_cast<size_t>(inner_index)];
  if (outer.reduction != inner.reduction)
    return illegal(s.name, "one loop reduces and the other does not");
  if (outer.kind != LoopKind::Serial || inner.kind != LoopKind::Serial || outer.parallel ||
      inner.parallel)
    return illegal(s.name, "only serial loops fuse");
  if (stage->cache && (stage->cache->loop == s.outer || stage->cache->loop == s.inner))
    return illegal(s.name, "one of the loops carries the accumulator");
  NestLoop fused = outer;
  fused.name = outer.name + "*" + inner.name;
  fused.variable = outer.variable + "*" + inner.name;
  fused.extent = outer.extent * inner.extent;
  fused.overlaps = outer.overlaps || inner.overlaps;
  const Expr v = dsl::var(fused.variable);
  replace_variable(*stage, outer.variable, v / Expr(inner.extent));
  replace_variable(*stage, inner.variable, v % Expr(inner.extent));
  stage->loops[static_cast<size_t>(outer_index)] = fused;
  stage->loops.erase(stage->loops.begin() + inner_index);
  return {};
}

Status run(Nest& nest, const Reorder& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (s.loops.empty()) return illegal(s.name, "no loop is named");
  std::vector<int> places;
  for (const std::string& name : s.loops) {
    TW_TRY(const int index, loop_index(*stage, s.name, name));
    places.push_back(index);
  }
  std::vector<int> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return illegal(s.name, "a loop is named twice");
  int first_moved = static_cast<int>(stage->loops.size());
  for (size_t i = places.size(); i > 0; --i)
    if (places[i - 1] != sorted[i - 1]) first_moved = sorted[i - 1];
  TW_RETURN_IF_ERROR(check_untouched(nest, *stage, s.name, first_moved));
  const std::vector<NestLoop> before = stage->loops;
  for (size_t i = 0; i < places.size(); ++i)
    stage->loops[static_cast<size_t>(sorted[i])] = before[static_cast<size_t>(places[i])];
  return {};
}

Status run(Nest& nest, const Unroll& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is already vectorized or parallel", s.loop));
  if (loop.extent > 256)
    return illegal(s.name,
                   fmt::format("loop '{}' has {} iterations, at most 256 unroll: split it first",
                               s.loop, loop.extent));
  loop.kind = LoopKind::Unrolled;
  return {};
}

Status run(Nest& nest, const Vectorize& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is already unrolled or parallel", s.loop));
  if (loop.reduction)
    return illegal(s.name,
                   fmt::format("loop '{}' reduces: its iterations share an element; rfactor makes "
                               "partial results that do not",
                               s.loop));
  if (loop.extent > 64)
    return illegal(
        s.name, fmt::format("loop '{}' has {} iterations, a vector has at most 64: split it first",
                            s.loop, loop.extent));
  loop.kind = LoopKind::Vector;
  return {};
}

Status run(Nest& nest, const Parallel& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.reduction)
    return illegal(s.name,
                   fmt::format("loop '{}' reduces: two tasks would write one element", s.loop));
  if (loop.kind != LoopKind::Serial)
    return illegal(s.name, fmt::format("loop '{}' is unrolled or vectorized", s.loop));
  if (loop.overlaps)
    return illegal(
        s.name,
        fmt::format("loop '{}' has a shifted tail: two tasks would write one element", s.loop));
  if (stage->at)
    return illegal(s.name, fmt::format("stage '{}' is computed inside another", s.stage));
  loop.parallel = true;
  return {};
}

/// Whether a loop outside of the one at `index` reduces.
bool reduces_around(const StageNest& stage, int index) {
  return std::any_of(stage.loops.begin(), stage.loops.begin() + index,
                     [](const NestLoop& loop) { return loop.reduction; });
}

Status run(Nest& nest, const Bind& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is unrolled, vectorized or parallel", s.loop));
  if (loop.reduction) {
    if (static_cast<size_t>(index) + 1 != stage->loops.size() || reduces_around(*stage, index))
      return illegal(s.name, fmt::format("loop '{}' reduces, and is not the innermost and only one "
                                         "that does: two threads would write one element; rfactor "
                                         "makes partial results that do not",
                                         s.loop));
    loop.kind = LoopKind::Reduce;
    return {};
  }
  if (loop.overlaps)
    return illegal(s.name, fmt::format("loop '{}' has a shifted tail: two threads would write one "
                                       "element",
                                       s.loop));
  loop.kind = LoopKind::Thread;
  return {};
}

/// The box of `tensor` that one iteration of loop `index` of `consumer` reads, over all readers
/// inside.
Result<std::vector<Interval>> required_box(const Nest& nest, const std::string& tensor,
                                           const StageNest& consumer, int index,
                                           const std::vector<int64_t>& shape) {
  std::vector<std::optional<Interval>> box(shape.size());
  std::vector<bool> whole(shape.size(), false);
  std::map<std::string, int64_t> inside;
  for (size_t i = static_cast<size_t>(index) + 1; i < consumer.loops.size(); ++i)
    inside[consumer.loops[i].variable] = consumer.loops[i].extent;

  const auto add_reads = [&](const StageNest& reader, const Stage& body) {
    auto inner = inside;
    if (&reader != &consumer)
      for (const StageNest* stage : placed_inside(nest, reader, consumer.stage.name))
        for (const NestLoop& loop : stage->loops) inner[loop.variable] = loop.extent;
    dsl::Substitution axis = reader.axis;
    if (&body != &reader.stage)  // an epilogue's axes stand for those of its stage, in order
      for (size_t i = 0; i < body.axes.size(); ++i)
        axis[body.axes[i].name] = reader.axis.at(reader.stage.axes[i].name);
    for_each_read(body.body, [&](const dsl::Read& r) {
      if (r.tensor != tensor) return;
      for (size_t d = 0; d < shape.size(); ++d) {
        const auto interval = interval_of(dsl::substitute(r.indices[d], axis), inner);
        const auto covered = !interval ? std::nullopt
                             : box[d]  ? cover(*box[d], *interval)
                                       : interval;
        if (!covered) whole[d] = true;
        if (covered) box[d] = covered;
      }
    });
  };
  for (const StageNest& reader : nest.stages) {
    if (!reads(reader, tensor)) continue;
    const auto chain = placed_inside(nest, reader, consumer.stage.name);
    const bool is_inside = !chain.empty() && consumer.find_loop(chain.back()->at->loop) >= index;
    if (&reader != &consumer && !is_inside)
      return illegal("compute_at",
                     fmt::format("'{}' is also read by '{}', which is not inside that loop", tensor,
                                 reader.stage.name));
    add_reads(reader, reader.stage);
    if (reader.epilogue) add_reads(reader, *reader.epilogue);
  }
  std::vector<Interval> result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!box[d] || whole[d] || box[d]->extent >= shape[d]) {
      result.push_back({Expr(0), shape[d]});
    } else {
      result.push_back(*box[d]);
    }
  }
  return result;
}

Status run(Nest& nest, const ComputeAt& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const StageNest* consumer, stage_of(nest, s.name, s.consumer));
  if (stage == consumer) return illegal(s.name, "a stage cannot be computed inside itself");
  if (nest.compute.is_output(stage->result()))
    return illegal(s.name, fmt::format("'{}' is an output: it has a nest of its own", s.stage));
  if (!has_fresh_loops(nest, *stage))
    return illegal(
        s.name, fmt::format("'{}' has steps already: place it first, then schedule it", s.stage));
  if (nest.layouts.contains(stage->result()))
    return illegal(s.name, fmt::format("'{}' has a layout: a box of it has none", s.stage));
  if (!reads(*consumer, stage->result())) {
    bool inside = false;
    for (const StageNest& other : nest.stages)
      inside |= reads(other, stage->result()) && !placed_inside(nest, other, s.consumer).empty();
    if (!inside)
      return illegal(s.name, fmt::format("'{}' does not read '{}'", s.consumer, s.stage));
  }
  TW_TRY(const int index, loop_index(*consumer, s.name, s.loop));
  TW_TRY(const auto box,
         required_box(nest, stage->result(), *consumer, index, stage->stage.shape()));
  stage->at = StageNest::Placement{s.consumer, s.loop};
  stage->box_offset.clear();
  stage->box_extent.clear();
  for (const Interval& interval : box) {
    stage->box_offset.push_back(interval.low);
    stage->box_extent.push_back(interval.extent);
  }
  stage->loops = default_loops(stage->stage, stage->stage.name + ".", stage->box_extent);
  stage->guards.clear();
  for (const NestLoop& loop : stage->loops) stage->axis[loop.name] = dsl::var(loop.variable);
  for (size_t d = 0; d < box.size(); ++d) {
    const Axis& axis = stage->stage.axes[d];
    Expr& value = stage->axis[axis.name];
    value = box[d].low + value;
    if (dsl::is_int(box[d].low, 0) && box[d].extent <= axis.extent) continue;
    stage->guards.push_back(Expr(0) <= value);
    stage->guards.push_back(value < Expr(axis.extent));
  }
  return {};
}

int64_t count_reads(const Expr& body, const std::string& tensor) {
  int64_t count = 0;
  for_each_read(body, [&](const dsl::Read& r) { count += r.tensor == tensor; });
  return count;
}

/// Whether an expression is beyond what is declared by hand, and so what passes are made for.
bool is_too_large(const Expr& body) {
  return body.node().size > dsl::largest_expression || body.node().height > dsl::tallest_expression;
}

Status run(Nest& nest, const Inline& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->stage.combine != Combine::None)
    return illegal(s.name, fmt::format("'{}' is a reduction", s.stage));
  if (nest.compute.is_output(s.stage))
    return illegal(s.name, fmt::format("'{}' is an output", s.stage));
  if (!is_fresh(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps already", s.stage));
  const Stage producer = stage->stage;
  const auto expand = [&](const dsl::Read& r) {
    dsl::Substitution arguments;
    for (size_t i = 0; i < producer.axes.size(); ++i)
      arguments[producer.axes[i].name] = r.indices[i];
    return dsl::substitute(producer.body, arguments);
  };
  const auto inline_into = [&](Stage& reader) -> Status {
    const int64_t copies = count_reads(reader.body, producer.name);
    if (copies == 0) return {};
    const bool fits = copies * producer.body.node().size <= dsl::largest_expression;
    if (fits) rewrite_reads(reader, producer.name, expand);
    if (fits && !is_too_large(reader.body)) return {};
    return illegal(
        s.name,
        fmt::format("the expression of '{}' would have more than {} nodes or {} "
                    "levels with {} of '{}' in it",
                    reader.name, dsl::largest_expression, dsl::tallest_expression,
                    copies == 1 ? "a copy" : fmt::format("{} copies", copies), producer.name));
  };
  for (StageNest& reader : nest.stages) {
    TW_RETURN_IF_ERROR(inline_into(reader.stage));
    if (reader.epilogue) TW_RETURN_IF_ERROR(inline_into(*reader.epilogue));
  }
  for (Stage& reader : nest.compute.stages) TW_RETURN_IF_ERROR(inline_into(reader));
  erase_stage(nest, producer.name);
  std::erase_if(nest.compute.stages,
                [&](const Stage& other) { return other.name == producer.name; });
  return {};
}

Status run(Nest& nest, const Epilogue& s) {
  TW_TRY(StageNest * into, stage_of(nest, s.name, s.into));
  TW_TRY(const StageNest* stage, stage_of(nest, s.name, s.stage));
  if (into->stage.combine == Combine::None)
    return illegal(s.name, fmt::format("'{}' is no reduction: inline it instead", s.into));
  if (into->at)
    return illegal(s.name, fmt::format("'{}' is computed inside another stage", s.into));
  if (into->epilogue) return illegal(s.name, fmt::format("'{}' has an epilogue already", s.into));
  if (stage->stage.combine != Combine::None || !is_fresh(nest, *stage))
    return illegal(s.name, fmt::format("'{}' must be elementwise and have no steps yet", s.stage));
  if (nest.compute.is_output(s.into))
    return illegal(s.name, fmt::format("'{}' is an output", s.into));
  for (const StageNest& other : nest.stages)
    if (other.stage.name != s.stage && reads(other, s.into))
      return illegal(s.name, fmt::format("'{}' reads '{}' too", other.stage.name, s.into));
  if (stage->stage.shape() != into->stage.shape() || !reads(*stage, s.into))
    return illegal(s.name, fmt::format("'{}' is no elementwise function of '{}'", s.stage, s.into));
  bool elementwise = true;
  for_each_read(stage->stage.body, [&](const dsl::Read& r) {
    if (r.tensor != s.into) return;
    for (size_t i = 0; i < r.indices.size(); ++i) {
      const dsl::Var* v = r.indices[i].as<dsl::Var>();
      elementwise &= v && v->name == stage->stage.axes[i].name;
    }
  });
  if (!elementwise)
    return illegal(s.name,
                   fmt::format("'{}' does not read '{}' at its own indices", s.stage, s.into));
  // What else the epilogue reads may be computed after `into`: that takes the place of the
  // epilogue.
  into->epilogue = stage->stage;
  const auto from = nest.stages.begin() + (into - nest.stages.data());
  const auto to = nest.stages.begin() + (stage - nest.stages.data());
  std::rotate(from, from + 1, to + 1);
  erase_stage(nest, s.stage);
  return {};
}

Status run(Nest& nest, const CacheWrite& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  if (stage->cache) return illegal(s.name, fmt::format("'{}' has an accumulator already", s.stage));
  if (stage->stage.combine == Combine::None)
    return illegal(s.name, fmt::format("'{}' accumulates nothing: it is no reduction", s.stage));
  const NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial) return illegal(s.name, "the loop is unrolled or vectorized");
  if (s.scope != Scope::Register && s.scope != Scope::Local)
    return illegal(s.name,
                   fmt::format("an accumulator is register or local, not {}", to_string(s.scope)));
  stage->cache = StageNest::Cache{s.loop, s.scope};
  return {};
}

Status run(Nest& nest, const CacheRead& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (!reads(*stage, s.tensor))
    return illegal(s.name, fmt::format("'{}' does not read '{}'", s.stage, s.tensor));
  Stage copy;
  copy.name = s.tensor + "@" + s.stage;
  if (nest.find(copy.name)) return illegal(s.name, fmt::format("'{}' exists already", copy.name));
  copy.type = nest.compute.type_of(s.tensor);
  const auto shape = nest.compute.shape_of(s.tensor);
  std::vector<Expr> indices;
  for (size_t d = 0; d < shape.size(); ++d) {
    copy.axes.emplace_back(fmt::format("i{}", d), shape[d]);
    indices.push_back(dsl::var(copy.axes.back().name));
  }
  copy.body = dsl::read(s.tensor, indices, copy.type);
  copy.letters = nest.compute.letters_of(s.tensor);
  const auto redirect = [&](const dsl::Read& r) { return dsl::read(copy.name, r.indices, r.type); };
  rewrite_reads(stage->stage, s.tensor, redirect);
  rewrite_reads(definition(nest, s.stage), s.tensor, redirect);
  insert_before(nest, s.stage, copy);
  return run(nest, ComputeAt{copy.name, s.stage, s.loop});
}

std::set<std::string> variables_of(const Expr& expr) {
  std::set<std::string> names;
  dsl::for_each(expr, [&](const Expr& e) {
    if (const dsl::Var* v = e.as<dsl::Var>()) names.insert(v->name);
  });
  return names;
}

/// The first tensor that the expression reads, or the number of the operand.
std::string operand_name(const Expr& value, int64_t number) {
  std::string name;
  for_each_read(value, [&](const dsl::Read& r) {
    if (name.empty()) name = r.tensor;
  });
  return name.empty() ? std::to_string(number) : name;
}

/// The loops inside of loop `index`, by the names that the step lists, in its order; exactly those
/// that the operand depends on.
Result<std::vector<NestLoop>> operand_loops(const StageNest& stage, const CacheOperand& s,
                                            size_t index, const std::set<std::string>& used) {
  std::vector<NestLoop> loops;
  if (s.loops.empty()) return illegal(s.name, "no loop is named");
  for (const std::string& name : s.loops) {
    TW_TRY(const int at, loop_index(stage, s.name, name));
    const NestLoop& loop = stage.loops[static_cast<size_t>(at)];
    if (static_cast<size_t>(at) <= index || !used.contains(loop.variable))
      return illegal(s.name, fmt::format("loop '{}' is not inside of '{}', or operand {} does not "
                                         "depend on it",
                                         name, s.loop, s.operand));
    if (std::any_of(loops.begin(), loops.end(), [&](const auto& l) { return l.name == name; }))
      return illegal(s.name, fmt::format("loop '{}' is named twice", name));
    loops.push_back(loop);
  }
  for (size_t i = index + 1; i < stage.loops.size(); ++i)
    if (used.contains(stage.loops[i].variable) &&
        std::find(s.loops.begin(), s.loops.end(), stage.loops[i].name) == s.loops.end())
      return illegal(s.name, fmt::format("operand {} depends on loop '{}' too", s.operand,
                                         stage.loops[i].name));
  return loops;
}

Status run(Nest& nest, const CacheOperand& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  if (stage->stage.combine == Combine::None)
    return illegal(s.name, fmt::format("'{}' is no reduction", s.stage));
  std::vector<Expr> operands = operands_of(stage->stage);
  if (s.operand < 1 || s.operand > static_cast<int64_t>(operands.size()))
    return illegal(s.name,
                   fmt::format("'{}' has {} operand{}, there is no operand {}", s.stage,
                               operands.size(), operands.size() == 1 ? "" : "s", s.operand));
  Expr& operand = operands[static_cast<size_t>(s.operand) - 1];
  const Expr value = unwidened(operand);
  const Expr neutral =
      identity(operands.size() == 2 ? Combine::Sum : stage->stage.combine, value.type());
  Expr held = dsl::substitute(value, stage->axis);
  TW_TRY(const std::vector<NestLoop> loops,
         operand_loops(*stage, s, static_cast<size_t>(index), variables_of(held)));

  // Guards that hold or fail for all that an element stands for.
  std::set<std::string> inside;
  for (size_t i = static_cast<size_t>(index) + 1; i < stage->loops.size(); ++i)
    inside.insert(stage->loops[i].variable);
  for (const NestLoop& loop : loops) inside.erase(loop.variable);
  std::vector<Expr> absorbed;
  Expr exists = dsl::constant_int(Bool, 1);
  for (const Expr& guard : stage->guards) {
    const auto used = variables_of(guard);
    if (std::any_of(used.begin(), used.end(), [&](const auto& v) { return inside.contains(v); }))
      continue;
    exists = exists && guard;
    absorbed.push_back(guard);
  }
  if (const dsl::Select* select = held.as<dsl::Select>();
      select && dsl::equal(select->b, neutral)) {
    exists = exists && select->condition;
    held = select->a;
  }
  if (!dsl::is_int(exists, 1)) held = dsl::select(exists, held, neutral);

  Stage copy;
  copy.name = operand_name(value, s.operand) + "@" + s.stage;
  if (nest.find(copy.name)) return illegal(s.name, fmt::format("'{}' exists already", copy.name));
  copy.type = value.type();
  std::vector<Expr> indices;
  std::vector<int64_t> extents;
  for (const NestLoop& loop : loops) {
    // Apart from the variables of loops further out, which `held` may use too.
    copy.axes.emplace_back(copy.name + "." + loop.name, loop.extent);
    held = dsl::substitute(held, loop.variable, dsl::var(copy.axes.back().name));
    indices.push_back(dsl::var(loop.variable));
    extents.push_back(loop.extent);
  }
  copy.body = held;

  const Expr read = dsl::read(copy.name, indices, copy.type);
  operand = value.same_node(operand) ? read : dsl::cast(operand.type(), read);
  stage->stage.body = operands.size() == 2
                          ? dsl::binary(dsl::BinaryOp::Mul, operands[0], operands[1])
                          : operands[0];
  insert_before(nest, s.stage, copy);
  StageNest& placed = *nest.find(copy.name);
  placed.at = StageNest::Placement{s.stage, s.loop};
  placed.loops.clear();
  for (size_t i = 0; i < loops.size(); ++i)
    placed.loops.push_back({loops[i].name, copy.axes[i].name, loops[i].extent});
  placed.axis.clear();
  for (const Axis& axis : copy.axes) placed.axis[axis.name] = dsl::var(axis.name);
  placed.box_offset.assign(extents.size(), Expr(0));
  placed.box_extent = extents;
  placed.holds_operand = true;
  placed.absorbed = std::move(absorbed);
  return {};
}

Status run(Nest& nest, const Tensorize& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  const TensorTile* tile = find_tensor_tile(s.tile);
  if (!tile) {
    std::vector<std::string> names;
    for (const TensorTile& row : tensor_tiles()) names.emplace_back(row.name);
    return illegal(s.name,
                   fmt::format("there is no tile '{}': they are {}", s.tile, join(names, ", ")));
  }
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  const auto first = static_cast<size_t>(index);
  std::vector<int64_t> extents = {tile_part, tile_part, tile->depth};
  if (tile->is_of_warpgroup) {
    int64_t turns = first + 1 < stage->loops.size() ? stage->loops[first + 1].extent : 0;
    if (first + extents.size() + 2 == stage->loops.size()) {  // groups of columns
      extents.insert(extents.begin() + 1, {turns, mn_group / tile_columns});
      turns *= mn_group / tile_columns;
    } else {
      extents.insert(extents.begin() + 1, turns);
    }
    if (!has_columns(*tile, turns * tile_columns))
      return illegal(s.name, fmt::format("'{}' has no {} columns, 8 for each turn of the loop "
                                         "inside of '{}'",
                                         tile->name, turns * tile_columns, s.loop));
  }
  if (first + extents.size() != stage->loops.size())
    return illegal(s.name, fmt::format("'{}' is to be the {} loop from within", s.loop,
                                       tile->is_of_warpgroup ? "fourth" : "third"));
  for (size_t i = 0; i < extents.size(); ++i) {
    const NestLoop& loop = stage->loops[first + i];
    if (loop.extent != extents[i] || loop.reduction != (i + 1 == extents.size()))
      return illegal(s.name, fmt::format("'{}' is loops of {}, and of {} that reduces, not "
                                         "'{}' of {}",
                                         tile->name,
                                         tile->is_of_warpgroup ? "2, columns / 8 and 2" : "2 and 2",
                                         tile->depth, loop.name, loop.extent));
    if (loop.kind != LoopKind::Serial || loop.parallel)
      return illegal(
          s.name, fmt::format("loop '{}' is unrolled, vectorized, bound or parallel", loop.name));
  }
  if (!sums_products_of(stage->stage, *tile))
    return illegal(s.name, fmt::format("'{}' sums products of {} in {}, which '{}' does not",
                                       tile->name, tw::to_string(tile->operand),
                                       tw::to_string(tile->accumulator), s.stage));
  for (size_t i = 0; i < extents.size(); ++i) stage->loops[first + i].kind = LoopKind::Tensor;
  stage->loops[first].tile = tile;
  return {};
}

/// A stage that cache_operand made.
Result<StageNest*> holder_of(Nest& nest, std::string_view step, const std::string& name) {
  TW_TRY(StageNest * stage, stage_of(nest, step, name));
  if (!stage->holds_operand)
    return illegal(step,
                   fmt::format("'{}' holds no operand: cache_operand makes stages that do", name));
  return stage;
}

Status run(Nest& nest, const Pipeline& s) {
  TW_TRY(StageNest * stage, holder_of(nest, s.name, s.stage));
  if (stage->depth > 1) return illegal(s.name, fmt::format("'{}' has a depth already", s.stage));
  if (s.depth < 2 || s.depth > 4)
    return illegal(s.name, fmt::format("a pipeline is 2 to 4 iterations deep, not {}", s.depth));
  const NestLoop& loop = loop_around(nest, *stage);
  if (!loop.reduction)
    return illegal(s.name, fmt::format("'{}' is computed at loop '{}' of '{}', which does not "
                                       "reduce",
                                       s.stage, loop.name, stage->at->consumer));
  stage->depth = s.depth;
  return {};
}

Status run(Nest& nest, const Bulk& s) {
  TW_TRY(StageNest * stage, holder_of(nest, s.name, s.stage));
  if (stage->depth == 1)
    return illegal(s.name,
                   fmt::format("'{}' is copied where it is used: pipeline it first", s.stage));
  for (const NestLoop& loop : stage->loops) {
    if (loop.kind != LoopKind::Serial)
      return illegal(s.name, fmt::format("loop '{}' is unrolled, vectorized, bound or of a box "
                                         "already",
                                         loop.name));
    if (loop.extent > most_box_iterations)
      return illegal(s.name, fmt::format("loop '{}' has {} iterations, a box has at most {} in a "
                                         "dimension",
                                         loop.name, loop.extent, most_box_iterations));
  }
  if (stage->loops.size() > most_box_dimensions)
    return illegal(s.name, fmt::format("'{}' has {} loops, a box has at most {} dimensions: fuse "
                                       "some",
                                       s.stage, stage->loops.size(), most_box_dimensions));
  for (NestLoop& loop : stage->loops) loop.kind = LoopKind::Bulk;
  return {};
}

Status run(Nest& nest, const Specialise& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->specialised) return illegal(s.name, fmt::format("'{}' is already", s.stage));
  if (stage->at)
    return illegal(s.name, fmt::format("stage '{}' is computed inside another", s.stage));
  stage->specialised = true;
  return {};
}

Status run(Nest& nest, const Pad& s) {
  constexpr int64_t most_elements = 1024;
  TW_TRY(StageNest * stage, holder_of(nest, s.name, s.stage));
  if (stage->padding) return illegal(s.name, fmt::format("'{}' is padded already", s.stage));
  if (stage->swizzle > 0)
    return illegal(s.name, fmt::format("'{}' is swizzled: one or the other", s.stage));
  if (s.elements < 1 || s.elements > most_elements)
    return illegal(
        s.name, fmt::format("the padding has 1 to {} elements, not {}", most_elements, s.elements));
  const std::vector<Axis>& axes = stage->stage.axes;
  const auto axis = std::find_if(axes.begin(), axes.end(),
                                 [&](const Axis& a) { return a.name == s.stage + "." + s.loop; });
  if (axis == axes.end())
    return illegal(s.name, fmt::format("'{}' has no dimension for loop '{}'", s.stage, s.loop));
  stage->padding = {static_cast<size_t>(axis - axes.begin()), s.elements};
  return {};
}

Status run(Nest& nest, const Swizzle& s) {
  TW_TRY(StageNest * stage, holder_of(nest, s.name, s.stage));
  if (s.bytes != 32 && s.bytes != 64 && s.bytes != 128)
    return illegal(s.name, fmt::format("a swizzle is of 32, 64 or 128 bytes, not {}", s.bytes));
  if (stage->swizzle > 0) return illegal(s.name, fmt::format("'{}' is swizzled already", s.stage));
  if (stage->padding)
    return illegal(s.name, fmt::format("'{}' is padded: one or the other", s.stage));
  const int64_t period = 8 * s.bytes;
  int64_t bytes = size_bytes(stage->stage.type);
  for (const int64_t extent : stage->box_extent) bytes *= extent;
  if (bytes % period != 0)
    return illegal(s.name, fmt::format("'{}' has {} bytes, which are no multiple of {}", s.stage,
                                       bytes, period));
  stage->swizzle = static_cast<int>(s.bytes);
  return {};
}

Status run(Nest& nest, const Rfactor& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (!has_fresh_loops(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps already", s.stage));
  if (s.factor < 1) return illegal(s.name, fmt::format("the factor {} is not positive", s.factor));
  Stage partial = stage->stage;
  partial.name += ".rf";
  if (nest.find(partial.name))
    return illegal(s.name, fmt::format("'{}' exists already", partial.name));
  const auto axis = std::find_if(partial.reduction.begin(), partial.reduction.end(),
                                 [&](const Axis& a) { return a.name == s.axis; });
  if (axis == partial.reduction.end())
    return illegal(s.name, fmt::format("'{}' does not reduce over '{}'", s.stage, s.axis));
  const Axis lane(s.axis + "_rf", s.factor);
  if (has_axis(partial, lane.name))
    return illegal(s.name, fmt::format("'{}' has an axis '{}' already", s.stage, lane.name));
  const int64_t extent = axis->extent;
  axis->extent = ceil_div(extent, s.factor);
  const bool in_blocks = s.partition == Partition::Blocks;
  const Expr index = in_blocks ? dsl::var(lane.name) * Expr(axis->extent) + dsl::var(s.axis)
                               : dsl::var(s.axis) * Expr(s.factor) + dsl::var(lane.name);
  partial.body = dsl::substitute(partial.body, {{s.axis, index}});
  if (extent % s.factor != 0)
    partial.body =
        dsl::select(index < Expr(extent), partial.body, identity(partial.combine, partial.type));
  partial.axes.insert(in_blocks ? partial.axes.begin() : partial.axes.end(), lane);
  partial.letters = "";

  Stage final_stage = stage->stage;
  std::vector<Expr> indices;
  for (const Axis& a : partial.axes) indices.push_back(dsl::var(a.name));
  final_stage.reduction = {lane};
  final_stage.body = dsl::read(partial.name, indices, partial.type);
  const bool is_last = stage->loops[0].variable == stage->loops[0].name;
  definition(nest, s.stage) = final_stage;
  StageNest rest = make_stage_nest(final_stage, is_last);
  rest.epilogue = std::move(stage->epilogue);
  *stage = std::move(rest);
  insert_before(nest, s.stage, partial);
  return {};
}

Status run(Nest& nest, const SetLayout& s) {
  const bool known = nest.compute.find_input(s.tensor) || nest.compute.find_stage(s.tensor);
  if (!known) return illegal(s.name, fmt::format("there is no tensor '{}'", s.tensor));
  if (nest.compute.shape_of(s.tensor).empty())
    return illegal(s.name, fmt::format("'{}' is a single number", s.tensor));
  auto layout = dsl::Layout::parse(s.layout, nest.compute.letters_of(s.tensor));
  if (!layout) return fail(ErrorCode::Invalid, layout.error().message);
  for (const StageNest& stage : nest.stages) {
    if (stage.at && stage.result() == s.tensor)
      return illegal(s.name, fmt::format("'{}' is computed inside another stage", s.tensor));
    if (stage.epilogue && stage.stage.name == s.tensor)
      return illegal(s.name, fmt::format("'{}' is not in memory, '{}' takes its place", s.tensor,
                                         stage.result()));
  }
  nest.layouts.insert_or_assign(s.tensor, std::move(*layout));
  return {};
}

}  // namespace

int StageNest::find_loop(const std::string& name) const {
  for (size_t i = 0; i < loops.size(); ++i)
    if (loops[i].name == name) return static_cast<int>(i);
  return -1;
}

StageNest* Nest::find(const std::string& stage) {
  for (StageNest& s : stages)
    if (s.stage.name == stage) return &s;
  return nullptr;
}
const StageNest* Nest::find(const std::string& stage) const {
  return const_cast<Nest*>(this)->find(stage);
}

Nest default_nest(const dsl::Compute& compute) {
  Nest nest;
  nest.compute = compute;
  for (size_t i = 0; i < compute.stages.size(); ++i)
    nest.stages.push_back(make_stage_nest(compute.stages[i], i + 1 == compute.stages.size()));
  return nest;
}

Status apply(Nest& nest, const Step& step) {
  const Status status = std::visit([&](const auto& s) { return run(nest, s); }, step);
  if (status) return {};
  Error error = status.error();
  const std::string stage = std::visit(
      [](const auto& s) {
        if constexpr (requires { s.stage; })
          return s.stage;
        else
          return std::string();
      },
      step);
  if (const StageNest* s = nest.find(stage)) error.message += "\n  " + describe(*s);
  return tl::unexpected<Error>(std::move(error));
}

std::vector<Expr> operands_of(const Stage& stage) {
  const dsl::Binary* product = stage.body.as<dsl::Binary>();
  if (stage.combine == Combine::Sum && product && product->op == dsl::BinaryOp::Mul)
    return {product->a, product->b};
  return {stage.body};
}

Expr unwidened(const Expr& operand) {
  const dsl::Cast* cast = operand.as<dsl::Cast>();
  return cast && size_bytes(cast->a.type()) < size_bytes(cast->type) ? cast->a : operand;
}

bool sums_products_of(const Stage& stage, const TensorTile& tile) {
  const std::vector<Expr> factors = operands_of(stage);
  return factors.size() == 2 && stage.type == tile.accumulator &&
         std::all_of(factors.begin(), factors.end(),
                     [&](const Expr& factor) { return unwidened(factor).type() == tile.operand; });
}

const NestLoop& loop_around(const Nest& nest, const StageNest& placed) {
  const StageNest& consumer = *nest.find(placed.at->consumer);
  return consumer.loops[static_cast<size_t>(consumer.find_loop(placed.at->loop))];
}

std::string describe(const StageNest& stage) {
  std::vector<std::string> parts;
  for (const NestLoop& loop : stage.loops)
    parts.push_back(fmt::format("{} {} in 0..{}", loop.parallel ? "parallel" : to_string(loop.kind),
                                loop.name, loop.extent));
  return fmt::format("{}: {}", stage.stage.name, join(parts, " / "));
}

void for_each_read(const Expr& body, const std::function<void(const dsl::Read&)>& visit) {
  dsl::for_each(body, [&](const Expr& e) {
    if (const dsl::Read* r = e.as<dsl::Read>()) visit(*r);
  });
}

bool reads(const StageNest& stage, const std::string& tensor) {
  bool found = false;
  const auto visit = [&](const dsl::Read& r) { found |= r.tensor == tensor; };
  for_each_read(stage.stage.body, visit);
  if (stage.epilogue) for_each_read(stage.epilogue->body, visit);
  return found;
}

}  // namespace tw::schedules
