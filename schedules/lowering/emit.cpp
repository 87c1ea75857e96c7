// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "dsl/selection.h"
#include "schedules/lowering/accumulation.h"
#include "schedules/lowering/conditions.h"
#include "schedules/lowering/placed_buffers.h"
#include "schedules/lowering/prefetch.h"
#include "schedules/lowering/stage_terms.h"
#include "schedules/program/tensor_tiles.h"

namespace tw::schedules {

namespace {

Block guard(const Expr& condition, Block body) {
  if (dsl::is_int(condition, 1)) return body;
  return single({If{condition, block(std::move(body))}});
}

class Emitter {
 public:
  explicit Emitter(const Nest& nest) : nest_(nest) {}

  Result<Phase> phase(const StageNest& s) {
    Phase phase{s.stage.name, {}, nullptr, s.specialised, s.persistent, s.resident_blocks};
    size_t first = 0;
    for (; first < s.loops.size() && s.loops[first].parallel; ++first)
      phase.axes.push_back({s.loops[first].variable, s.loops[first].extent});
    for (size_t i = first; i < s.loops.size(); ++i)
      if (s.loops[i].parallel)
        return fail(ErrorCode::Invalid,
                    fmt::format("[parallel] loop '{}' is inside a loop that is not parallel\n  {}",
                                s.loops[i].name, describe(s)));
    TW_RETURN_IF_ERROR(check_accumulation(s));
    TW_RETURN_IF_ERROR(check_result_copy(nest_, s));
    Block body = from(s, first);
    // Producers placed in a parallel loop are computed by each task.
    for (size_t i = first; i > 0; --i) body = with_placed(s, s.loops[i - 1], std::move(body));
    phase.body = block(std::move(body));
    return phase;
  }

 private:
  using Leaf = std::function<Block()>;

  const Nest& nest_;

  Block from(const StageNest& s, size_t i) {
    if (s.stage.combine == Combine::None) return elementwise(s, i);
    if (reduces_nothing(s)) return neutral(s, i);
    if (i >= core_start(s)) return s.stage.scan ? scan(s, i) : reduction(s, i);
    return around(s, s.loops[i], from(s, i + 1));
  }

  /// Makes the loop `l` around the body, with the stages and prefetches that are placed in this
  /// loop.
  Block around(const StageNest& s, const NestLoop& l, Block body) {
    body = with_prefetches(s, l, with_placed(s, l, std::move(body)));
    const std::vector<const StageNest*> copied = pipelined_at(s, l);
    if (!copied.empty()) return pipeline(s, l, copied, std::move(body));
    return with_windows(s, l, loop(l, std::move(body)));
  }

  /// Allocates the buffers of the windows that slide along loop `l`, and adds, before the first
  /// iteration, iterations that fill the windows:
  ///
  ///     for k: compute(k), use(k)   ->   for k in -2..0: compute(k)
  ///                                      for k: compute(k), use(k)
  Block with_windows(const StageNest& s, const NestLoop& l, Block body) {
    for (size_t i = nest_.stages.size(); i > 0; --i) {
      const StageNest& producer = nest_.stages[i - 1];
      if (!producer.window || !is_placed_at(producer, s, l)) continue;
      Block inner = single({Loop{l.variable, Expr(-producer.window->warmup), Expr(0),
                                 LoopKind::Serial, block(from(producer, 0))}});
      append(inner, std::move(body));
      body = single({Allocate{placed_buffer(nest_, s, l, producer), block(std::move(inner))}});
    }
    return body;
  }

  std::vector<const StageNest*> pipelined_at(const StageNest& s, const NestLoop& l) const {
    std::vector<const StageNest*> copied;
    for (const StageNest& other : nest_.stages)
      if (other.depth > 1 && other.at->consumer == s.stage.name && other.at->loop == l.name)
        copied.push_back(&other);
    return copied;
  }

