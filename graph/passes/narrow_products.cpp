// SPDX-License-Identifier: Apache-2.0
// Computes products of dequantized numbers as sums of integers:
//
//   a = f32(i32(q) - zero) * scale          q of 8 bits, zero and scale one number each
//   b = f32(i32(p) - zeros[c]) * scales[c]  p a constant, c a channel of the result
//   y = sum(a * b)                   ->     t = i16(i32(q) - zero)
//                                           y = f32(sum(i32(t) * i32(p'))) * (scale * scales[c])
//
// where p' = p - zeros[c] is a constant of 8 or 16 bits. The sum of integers is exact, whereas each
// addition of floats is rounded. Elements of a padding are 0 in `a` and in `t`. All products that
// read the same q share the tensor t, and other operators that dequantize q read t too. So the
// operator of t is the only reader of q, and later passes fuse it with the operator that writes q.
// Reshapes and transposes may stand between the operator that dequantizes and the product.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/quantized.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Array;
using dsl::Axis;
using dsl::Binary;
using dsl::BinaryOp;
using dsl::Cast;
using dsl::Compute;
using dsl::Expr;
using dsl::Read;
using dsl::Stage;

using Constants = std::map<std::string, Constant>;

// ---- what dequantizes ---------------------------------------------------------------------------

/// f32(i32(q) - zero) * scale, element by element.
struct Dequantized {
  std::string tensor;  ///< name of q in the graph
  DType type = UInt8;  ///< type of q
  Expr shifted;        ///< i32(q) - zero, or i32(q)
  Expr zero;           ///< undefined if it is 0
  Expr scale;
  Compute compute;                   ///< compute of the operator, in canonical names
  std::vector<std::string> tensors;  ///< the tensor of the graph for each input of `compute`

  const std::vector<Axis>& axes() const { return compute.stages.front().axes; }
};

/// Evaluates an expression over `axes`, which are some of the axes of `d`. nullopt if the
/// expression depends on other axes of `d`, or reads tensors that are not constants.
std::optional<Array> value_of(const Dequantized& d, const Expr& value, DType type,
                              const std::vector<Axis>& axes, const Constants& constants) {
  Compute compute;
  dsl::Arrays arrays;
  for (size_t i = 0; i < d.tensors.size(); ++i) {
    const std::string& name = d.compute.inputs[i].name;
    if (!only_read(value, name)) continue;
    const auto constant = constants.find(d.tensors[i]);
    if (constant == constants.end()) return std::nullopt;
    compute.inputs.push_back(d.compute.inputs[i]);
    arrays.emplace(name, *constant->second.array);
  }
  compute.stages.push_back({"value", type, axes, {}, dsl::Combine::None, value, ""});
  compute.outputs = {"value"};
  // If the expression depends on another axis, its variable is no axis of this compute, which then
  // is not valid.
  if (!dsl::validate(compute)) return std::nullopt;
  auto values = dsl::interpret(compute, arrays);
  if (!values) return std::nullopt;
  return std::move(values->at("value"));
}

/// Splits f32(x) * scale, in either order, into x, which is an i32, and the scale.
std::optional<std::pair<Expr, Expr>> split_scaled(const Expr& body) {
  const Binary* product = body.as<Binary>();
  if (!product || product->op != BinaryOp::Mul) return std::nullopt;
  for (const auto& [x, scale] : {std::pair(product->a, product->b), {product->b, product->a}})
    if (const Cast* cast = x.as<Cast>(); cast && cast->a.type() == Int32)
      return std::pair(cast->a, scale);
  return std::nullopt;
}

std::optional<Dequantized> as_dequantized(const Operator& op) {
  const Stage* stage = only_stage(op);
  if (!stage || stage->type != Float32 || !is_fast(op)) return std::nullopt;
  Spelled spelled = in_canonical_names(op);
  Dequantized d;
  d.compute = std::move(spelled.compute);
  d.tensors = std::move(spelled.inputs);
  const auto parts = split_scaled(d.compute.stages.front().body);
  if (!parts) return std::nullopt;
  std::tie(d.shifted, d.scale) = *parts;
  const auto offset = as_offset_byte(d.shifted);
  if (!offset || !is_pointwise(*offset->byte, d.axes())) return std::nullopt;
  d.zero = offset->zero;
  for (const Expr& other : {d.zero, d.scale})
    if (other.defined() && count_reads(other, offset->byte->tensor) > 0) return std::nullopt;
  d.tensor = d.tensors[input_number(d.compute, offset->byte->tensor)];
  d.type = offset->byte->type;
  return d;
}

