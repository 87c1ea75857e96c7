// SPDX-License-Identifier: Apache-2.0
// Products of matrices. A product with one matrix on the right becomes `dense`, and a product of
// equal batches becomes `batch_matmul`, both on reshaped arrays; these reshapes move nothing. Other
// products become expressions.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/quantization.h"

namespace tw::graph::onnx {
namespace {

/// The shapes of a product in numpy's sense: a [..., m, k] times b [..., k, n]. A tensor of one
/// dimension is a row on the left and a column on the right.
struct Product {
  Shape a, b;   ///< shapes of the factors, with at least two dimensions
  Shape batch;  ///< shape to which the dimensions before the last two broadcast
  int64_t m, k, n;
  Shape result;  ///< shape of the result, without the dimension that was added to a row or column
};

Result<Product> product_of(const Node& node, Shape a, Shape b) {
  if (a.empty() || b.empty()) return node.invalid("a factor is a single number");
  const bool is_row = a.size() == 1, is_column = b.size() == 1;
  if (is_row) a.insert(a.begin(), 1);
  if (is_column) b.push_back(1);
  const Shape a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  TW_TRY(Shape batch, broadcast(node, {a_batch, b_batch}));
  Product p = {a, b, batch, a[a.size() - 2], a.back(), b.back(), batch};
  if (b[b.size() - 2] != p.k)
    return node.invalid(fmt::format("inner extents {} and {} differ", p.k, b[b.size() - 2]));
  if (!is_row) p.result.push_back(p.m);
  if (!is_column) p.result.push_back(p.n);
  return p;
}

/// Axes of the product with both matrix dimensions, and the indices of its factors.
struct ProductLoops {
  Shape shape;
  std::vector<Axis> out;
  Axis k;

  explicit ProductLoops(const Product& p) : shape(p.batch), k("k", p.k) {
    shape.push_back(p.m);
    shape.push_back(p.n);
    out = axes_of(shape);
  }
  Expr row() const { return out[out.size() - 2]; }
  Expr column() const { return out[out.size() - 1]; }
  std::vector<Expr> a() const { return with(row(), k); }
  std::vector<Expr> b() const { return with(k, column()); }

