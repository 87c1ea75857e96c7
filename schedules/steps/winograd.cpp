// SPDX-License-Identifier: Apache-2.0
// winograd: turns a convolution along one axis into products of transformed data and weights (Lavin
// and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016). A second step on the
// products, along another axis, makes the two-dimensional algorithm.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/integer.h"
#include "schedules/program/simplify.h"
#include "schedules/steps/editing.h"
#include "schedules/toom_cook.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

using Axes = std::vector<Axis>;

/// The parts of a convolution, which is a sum of data times weights over `taps` and perhaps over
/// further axes. The data depend on the sum `outputs` + `taps`, and the weights on `taps`.
struct Convolution {
  Axis outputs, taps;
  Expr data;  ///< in terms of the axis position() instead of outputs and taps
  Expr weights;
  bool data_first = true;  ///< the data are the first factor

  /// The axis of outputs + taps.
  Axis position() const { return {outputs.name + "_in", outputs.extent + taps.extent - 1}; }
};

/// Rewrites an expression that depends on the axes `a` and `b` only by a + b. `sum` is the name of
/// an axis that stands for a + b: in[y + r] becomes in[s]. Returns nullopt for any other
/// expression.
std::optional<Expr> over_sum(const Expr& expr, const std::string& a, const std::string& b,
                             const std::string& sum) {
  const Expr shifted = simplify(dsl::substitute(expr, b, dsl::var(sum) - dsl::var(a)), Bounds());
  if (dsl::uses_var(shifted, a)) return std::nullopt;
  return shifted;
}

const Axis* find_axis(const Axes& axes, const std::string& name) {
  const auto found =
      std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == axes.end() ? nullptr : &*found;
}

std::optional<Convolution> convolution_along(const Stage& stage, const Axis& outputs) {
  const std::vector<Expr> factors = operands_of(stage);
  if (factors.size() != 2) return std::nullopt;
  for (const Axis& taps : stage.reduction)
    for (const bool data_first : {true, false}) {
      const Expr &data = factors[data_first ? 0 : 1], &weights = factors[data_first ? 1 : 0];
      if (!dsl::uses_var(data, outputs.name) || !dsl::uses_var(data, taps.name)) continue;
      if (dsl::uses_var(weights, outputs.name)) continue;
      Convolution found{outputs, taps, data, weights, data_first};
      const auto moved = over_sum(data, outputs.name, taps.name, found.position().name);
      if (!moved) continue;
      found.data = *moved;
      return found;
    }
  return std::nullopt;
}

// ---- transforms as expressions --------------------------------------------------------------

struct Term {
  Fraction factor;
  Expr value;
};

Expr scaled(const Fraction& factor, const Expr& value) {
  if (factor == fraction(1)) return value;
  return dsl::constant(value.type(), factor.value()) * value;
}

/// Returns the sum of the terms. If there are terms that are added, one of them is first, so that
/// nothing is negated.
Expr sum_of(std::vector<Term> terms) {
  std::stable_partition(terms.begin(), terms.end(),
                        [](const Term& term) { return term.factor.numerator > 0; });
  Expr sum = scaled(terms[0].factor, terms[0].value);
  for (size_t i = 1; i < terms.size(); ++i) {
    const Fraction& factor = terms[i].factor;
    const bool is_added = factor.numerator > 0;
    const Expr value = scaled(is_added ? factor : -factor, terms[i].value);
    sum = is_added ? sum + value : sum - value;
  }
  return sum;
}

std::vector<Term> terms_of(const std::vector<Fraction>& row, const std::vector<Expr>& values,
                           size_t first, size_t step) {
  std::vector<Term> terms;
  for (size_t i = first; i < row.size(); i += step)
    if (row[i].numerator != 0) terms.push_back({row[i], values[i]});
  return terms;
}

