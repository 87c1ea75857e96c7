// SPDX-License-Identifier: Apache-2.0
//   s = batch_matmul(q, kt);  e = s * c;  p = softmax(e);  y = batch_matmul(p, v)
//
// becomes y = attention(q', k, v), where kt is the transpose of k, and q' = q * c * sqrt(d), which
// is q for c = 1 / sqrt(d). Reshapes may stand between the operators. Between the first product and
// softmax there may be any number of operators that scale and shift scores by constants. They are
// composed, and the result is compared with the map that attention applies to scores, with and
// without a causal mask. With any other mask the operators stay as they are.

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

bool is_product(const Operator& op) {
  return op.workload.op == "batch_matmul" && op.workload.attributes.at("relu") == 0 &&
         op.workload.dtype == Float32 && is_fast(op);
}

/// The map from scores s[i, j] to scale[i, j] * s[i, j] + shift[i, j]. Both arrays are row-major
/// over one matrix of scores.
struct ScoreMap {
  std::vector<double> scale, shift;
};

/// Returns the scale and the shift by constants that an elementwise operator applies to every
/// matrix of scores alike. nullopt if the operator does anything else.
Result<std::optional<ScoreMap>> score_map(const Operator& op, const std::string& scores,
                                          const std::map<std::string, Constant>& constants) {
  const std::optional<ScoreMap> none;
  auto found = as_scale_and_shift(op, scores, constants);
  if (!found || found->axes.size() < 2) return none;
  const std::vector<dsl::Axis> axes(found->axes.end() - 2, found->axes.end());
  const auto add = [&](const std::string& name, const dsl::Expr& value) {
    found->compute.stages.push_back({name, Float32, axes, {}, dsl::Combine::None, value, ""});
    found->compute.outputs.push_back(name);
  };
  add("scale", found->scale);
  add("shift", found->shift);
  // If the map differs between heads, it uses the axis of heads, which is no axis of this compute.
  // The compute then is not valid.
  if (!dsl::validate(found->compute)) return none;
  TW_TRY(const dsl::Arrays values, dsl::interpret(found->compute, found->arrays));
  const auto numbers = [&](const std::string& name) {
    std::vector<double> all;
    const dsl::Array& array = values.at(name);
    for (int64_t i = 0; i < array.size(); ++i) all.push_back(array.get_float(i));
    return all;
  };
  return std::optional(ScoreMap{numbers("scale"), numbers("shift")});
}

/// The composition of two maps: `map` is applied first, then `after`.
ScoreMap composed(const ScoreMap& after, ScoreMap map) {
  for (size_t i = 0; i < map.scale.size(); ++i) {
    map.scale[i] *= after.scale[i];
    map.shift[i] = after.shift[i] + after.scale[i] * map.shift[i];
  }
  return map;
}

// The largest relative difference between scales that count as equal.
constexpr double largest_difference = 1e-6;
// If this or less is added to a score, its exponential in softmax is 0, beside any score that a
// network computes.
constexpr double low_score = -1e9;

/// True if the map multiplies the scores of the keys that a query sees by `factor`, without a
/// shift, and adds low_score or less to all other scores. A query sees all keys, or those that the
/// causal mask leaves if `is_causal`.
bool is_attention_map(const ScoreMap& map, double factor, const dsl::Attributes& attributes,
                      bool is_causal) {
  const int64_t m = attributes.at("m"), n = attributes.at("n");
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<size_t>(i * n + j);
      const bool is_seen = !is_causal || j <= i + n - m;
      const bool is_kept =
          map.shift[at] == 0 && std::abs(map.scale[at] - factor) <= largest_difference * factor;
      if (is_seen ? !is_kept : !(map.shift[at] <= low_score && std::isfinite(map.scale[at])))
        return false;
    }
  return true;
}

