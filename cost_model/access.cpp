// SPDX-License-Identifier: Apache-2.0
#include "cost_model/access.h"

#include <algorithm>
#include <cmath>

#include "schedules/affine.h"

namespace tw::cost_model {
namespace {

using dsl::BinaryOp;
using dsl::Expr;

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

/// The number of sets that lines fall into whose distances are multiples of `step_bytes`.
double sets_at_steps(int64_t step_bytes, CacheLines lines) {
  const int64_t common = std::gcd(step_bytes, static_cast<int64_t>(lines.way_bytes));
  return lines.way_bytes / std::max(lines.bytes, static_cast<double>(common));
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
  Access access{&buffer};
  access.dimensions.resize(indices.size());
  for (size_t d = 0; d < indices.size(); ++d) {
    IndexForm& form = access.dimensions[d];
    const double constant = append_terms(indices[d], 1, 1e300, false, levels, form);
    access.offset = access.offset * extent_of(access, d) + constant;
    double origin = constant;
    for (const IndexTerm& term : form)
      if (!term.irregular) origin += term.coefficient * levels[term.level].first;
    access.origin.push_back(origin);
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

// Taps come in the order of their indices, so one that was there already lies in between.
void Origins::add(double origin) {
  if (origin < first || origin > last) ++count;
  first = std::min(first, origin);
  last = std::max(last, origin);
}

void add_origin(const Access& access, AllOrigins& origins) {
  const bool is_first = origins.empty();
  for (size_t d = 0; d < access.origin.size(); ++d) {
    const double origin = access.origin[d];
    if (is_first)
      origins.push_back({origin, origin});
    else
      origins[d].add(origin);
  }
}

CacheLines lines_of(const CacheLevel& cache) {
  return {cache.line_bytes * 1.0, static_cast<double>(cache.way_bytes())};
}

Footprint footprint(const Access& access, std::span<const Extent> extents, CacheLines lines) {
  const double size = size_bytes(access.buffer->type);
  double runs = 1, run = 1;  // `runs` stretches of memory of `run` elements each
  double sets = 1;           // different first sets of those stretches
  int64_t step = 0;          // bytes that divide all their distances
  double row = 1;            // elements that one step of the dimension moves by
  bool whole_rows = true;    // all inner dimensions are touched from end to end
  for (size_t d = extents.size(); d > 0; --d) {
    const Extent& e = extents[d - 1];
    const bool dense = e.span * run * size <= e.distinct * std::max(run * size, lines.bytes);
    if (whole_rows && dense) {
      run *= e.span;
      whole_rows = e.span >= extent_of(access, d - 1);
    } else {
      runs *= e.distinct;
      whole_rows = false;
      if (e.distinct > 1) {
        const auto bytes = static_cast<int64_t>(row * size * step_of(e));
        step = std::gcd(step, bytes);
        sets *= std::min(e.distinct, sets_at_steps(bytes, lines));
      }
    }
    row *= extent_of(access, d - 1);
  }
  if (step > 0) sets = std::min(sets, sets_at_steps(step, lines));
  const double lines_a_run = std::ceil(run * size / lines.bytes);
  const double shared = std::max(1.0, sets * lines_a_run < lines.sets() ? runs / sets : 1.0);
  return {runs * lines_a_run * lines.bytes, shared > 1 ? shared * lines.way_bytes : 0};
}

}  // namespace tw::cost_model