// ---- factors ------------------------------------------------------------------------------------

/// The largest magnitude of an 8-bit number minus its zero point, so that the difference fits i16.
constexpr int64_t most_shifted = 32767;

/// The operator that dequantizes a tensor, and the reshapes and transposes that follow it, from the
/// last to the first.
struct Source {
  Dequantized dequantized;
  std::vector<const Operator*> moves = {};
};

/// A factor of a product, in integers.
struct Factor {
  Source source;
  std::optional<Array> constant = {};  ///< p'; nullopt: the factor is t
  int64_t zero = 0;                    ///< zero point of q, if the factor is t
  int64_t largest = 0;                 ///< largest magnitude of an element
  std::vector<double> scales = {};     ///< one scale, or one for each index of dimension `axis`
  size_t axis = 0;                     ///< a dimension of the factor
  /// Index, among the axes of the sum, of the axis along which the scales vary; nullopt if there is
  /// one scale.
  std::optional<size_t> channel = {};

  DType type() const { return constant ? constant->type : Int16; }
};

int64_t largest_magnitude(const Array& array) {
  int64_t largest = 0;
  for (int64_t i = 0; i < array.size(); ++i)
    largest = std::max(largest, std::abs(array.get_int(i)));
  return largest;
}

/// Applies a reshape or a transpose to an array.
Array moved(Array array, const Operator& move) {
  if (const auto position = as_transpose(move)) {
    std::vector<size_t> order(position->size());
    for (size_t i = 0; i < order.size(); ++i) order[(*position)[i]] = i;
    return permuted(array, order);
  }
  array.shape = move.workload.compute.stages.front().shape();
  return array;
}

/// Returns the dimension of the result of a reshape or transpose that has the same elements as
/// dimension `axis` of its input. nullopt if a reshape splits that dimension or joins it with
/// others.
std::optional<size_t> axis_after(const Operator& move, size_t axis) {
  if (const auto position = as_transpose(move)) return (*position)[axis];
  const std::vector<int64_t>& from = move.workload.compute.inputs.front().shape;
  const std::vector<int64_t> to = move.workload.compute.stages.front().shape();
  const std::vector<int64_t> before = strides_of(from), after = strides_of(to);
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == from[axis] && after[i] == before[axis]) return i;
  return std::nullopt;
}

class ProductNarrower {
 public:
  explicit ProductNarrower(const Graph& graph)
      : graph_(graph),
        uses_(graph),
        names_(graph),
        operators_(as_list(graph)),
        centering_(graph.operators.size() + 1) {
    constants_ = graph.constants;
  }

  Result<Graph> run() {
    for (size_t i = 0; i < operators_.size(); ++i) TW_RETURN_IF_ERROR(visit(i));
    if (centered_.empty()) return graph_;
    for (size_t i = 0; i < operators_.size(); ++i) TW_RETURN_IF_ERROR(share_centered(i));
    std::vector<Operator> result = std::move(centering_[0]);
    for (size_t i = 0; i < operators_.size(); ++i) {
      result.push_back(std::move(*operators_[i]));
      for (Operator& op : centering_[i + 1]) result.push_back(std::move(op));
    }
    Graph narrowed = {graph_.inputs, std::move(constants_), std::move(result), graph_.outputs};
    return drop_dead(narrowed);
  }

