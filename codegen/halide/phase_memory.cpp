// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "base/result.h"
#include "codegen/halide/arithmetic.h"
#include "codegen/halide/conversions.h"
#include "codegen/halide/masked_branches.h"
#include "codegen/halide/passes.h"
#include "codegen/halide/phase_translator.h"
#include "codegen/halide/whole_vectors.h"

namespace tw::codegen::halide {
namespace {

HExpr load(const Access& access, const HExpr& index, const HExpr& predicate) {
  return hi::Load::make(storage_type(access.buffer.type), access.name, index, {}, access.external,
                        predicate, hi::ModulusRemainder());
}

}  // namespace

HStmt PhaseTranslator::translate_allocate(const Allocate& allocate) {
  const std::string& name = allocate.buffer.name;
  const Access* outer = scope_.find_access(name);
  const std::optional<Access> shadowed = outer ? std::optional(*outer) : std::nullopt;
  Access access{allocate.buffer, scope_.fresh(name), {}, true};
  scope_.declare(access);
  access.buffer = with_whole_rows(scope_, masks_, allocate.buffer, *allocate.body);
  scope_.declare(access);
  const Buffer& buffer = access.buffer;
  const HStmt body = statements(*allocate.body);
  if (shadowed) scope_.declare(*shadowed);
  const auto elements = static_cast<int>(std::max<int64_t>(1, buffer.elements()));
  // MemoryType::Register is always a plain array on the stack. MemoryType::Stack would become calls
  // of Halide's runtime above 16 KiB.
  return hi::Allocate::make(access.name, storage_type(buffer.type), Halide::MemoryType::Register,
                            {elements}, hi::const_true(), body);
}

HStmt PhaseTranslator::translate_assign(const Assign& assign) {
  TW_CHECK(!assign.guard, "guards have become branches");
  const Access& access = scope_.access(assign.buffer);
  const DType type = access.buffer.type;
  const HExpr index = linear(access.buffer, assign.indices);
  const HExpr always = hi::const_true();
  const bool inside = !mask_.defined() || scope_.is_always_inside(access.buffer, assign.indices);
  const HExpr old = to_value(type, inside ? load(access, index, always)
                                          : load_under(mask_, access, assign.indices, index));
  HExpr result = mask_.defined() ? guarded(mask_, assign.value) : value(assign.value);
  if (assign.combine != Combine::None) result = combined(assign.combine, old, result);
  const bool keeps = mask_.defined() && access.own && inside;
  if (keeps) result = Halide::select(mask_, result, old);
  return hi::Store::make(access.name, to_storage(type, result, masks_.has_f16), index,
                         access.external, keeps || !mask_.defined() ? always : mask_,
                         hi::ModulusRemainder());
}

/// Translates to Halide's prefetches, one for each line. Their hint is set in the compiled object
/// (prefetch_hints.h).
HStmt PhaseTranslator::translate_prefetch(const PrefetchLines& prefetch) {
  const Access& access = scope_.access(prefetch.buffer);
  const Halide::Type type = storage_type(access.buffer.type);
  const Expr first = scope_.simplify(prefetch.offset);
  std::vector<HStmt> lines;
  for (int64_t i = 0; i < prefetch.lines; ++i) {
    const Expr offset = first + Expr(i * schedules::prefetched_line_bytes / type.bytes());
    lines.push_back(hi::Evaluate::make(
        hi::Call::make(type, hi::Call::prefetch,
                       {handle_variable(access.name), integer(offset, scope_.width(offset)), 1, 1},
                       hi::Call::Intrinsic)));
  }
  return hi::Block::make(lines);
}

/// Translates a read. Both sides of a select are computed. So if only the select's condition
/// ensures that a read is inside of the buffer, the read must be masked, or read another element,
/// where the condition fails.
HExpr PhaseTranslator::read(const dsl::Read& r) {
  const Access& access = scope_.access(r.tensor);
  if (access.buffer.elements() == 0) return hi::make_zero(storage_type(r.type));
  HExpr index = linear(access.buffer, r.indices);
  if (diverges_ && !uses_vector_variable(scope_, r.indices) &&
      !scope_.is_in_range(access.buffer, r.indices))
    index = Halide::clamp(index, hi::make_zero(index.type()),
                          hi::make_const(index.type(), access.buffer.elements() - 1));
  if (!guard_.defined() || scope_.is_always_inside(access.buffer, r.indices))
    return load(access, index, hi::const_true());
  return load_under(guard_, access, r.indices, index);
}

HExpr PhaseTranslator::load_under(const HExpr& condition, const Access& access,
                                  const std::vector<Expr>& indices, const HExpr& index) const {
  if (uses_vector_variable(scope_, indices) && is_dense(scope_, access.buffer.name, indices) &&
      !leaves_one_lane(scope_, masks_, access.buffer.type, indices))
    return load(access, index, condition);
  return load(access, Halide::select(condition, index, hi::make_zero(index.type())),
              hi::const_true());
}

// ---- addresses ------------------------------------------------------------------------------

/// Returns the index as the sum of a base and a rest. The base is computed once, as soon as its
/// variables are known. The rest differs between unrolled copies and lanes. So LLVM is given fewer
/// instructions, and compiles faster.
HExpr PhaseTranslator::linear(const Buffer& buffer, const std::vector<Expr>& indices) {
  const Affine affine = scope_.affine_index(buffer, indices);
  const Halide::Type type =
      needs_index_vector(scope_, affine) && scope_.ranges().all_fit_int32(affine) ? index32
                                                                                  : index64;
  Affine base, rest;
  for (const Affine::Term& term : affine.terms)
    (is_same_in_copies(scope_, term.atom) ? base : rest).add(term.atom, term.coefficient);
  HExpr index = hi::make_const(type, affine.constant);
  if (!rest.terms.empty()) index = sum_of(rest, type) + index;
  if (!base.terms.empty()) index = named_base(base, type) + index;
  return hi::simplify(index);
}

HExpr PhaseTranslator::named_base(const Affine& base, Halide::Type type) {
  int deepest = -1;
  for (const Affine::Term& term : base.terms) deepest = std::max(deepest, scope_.depth(term.atom));
  size_t at = bodies_.size() - 1;
  while (at > 0 && bodies_[at].depth > deepest) --at;
  const auto [found, is_new] =
      bodies_[at].names.try_emplace({dsl::to_string(schedules::to_expr(base)), type.bits()});
  if (is_new) {
    found->second = scope_.fresh("base");
    const HExpr value = sum_of(base, type);
    bodies_[at].lets.emplace_back(found->second, kept(value));
  }
  return hi::Variable::make(type, found->second);
}

/// Returns the sum of the terms, those of the outermost variables first. Then the partial sums that
/// do not change in inner loops can be computed outside of them.
HExpr PhaseTranslator::sum_of(Affine affine, Halide::Type type) {
  std::stable_sort(affine.terms.begin(), affine.terms.end(),
                   [&](const Affine::Term& a, const Affine::Term& b) {
                     return scope_.depth(a.atom) < scope_.depth(b.atom);
                   });
  HExpr sum;
  for (const Affine::Term& term : affine.terms) {
    const HExpr part = integer(term.atom, type) * hi::make_const(type, term.coefficient);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace tw::codegen::halide
