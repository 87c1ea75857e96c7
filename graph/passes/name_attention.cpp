// SPDX-License-Identifier: Apache-2.0
//   s = batch_matmul(q, kt);  e = s * (1 / sqrt(d));  p = softmax(e);  y = batch_matmul(p, v)
//
// becomes y = attention(q, k, v), k the transpose that kt was made from. Reshapes may stand between
// the operators. Where scores are masked, operators are left as they are.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

bool is_product(const Operator& op) {
  return op.workload.op == "batch_matmul" && op.workload.attributes.at("relu") == 0 &&
         op.workload.dtype == Float32 && is_fast(op);
}

/// The number that the elementwise operator multiplies its only input by.
std::optional<double> factor_of(const Operator& op) {
  const dsl::Stage* stage = op.inputs.size() == 1 ? only_stage(op) : nullptr;
  const dsl::Binary* b = stage ? stage->body.as<dsl::Binary>() : nullptr;
  if (!b || !is_elementwise(op)) return std::nullopt;
  const bool is_division = b->op == dsl::BinaryOp::Div;
  if (b->op != dsl::BinaryOp::Mul && !is_division) return std::nullopt;
  const auto is_input = [&](const dsl::Expr& e) { return e.as<dsl::Read>() != nullptr; };
  const bool is_first = is_input(b->a);
  const dsl::Const* literal = (is_first ? b->b : b->a).as<dsl::Const>();
  if (!literal || !is_input(is_first ? b->a : b->b) || (is_division && !is_first) ||
      !count_pointwise_reads(op.workload.compute, *stage, op.workload.compute.inputs[0].name))
    return std::nullopt;
  return is_division ? 1 / literal->float_value : literal->float_value;
}

/// What becomes one operator.
struct Attention {
  std::string queries, keys_transposed, values;
  dsl::Attributes attributes;
};

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph) : graph_(graph), uses_(graph) {}

  /// The attention whose last product is this operator.
  std::optional<Attention> find(size_t last) const {
    const Operator& second = graph_.operators[last];
    if (!is_product(second) || second.inputs[0] == second.inputs[1]) return std::nullopt;
    const auto softmax = before(last, second.inputs[0]);
    if (!softmax || !is_softmax_of_rows(graph_.operators[*softmax], second)) return std::nullopt;
    const auto scale = before(*softmax, graph_.operators[*softmax].inputs[0]);
    const auto factor = scale ? factor_of(graph_.operators[*scale]) : std::nullopt;
    if (!factor) return std::nullopt;
    const auto product = before(*scale, graph_.operators[*scale].inputs[0]);
    if (!product || !is_product(graph_.operators[*product])) return std::nullopt;
    return joined(graph_.operators[*product], *factor, second);
  }

 private:
  /// The operator that computes what `reader` alone reads, reshapes aside.
  std::optional<size_t> before(size_t reader, const std::string& tensor) const {
    std::string at = tensor;
    for (;;) {
      const auto writer = uses_.writer(at);
      if (!writer || !uses_.is_only_reader(reader, at)) return std::nullopt;
      if (!is_reshape(graph_.operators[*writer])) return writer;
      reader = *writer;
      at = graph_.operators[*writer].inputs[0];
    }
  }

  static bool is_softmax_of_rows(const Operator& op, const Operator& product) {
    return op.workload.op == "softmax" && is_fast(op) &&
           op.workload.attributes.at("cols") == product.workload.attributes.at("k");
  }

  static std::optional<Attention> joined(const Operator& first, double factor,
                                         const Operator& second) {
    const dsl::Attributes& a = first.workload.attributes;
    const dsl::Attributes& b = second.workload.attributes;
    const int64_t d = a.at("k");
    const double expected = 1 / std::sqrt(static_cast<double>(d));
    const bool agree = a.at("b") == b.at("b") && a.at("m") == b.at("m") && a.at("n") == b.at("k") &&
                       b.at("n") == d && a.at("n") > 0;
    if (!agree || std::abs(factor - expected) > 1e-6 * expected) return std::nullopt;
    return Attention{first.inputs[0],
                     first.inputs[1],
                     second.inputs[1],
                     {{"b", a.at("b")}, {"m", a.at("m")}, {"n", a.at("n")}, {"d", d}}};
  }

  const Graph& graph_;
  Uses uses_;
};