  /// Pipelines `for k: copy(k), compute(k)`. With a depth of three and copies that threads share:
  ///
  ///     for k in 0..2:  copy(k); commit
  ///     for k:  wait 1; barrier; if k + 2 < trips: copy(k + 2);  commit; compute(k)
  ///
  /// The barrier also separates the reads of an iteration from the copies that overwrite the same
  /// slot. Each iteration commits a group, even an empty one, so that the number of groups that are
  /// still pending at a wait is constant.
  Block pipeline(const StageNest& s, const NestLoop& l, const std::vector<const StageNest*>& copied,
                 Block body) {
    Block copies;
    for (const StageNest* producer : copied) append(copies, from(*producer, 0));
    const PipelineTrip trip = pipeline_trip(l, copied.front()->depth);
    const bool is_shared = scope_at(nest_, s, l) == Scope::Shared;
    const Expr turn = dsl::var(l.variable), later = turn + Expr(trip.ahead);

    Block iteration;
    if (is_shared) {
      iteration.push_back({Wait{trip.ahead - 1}});
      iteration.push_back({Barrier{}});
    }
    const auto in_later = [&](const Expr& e) { return dsl::substitute(e, l.variable, later); };
    if (trip.ahead < trip.trips)
      append(iteration, guard(later < Expr(trip.trips), map_expressions(copies, in_later)));
    if (is_shared) iteration.push_back({Commit{}});
    append(iteration, std::move(body));

    if (is_shared) copies.push_back({Commit{}});
    NestLoop first = l;
    first.extent = trip.ahead;
    Block result = loop(first, std::move(copies));
    Loop steady = loop_of(l, std::move(iteration));
    if (is_shared) steady.pipeline = LoopPipeline{trip.ahead, trip.slots()};
    result.push_back({std::move(steady)});
    for (size_t i = copied.size(); i > 0; --i)
      result =
          single({Allocate{placed_buffer(nest_, s, l, *copied[i - 1]), block(std::move(result))}});
    return result;
  }

  static void append(Block& all, Block part) {
    for (Stmt& stmt : part) all.push_back(std::move(stmt));
  }

  static Loop loop_of(const NestLoop& l, Block body) {
    return {l.variable, Expr(0), Expr(l.extent), l.kind, block(std::move(body)), l.tile};
  }
  static Block loop(const NestLoop& l, Block body) { return single({loop_of(l, std::move(body))}); }

  /// Returns the loop with index `i` of the stage for code that initialises or writes accumulators.
  /// In this code the loops of a tensor tile are unrolled, and the innermost loop of the tile is a
  /// vector over a lane's neighbours. The loop over the rows of a core tile stays a loop, since the
  /// sums are then in memory.
  static NestLoop init_or_write_loop(const StageNest& s, size_t i) {
    NestLoop l = s.loops[i];
    const bool is_innermost = std::all_of(s.loops.begin() + static_cast<ptrdiff_t>(i) + 1,
                                          s.loops.end(), [](const auto& o) { return o.reduction; });
    const bool is_of_core = l.tile && l.tile->is_of_core();
    if (l.kind == LoopKind::Tensor)
      l.kind = is_innermost ? LoopKind::Vector : is_of_core ? LoopKind::Serial : LoopKind::Unrolled;
    l.tile = nullptr;
    return l;
  }

  Block with_prefetches(const StageNest& s, const NestLoop& l, Block body) const {
    Block result;
    for (const StageNest::Ahead& ahead : s.prefetches)
      if (ahead.at == l.name) result.push_back({*prefetch_lines(nest_, s, ahead)});
    if (result.empty()) return body;
    append(result, std::move(body));
    return result;
  }

  Block with_placed(const StageNest& s, const NestLoop& l, Block body) {
    for (size_t i = nest_.stages.size(); i > 0; --i) {
      const StageNest& producer = nest_.stages[i - 1];
      if (!is_placed_at(producer, s, l) || producer.depth > 1) continue;
      Block inner = from(producer, 0);
      append(inner, std::move(body));
      body =
          producer.window
              ? std::move(inner)
              : single({Allocate{placed_buffer(nest_, s, l, producer), block(std::move(inner))}});
    }
    return body;
  }

  bool has_placed(const StageNest& s) const {
    return std::any_of(nest_.stages.begin(), nest_.stages.end(), [&](const StageNest& other) {
      return other.at && other.at->consumer == s.stage.name;
    });
  }

  /// Makes the loops from index `i` on around `leaf`. Reduction loops are left out unless
  /// `with_reduction` is true.
  Block loops(const StageNest& s, size_t i, bool with_reduction, const Leaf& leaf) {
    if (i == s.loops.size()) return leaf();
    if (s.loops[i].reduction && !with_reduction) return loops(s, i + 1, with_reduction, leaf);
    Block inner = loops(s, i + 1, with_reduction, leaf);
    return with_reduction ? around(s, s.loops[i], std::move(inner))
                          : loop(init_or_write_loop(s, i), std::move(inner));
  }