 private:
  std::vector<Expr> with(const Expr& first, const Expr& second) const {
    std::vector<Expr> indices(out.begin(), out.end() - 2);
    indices.push_back(first);
    indices.push_back(second);
    return indices;
  }
};

/// True if each of the first `last` dimensions has extent 1.
bool is_single(const Shape& shape, size_t last) {
  return std::all_of(shape.begin(), shape.begin() + static_cast<int64_t>(last),
                     [](int64_t extent) { return extent == 1; });
}

/// The dimensions before the last two.
Shape batch_of(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

Status add_dense(Builder& builder, const Value& a, const Value& b, const Product& p,
                 const std::string& output) {
  const int64_t rows = extent_of(p.batch) * p.m;
  TW_TRY(const Value left, reshaped(builder, a, {rows, p.k}));
  TW_TRY(const Value right, reshaped(builder, b, {p.k, p.n}));
  const bool is_plain = p.result == Shape{rows, p.n};
  const std::string product = is_plain ? output : builder.fresh_name(output);
  TW_RETURN_IF_ERROR(add_named(builder, "dense", {{"m", rows}, {"n", p.n}, {"k", p.k}},
                               a.type.dtype, {left, right}, product));
  return is_plain ? Status{} : add_reshape(builder, builder.value(product), p.result, output);
}

Status add_batch_matmul(Builder& builder, const Value& a, const Value& b, const Product& p,
                        const std::string& output) {
  const int64_t batch = extent_of(p.batch);
  TW_TRY(const Value left, reshaped(builder, a, {batch, p.m, p.k}));
  TW_TRY(const Value right, reshaped(builder, b, {batch, p.k, p.n}));
  const bool is_plain = p.result == Shape{batch, p.m, p.n};
  const std::string product = is_plain ? output : builder.fresh_name(output);
  TW_RETURN_IF_ERROR(add_named(builder, "batch_matmul",
                               {{"b", batch}, {"m", p.m}, {"n", p.n}, {"k", p.k}}, a.type.dtype,
                               {left, right}, product));
  return is_plain ? Status{} : add_reshape(builder, builder.value(product), p.result, output);
}

/// Adds the stage of a product as `output`, in the shape of the result.
Status finish_product(Declaration& declaration, Builder& builder, const Product& p,
                      const Tensor& stage, const std::string& output) {
  const bool is_plain = p.result == ProductLoops(p).shape;
  const std::string name = is_plain ? output : builder.fresh_name(output);
  TW_RETURN_IF_ERROR(declaration.add(stage, name));
  return is_plain ? Status{} : add_reshape(builder, builder.value(name), p.result, output);
}

/// Adds a product of factors of any shapes, as an expression.
Status add_product(Builder& builder, const Value& a, const Value& b, const Product& p,
                   const std::string& output) {
  TW_TRY(const Value left, reshaped(builder, a, p.a));
  TW_TRY(const Value right, reshaped(builder, b, p.b));
  const ProductLoops loops(p);
  Declaration declaration(builder);
  const Expr x = wide(broadcast_read(declaration.read(left), p.a, loops.a()));
  const Expr y = wide(broadcast_read(declaration.read(right), p.b, loops.b()));
  const Tensor product = reduced(loops.out, sum(loops.k, x * y), a.type.dtype);
  return finish_product(declaration, builder, p, product, output);
}

}  // namespace

Status convert_matmul(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1}));
  const Value &a = node.input(0), &b = node.input(1);
  const DType type = a.type.dtype;
  if (!is_float(type) && type != Int32 && type != Int64)
    return node.unsupported(fmt::format("the data type {}", to_string(type)));
  TW_TRY(const Product p, product_of(node, a.type.shape, b.type.shape));
  if (p.k > 0 && is_single(p.b, p.b.size() - 2))
    return add_dense(builder, a, b, p, node.outputs[0]);
  if (p.k > 0 && batch_of(p.a) == batch_of(p.b))
    return add_batch_matmul(builder, a, b, p, node.outputs[0]);
  return add_product(builder, a, b, p, node.outputs[0]);
}

// ---- Gemm -----------------------------------------------------------------------------------

namespace {

struct Gemm {
  Value a, b;
  std::optional<Value> c;
  bool transposes_a = false, transposes_b = false;
  double alpha = 1, beta = 1;
  int64_t m = 0, n = 0, k = 0;