/// The operands and attributes of an operator `attention` that replaces a match.
struct Attention {
  std::string queries, keys_transposed, values;
  double query_factor = 1;  ///< the queries are multiplied by it before they are an operand
  dsl::Attributes attributes;
};

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph) : graph_(graph), uses_(graph) {}

  /// Returns the attention whose last product is operator `last`; nullopt if there is none.
  Result<std::optional<Attention>> find(size_t last) const {
    const std::optional<Attention> none;
    const Operator& second = graph_.operators[last];
    if (!is_product(second) || second.inputs[0] == second.inputs[1]) return none;
    const auto softmax = before(last, second.inputs[0]);
    if (!softmax || !is_softmax_of_rows(graph_.operators[*softmax], second)) return none;
    size_t reader = *softmax;
    std::optional<ScoreMap> map;
    for (std::string tensor = graph_.operators[reader].inputs[0];;) {
      const auto writer = before(reader, tensor);
      if (!writer) return none;
      const Operator& op = graph_.operators[*writer];
      if (is_product(op)) return joined(op, map, second);
      const auto scores = is_elementwise(op) ? only_variable(op) : std::nullopt;
      if (!scores) return none;
      TW_TRY(auto former, score_map(op, *scores, graph_.constants));
      if (!former || (map && map->scale.size() != former->scale.size())) return none;
      map = map ? composed(*map, *std::move(former)) : *std::move(former);
      reader = *writer;
      tensor = *scores;
    }
  }

 private:
  /// Returns the operator that writes the tensor. If that is a reshape, returns the writer of its
  /// input instead, and so on. nullopt unless each of these tensors has one reader only.
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

  /// Returns the only input that is no constant. nullopt if there are none or several.
  std::optional<std::string> only_variable(const Operator& op) const {
    std::optional<std::string> found;
    for (const std::string& tensor : op.inputs) {
      if (graph_.constants.contains(tensor)) continue;
      if (found) return std::nullopt;
      found = tensor;
    }
    return found;
  }

  /// Returns the attention that consists of two products and the map between them; nullopt if the
  /// products do not agree, or if attention does not apply such a map. `map` is nullopt if softmax
  /// reads the scores of the first product.
  static std::optional<Attention> joined(const Operator& first, const std::optional<ScoreMap>& map,
                                         const Operator& second) {
    const dsl::Attributes& a = first.workload.attributes;
    const dsl::Attributes& b = second.workload.attributes;
    const int64_t m = a.at("m"), n = a.at("n"), d = a.at("k");
    const bool agree =
        a.at("b") == b.at("b") && m == b.at("m") && n == b.at("k") && b.at("n") == d && n > 0;
    if (!agree || (map && map->scale.size() != static_cast<size_t>(m * n))) return std::nullopt;
    // Each query sees the first key, so that its score has the factor.
    const double factor = map && m > 0 ? map->scale.front() : 1;
    const double query_factor = factor * std::sqrt(static_cast<double>(d));
    if (!(factor > 0) || !std::isfinite(query_factor)) return std::nullopt;
    for (const bool is_causal : {false, true}) {
      dsl::Attributes attributes = {
          {"b", a.at("b")}, {"m", m}, {"n", n}, {"d", d}, {"causal", is_causal}};
      const bool is_mapped_so =
          map ? is_attention_map(*map, factor, attributes, is_causal) : !is_causal;
      if ((!is_causal || m <= n) && is_mapped_so)
        return Attention{first.inputs[0], first.inputs[1], second.inputs[1], query_factor,
                         std::move(attributes)};
    }
    return std::nullopt;
  }

  const Graph& graph_;
  Uses uses_;
};

/// Adds operators that compute the queries and keys of an attention from the tensors that the
/// products read.
class OperandMaker {
 public:
  OperandMaker(const Graph& graph, Graph& result)
      : graph_(graph), uses_(graph), names_(graph), types_(tensor_types(graph)), result_(result) {}

  /// Returns the name of the queries times the factor.
  Result<std::string> scaled(const std::string& queries, double factor) {
    if (std::abs(factor - 1) <= largest_difference) return queries;
    const std::vector<dsl::Axis> axes = axes_of(types_.at(queries).shape);
    const dsl::Tensor in = dsl::input("in", Float32, axes);
    const std::vector<dsl::Expr> at(axes.begin(), axes.end());
    const dsl::Expr product = in.read_at(at) * dsl::constant(Float32, factor);
    return add(dsl::compute("out", axes, product), queries, queries + ".scaled");
  }

  /// `transposed` has one key in each column. Returns the tensor with one key in each row, from
  /// which a transpose made `transposed`. nullopt if no transpose wrote `transposed`: the keys
  /// would then have to be transposed by a copy.
  Result<std::optional<std::string>> keys_of(const std::string& transposed) {
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
    std::vector<dsl::Axis> axes = axes_of(types_.at(tensor).shape);
    const dsl::Tensor in = dsl::input("in", Float32, axes);
    const std::vector<dsl::Expr> at(axes.begin(), axes.end());
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return add(dsl::compute("out", axes, in.read_at(at)), tensor, stem);
  }

  static std::vector<dsl::Axis> axes_of(const std::vector<int64_t>& shape) {
    std::vector<dsl::Axis> axes;
    for (const int64_t extent : shape) axes.emplace_back(fmt::format("d{}", axes.size()), extent);
    return axes;
  }

  /// Adds an operator that computes the stage `out`, which must be named "out", from the tensor
  /// `from`. Returns the name of its result.
  Result<std::string> add(const dsl::Tensor& out, const std::string& from,
                          const std::string& stem) {
    TW_TRY(const dsl::Compute compute, dsl::build(out));
    const std::string name = names_.make(stem);
    types_[name] = {Float32, compute.shape_of("out")};
    TW_TRY(Operator op, make_operator(compute, {from}, {name}, graph_.constants));
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
  OperandMaker operands(graph, result);
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    std::optional<std::string> key;
    TW_TRY(const auto attention, finder.find(i));
    if (attention) {
      TW_TRY(key, operands.keys_of(attention->keys_transposed));
    }
    if (!key) {
      result.operators.push_back(op);
      continue;
    }
    TW_TRY(dsl::Workload workload, dsl::make_workload("attention", attention->attributes));
    TW_TRY(const std::string queries, operands.scaled(attention->queries, attention->query_factor));
    result.operators.push_back(
        {std::move(workload), {queries, *key, attention->values}, op.outputs});
  }
  // Joins the transposes of keys with the transposes that they undo.
  return remove_copies(result);
}

}  // namespace tw::graph