 private:
  /// If operator i is a product of two dequantized factors that meets the conditions, replaces it
  /// by a product of integers.
  Status visit(size_t i) {
    const Operator& op = *operators_[i];
    if (!is_fast(op) || op.outputs.size() != 1 || !has_reduction(op.workload.compute)) return {};
    Spelled spelled = in_canonical_names(op);
    const Stage& sum = spelled.compute.stages.front();
    const auto reads = factors_of(sum);
    if (!reads || sum.type != Float32) return {};
    const auto [a, b] = *reads;
    if (a->tensor == b->tensor || !is_read_once(spelled.compute, *a) ||
        !is_read_once(spelled.compute, *b))
      return {};
    const auto first = dequantized_behind(bound_to(spelled, a->tensor));
    const auto second = dequantized_behind(bound_to(spelled, b->tensor));
    if (!first || !second) return {};
    TW_TRY(const auto x, factor_of(*first, *a, sum));
    TW_TRY(const auto y, factor_of(*second, *b, sum));
    // Exactly one factor must be a constant: dot-product instructions need a factor in which
    // neighbours along the sum are packed next to each other before the kernel runs.
    if (!x || !y || x->constant.has_value() == y->constant.has_value()) return {};
    if (!fits_32_bits(sum, static_cast<double>(x->largest) * static_cast<double>(y->largest)))
      return {};
    if (x->channel && y->channel) return {};
    return rewrite(i, std::move(spelled), *x, *y);
  }

  /// True if this is the only read of its tensor in the compute, and the tensor is an input.
  static bool is_read_once(const Compute& compute, const Read& read) {
    int count = 0;
    for (const Stage& stage : compute.stages) count += count_reads(stage.body, read.tensor);
    return count == 1 && compute.find_input(read.tensor);
  }

  static const std::string& bound_to(const Spelled& spelled, const std::string& input) {
    return spelled.inputs[input_number(spelled.compute, input)];
  }

  std::optional<Source> dequantized_behind(std::string tensor) const {
    Source source;
    for (;;) {
      const auto writer = uses_.writer(tensor);
      if (!writer) return std::nullopt;
      const Operator& op = graph_.operators[*writer];
      if (auto dequantized = as_dequantized(op)) {
        source.dequantized = std::move(*dequantized);
        return source;
      }
      if (!is_move(op)) return std::nullopt;
      source.moves.push_back(&op);
      tensor = op.inputs.front();
    }
  }

  /// Returns a factor of the sum in integers. nullopt if its scales or zero points depend on more
  /// than one axis or on other tensors than constants, if the scales vary along an axis that the
  /// sum does not keep, or if a number minus its zero point may exceed 16 bits.
  Result<std::optional<Factor>> factor_of(const Source& source, const Read& read,
                                          const Stage& sum) const {
    const std::optional<Factor> none;
    Factor factor{source};
    const Dequantized& d = factor.source.dequantized;
    const auto scales = along_one_axis(d, d.scale, Float32);
    if (!scales) return none;
    for (int64_t i = 0; i < scales->values.size(); ++i)
      factor.scales.push_back(scales->values.get_float(i));
    factor.axis = scales->axis;
    if (constants_.contains(d.tensor)) {
      TW_TRY(const bool is_known, add_constant(factor));
      if (!is_known) return none;
    } else {
      const auto zero = zero_of(d);
      if (!zero || std::abs(*zero) > most_shifted - 255) return none;
      const IntegerLimits limits = integer_limits(d.type);
      factor.zero = *zero;
      factor.largest = std::max(std::abs(limits.least - *zero), std::abs(limits.largest - *zero));
    }
    if (factor.scales.size() == 1) return std::optional(std::move(factor));
    for (size_t i = factor.source.moves.size(); i-- > 0;) {
      const auto axis = axis_after(*factor.source.moves[i], factor.axis);
      if (!axis) return none;
      factor.axis = *axis;
    }
    factor.channel = axis_number(sum.axes, read.indices[factor.axis]);
    return factor.channel ? std::optional(std::move(factor)) : none;
  }

  /// Numbers that depend on one axis at most.
  struct Parameters {
    Array values;
    size_t axis = 0;
  };
  std::optional<Parameters> along_one_axis(const Dequantized& d, const Expr& value,
                                           DType type) const {
    if (auto one = value_of(d, value, type, {}, constants_)) return Parameters{std::move(*one), 0};
    for (size_t i = 0; i < d.axes().size(); ++i)
      if (auto values = value_of(d, value, type, {d.axes()[i]}, constants_))
        return Parameters{std::move(*values), i};
    return std::nullopt;
  }