/// Adds operators that undo the transpose of the last two dimensions of a tensor.
class KeyMaker {
 public:
  KeyMaker(const Graph& graph, Graph& result)
      : graph_(graph), uses_(graph), names_(graph), types_(tensor_types(graph)), result_(result) {}

  /// The keys, one a row; nullopt where no transpose made the tensor, so that undoing it would cost
  /// a copy.
  Result<std::optional<std::string>> make(const std::string& transposed) {
    const std::optional<std::string> none;
    auto writer = uses_.writer(transposed);
    if (!writer) return none;
    std::string source = transposed;
    if (is_reshape(graph_.operators[*writer])) {
      source = graph_.operators[*writer].inputs[0];
      writer = uses_.writer(source);
    }
    if (!writer || !as_transpose(graph_.operators[*writer]) ||
        !ends_alike(types_.at(source).shape, types_.at(transposed).shape))
      return none;
    TW_TRY(const std::string swapped, add_swap(source, transposed + ".keys"));
    if (source == transposed) return std::optional(swapped);
    std::vector<int64_t> shape = types_.at(transposed).shape;
    std::swap(shape[1], shape[2]);
    const std::string name = names_.make(transposed + ".rows");
    TW_TRY(const dsl::Compute compute, reshape(Float32, types_.at(swapped).shape, shape));
    TW_TRY(Operator op, make_operator(compute, {swapped}, {name}, graph_.constants));
    result_.operators.push_back(std::move(op));
    return std::optional(name);
  }

 private:
  static bool ends_alike(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    return a.size() >= 2 && b.size() == 3 && std::equal(a.end() - 2, a.end(), b.end() - 2);
  }

  Result<std::string> add_swap(const std::string& tensor, const std::string& stem) {
    std::vector<int64_t> shape = types_.at(tensor).shape;
    std::vector<dsl::Axis> axes;
    for (const int64_t extent : shape) axes.emplace_back(fmt::format("d{}", axes.size()), extent);
    const std::vector<dsl::Axis> extents = axes;
    const std::vector<dsl::Expr> at(axes.begin(), axes.end());
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    std::swap(shape[axes.size() - 1], shape[axes.size() - 2]);
    const dsl::Tensor in = dsl::input("in", Float32, extents);
    TW_TRY(const dsl::Compute compute, dsl::build(dsl::compute("out", axes, in.read_at(at))));
    const std::string name = names_.make(stem);
    types_[name] = {Float32, shape};
    TW_TRY(Operator op, make_operator(compute, {tensor}, {name}, graph_.constants));
    result_.operators.push_back(std::move(op));
    return name;
  }

  const Graph& graph_;
  Uses uses_;
  FreshNames names_;
  std::map<std::string, TensorType> types_;
  Graph& result_;
};

}  // namespace

Result<Graph> name_attention(const Graph& graph) {
  const AttentionFinder finder(graph);
  Graph result = {graph.inputs, graph.constants, {}, graph.outputs};
  KeyMaker keys(graph, result);
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    std::optional<std::string> key;
    const auto attention = finder.find(i);
    if (attention) {
      TW_TRY(key, keys.make(attention->keys_transposed));
    }
    if (!key) {
      result.operators.push_back(op);
      continue;
    }
    TW_TRY(dsl::Workload workload, dsl::make_workload("attention", attention->attributes));
    result.operators.push_back(
        {std::move(workload), {attention->queries, *key, attention->values}, op.outputs});
  }
  // The transposes of keys meet those that they undo.
  return remove_copies(result);
}

}  // namespace tw::graph