/// Returns the sum of row[i] * values[i], for a row of the transform of data or weights. Even and
/// odd columns are summed separately. The rows of the points a and -a are then the sum and the
/// difference of the same two partial sums. Compilers find such equal expressions, but not if sums
/// have another order.
Expr row_of_powers(const std::vector<Fraction>& row, const std::vector<Expr>& values) {
  const std::vector<Term> even = terms_of(row, values, 0, 2);
  std::vector<Term> odd = terms_of(row, values, 1, 2);
  if (odd.empty()) return sum_of(even);
  if (even.empty()) return sum_of(odd);
  const bool is_added = odd[0].factor.numerator > 0;
  if (!is_added)
    for (Term& term : odd) term.factor = -term.factor;
  return is_added ? sum_of(even) + sum_of(odd) : sum_of(even) - sum_of(odd);
}

/// Returns the sum of row[i] * values[i], for a row of the transform of outputs. The columns of the
/// points a and -a are adjacent, and their factors are equal up to the sign. So the two values are
/// added or subtracted before they are scaled.
Expr row_of_points(const std::vector<Fraction>& row, const std::vector<Expr>& values) {
  std::vector<Term> terms;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i].numerator == 0) continue;
    const bool has_pair = i % 2 == 1 && i + 2 < row.size();
    if (has_pair && row[i + 1] == row[i]) {
      terms.push_back({row[i], values[i] + values[i + 1]});
      ++i;
    } else if (has_pair && row[i + 1] == -row[i]) {
      terms.push_back({row[i], values[i] - values[i + 1]});
      ++i;
    } else {
      terms.push_back({row[i], values[i]});
    }
  }
  return sum_of(std::move(terms));
}

/// Returns rows[index] as an expression: select(index == 0, rows[0], select(index == 1, rows[1],
/// ...)).
Expr choice(const Expr& index, const std::vector<Expr>& rows) {
  Expr chosen = rows.back();
  for (size_t i = rows.size() - 1; i > 0; --i)
    chosen = dsl::select(dsl::eq(index, Expr(static_cast<int64_t>(i - 1))), rows[i - 1], chosen);
  return chosen;
}

using RowOf = Expr (*)(const std::vector<Fraction>& row, const std::vector<Expr>& values);

Expr transformed(const Expr& index, const FractionMatrix& matrix, const std::vector<Expr>& values,
                 RowOf row_of) {
  std::vector<Expr> rows;
  for (const auto& row : matrix) rows.push_back(row_of(row, values));
  return choice(index, rows);
}

// ---- the stages -----------------------------------------------------------------------------

/// Makes the stages of one step:
///
///   out.d  data as the taps read them, with padding and conversions; this stage exists only if the
///          data are more than a read of a tensor
///   out.u  transformed weights
///   out.v  transformed data
///   out.m  sums of products of out.u and out.v
///   out    the outputs
///
/// The dimensions of the operands are ordered as in a matrix product: data[..., rows, reduced],
/// weights[..., reduced, columns].
class Stages {
 public:
  Stages(const Stage& stage, const Convolution& convolution, int64_t tile)
      : stage_(stage),
        conv_(convolution),
        tile_(tile),
        matrices_(toom_cook(tile, convolution.taps.extent)),
        point_(convolution.outputs.name + "_point", static_cast<int64_t>(matrices_.input.size())),
        tiles_(convolution.outputs.name + "_tile", ceil_div(convolution.outputs.extent, tile)) {}

  /// Makes the stages. They are in the order of their dependencies, with the outputs last.
  std::vector<Stage> make() {
    merge_windows();
    std::vector<Stage> stages;
    if (!conv_.data.as<dsl::Read>()) {
      stages.push_back(elementwise(".d", data_axes(conv_.position()), conv_.data));
      conv_.data = read_of(stages.back());
    }
    stages.push_back(weights());
    stages.push_back(data());
    stages.push_back(products(stages[stages.size() - 2], stages.back()));
    stages.push_back(outputs(stages.back()));
    return stages;
  }