  /// True if the stage is pipelined into memory that threads share.
  bool is_copied_ahead(const StageNest& s) const {
    return s.depth > 1 &&
           scope_at(nest_, *nest_.find(s.at->consumer), loop_around(nest_, s)) == Scope::Shared;
  }

  /// True if the copy of `value` may be asynchronous. The stage must be copied ahead into shared
  /// memory, and `value` must be an element of a tensor that no thread of the phase writes. No two
  /// iterations may write one element, as those of a shifted tail do.
  bool is_asynchronous(const StageNest& s, const Expr& value) const {
    const bool overlaps = std::ranges::any_of(s.loops, &NestLoop::overlaps);
    const dsl::Read* r = is_copied_ahead(s) && !overlaps ? value.as<dsl::Read>() : nullptr;
    const StageNest* source = r ? nest_.find(r->tensor) : nullptr;
    return r && !(source && source->at);
  }

  Block elementwise(const StageNest& s, size_t i) {
    const auto assign_of = [&](const Expr& value) {
      return Assign{s.result(), result_indices(nest_, s), over_loops(nest_, s, s.stage, value),
                    Combine::None, is_asynchronous(s, value)};
    };
    const auto assign = [&](const Expr& value) { return single({assign_of(value)}); };
    const Expr inside = conjunction(s.guards);
    const dsl::Select* select = s.stage.body.as<dsl::Select>();
    if (select && select->b.as<dsl::Const>() &&
        (phase_has_threads(nest_, s) || is_copied_ahead(s))) {
      // With a guard a thread reads only elements that exist, and stores each element once.
      Assign guarded = assign_of(select->a);
      guarded.guard = Guard{over_loops(nest_, s, s.stage, select->condition), select->b};
      return loops(s, i, true, [&] { return guard(inside, single({guarded})); });
    }
    // A select whose second value is a constant becomes two loops: one fills all elements with the
    // constant, and one copies the first value under a guard. The innermost loop then has no
    // select. This is not done if stages are placed in the loops.
    if (select && select->b.as<dsl::Const>() && !has_placed(s)) {
      Block fill = loops(s, i, true, [&] { return guard(inside, assign(select->b)); });
      const Expr condition = over_loops(nest_, s, s.stage, select->condition);
      Block copy = loops(s, i, true, [&] { return guard(inside && condition, assign(select->a)); });
      for (Stmt& stmt : copy) fill.push_back(std::move(stmt));
      return fill;
    }
    return loops(s, i, true, [&] { return guard(inside, assign(s.stage.body)); });
  }

  /// Writes the neutral element for a reduction over an empty range, whose loops never run.
  Block neutral(const StageNest& s, size_t i) {
    const Expr value = identity(s.stage.combine, s.stage.type);
    const Expr result = s.epilogue ? epilogue_of(nest_, s, value) : value;
    return loops(s, i, false, [&] {
      return guard(spatial_guard(s),
                   single({Assign{s.result(), result_indices(nest_, s), result, {}}}));
    });
  }

  /// Makes the loops of a scan, from the outermost loop along the scanned axis inwards:
  ///
  ///     acc = 0;  for j:  acc += term(j);  out[j] = acc
  ///
  /// If the sum of an element leaves out the element's own term (k < j), the value is stored before
  /// the term is added. With an epilogue, the epilogue of the running value is stored.
  Block scan(const StageNest& s, size_t start) {
    const Accumulator acc = accumulator_of_running_values(s, start);
    const Expr running = dsl::read(acc.buffer.name, acc.at, s.stage.type);
    const Expr neutral = identity(s.stage.combine, s.stage.type);
    const dsl::GuardedTerm term = dsl::guarded_term(s.stage.body, neutral);
    Block body = loops(s, start, false, [&] {
      return single({Assign{acc.buffer.name, acc.at, neutral, Combine::None}});
    });
    append(body, loops(s, start, true, [&] {
             const Expr value = over_loops(nest_, s, s.stage, term.value);
             Block add = guard(over_loops(nest_, s, s.stage, term.condition),
                               single({Assign{acc.buffer.name, acc.at, value, s.stage.combine}}));
             Block store = single(
                 {Assign{s.result(), result_indices(nest_, s),
                         s.epilogue ? epilogue_of(nest_, s, running) : running, Combine::None}});
             Block& first = s.stage.scan->inclusive ? add : store;
             append(first, std::move(s.stage.scan->inclusive ? store : add));
             return guard(conjunction(s.guards), std::move(first));
           }));
    return single({Allocate{acc.buffer, block(std::move(body))}});
  }

