// SPDX-License-Identifier: Apache-2.0
// Folds a scale and a shift into a product. The product y sums x * w for a constant w, and a later
// operator computes scale[c] * y + shift[c], where c is the channel of an element of the result, an
// index along one or more axes. The channels must also index w:
//
//   y = conv2d(x, w)                        y = conv2d(x, w.scaled, shift) bias=1
//   z = (y - mean[c]) / deviation[c]   ->
//
// Scale and shift are found in the expression, not by the name of the operator. So batch
// normalization, a bias, and Mul followed by Add are all handled. Scale and shift are evaluated to
// about twice the digits of f32, and each weight is rounded once.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/passes/access.h"
#include "graph/passes/affine.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Axis;
using dsl::Binary;
using dsl::BinaryOp;
using dsl::Compute;
using dsl::Expr;
using dsl::Read;
using dsl::Stage;

// ---- products -----------------------------------------------------------------------------------

/// A product sum(x * w) + bias. Its channel axes are axes of the sum that are also indices of w.
struct Product {
  Compute compute;                   ///< canonical; its first stage is the sum
  std::vector<std::string> tensors;  ///< the tensor of the graph for each input of the compute
  size_t weight = 0;                 ///< index of the input w
  std::optional<size_t> bias;        ///< index of the input with the bias; nullopt without a bias
  std::vector<size_t> channels;      ///< the channel axes, as indices of axes of the sum, in order
  /// For each channel axis, the dimension of w that it indexes.
  std::vector<size_t> weight_dimensions;
  /// For each dimension of the bias, its position in `channels`.
  std::vector<size_t> bias_channels;
};

class ProductFinder {
 public:
  ProductFinder(const Operator& op, const std::map<std::string, Constant>& constants)
      : op_(op), constants_(constants) {}

  std::optional<Product> find() {
    if (!is_fast(op_) || op_.outputs.size() != 1 || !is_f32()) return std::nullopt;
    Spelled spelled = in_canonical_names(op_);
    product_.compute = std::move(spelled.compute);
    product_.tensors = std::move(spelled.inputs);
    const std::vector<Stage>& stages = product_.compute.stages;
    if (stages.empty() || stages.size() > 2 || stages[0].combine != dsl::Combine::Sum ||
        stages[0].scan)
      return std::nullopt;
    if (!find_weight() || (stages.size() == 2 && !find_bias())) return std::nullopt;
    return std::move(product_);
  }

 private:
  bool is_f32() const {
    const Compute& compute = op_.workload.compute;
    return std::ranges::all_of(compute.inputs, [](auto& i) { return i.type == Float32; }) &&
           std::ranges::all_of(compute.stages, [](auto& s) { return s.type == Float32; });
  }

  bool find_weight() {
    const Stage& sum = product_.compute.stages[0];
    for (size_t i = 0; i < product_.tensors.size(); ++i) {
      const std::string& name = product_.compute.inputs[i].name;
      const Read* read = only_read(sum.body, name);
      if (!read || !constants_.contains(product_.tensors[i])) continue;
      const auto split = split_affine(sum.body, name);
      if (!split || !split->scale.defined() || !is_zero(split->shift)) continue;
      product_.weight = i;
      find_channels(*read);
      return !product_.channels.empty();
    }
    return false;
  }

  void find_channels(const Read& read) {
    const std::vector<Axis>& axes = product_.compute.stages[0].axes;
    for (size_t a = 0; a < axes.size(); ++a) {
      const auto is_axis = [&](const Expr& index) {
        const dsl::Var* v = index.as<dsl::Var>();
        return v && v->name == axes[a].name;
      };
      const auto at = std::ranges::find_if(read.indices, is_axis);
      if (at == read.indices.end()) continue;
      product_.channels.push_back(a);
      product_.weight_dimensions.push_back(static_cast<size_t>(at - read.indices.begin()));
    }
  }

  /// Finds the bias; returns false unless the second stage only adds one constant number for each
  /// channel to the sum.
  bool find_bias() {
    const Stage& sum = product_.compute.stages[0];
    const Stage& last = product_.compute.stages[1];
    const Binary* b = last.body.as<Binary>();
    if (last.combine != dsl::Combine::None || !b || b->op != BinaryOp::Add) return false;
    for (const auto& [y, z] : {std::pair(b->a, b->b), std::pair(b->b, b->a)}) {
      const Read* read = y.as<Read>();
      const Read* bias = z.as<Read>();
      if (!read || !bias || read->tensor != sum.name || bias->tensor == sum.name) continue;
      if (count_pointwise_reads(product_.compute, last, sum.name) != 1) return false;
      return bind_bias(*bias, last.axes);
    }
    return false;
  }