 private:
  /// Merges further axes of a convolution, apart from the transformed one: an output axis y and a
  /// tap axis r on which the data depend only by y + r become one axis y_in of the data. In a 3 x 3
  /// convolution that is transformed along its columns, the rows are merged in this way, and out.m
  /// reads the data at y + r.
  void merge_windows() {
    for (const Axis& axis : stage_.axes)
      for (const Axis& taps : stage_.reduction) {
        if (axis.name == conv_.outputs.name || taps.name == conv_.taps.name) continue;
        if (!dsl::uses_var(conv_.data, axis.name) || !dsl::uses_var(conv_.data, taps.name) ||
            dsl::uses_var(conv_.weights, axis.name))
          continue;
        const Axis merged(axis.name + "_in", axis.extent + taps.extent - 1);
        const auto moved = over_sum(conv_.data, axis.name, taps.name, merged.name);
        if (!moved) continue;
        conv_.data = *moved;
        windows_.push_back({axis.name, taps.name, merged});
      }
  }

  struct Window {
    std::string axis, taps;
    Axis merged;
  };
  const Window* window_of(const std::string& axis) const {
    for (const Window& window : windows_)
      if (window.axis == axis) return &window;
    return nullptr;
  }

  bool in_data(const Axis& axis) const { return dsl::uses_var(conv_.data, axis.name); }
  bool in_weights(const Axis& axis) const { return dsl::uses_var(conv_.weights, axis.name); }

  /// Returns the axes of the data, with `along` in the place of the outputs. Summed axes are last.
  Axes data_axes(const Axis& along) const {
    Axes axes;
    for (const Axis& axis : stage_.axes) {
      const Window* window = window_of(axis.name);
      if (axis.name == conv_.outputs.name)
        axes.push_back(along);
      else if (window)
        axes.push_back(window->merged);
      else if (in_data(axis))
        axes.push_back(axis);
    }
    for (const Axis& axis : stage_.reduction)
      if (in_data(axis)) axes.push_back(axis);
    return axes;
  }

  /// Returns the axes of the weights: first those that the data have too, then summed axes, then
  /// those that only the weights have.
  Axes weight_axes() const {
    Axes shared, summed, own;
    for (const Axis& axis : stage_.axes)
      if (in_weights(axis)) (in_data(axis) ? shared : own).push_back(axis);
    for (const Axis& axis : stage_.reduction)
      if (in_weights(axis) && axis.name != conv_.taps.name) summed.push_back(axis);
    Axes axes = std::move(shared);
    for (const Axes* part : {&summed, &own}) axes.insert(axes.end(), part->begin(), part->end());
    return axes;
  }

  /// Returns the axes of the products: those of the stage, with tiles in the place of outputs. Axes
  /// that only the weights have are last.
  Axes product_axes() const {
    Axes axes, own;
    for (const Axis& axis : stage_.axes) {
      if (axis.name == conv_.outputs.name)
        axes.push_back(tiles_);
      else if (in_weights(axis) && !in_data(axis))
        own.push_back(axis);
      else
        axes.push_back(axis);
    }
    axes.insert(axes.end(), own.begin(), own.end());
    return axes;
  }

  Axes with_point(Axes axes) const {
    axes.insert(axes.begin(), point_);
    return axes;
  }

  Stage elementwise(const std::string& suffix, const Axes& axes, const Expr& body) const {
    Stage made;
    made.name = stage_.name + suffix;
    made.type = body.type();
    made.axes = axes;
    made.body = body;
    return made;
  }

  static Expr read_of(const Stage& stage) {
    std::vector<Expr> indices(stage.axes.begin(), stage.axes.end());
    return dsl::read(stage.name, indices, stage.type);
  }

  Stage weights() const {
    std::vector<Expr> taps;
    for (int64_t j = 0; j < conv_.taps.extent; ++j)
      taps.push_back(dsl::substitute(conv_.weights, conv_.taps.name, Expr(j)));
    return elementwise(".u", with_point(weight_axes()),
                       transformed(point_, matrices_.filter, taps, row_of_powers));
  }

  /// The last tile may reach beyond the data. The elements that it reads there affect only outputs
  /// beyond the last one, so any element may be read.
  Stage data() const {
    std::vector<Expr> values;
    const int64_t last = conv_.position().extent - 1;
    for (int64_t j = 0; j < point_.extent; ++j) {
      Expr at = Expr(tiles_) * Expr(tile_) + Expr(j);
      if ((tiles_.extent - 1) * tile_ + j > last) at = dsl::min(at, Expr(last));
      values.push_back(dsl::substitute(conv_.data, conv_.position().name, at));
    }
    return elementwise(".v", with_point(data_axes(tiles_)),
                       transformed(point_, matrices_.input, values, row_of_powers));
  }

