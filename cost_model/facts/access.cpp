// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/access.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "schedules/program/affine.h"

namespace tw::cost_model::facts {
namespace {

using dsl::BinaryOp;
using dsl::Expr;

/// The part of an IndexTerm that is the same for all terms of a subexpression of an index. The
/// operations around the subexpression determine it. For example, in `(x + y) / 4` both x and y
/// have the factor 1/4.
struct Movement {
  double factor = 1;
  double most = 1e300;
  double unit = 0;
  bool irregular = false;
};

void append_terms(const schedules::Affine& affine, const Movement& movement,
                  const std::vector<Level>& levels, IndexForm& form);

void append_atom(const Expr& atom, Movement movement, const std::vector<Level>& levels,
                 IndexForm& form) {
  if (const dsl::Var* v = atom.as<dsl::Var>()) {
    const double unit = movement.irregular ? movement.unit : std::fabs(movement.factor);
    for (size_t i = levels.size(); i > 0; --i)
      if (levels[i - 1].variable == v->name)
        return form.push_back({i - 1, movement.factor, movement.most, unit, movement.irregular});
    return;
  }
  if (!movement.irregular) movement.unit = std::fabs(movement.factor);
  movement.irregular = true;
  if (const dsl::Binary* b = atom.as<dsl::Binary>()) {
    if (const auto k = dsl::as_int(b->b); k && *k > 0) {
      const double divisor = static_cast<double>(*k);
      if (b->op == BinaryOp::Div) {
        movement.factor /= divisor;
        return append_terms(schedules::to_affine(b->a), movement, levels, form);
      }
      if (b->op == BinaryOp::Mod) {
        movement.most = std::min(movement.most, std::fabs(movement.factor) * (divisor - 1));
        return append_terms(schedules::to_affine(b->a), movement, levels, form);
      }
    }
  }
  // In an index that is clamped or depends on data, each variable is assumed to have the
  // coefficient 1.
  dsl::for_each(atom, [&](const Expr& e) {
    if (e.as<dsl::Var>()) append_atom(e, movement, levels, form);
  });
}

void append_terms(const schedules::Affine& affine, const Movement& movement,
                  const std::vector<Level>& levels, IndexForm& form) {
  for (const schedules::Affine::Term& term : affine.terms) {
    Movement of_term = movement;
    of_term.factor *= static_cast<double>(term.coefficient);
    append_atom(term.atom, of_term, levels, form);
  }
}

bool has_remainder(const schedules::Affine& affine) {
  return std::any_of(affine.terms.begin(), affine.terms.end(), [](const auto& term) {
    const dsl::Binary* b = term.atom.template as<dsl::Binary>();
    return b && b->op == BinaryOp::Mod;
  });
}

/// Returns the index of two adjacent dimensions as one number, if their indices are the digits of
/// this number; else nullopt. `extent` is the extent of the inner dimension. For example, f / 7 and
/// f % 7 with the extent 7 give f.
std::optional<schedules::Affine> joined(const schedules::Affine& outer, int64_t extent,
                                        const schedules::Affine& inner) {
  schedules::Affine all = inner;
  all.add(outer, extent);
  schedules::rejoin_digits(all);
  return has_remainder(all) ? std::nullopt : std::optional(std::move(all));
}

double step_of(const Extent& e) { return e.distinct > 1 ? (e.span - 1) / (e.distinct - 1) : 1; }

/// Returns the number of cache sets that are used by lines whose distances are multiples of
/// `step_bytes`.
double sets_at_steps(int64_t step_bytes, CacheLines lines) {
  const int64_t common = std::gcd(step_bytes, static_cast<int64_t>(lines.way_bytes));
  return lines.way_bytes / std::max(lines.bytes, static_cast<double>(common));
}

double extent_of(const Access& access, size_t dimension) {
  return static_cast<double>(access.extents[dimension]);
}

}  // namespace

bool Access::depends_on(size_t level) const {
  for (const IndexForm& form : dimensions)
    for (const IndexTerm& term : form)
      if (term.level == level && term.coefficient != 0) return true;
  return false;
}

bool is_irregular(const IndexForm& form) {
  return std::any_of(form.begin(), form.end(), [](const IndexTerm& t) { return t.irregular; });
}

bool Access::is_irregular_in(size_t level) const {
  return std::any_of(dimensions.begin(), dimensions.end(), [&](const IndexForm& form) {
    return facts::is_irregular(form) &&
           std::any_of(form.begin(), form.end(), [&](const auto& t) { return t.level == level; });
  });
}

Access make_access(const schedules::Buffer& buffer, const std::vector<Expr>& indices,
                   const std::vector<Level>& levels) {
  Access access;
  access.buffer = &buffer;
  access.dimensions.resize(indices.size());
  for (size_t d = 0; d < indices.size(); ++d) {
    access.extents.push_back(std::max<int64_t>(1, buffer.extents[d]));
    access.origin.push_back(0);
  }
  double row = 1;
  for (size_t d = indices.size(); d > 0;) {
    const size_t last = --d;
    schedules::Affine index = schedules::to_affine(indices[last]);
    for (; d > 0 && has_remainder(index); --d) {
      auto both = joined(schedules::to_affine(indices[d - 1]), access.extents[last], index);
      if (!both) break;
      index = std::move(*both);
      access.extents[last] *= std::exchange(access.extents[d - 1], 1);
    }
    IndexForm& form = access.dimensions[last];
    append_terms(index, {}, levels, form);
    access.is_irregular |= is_irregular(form);
    access.offset += row * static_cast<double>(index.constant);
    row *= extent_of(access, last);
    access.origin[last] = static_cast<double>(index.constant);
    for (const IndexTerm& term : form)
      if (!term.irregular) access.origin[last] += term.coefficient * levels[term.level].first;
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

bool is_aligned(const Access& access, const std::vector<Level>& levels, double bytes) {
  const double size = size_bytes(access.buffer->type);
  const auto is_whole = [&](double elements) { return std::fmod(elements * size, bytes) == 0; };
  if (!is_whole(access.offset)) return false;
  double row = 1;
  for (size_t d = access.dimensions.size(); d > 0; --d) {
    for (const IndexTerm& term : access.dimensions[d - 1])
      if (levels[term.level].kind != schedules::LoopKind::Vector && !is_whole(term.unit * row))
        return false;
    row *= extent_of(access, d - 1);
  }
  return true;
}

// Taps are added in the order of their indices, so an origin between first and last was added
// before.
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
  double sets = 1;           // number of different sets in which these stretches begin
  int64_t step = 0;          // greatest common divisor of the distances of the stretches, in bytes
  double row = 1;            // number of elements between successive indices of the dimension
  bool whole_rows = true;  // true if all inner dimensions are touched, except for less than a line
  for (size_t d = extents.size(); d > 0; --d) {
    const Extent& e = extents[d - 1];
    const bool dense = e.span * row * size <= e.distinct * std::max(row * size, lines.bytes);
    if (whole_rows && dense) {
      run += row * (e.span - 1);
      whole_rows = (extent_of(access, d - 1) - e.span) * row * size < lines.bytes;
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
  return {runs * lines_a_run * lines.bytes, shared > 1 ? shared * lines.way_bytes : 0, runs,
          lines_a_run, static_cast<double>(step)};
}

}  // namespace tw::cost_model::facts
