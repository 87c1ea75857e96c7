// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "codegen/abi.h"
#include "codegen/halide/masked_branches.h"
#include "codegen/halide/phase_translator.h"
#include "codegen/halide/whole_vectors.h"

namespace tw::codegen::halide {

PhaseTranslator::PhaseTranslator(const Program& program, const Phase& phase, const Target& target,
                                 Fallbacks fallbacks)
    : program_(program),
      phase_(phase),
      target_(target),
      has_core_tiles_(schedules::has_core_tiles(target)),
      masks_(masks_of(target)),
      fallbacks_(fallbacks),
      infinite_(buffers_of_infinite_literals(*phase.body)) {}

HStmt PhaseTranslator::translate() {
  for (const auto& argument : program_.arguments) {
    Access access{argument.buffer, scope_.fresh(argument.buffer.name), {}};
    access.external = Halide::Parameter(storage_type(argument.buffer.type), true, 1, access.name);
    scope_.declare(access);
  }
  for (const Buffer& buffer : program_.scratch)
    scope_.declare({buffer, scope_.fresh(buffer.name), {}});
  for (const auto& axis : phase_.axes)
    scope_.enter(axis.variable, 0, axis.extent, scope_.fresh(axis.variable), LoopKind::Serial);
  enter_body();
  const Block body = schedules::with_branches(*phase_.body);
  return with_pointers(with_task_axes(leave_body(statements(body))));
}

void PhaseTranslator::enter_body() { bodies_.push_back({scope_.depth() - 1, {}, {}}); }

HStmt PhaseTranslator::leave_body(HStmt body) {
  for (const auto& [name, value] : bodies_.back().lets) body = hi::LetStmt::make(name, value, body);
  bodies_.pop_back();
  return body;
}

HStmt PhaseTranslator::with_task_axes(HStmt body) const {
  int64_t stride = 1;
  for (size_t i = phase_.axes.size(); i > 0; --i) {
    const auto& axis = phase_.axes[i - 1];
    HExpr value = hi::Variable::make(index32, "task") / static_cast<int>(stride);
    if (i > 1) value = value % static_cast<int>(axis.extent);
    const auto* name = scope_.variable(axis.variable).value.as<hi::Variable>();
    body = hi::LetStmt::make(name->name, value, body);
    stride *= axis.extent;
  }
  return body;
}

HStmt PhaseTranslator::with_pointers(HStmt body) const {
  const Halide::Type handle = Halide::type_of<void*>();
  const ScratchLayout layout = scratch_layout(program_);
  for (size_t i = 0; i < program_.scratch.size(); ++i) {
    const HExpr address = Halide::reinterpret(Halide::UInt(64), handle_variable("scratch")) +
                          hi::make_const(Halide::UInt(64), layout.offsets[i]);
    body = hi::LetStmt::make(scope_.access(program_.scratch[i].name).name,
                             Halide::reinterpret(handle, address), body);
  }
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const HExpr pointer = hi::Load::make(handle, "buffers", static_cast<int>(i), {}, {},
                                         hi::const_true(), hi::ModulusRemainder());
    body = hi::LetStmt::make(scope_.access(program_.arguments[i].buffer.name).name, pointer, body);
  }
  return body;
}

HStmt PhaseTranslator::statements(const Block& block) {
  std::vector<HStmt> result;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool begins_tiles = i + 1 < block.size() && zeroes_sums(block[i], block[i + 1]);
    if (begins_tiles) ++i;
    const std::string* sums = sums_of_tiles(block[i]);
    result.push_back(sums ? translate_tiles(block[i], *sums, begins_tiles) : statement(block[i]));
  }
  return result.empty() ? hi::Evaluate::make(0) : hi::Block::make(result);
}

HStmt PhaseTranslator::statement(const Stmt& stmt) {
  return schedules::visit(
      stmt, [&](const Loop& loop) { return translate_loop(loop); },
      [&](const If& branch) { return translate_if(branch); },
      [&](const Allocate& allocate) { return translate_allocate(allocate); },
      [&](const Assign& assign) { return translate_assign(assign); },
      [&](const PrefetchLines& prefetch) { return translate_prefetch(prefetch); },
      // One thread runs a task, so nothing needs to be ordered.
      always<Barrier, Commit, Wait>(hi::Evaluate::make(0)));
}

// ---- loops ----------------------------------------------------------------------------------

