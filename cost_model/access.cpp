// SPDX-License-Identifier: Apache-2.0
#include "cost_model/access.h"

#include <algorithm>
#include <cmath>

#include "schedules/affine.h"

namespace tw::cost_model {
namespace {

using dsl::BinaryOp;
using dsl::Expr;

constexpr double sets_of_l1 = 64;  // a way is a page of 4 KiB, so that sets need no translation

/// Returns what the index is where all levels stand at 0, times the factor.
double append_terms(const Expr& expr, double factor, double most, bool irregular,
                    const std::vector<Level>& levels, IndexForm& form);

void append_atom(const Expr& atom, double factor, double most, bool irregular,
                 const std::vector<Level>& levels, IndexForm& form) {
  if (const dsl::Var* v = atom.as<dsl::Var>()) {
    for (size_t i = levels.size(); i > 0; --i)
      if (levels[i - 1].variable == v->name)
        return form.push_back({i - 1, factor, most, irregular});
    return;
  }
  if (const dsl::Binary* b = atom.as<dsl::Binary>()) {
    if (const auto k = dsl::as_int(b->b); k && *k > 0) {
      const double divisor = static_cast<double>(*k);
      if (b->op == BinaryOp::Div) {
        append_terms(b->a, factor / divisor, most, true, levels, form);
        return;
      }
      if (b->op == BinaryOp::Mod) {
        append_terms(b->a, factor, std::min(most, std::fabs(factor) * (divisor - 1)), true, levels,
                     form);
        return;
      }
    }
  }
  // A data-dependent or clamped index: each variable in it is taken to move by one.
  dsl::for_each(atom, [&](const Expr& e) {
    if (e.as<dsl::Var>()) append_atom(e, factor, most, true, levels, form);
  });
}

double append_terms(const Expr& expr, double factor, double most, bool irregular,
                    const std::vector<Level>& levels, IndexForm& form) {
  const schedules::Affine affine = schedules::to_affine(expr);
  for (const schedules::Affine::Term& term : affine.terms)
    append_atom(term.atom, factor * static_cast<double>(term.coefficient), most, irregular, levels,
                form);
  return factor * static_cast<double>(affine.constant);
}

double step_of(const Extent& e) { return e.distinct > 1 ? (e.span - 1) / (e.distinct - 1) : 1; }

/// Sets of L1 that lines at such steps fall into.
double sets_of(double step_bytes) {
  const auto way = static_cast<int64_t>(sets_of_l1 * line_bytes);
  const int64_t common = std::gcd(static_cast<int64_t>(step_bytes), way);
  return static_cast<double>(way) / std::max(line_bytes, static_cast<double>(common));
}

double extent_of(const Access& access, size_t dimension) {
  return static_cast<double>(std::max<int64_t>(1, access.buffer->extents[dimension]));
}

}  // namespace

bool Access::depends_on(size_t level) const {
  for (const IndexForm& form : dimensions)
    for (const IndexTerm& term : form)
      if (term.level == level && term.coefficient != 0) return true;
  return false;
}

Access make_access(const schedules::Buffer& buffer, const std::vector<Expr>& indices,
                   const std::vector<Level>& levels) {
  Access access{&buffer, {}, false};
  access.dimensions.resize(indices.size());
  double row = 1;
  for (size_t i = indices.size(); i > 0; --i) {
    access.offset +=
        row * append_terms(indices[i - 1], 1, 1e300, false, levels, access.dimensions[i - 1]);
    row *= extent_of(access, i - 1);
  }
  return access;
}

Pattern pattern(const Access& access, size_t level) {
  double stride = 0, row = 1;
  for (size_t d = access.dimensions.size(); d > 0; --d) {
    for (const IndexTerm& term : access.dimensions[d - 1]) {
      if (term.level != level) continue;
      if (term.irregular) return Pattern::Gather;
      stride += term.coefficient * row;
    }
    row *= extent_of(access, d - 1);
  }
  if (stride == 0) return Pattern::Broadcast;
  return stride == 1 ? Pattern::Contiguous : Pattern::Strided;
}

bool is_aligned(const Access& access, size_t vector_level, double bytes) {
  const double size = size_bytes(access.buffer->type);
  const auto is_whole = [&](double elements) { return std::fmod(elements * size, bytes) == 0; };
  if (!is_whole(access.offset)) return false;
  double row = 1;
  for (size_t d = access.dimensions.size(); d > 0; --d) {
    for (const IndexTerm& term : access.dimensions[d - 1])
      if (term.level != vector_level && !is_whole(term.coefficient * row)) return false;
    row *= extent_of(access, d - 1);
  }
  return true;
}

Footprint footprint(const Access& access, std::span<const Extent> extents) {
  const double size = size_bytes(access.buffer->type);
  double runs = 1, run = 1;  // `runs` stretches of memory of `run` elements each
  double sets = 1;           // different first sets of those stretches
  double row = 1;            // elements that one step of the dimension moves by
  bool whole_rows = true;    // all inner dimensions are touched from end to end
  for (size_t d = extents.size(); d > 0; --d) {
    const Extent& e = extents[d - 1];
    const bool dense = e.span * run * size <= e.distinct * std::max(run * size, line_bytes);
    if (whole_rows && dense) {
      run *= e.span;
      whole_rows = e.span >= extent_of(access, d - 1);
    } else {
      runs *= e.distinct;
      whole_rows = false;
      if (e.distinct > 1) sets *= std::min(e.distinct, sets_of(row * size * step_of(e)));
    }
    row *= extent_of(access, d - 1);
  }
  const double lines = std::ceil(run * size / line_bytes);
  const double shared = std::max(1.0, sets * lines < sets_of_l1 ? runs / sets : 1.0);
  return {runs * lines * line_bytes, shared > 1 ? shared * sets_of_l1 * line_bytes : 0};
}

}  // namespace tw::cost_model