  bool is_dense() const { return !transposes_a && !transposes_b && k > 0; }
  /// True if `c` is a bias of one number for each column, and alpha and beta are 1.
  bool has_plain_bias() const {
    return c && alpha == 1 && beta == 1 && extent_of(c->type.shape) == n &&
           !c->type.shape.empty() && c->type.shape.back() == n;
  }
};

Result<Gemm> gemm_of(const Node& node, Builder& builder) {
  Gemm g = {node.input(0), node.input(1), {}, false, false, 1, 1, 0, 0, 0};
  if (node.has_input(2)) g.c = node.input(2);
  if (g.a.rank() != 2 || g.b.rank() != 2) return node.invalid("expected two matrices");
  TW_TRY(const int64_t transposes_a, node.integer("transA", 0));
  TW_TRY(const int64_t transposes_b, node.integer("transB", 0));
  TW_TRY(g.alpha, node.number("alpha", 1));
  TW_TRY(g.beta, node.number("beta", 1));
  g.transposes_a = transposes_a != 0;
  g.transposes_b = transposes_b != 0;
  g.m = g.a.type.shape[g.transposes_a ? 1 : 0];
  g.k = g.a.type.shape[g.transposes_a ? 0 : 1];
  g.n = g.b.type.shape[g.transposes_b ? 0 : 1];
  if (g.b.type.shape[g.transposes_b ? 1 : 0] != g.k)
    return node.invalid("inner extents of the matrices differ");
  if (g.transposes_a && g.a.constant) {
    TW_TRY(g.a, transposed(builder, g.a, {1, 0}));
    g.transposes_a = false;
  }
  if (g.transposes_b && g.b.constant) {
    TW_TRY(g.b, transposed(builder, g.b, {1, 0}));
    g.transposes_b = false;
  }
  return g;
}

Status add_gemm_product(Builder& builder, const Gemm& g, const std::string& output) {
  if (g.is_dense())
    return add_named(builder, "dense", {{"m", g.m}, {"n", g.n}, {"k", g.k}}, g.a.type.dtype,
                     {g.a, g.b}, output);
  const Axis m("m", g.m), n("n", g.n), k("k", g.k);
  Declaration declaration(builder);
  const Tensor a = declaration.read(g.a), b = declaration.read(g.b);
  const Expr x = wide(g.transposes_a ? a(k, m) : a(m, k));
  const Expr y = wide(g.transposes_b ? b(n, k) : b(k, n));
  return declaration.add(reduced({m, n}, sum(k, x * y), g.a.type.dtype), output);
}

/// out = alpha * product + beta * c
Status add_gemm_terms(const Node& node, Builder& builder, const Gemm& g, const Value& product) {
  if (!is_float(product.type.dtype) && (g.alpha != 1 || (g.c && g.beta != 1)))
    return node.unsupported("alpha or beta of integers");
  Declaration declaration(builder);
  const std::vector<Axis> axes = axes_of(product.type.shape);
  Expr result = wide(declaration.read(product).read_at(at(axes)));
  if (g.alpha != 1) result = number(result, g.alpha) * result;
  if (g.c) {
    TW_TRY(const Shape shape, broadcast(node, {product.type.shape, g.c->type.shape}));
    if (shape != product.type.shape) return node.invalid("C is larger than the product");
    const Expr c = wide(broadcast_read(declaration.read(*g.c), g.c->type.shape, at(axes)));
    result = result + (g.beta == 1 ? c : number(c, g.beta) * c);
  }
  return declaration.add(compute("out", axes, cast(product.type.dtype, result)), node.outputs[0]);
}

}  // namespace

Status convert_gemm(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  const DType type = node.input(0).type.dtype;
  if (!is_float(type) && type != Int32 && type != Int64)
    return node.unsupported(fmt::format("the data type {}", to_string(type)));
  TW_TRY(const Gemm g, gemm_of(node, builder));
  if (g.is_dense() && g.has_plain_bias()) {
    TW_TRY(const Value bias, reshaped(builder, *g.c, {g.n}));
    return add_named(builder, "dense", {{"m", g.m}, {"n", g.n}, {"k", g.k}, {"bias", 1}}, type,
                     {g.a, g.b, bias}, node.outputs[0]);
  }
  if (!g.c && g.alpha == 1) return add_gemm_product(builder, g, node.outputs[0]);
  const std::string product = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(add_gemm_product(builder, g, product));
  return add_gemm_terms(node, builder, g, builder.value(product));
}

// ---- integers -------------------------------------------------------------------------------

namespace {

/// Both factors minus their zero points.
struct IntegerFactors {
  Value a, b;
};

/// Returns the factors minus their zero points, in the shapes of `p`. `a_zero` and `b_zero` are the
/// indices of the inputs that hold the zero points. There is one zero point for each row of `a` and
/// for each column of `b`, or one for the whole factor.
Result<IntegerFactors> centered_factors(const Node& node, Builder& builder, const Product& p,
                                        const Value& a, const Value& b, size_t a_zero,
                                        size_t b_zero) {
  IntegerFactors factors;
  TW_TRY(const Value rows, reshaped(builder, a, p.a));
  TW_TRY(const Value columns, reshaped(builder, b, p.b));
  TW_TRY(factors.a, centered(node, builder, rows, a_zero, p.a.size() - 2));
  TW_TRY(factors.b, centered(node, builder, columns, b_zero, p.b.size() - 1));
  return factors;
}

/// Returns the product with the rows of all batches joined into one matrix, if the right operand is
/// a single matrix; else the product unchanged.
Product with_joined_rows(Product p) {
  if (!is_single(p.b, p.b.size() - 2)) return p;
  p.m *= extent_of(p.batch);
  p.batch = {};
  p.a = {p.m, p.k};
  p.b = {p.k, p.n};
  return p;
}

/// The stage "product": the sum in i32.
Result<Tensor> integer_product(Builder& builder, Declaration& declaration, const Product& p,
                               const ProductLoops& loops, const IntegerFactors& factors) {
  TW_TRY(const Value a, reshaped(builder, factors.a, p.a));
  TW_TRY(const Value b, reshaped(builder, factors.b, p.b));
  const Expr x = broadcast_read(declaration.read(a), p.a, loops.a());
  const Expr y = broadcast_read(declaration.read(b), p.b, loops.b());
  return compute("product", loops.out, sum(loops.k, cast(Int32, x) * cast(Int32, y)));
}

}  // namespace