  Stage products(const Stage& weights, const Stage& data) const {
    dsl::Substitution in_windows;
    for (const Window& window : windows_)
      in_windows[window.merged.name] = dsl::var(window.axis) + dsl::var(window.taps);
    const Expr value = dsl::substitute(read_of(data), in_windows), weight = read_of(weights);
    Stage made = elementwise(".m", with_point(product_axes()),
                             conv_.data_first ? value * weight : weight * value);
    for (const Axis& axis : stage_.reduction)
      if (axis.name != conv_.taps.name) made.reduction.push_back(axis);
    if (!made.reduction.empty()) made.combine = Combine::Sum;
    return made;
  }

  Stage outputs(const Stage& products) const {
    const Expr at = dsl::var(conv_.outputs.name);
    std::vector<Expr> values;
    for (int64_t p = 0; p < point_.extent; ++p)
      values.push_back(dsl::substitute(read_of(products),
                                       {{point_.name, Expr(p)}, {tiles_.name, at / Expr(tile_)}}));
    Stage made = stage_;
    made.reduction.clear();
    made.combine = Combine::None;
    made.body = transformed(at % Expr(tile_), matrices_.output, values, row_of_points);
    return made;
  }

  const Stage& stage_;
  Convolution conv_;
  const int64_t tile_;
  const ToomCook matrices_;
  const Axis point_, tiles_;
  std::vector<Window> windows_;
};

Status check_sizes(const Winograd& s, const Axis& taps) {
  if (s.tile < 2) return illegal(s.name, fmt::format("a tile of {} saves no products", s.tile));
  if (taps.extent < 2)
    return illegal(s.name, fmt::format("'{}' has one tap along '{}', which saves no products",
                                       s.stage, s.axis));
  if (s.tile + taps.extent - 1 <= most_products) return {};
  return illegal(s.name, fmt::format("a tile of {} for {} taps needs {} products, and there are "
                                     "algorithms for at most {}",
                                     s.tile, taps.extent, s.tile + taps.extent - 1, most_products));
}

Status check_new(const Nest& nest, const Winograd& s, const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    if (stage.name != s.stage && nest.compute.find_stage(stage.name))
      return illegal(s.name, fmt::format("'{}' exists already", stage.name));
    std::vector<int64_t> extents;
    for (const auto* axes : {&stage.axes, &stage.reduction})
      for (const Axis& axis : *axes) extents.push_back(axis.extent);
    TW_RETURN_IF_ERROR(check_iterations(extents, s.name, stage.name));
  }
  return {};
}

}  // namespace

Status apply(Nest& nest, const Winograd& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (!is_fresh(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps already", s.stage));
  const Axis* outputs = find_axis(stage->stage.axes, s.axis);
  if (!outputs) return illegal(s.name, fmt::format("'{}' has no axis '{}'", s.stage, s.axis));
  if (!is_float(stage->stage.type))
    return illegal(s.name, fmt::format("'{}' sums in {}, and the transforms have fractions",
                                       s.stage, to_string(stage->stage.type)));
  const auto convolution = convolution_along(stage->stage, *outputs);
  if (!convolution)
    return illegal(s.name,
                   fmt::format("'{}' is no convolution along '{}': that is a sum of products, one "
                               "factor of which depends on '{}' plus an axis of the sum",
                               s.stage, s.axis, s.axis));
  TW_RETURN_IF_ERROR(check_sizes(s, convolution->taps));
  const Stage declared = stage->stage;
  const std::vector<Stage> stages = Stages(declared, *convolution, s.tile).make();
  TW_RETURN_IF_ERROR(check_new(nest, s, stages));
  const bool is_last = stage->loops[0].variable == stage->loops[0].name;
  definition(nest, s.stage) = stages.back();
  *stage = make_stage_nest(stages.back(), is_last);
  for (const Stage& made : stages)
    if (made.name != s.stage) insert_before(nest, s.stage, made);
  return {};
}

}  // namespace tw::schedules