HStmt PhaseTranslator::translate_loop(const Loop& loop) {
  if (const auto dot = schedules::dot_product(loop)) return translate_dot_product(*dot);
  if (tile_sums_ && loop.tile) return translate_tile(loop);
  if (loop.kind == LoopKind::Unrolled && has_tiles(loop)) return translate_copies(loop);
  auto [begin, end] = loop_bounds(loop.begin, loop.end);
  // Threads of a task run one after the other, and warp operations run as their loops.
  const bool is_plain = loop.kind != LoopKind::Unrolled && loop.kind != LoopKind::Vector;
  const LoopKind kind = is_plain                                   ? LoopKind::Serial
                        : leaves_masked_lane(scope_, masks_, loop) ? LoopKind::Unrolled
                                                                   : loop.kind;
  const std::string name = scope_.fresh(loop.variable);
  const PhaseScope::Mark mark = scope_.mark();
  const auto whole = whole_vector(scope_, masks_, loop);
  scope_.enter(loop.variable, whole ? whole->begin : loop.begin, whole ? whole->end : loop.end,
               name, kind);
  const bool is_masked = whole && can_be_masked(scope_, *loop.body, false);
  if (is_masked) {
    std::tie(begin, end) = loop_bounds(whole->begin, whole->end);
  } else if (whole) {
    scope_.restore(mark);
    scope_.enter(loop.variable, loop.begin, loop.end, name, kind);
  }
  if (kind == LoopKind::Serial) enter_body();
  HStmt body = is_masked ? masked(lane_exists(scope_, loop), *loop.body) : statements(*loop.body);
  if (kind == LoopKind::Serial) body = leave_body(body);
  scope_.restore(mark);
  constexpr hi::ForType kinds[] = {hi::ForType::Serial, hi::ForType::Unrolled,
                                   hi::ForType::Vectorized};
  return hi::For::make(name, begin, hi::simplify(end - begin), kinds[static_cast<int>(kind)],
                       Halide::Partition::Never, Halide::DeviceAPI::None, body);
}

/// A bound that a comparison with data has trimmed may have any value, as in `for v in max(0,
/// ids[i])..min(1000, ids[i] + 1)`. Both bounds are then clamped to the range from the least begin
/// to the largest end. This changes only the bounds of empty loops, and these stay empty.
std::pair<HExpr, HExpr> PhaseTranslator::loop_bounds(const Expr& begin, const Expr& end) {
  const Ranges& ranges = scope_.ranges();
  const Expr first = scope_.simplify(begin), last = scope_.simplify(end);
  if (ranges.all_fit_int32(first) && ranges.all_fit_int32(last))
    return {integer(first, index32), integer(last, index32)};
  const Range range{ranges.of(first).low, ranges.of(last).high};
  if (!range.fits_int32() || !Range{0, range.high - range.low}.fits_int32())
    throw Halide::CompileError("the loop from " + dsl::to_string(begin) + " to " +
                               dsl::to_string(end) + " may exceed 32 bits");
  const auto cut = [&](const Expr& bound) {
    return Halide::cast(index32,
                        Halide::clamp(integer(bound, index64), hi::make_const(index64, range.low),
                                      hi::make_const(index64, range.high)));
  };
  return {cut(first), cut(last)};
}

// ---- branches -------------------------------------------------------------------------------

HStmt PhaseTranslator::translate_if(const If& branch) {
  const Expr simple = scope_.simplify(branch.condition);
  const HExpr condition = mask_.defined() ? guarded(mask_, simple) : value(simple);
  const bool differs = mask_.defined() || uses_vector_variable(scope_, branch.condition);
  if (!differs) return hi::IfThenElse::make(condition, taken(branch));
  if (are_masks_cheap(scope_, masks_, *branch.body)) return masked(condition, *branch.body);
  const auto all = mask_.defined() ? std::nullopt : in_all_lanes(scope_, simple);
  if (all && can_be_masked(scope_, *branch.body, true))
    return hi::IfThenElse::make(value(*all), taken(branch),
                                fallback(masked(condition, *branch.body)));
  if (can_be_masked(scope_, *branch.body, false)) return masked(condition, *branch.body);
  return hi::IfThenElse::make(condition, taken_by_lanes(branch));
}

HStmt PhaseTranslator::fallback(const HStmt& body) const {
  return fallbacks_ == Fallbacks::Marked ? as_fallback(body) : body;
}

HStmt PhaseTranslator::taken(const If& branch) {
  const PhaseScope::Mark mark = scope_.mark();
  scope_.enter(branch.condition);
  const HStmt body = statements(*branch.body);
  scope_.restore(mark);
  return body;
}

HStmt PhaseTranslator::taken_by_lanes(const If& branch) {
  const bool outer = diverges_;
  diverges_ = true;
  const HStmt body = taken(branch);
  diverges_ = outer;
  return body;
}

HStmt PhaseTranslator::masked(const HExpr& condition, const Block& body) {
  const HExpr outer = mask_;
  mask_ = both(outer, condition);
  const HStmt result = statements(body);
  mask_ = outer;
  return result;
}

}  // namespace tw::codegen::halide