  /// Returns the zero point; nullopt if it is not a single constant number.
  std::optional<int64_t> zero_of(const Dequantized& d) const {
    if (!d.zero.defined()) return 0;
    const auto value = value_of(d, d.zero, Int32, {}, constants_);
    return value ? std::optional(value->get_int(0)) : std::nullopt;
  }

  /// Computes the constant of the factor: its numbers minus their zero points. Returns false if the
  /// zero points are not constants along one axis at most, or if a difference does not fit 16 bits.
  Result<bool> add_constant(Factor& factor) const {
    const Dequantized& d = factor.source.dequantized;
    const Array& numbers = *constants_.at(d.tensor).array;
    Parameters zeros;
    if (d.zero.defined()) {
      auto known = along_one_axis(d, d.zero, Int32);
      if (!known) return false;
      zeros = std::move(*known);
    } else {
      TW_TRY(zeros.values, Array::make(Int32, {}));
    }
    auto shifted = without_zero_points(numbers, zeros.values, zeros.axis);
    if (!shifted) return false;
    for (size_t i = factor.source.moves.size(); i-- > 0;)
      shifted = moved(std::move(*shifted), *factor.source.moves[i]);
    factor.largest = largest_magnitude(*shifted);
    factor.constant = std::move(*shifted);
    return true;
  }

  /// Adds the tensor of the factor to the graph and returns its name.
  Result<std::string> tensor_of(const Factor& factor) {
    if (!factor.constant) {
      TW_TRY(std::string tensor, centered(factor.source.dequantized, factor.zero));
      for (size_t i = factor.source.moves.size(); i-- > 0;) {
        TW_TRY(tensor, add_move(factor, *factor.source.moves[i], tensor));
      }
      return tensor;
    }
    const std::string name = names_.make(factor.source.dequantized.tensor + ".narrow");
    constants_[name] = make_constant(*factor.constant);
    return name;
  }

  /// Adds an operator that moves the 16-bit tensor `tensor` as `move`, a reshape or transpose of
  /// the factor, does. Returns the name of the result.
  Result<std::string> add_move(const Factor& factor, const Operator& move,
                               const std::string& tensor) {
    std::string name = names_.make(move.name() + ".centered");
    TW_TRY(Operator op, make_operator(move_of_type(move, Int16), {tensor}, {name}, constants_));
    behind_writer_of(factor.source.dequantized.tensor).push_back(std::move(op));
    return name;
  }

  std::vector<Operator>& behind_writer_of(const std::string& tensor) {
    const auto writer = uses_.writer(tensor);
    return centering_[writer ? *writer + 1 : 0];
  }

  /// Returns the name of t. Adds an operator that computes t from q if there is none yet.
  Result<std::string> centered(const Dequantized& d, int64_t zero) {
    const auto [at, is_new] = centered_.try_emplace({d.tensor, zero});
    if (!is_new) return at->second;
    at->second = names_.make(d.tensor + ".centered");
    Compute compute = d.compute;
    Stage& stage = compute.stages.front();
    stage.type = Int16;
    stage.body = dsl::cast(Int16, d.shifted);
    TW_TRY(Operator op, make_operator(compute, d.tensors, {at->second}, constants_));
    behind_writer_of(d.tensor).push_back(std::move(op));
    return at->second;
  }

  /// Binds the input that `factor` reads to the integers of `narrow`. Returns the factor of the new
  /// product: the element converted to i32, with the padding of `factor` if it has one.
  Result<Expr> bind(Spelled& spelled, const Expr& factor, const Factor& narrow) {
    const Read& read = *factor_read(factor);
    const size_t at = input_number(spelled.compute, read.tensor);
    spelled.compute.inputs[at].type = narrow.type();
    spelled.compute.inputs[at].constant = narrow.constant.has_value();
    TW_TRY(spelled.inputs[at], tensor_of(narrow));
    const Expr element = dsl::read(read.tensor, read.indices, narrow.type());
    const dsl::Select* guard = factor.as<dsl::Select>();
    return dsl::cast(
        Int32, guard ? dsl::select(guard->condition, element, dsl::constant_int(narrow.type(), 0))
                     : element);
  }