Status convert_matmul_integer(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 1}));
  const Value &a = node.input(0), &b = node.input(1);
  TW_TRY(Product p, product_of(node, a.type.shape, b.type.shape));
  TW_TRY(const IntegerFactors factors, centered_factors(node, builder, p, a, b, 2, 3));
  p = with_joined_rows(p);
  const ProductLoops loops(p);
  Declaration declaration(builder);
  TW_TRY(const Tensor product, integer_product(builder, declaration, p, loops, factors));
  return finish_product(declaration, builder, p, product, node.outputs[0]);
}

Status convert_qlinear_matmul(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 3}));
  const Value &a = node.input(0), &b = node.input(3);
  TW_TRY(Product p, product_of(node, a.type.shape, b.type.shape));
  TW_TRY(const IntegerFactors factors, centered_factors(node, builder, p, a, b, 2, 5));
  // If `a` has a scale for each row, the rows of each batch use the same scales, so the batches
  // must not be joined.
  if (node.has_input(1) && extent_of(node.input(1).type.shape) == 1) p = with_joined_rows(p);
  const ProductLoops loops(p);
  Declaration declaration(builder);
  TW_TRY(const Tensor product, integer_product(builder, declaration, p, loops, factors));
  TW_TRY(const Expr result, requantized(node, declaration, product.read_at(at(loops.out)),
                                        {1, 4, 6, 7}, loops.row(), loops.column()));
  return finish_product(declaration, builder, p, compute("out", loops.out, result),
                        node.outputs[0]);
}

// ---- Einsum ---------------------------------------------------------------------------------

namespace {

/// An Einsum equation: for each operand and for the result, one label for each dimension. The
/// dimensions of an ellipsis have the labels "0", "1", ..., counted from its last dimension.
struct Equation {
  std::vector<std::vector<std::string>> operands;
  std::vector<std::string> result;
};

/// Returns the labels of one term. The ellipsis of the term stands for `hidden` dimensions.
Result<std::vector<std::string>> labels_of(const Node& node, std::string_view term,
                                           int64_t hidden) {
  std::vector<std::string> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.substr(i, 3) != "..." || hidden < 0) return node.invalid("a misplaced '.'");
      for (int64_t d = hidden; d-- > 0;) labels.push_back(std::to_string(d));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.emplace_back(1, term[i]);
    } else {
      return node.invalid(fmt::format("a '{}' in the equation", term[i]));
    }
  }
  return labels;
}

int64_t count_letters(std::string_view term) {
  return std::ranges::count_if(term,
                               [](char c) { return std::isalpha(static_cast<unsigned char>(c)); });
}

/// Returns the labels of an implicit result: the dimensions of ellipses, then the letters that
/// occur once, sorted.
std::vector<std::string> implicit_result(const Equation& equation, int64_t hidden) {
  std::map<std::string, int> counts;
  for (const auto& labels : equation.operands)
    for (const std::string& label : labels) ++counts[label];
  std::vector<std::string> result;
  for (int64_t d = hidden; d-- > 0;) result.push_back(std::to_string(d));
  for (const auto& [label, count] : counts)
    if (count == 1 && std::isalpha(static_cast<unsigned char>(label[0]))) result.push_back(label);
  return result;
}

