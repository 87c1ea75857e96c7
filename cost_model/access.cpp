// SPDX-License-Identifier: Apache-2.0
#include "cost_model/access.h"

#include <algorithm>
#include <cmath>

#include "schedules/affine.h"

namespace tw::cost_model {
namespace {

using dsl::BinaryOp;
using dsl::Expr;

constexpr double line_bytes = 64;  // of every x86-64 and most Arm cores

void append_terms(const Expr& expr, double factor, double most, bool irregular,
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
      if (b->op == BinaryOp::Div)
        return append_terms(b->a, factor / divisor, most, true, levels, form);
      if (b->op == BinaryOp::Mod)
        return append_terms(b->a, factor, std::min(most, std::fabs(factor) * (divisor - 1)), true,
                            levels, form);
    }
  }
  // A data-dependent or clamped index: each variable in it is taken to move by one.
  dsl::for_each(atom, [&](const Expr& e) {
    if (e.as<dsl::Var>()) append_atom(e, factor, most, true, levels, form);
  });
}

void append_terms(const Expr& expr, double factor, double most, bool irregular,
                  const std::vector<Level>& levels, IndexForm& form) {
  for (const schedules::Affine::Term& term : schedules::to_affine(expr).terms)
    append_atom(term.atom, factor * static_cast<double>(term.coefficient), most, irregular, levels,
                form);
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
  for (size_t i = 0; i < indices.size(); ++i)
    append_terms(indices[i], 1, 1e300, false, levels, access.dimensions[i]);
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

double footprint_bytes(const Access& access, std::span<const Extent> extents) {
  const double size = size_bytes(access.buffer->type);
  double runs = 1, run = 1;  // `runs` stretches of memory of `run` elements each
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
    }
  }
  return runs * std::ceil(run * size / line_bytes) * line_bytes;
}

}  // namespace tw::cost_model