  bool bind_bias(const Read& read, const std::vector<Axis>& axes) {
    const size_t input = input_number(product_.compute, read.tensor);
    if (!constants_.contains(product_.tensors[input])) return false;
    for (const Expr& index : read.indices) {
      const dsl::Var* v = index.as<dsl::Var>();
      const auto is_it = [&](size_t axis) { return v && axes[axis].name == v->name; };
      const auto channel = std::ranges::find_if(product_.channels, is_it);
      if (channel == product_.channels.end()) return false;
      product_.bias_channels.push_back(static_cast<size_t>(channel - product_.channels.begin()));
    }
    product_.bias = input;
    return true;
  }

  const Operator& op_;
  const std::map<std::string, Constant>& constants_;
  Product product_;
};

// ---- factors ------------------------------------------------------------------------------------

/// The map from y to scale[c] * y + shift[c]. Both arrays are row-major over the channel axes of a
/// product.
struct Factors {
  std::vector<double> scale, shift;

  bool is_finite() const {
    const auto finite = [](double value) { return std::isfinite(value); };
    return std::ranges::all_of(scale, finite) && std::ranges::all_of(shift, finite);
  }
  static bool is_all(const std::vector<double>& values, double value) {
    return std::ranges::all_of(values, [&](double v) { return v == value; });
  }
};

/// Adds two output stages whose sum is the value of the expression to about twice the digits of
/// f32: `name` is the value rounded to f32, and NAME_rest is the value minus `name`.
void add_in_two_parts(Compute& compute, const std::string& name, const Expr& value,
                      const std::vector<Axis>& axes) {
  const std::vector<Expr> at(axes.begin(), axes.end());
  const std::string rest = name + "_rest";
  const Expr difference = value - dsl::read(name, at, Float32);
  compute.stages.push_back({name, Float32, axes, {}, dsl::Combine::None, value, ""});
  compute.stages.push_back({rest, Float32, axes, {}, dsl::Combine::None, difference, ""});
  compute.outputs.insert(compute.outputs.end(), {name, rest});
}

std::vector<double> sum_of_parts(const dsl::Arrays& values, const std::string& name) {
  const dsl::Array& first = values.at(name);
  const dsl::Array& rest = values.at(name + "_rest");
  std::vector<double> sums;
  for (int64_t i = 0; i < first.size(); ++i) sums.push_back(first.get_float(i) + rest.get_float(i));
  return sums;
}

/// Returns the scale and the shift for each channel of the product that the operator applies to the
/// tensor. nullopt if the operator does anything else, or if a scale or shift is not finite.
Result<std::optional<Factors>> factors_of(const Operator& op, const std::string& tensor,
                                          const Product& product,
                                          const std::map<std::string, Constant>& constants) {
  const std::optional<Factors> none;
  auto found = as_scale_and_shift(op, tensor, constants);
  if (!found) return none;
  std::vector<Axis> axes;
  for (const size_t channel : product.channels) axes.push_back(found->axes[channel]);
  add_in_two_parts(found->compute, "scale", found->scale, axes);
  add_in_two_parts(found->compute, "shift", found->shift, axes);
  // If a factor depends on another axis than the channels, its variable is no axis of this compute,
  // which then is not valid.
  if (!dsl::validate(found->compute)) return none;
  TW_TRY(const dsl::Arrays values, dsl::interpret(found->compute, found->arrays));
  Factors factors{sum_of_parts(values, "scale"), sum_of_parts(values, "shift")};
  if (!factors.is_finite()) return none;
  return std::optional(std::move(factors));
}

// ---- new constants ------------------------------------------------------------------------------

/// Maps the position of an element in a row-major array to the index of its channel. `dimensions`
/// are the dimensions of the array that are indexed by channels. The channels are counted row-major
/// over these dimensions. With shape [2, 3, 4] and dimensions {0, 2}, the element [1, 2, 3] has the
/// channel 1 * 4 + 3 = 7.
class ChannelOf {
 public:
  ChannelOf(const std::vector<int64_t>& shape, const std::vector<size_t>& dimensions) {
    const std::vector<int64_t> strides = strides_of(shape);
    for (const size_t dimension : dimensions)
      parts_.push_back({strides[dimension], shape[dimension]});
  }
  size_t operator()(int64_t position) const {
    int64_t channel = 0;
    for (const Part& part : parts_)
      channel = channel * part.extent + position / part.stride % part.extent;
    return static_cast<size_t>(channel);
  }

 private:
  struct Part {
    int64_t stride, extent;
  };
  std::vector<Part> parts_;
};

class ScaleFolder {
 public:
  explicit ScaleFolder(const Graph& graph)
      : graph_(graph), uses_(graph), names_(graph), operators_(as_list(graph)) {
    constants_ = graph.constants;
  }

  Result<Graph> run() {
    for (size_t i = 0; i < operators_.size(); ++i) TW_RETURN_IF_ERROR(visit(i));
    Graph result = {graph_.inputs, std::move(constants_), remaining(std::move(operators_)),
                    graph_.outputs};
    return drop_dead(result);
  }