Result<Equation> equation_of(const Node& node, const std::vector<Value>& values) {
  TW_TRY(std::string text, node.text("equation", ""));
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation equation;
  int64_t most_hidden = 0;
  for (size_t begin = 0, i = 0; begin <= left.size(); ++i) {
    const size_t end = std::min(left.find(',', begin), left.size());
    const std::string term = left.substr(begin, end - begin);
    if (i >= values.size()) return node.invalid("more terms than inputs");
    const int64_t hidden = values[i].rank() - count_letters(term);
    TW_TRY(auto labels, labels_of(node, term, hidden));
    if (static_cast<int64_t>(labels.size()) != values[i].rank())
      return node.invalid(fmt::format("the term '{}' for {} dimensions", term, values[i].rank()));
    if (term.find('.') != std::string::npos) most_hidden = std::max(most_hidden, hidden);
    equation.operands.push_back(std::move(labels));
    begin = end + 1;
  }
  if (equation.operands.size() != values.size()) return node.invalid("fewer terms than inputs");
  if (arrow == std::string::npos) {
    equation.result = implicit_result(equation, most_hidden);
  } else {
    TW_TRY(equation.result, labels_of(node, text.substr(arrow + 2), most_hidden));
  }
  return equation;
}

/// Returns the axis of each label, with the extent that the operands have in this dimension. An
/// extent of 1 is broadcast. Fails with Invalid if extents differ otherwise.
Result<std::map<std::string, Axis>> axes_of_labels(const Node& node, const Equation& equation,
                                                   const std::vector<Value>& operands) {
  std::map<std::string, Axis> axes;
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t d = 0; d < equation.operands[i].size(); ++d) {
      const std::string& label = equation.operands[i][d];
      const int64_t extent = operands[i].type.shape[d];
      Axis& axis = axes.try_emplace(label, Axis("x" + label, extent)).first->second;
      if (axis.extent == 1) axis.extent = extent;
      if (extent != axis.extent && extent != 1)
        return node.invalid(fmt::format("'{}' has {} and {} elements", label, axis.extent, extent));
    }
  return axes;
}

/// Returns the product of the operands' elements at the axes of their labels.
Expr product_of_operands(Declaration& declaration, const Equation& equation,
                         const std::vector<Value>& operands,
                         const std::map<std::string, Axis>& axes) {
  Expr product;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<Expr> indices;
    for (const std::string& label : equation.operands[i]) indices.emplace_back(axes.at(label));
    const Expr factor =
        wide(broadcast_read(declaration.read(operands[i]), operands[i].type.shape, indices));
    product = i == 0 ? factor : product * factor;
  }
  return product;
}

/// Returns the axes of the result. Fails with Invalid if a label is in no operand or occurs twice
/// in the result.
Result<std::vector<Axis>> axes_of_result(const Node& node, const Equation& equation,
                                         const std::map<std::string, Axis>& axes) {
  std::vector<Axis> out;
  for (const std::string& label : equation.result) {
    const auto found = axes.find(label);
    if (found == axes.end()) return node.invalid(fmt::format("'{}' is of no input", label));
    if (std::ranges::find(out, found->second) != out.end())
      return node.invalid(fmt::format("'{}' stands twice in the result", label));
    out.push_back(found->second);
  }
  return out;
}

}  // namespace

Status convert_einsum(const Node& node, Builder& builder) {
  TW_TRY(const std::vector<Value> values, inputs_from(node, 0));
  TW_TRY(const Equation equation, equation_of(node, values));
  for (size_t i = 1; i < values.size(); ++i) TW_RETURN_IF_ERROR(check_same_type(node, {0, i}));
  TW_TRY(const auto axes, axes_of_labels(node, equation, values));
  TW_TRY(const std::vector<Axis> out, axes_of_result(node, equation, axes));
  std::vector<Axis> over;
  for (const auto& [label, axis] : axes)
    if (std::ranges::find(equation.result, label) == equation.result.end()) over.push_back(axis);
  Declaration declaration(builder);
  const Expr product = product_of_operands(declaration, equation, values, axes);
  const DType type = values[0].type.dtype;
  if (over.empty())
    return declaration.add(compute("out", out, cast(type, product)), node.outputs[0]);
  return declaration.add(reduced(out, sum(over, product), type), node.outputs[0]);
}

}  // namespace tw::graph::onnx