  /// Adds a constant with the products of the scales of x and y, and returns its name. At most one
  /// of x and y has several scales.
  Result<std::string> add_scales(const std::string& stem, const Factor& x, const Factor& y) {
    const std::vector<double>& many = x.scales.size() > 1 ? x.scales : y.scales;
    const double one = x.scales.size() > 1 ? y.scales.front() : x.scales.front();
    std::vector<int64_t> shape;
    if (many.size() > 1) shape.push_back(static_cast<int64_t>(many.size()));
    TW_TRY(Array array, Array::make(Float32, shape));
    for (size_t i = 0; i < many.size(); ++i)
      array.set_float(static_cast<int64_t>(i), one * many[i]);
    const std::string name = names_.make(stem + ".scale");
    constants_[name] = make_constant(std::move(array));
    return name;
  }

  Status rewrite(size_t i, Spelled spelled, const Factor& x, const Factor& y) {
    Compute& compute = spelled.compute;
    const Stage before = compute.stages.front();
    const Binary& product = *before.body.as<Binary>();
    TW_TRY(const Expr a, bind(spelled, product.a, x));
    TW_TRY(const Expr b, bind(spelled, product.b, y));
    TW_TRY(const std::string scale, add_scales(operators_[i]->name(), x, y));
    compute.inputs.push_back({"scale", Float32, constants_.at(scale).array->shape, true, ""});
    spelled.inputs.push_back(scale);
    compute.stages.front().name = "total";
    compute.stages.front().type = Int32;
    compute.stages.front().body = a * b;
    const std::optional<size_t> channel = x.channel ? x.channel : y.channel;
    const auto scaled = [&](const std::vector<Expr>& at) {
      const std::vector<Expr> index = channel ? std::vector{at[*channel]} : std::vector<Expr>{};
      return dsl::cast(Float32, dsl::read("total", at, Int32)) * dsl::read("scale", index, Float32);
    };
    for (size_t s = 1; s < compute.stages.size(); ++s)
      compute.stages[s].body = dsl::transform(compute.stages[s].body, [&](const Expr& e) {
        const Read* read = e.as<Read>();
        return read && read->tensor == before.name ? std::optional(scaled(read->indices))
                                                   : std::nullopt;
      });
    if (compute.outputs.front() == before.name)
      compute.stages.push_back({before.name,
                                Float32,
                                before.axes,
                                {},
                                dsl::Combine::None,
                                scaled({before.axes.begin(), before.axes.end()}),
                                before.letters});
    TW_TRY(operators_[i],
           make_operator(compute, spelled.inputs, operators_[i]->outputs, constants_));
    return {};
  }

  /// If operator i dequantizes a tensor q for which a tensor t exists, makes the operator read t
  /// instead of q.
  Status share_centered(size_t i) {
    const auto d = as_dequantized(*operators_[i]);
    const auto zero = d ? zero_of(*d) : std::nullopt;
    const auto known = zero ? centered_.find({d->tensor, *zero}) : centered_.end();
    if (known == centered_.end()) return {};
    Compute compute = d->compute;
    std::vector<std::string> tensors = d->tensors;
    const auto at = static_cast<size_t>(std::ranges::find(tensors, d->tensor) - tensors.begin());
    compute.inputs[at].type = Int16;
    tensors[at] = known->second;
    const std::vector<Expr> axes(d->axes().begin(), d->axes().end());
    const Expr element = dsl::cast(Int32, dsl::read(compute.inputs[at].name, axes, Int16));
    compute.stages.front().body = dsl::cast(Float32, element) * d->scale;
    TW_TRY(operators_[i], make_operator(compute, tensors, operators_[i]->outputs, constants_));
    return {};
  }

  const Graph& graph_;
  Uses uses_;
  FreshNames names_;
  Constants constants_;
  std::vector<std::optional<Operator>> operators_;
  /// Name of t, by the name and the zero point of q.
  std::map<std::pair<std::string, int64_t>, std::string> centered_;
  /// Operators that compute t. Element 0 has those that stand before all operators, and element i +
  /// 1 those that stand after operator i.
  std::vector<std::vector<Operator>> centering_;
};

}  // namespace

Result<Graph> narrow_products(const Graph& graph) { return ProductNarrower(graph).run(); }

}  // namespace tw::graph