 private:
  Status visit(size_t i) {
    const Operator op = *operators_[i];
    if (!is_elementwise(op)) return {};
    for (const std::string& tensor : op.inputs) {
      const auto writer = uses_.writer(tensor);
      if (!writer || !uses_.is_only_reader(i, tensor)) continue;
      const auto product = ProductFinder(*operators_[*writer], constants_).find();
      if (!product) continue;
      TW_TRY(const auto factors, factors_of(op, tensor, *product, constants_));
      if (!factors) continue;
      const dsl::Workload hint = operators_[*writer]->workload;
      TW_TRY(const auto folded, fold(*product, *factors, op, hint));
      if (!folded) continue;
      operators_[i] = *folded;
      operators_[*writer].reset();
      return {};
    }
    return {};
  }

  /// Returns the product with scaled weights and with a scaled and shifted bias. nullopt if a
  /// weight or an element of the bias would exceed the range of f32.
  Result<std::optional<Operator>> fold(Product product, const Factors& factors, const Operator& op,
                                       const dsl::Workload& hint) {
    const std::optional<Operator> none;
    const dsl::Array& weights = *constants_.at(product.tensors[product.weight]).array;
    std::vector<int64_t> shape;
    for (const size_t channel : product.channels)
      shape.push_back(product.compute.stages[0].axes[channel].extent);
    TW_TRY(dsl::Array bias, dsl::Array::make(Float32, shape));
    if (!fill_bias(bias, product, factors)) return none;
    if (!Factors::is_all(factors.scale, 1)) {
      auto scaled = scaled_weights(weights, product, factors);
      if (!scaled) return none;
      product.tensors[product.weight] = add_constant(op.name() + ".weight", std::move(*scaled));
    }
    if (product.bias || !Factors::is_all(factors.shift, 0))
      set_bias(product, add_constant(op.name() + ".bias", std::move(bias)), shape);
    TW_TRY(Operator folded,
           make_operator(product.compute, product.tensors, op.outputs, constants_, &hint));
    return std::optional(std::move(folded));
  }

  std::string add_constant(const std::string& stem, dsl::Array array) {
    std::string name = names_.make(stem);
    constants_[name] = make_constant(std::move(array));
    return name;
  }

  static std::optional<dsl::Array> scaled_weights(const dsl::Array& weights, const Product& product,
                                                  const Factors& factors) {
    const ChannelOf channel_of(weights.shape, product.weight_dimensions);
    dsl::Array result = weights;
    for (int64_t i = 0; i < weights.size(); ++i) {
      const double before = weights.get_float(i);
      result.set_float(i, before * factors.scale[channel_of(i)]);
      if (std::isfinite(before) && !std::isfinite(result.get_float(i))) return std::nullopt;
    }
    return result;
  }

  bool fill_bias(dsl::Array& bias, const Product& product, const Factors& factors) const {
    const dsl::Array* former =
        product.bias ? constants_.at(product.tensors[*product.bias]).array.get() : nullptr;
    const std::vector<int64_t> strides = strides_of(bias.shape);
    for (int64_t c = 0; c < bias.size(); ++c) {
      const auto channel = static_cast<size_t>(c);
      double value = factors.shift[channel];
      if (former) {
        std::vector<int64_t> at;
        for (const size_t i : product.bias_channels) at.push_back(c / strides[i] % bias.shape[i]);
        value += former->get(at) * factors.scale[channel];
      }
      bias.set_float(c, value);
      if (!std::isfinite(bias.get_float(c))) return false;
    }
    return true;
  }

  /// Replaces the compute by sum(x * w) + bias[channels], where the bias is `tensor`. A bias that
  /// the product had before is removed.
  static void set_bias(Product& product, const std::string& tensor,
                       const std::vector<int64_t>& shape) {
    Compute& compute = product.compute;
    compute.stages.resize(1);
    Stage& sum = compute.stages.front();
    if (product.bias) {
      const auto at = static_cast<std::ptrdiff_t>(*product.bias);
      compute.inputs.erase(compute.inputs.begin() + at);
      product.tensors.erase(product.tensors.begin() + at);
    }
    sum.name = "total";
    const std::vector<Expr> at(sum.axes.begin(), sum.axes.end());
    std::vector<Expr> channels;
    for (const size_t channel : product.channels) channels.push_back(at[channel]);
    const Expr value = dsl::read(sum.name, at, Float32) + dsl::read("bias", channels, Float32);
    compute.inputs.push_back({"bias", Float32, shape, true, ""});
    product.tensors.push_back(tensor);
    compute.stages.push_back(
        {"out", Float32, sum.axes, {}, dsl::Combine::None, value, sum.letters});
    compute.outputs = {"out"};
  }

  const Graph& graph_;
  Uses uses_;
  FreshNames names_;
  std::map<std::string, Constant> constants_;
  std::vector<std::optional<Operator>> operators_;
};

}  // namespace

Result<Graph> fold_scale(const Graph& graph) { return ScaleFolder(graph).run(); }

}  // namespace tw::graph