  Block reduction(const StageNest& s, size_t start) {
    const Expr inside = spatial_guard(s);
    const std::vector<Expr> result_at = result_indices(nest_, s);
    const Accumulator acc = accumulator_of_sums(s, start, result_at);
    const Expr sum = dsl::read(acc.buffer.name, acc.at, s.stage.type);
    const OuterBlocks blocks = blocks_outside(s, start);
    const Expr neutral = identity(s.stage.combine, s.stage.type);
    const dsl::GuardedTerm term = dsl::guarded_term(s.stage.body, neutral);

    Block body;
    const auto append = [&](const Expr& condition, Block part) {
      for (Stmt& stmt : guard(condition, std::move(part))) body.push_back(std::move(stmt));
    };
    const auto set = [&](const Expr& condition, const std::string& buffer,
                         const std::vector<Expr>& at, const Expr& value) {
      return loops(s, start, false, [&] {
        return guard(condition, single({Assign{buffer, at, value, Combine::None}}));
      });
    };
    const Expr always = dsl::constant_int(Bool, 1);
    append(blocks.is_first, set(s.cache ? always : inside, acc.buffer.name, acc.at, neutral));
    if (blocks.any)
      append(blocks.is_later,
             set(inside, acc.buffer.name, acc.at, dsl::read(s.result(), result_at, s.stage.type)));
    append(always, loops(s, start, true, [&] {
             // If sums continue from stored values, terms beyond the end of an axis are left out,
             // because no value is stored there.
             Expr taken = over_loops(nest_, s, s.stage, term.condition);
             if (reads_staged_operands(nest_, s)) {
               taken = guards_not_zero_filled(nest_, s) && taken;
               if (blocks.any) taken = inside && taken;
             } else {
               taken = conjunction(s.guards) && taken;
             }
             const Expr value = over_loops(nest_, s, s.stage, term.value);
             return guard(taken, single({Assign{acc.buffer.name, acc.at, value, s.stage.combine}}));
           }));
    if (const StageNest* copy = copy_of_results(nest_, s.stage.name)) {
      std::vector<Expr> at;
      for (const std::string& variable : copy->copied_loops) at.push_back(dsl::var(variable));
      Block staged = set(inside, copy->result(), buffer_indices(nest_, *copy, std::move(at)),
                         s.epilogue ? epilogue_of(nest_, s, sum) : sum);
      for (Stmt& stmt : copied_results(s, *copy, inside, result_at))
        staged.push_back(std::move(stmt));
      append(always, single({Allocate{placed_buffer(nest_, s, loop_around(nest_, *copy), *copy),
                                      block(std::move(staged))}}));
    } else if (s.epilogue) {
      append(blocks.is_last, set(inside, s.result(), result_at, epilogue_of(nest_, s, sum)));
      if (blocks.any) append(blocks.is_earlier, set(inside, s.result(), result_at, sum));
    } else if (s.cache) {
      append(always, set(inside, s.result(), result_at, sum));
    }
    if (!s.cache) return body;
    return single({Allocate{acc.buffer, block(std::move(body))}});
  }

  /// Copies staged results to their tensor. `inside` is the guard of a result, and `result_at` are
  /// its indices, both in terms of the loops of the stage that computes it.
  Block copied_results(const StageNest& s, const StageNest& copy, const Expr& inside,
                       const std::vector<Expr>& result_at) {
    dsl::Substitution to_copy;
    std::vector<Expr> from;
    for (size_t d = 0; d < copy.copied_loops.size(); ++d) {
      from.push_back(copy.axis.at(copy.stage.axes[d].name));
      to_copy[copy.copied_loops[d]] = from.back();
    }
    std::vector<Expr> to;
    for (const Expr& index : result_at) to.push_back(dsl::substitute(index, to_copy));
    const Expr exists = dsl::substitute(inside, to_copy) && conjunction(copy.guards);
    const Expr value =
        dsl::read(copy.result(), buffer_indices(nest_, copy, std::move(from)), copy.stage.type);
    return loops(copy, 0, true, [&] {
      return guard(exists, single({Assign{s.result(), to, value, Combine::None}}));
    });
  }
};

}  // namespace

Result<Phase> emit(const Nest& nest, const StageNest& stage) { return Emitter(nest).phase(stage); }

}  // namespace tw::schedules
