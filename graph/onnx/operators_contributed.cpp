// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX Runtime, the domain com.microsoft, that its quantizer and its optimizer
// write into models. Each is composed of operators of the default domain, which the passes join:
// QLinearAdd is DequantizeLinear of both operands, Add and QuantizeLinear.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/integer.h"
#include "graph/onnx/composition.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/quantization.h"

namespace tw::graph::onnx {
namespace {

/// "Add" of "QLinearAdd".
std::string_view name_of_floats(const Node& node) {
  return std::string_view(node.op_type).substr(std::string_view("QLinear").size());
}

Status check_channels_first(const Node& node) {
  TW_TRY(const int64_t last, node.integer("channels_last", 0));
  return last == 0 ? Status() : node.unsupported("channels_last=1");
}

/// The value with its last two dimensions exchanged where the attribute says so; a vector as it is.
Result<Value> maybe_transposed(const Node& node, Builder& builder, const Value& value,
                               std::string_view attribute) {
  TW_TRY(const int64_t is_transposed, node.integer(attribute, 0));
  if (is_transposed == 0 || value.rank() < 2) return value;
  std::vector<size_t> order(value.type.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transposed(builder, value, order);
}

}  // namespace

// ---- quantized numbers ------------------------------------------------------------------------

Status convert_qlinear_operation(const Node& node, Builder& builder) {
  Composition c(node, builder);
  TW_TRY(const Value a, c.dequantized(0));
  TW_TRY(const Value b, c.dequantized(3));
  TW_TRY(const Value result, c.apply(name_of_floats(node), {a, b}));
  return c.give_quantized(result, 6, node.input(0).type.dtype);
}

Status convert_qlinear_function(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_channels_first(node));
  Composition c(node, builder);
  TW_TRY(const Value x, c.dequantized(0));
  TW_TRY(const Value result, c.apply(name_of_floats(node), {x}, node.attributes));
  return c.give_quantized(result, 3, node.input(0).type.dtype);
}

Status convert_qlinear_softmax(const Node& node, Builder& builder) {
  TW_TRY(const int64_t axis, node.integer("axis", -1));
  TW_TRY(const int64_t opset, node.integer("opset", newest_opset));
  if (opset < 1 || opset > newest_opset) return node.unsupported(fmt::format("opset={}", opset));
  Composition c(node, builder);
  TW_TRY(const Value x, c.dequantized(0));
  TW_TRY(const Value result, c.apply("Softmax", {x}, {{"axis", axis}}, opset));
  return c.give_quantized(result, 3, node.input(0).type.dtype);
}

Status convert_qlinear_concat(const Node& node, Builder& builder) {
  if (node.inputs.size() < 5 || node.inputs.size() % 3 != 2)
    return node.invalid("expected a scale, a zero point, and three inputs a part");
  Composition c(node, builder);
  Composition::Inputs parts;
  for (size_t i = 2; i < node.inputs.size(); i += 3) {
    TW_TRY(Value part, c.dequantized(i));
    parts.push_back(std::move(part));
  }
  TW_TRY(const Value joined, c.apply("Concat", parts, node.attributes));
  return c.give_quantized(joined, 0, node.input(2).type.dtype);
}

Status convert_qgemm(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 3}));
  for (const size_t i : {0, 3})
    if (node.input(i).rank() != 2) return node.invalid(fmt::format("input {} is no matrix", i));
  TW_RETURN_IF_ERROR(check_one_scale(node, 1));
  TW_RETURN_IF_ERROR(check_float(node, node.input(4).type.dtype));
  if (node.has_input(7) != node.has_input(8))
    return node.invalid("a scale or a zero point of the result without the other");
  TW_TRY(const double alpha, node.number("alpha", 1));
  TW_TRY(const Value a, maybe_transposed(node, builder, node.input(0), "transA"));
  TW_TRY(const Value b, maybe_transposed(node, builder, node.input(3), "transB"));
  Composition c(node, builder);
  TW_TRY(const Value product, c.apply("MatMulInteger", {a, b, c.input(2), c.input(5)}));
  TW_TRY(const Value total, c.plus(product, c.input(6)));
  TW_TRY(const Value result, c.scaled(total, node.input(1), node.input(4), alpha));
  if (!node.has_input(7)) return c.give(result);
  return c.give_quantized(result, 7, node.input(0).type.dtype);
}

Status convert_matmul_integer_to_float(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 1}));
  for (const size_t i : {2, 3}) TW_RETURN_IF_ERROR(check_float(node, node.input(i).type.dtype));
  Composition c(node, builder);
  TW_TRY(const Value result, c.product({node.input(0), node.input(2), c.input(4)},
                                       {node.input(1), node.input(3), c.input(5)}, c.input(6)));
  return c.give(result);
}

Status convert_dynamic_quantize_matmul(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {1}));
  TW_RETURN_IF_ERROR(check_float(node, node.input(2).type.dtype));
  Composition c(node, builder);
  TW_TRY(const Quantized a, c.quantized(node.input(0)));
  TW_TRY(const Value result, c.product(a, {node.input(1), node.input(2), c.input(3)}, c.input(4)));
  return c.give(result);
}

// ---- weights of few bits ----------------------------------------------------------------------

namespace {

/// Weights [n, blocks, bytes] of a product; a byte holds several, the lowest bits first. The
/// weights of a block share a scale and a zero point.
struct PackedWeights {
  int64_t k, n, bits, block;  ///< numbers of rows and columns, bits of a weight, weights of a block

  int64_t blocks() const { return ceil_div(k, block); }
  int64_t digits() const { return 8 / bits; }  ///< weights of a byte
  int64_t bytes() const { return block / digits(); }
};

constexpr int64_t largest_block = int64_t{1} << 20;

Result<PackedWeights> packed_weights_of(const Node& node) {
  PackedWeights w{};
  TW_TRY(w.k, node.integer("K", 0));
  TW_TRY(w.n, node.integer("N", 0));
  TW_TRY(w.bits, node.integer("bits", 4));
  TW_TRY(w.block, node.integer("block_size", 0));
  if (w.bits != 2 && w.bits != 4 && w.bits != 8)
    return node.unsupported(fmt::format("bits={}", w.bits));
  const Value &a = node.input(0), &b = node.input(1);
  TW_RETURN_IF_ERROR(check_float(node, a.type.dtype));
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 5}));
  if (a.type.dtype == Float64) return node.unsupported("the data type f64");
  TW_TRY(const int64_t prepacked, node.integer("weight_prepacked", 0));
  if (prepacked != 0) return node.unsupported(fmt::format("weight_prepacked={}", prepacked));
  if (w.k < 1 || w.n < 1 || w.block < 16 || w.block > largest_block || w.block % 16 != 0 ||
      a.rank() < 1 || a.type.shape.back() != w.k || b.type.dtype != UInt8 ||
      b.type.shape != Shape{w.n, w.blocks(), w.bytes()})
    return node.invalid("K, N, block_size and bits do not fit the factors");
  if (node.has_input(4)) return node.unsupported("g_idx");
  return w;
}

/// An array [blocks, n] of what is computed of each block.
template <typename Compute>
Result<dsl::Array> per_block(const PackedWeights& w, const Compute& of_block) {
  TW_TRY(dsl::Array array, dsl::Array::make(Float32, {w.blocks(), w.n}));
  for (int64_t i = 0; i < w.blocks(); ++i)
    for (int64_t j = 0; j < w.n; ++j) array.set_float(i * w.n + j, of_block(i, j));
  return array;
}

/// The zero points [n, blocks], packed as the weights are, or floats.
Result<std::vector<double>> zero_points_of(const Node& node, const PackedWeights& w) {
  const auto count = static_cast<size_t>(w.n * w.blocks());
  if (!node.has_input(3))
    return std::vector<double>(count, static_cast<double>(int64_t{1} << (w.bits - 1)));
  TW_TRY(const std::vector<double> given, node.constant_numbers(3));
  const int64_t bytes = ceil_div(w.blocks(), w.digits());
  const bool is_packed = node.input(3).type.dtype == UInt8;
  if (std::ssize(given) != w.n * (is_packed ? bytes : w.blocks()))
    return node.invalid("zero points do not fit the blocks");
  if (!is_packed) return given;
  std::vector<double> zeros;
  for (int64_t j = 0; j < w.n; ++j)
    for (int64_t i = 0; i < w.blocks(); ++i) {
      const auto byte =
          static_cast<int64_t>(given[static_cast<size_t>(j * bytes + i / w.digits())]);
      const int64_t shift = i % w.digits() * w.bits;
      zeros.push_back(static_cast<double>(byte >> shift & ((int64_t{1} << w.bits) - 1)));
    }
  return zeros;
}

}  // namespace

Status convert_matmul_nbits(const Node& node, Builder& builder) {
  TW_TRY(const PackedWeights w, packed_weights_of(node));
  TW_TRY(const std::vector<double> scales, node.constant_numbers(2));
  if (std::ssize(scales) != w.n * w.blocks()) return node.invalid("scales do not fit the blocks");
  TW_TRY(const std::vector<double> zeros, zero_points_of(node, w));
  const auto at_block = [&](int64_t i, int64_t j) {
    return static_cast<size_t>(j * w.blocks() + i);
  };
  TW_TRY(dsl::Array factors,
         per_block(w, [&](int64_t i, int64_t j) { return scales[at_block(i, j)]; }));
  TW_TRY(dsl::Array shifts, per_block(w, [&](int64_t i, int64_t j) {
           return -zeros[at_block(i, j)] * scales[at_block(i, j)];
         }));
  const std::string scale_name = builder.fresh_name(node.name),
                    shift_name = builder.fresh_name(node.name);
  TW_RETURN_IF_ERROR(builder.add_constant(scale_name, std::move(factors)));
  TW_RETURN_IF_ERROR(builder.add_constant(shift_name, std::move(shifts)));
  // Columns stand last, so that vectors go along them.
  TW_TRY(const Value columns, transposed(builder, node.input(1), {1, 2, 0}));
  const Value& a = node.input(0);
  const int64_t rows = extent_of(a.type.shape) / w.k;
  TW_TRY(const Value left, reshaped(builder, a, {rows, w.k}));

  Declaration declaration(builder);
  const Axis m("m", rows), n("n", w.n), block("b", w.blocks()), byte("i", w.bytes()),
      digit("d", w.digits());
  const Expr k = (Expr(block) * Expr(w.bytes()) + Expr(byte)) * Expr(w.digits()) + Expr(digit);
  const Expr element = wide(declaration.read(left).read_at({m, k}));
  const Expr x = w.k % w.block == 0 ? element : select(k < Expr(w.k), element, number(element, 0));
  const Expr packed = cast(Int32, declaration.read(columns).read_at({block, byte, n}));
  const Expr shifted = packed >> cast(Int32, Expr(digit) * Expr(w.bits));
  const Expr weight = cast(Float32, shifted & dsl::constant_int(Int32, (int64_t{1} << w.bits) - 1));
  const Expr scaled = weight * declaration.read(builder.value(scale_name)).read_at({block, n}) +
                      declaration.read(builder.value(shift_name)).read_at({block, n});
  const Tensor product = compute("product", {m, n}, sum({block, byte, digit}, x * scaled));
  Expr result = product.read_at({m, n});
  if (node.has_input(5)) {
    if (node.input(5).type.shape != Shape{w.n}) return node.invalid("the bias does not fit N");
    result = result + wide(declaration.read(node.input(5)).read_at({n}));
  }
  const std::string name = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(declaration.add(compute("out", {m, n}, cast(a.type.dtype, result)), name));
  Shape shape = a.type.shape;
  shape.back() = w.n;
  return add_reshape(builder, builder.value(name), shape, node.outputs[0]);
}

// ---- floats -----------------------------------------------------------------------------------

Status convert_fused_matmul(const Node& node, Builder& builder) {
  for (const char* attribute : {"transBatchA", "transBatchB"}) {
    TW_TRY(const int64_t is_moved, node.integer(attribute, 0));
    if (is_moved != 0) return node.unsupported(fmt::format("{}={}", attribute, is_moved));
  }
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const double alpha, node.number("alpha", 1));
  TW_TRY(const Value a, maybe_transposed(node, builder, node.input(0), "transA"));
  TW_TRY(const Value b, maybe_transposed(node, builder, node.input(1), "transB"));
  Composition c(node, builder);
  TW_TRY(const Value product, c.apply("MatMul", {a, b}));
  TW_TRY(const Value result, c.times(product, alpha));
  return c.give(result);
}

Status convert_contributed_gelu(const Node& node, Builder& builder) {
  const bool is_fast = node.op_type == "FastGelu";
  Composition c(node, builder);
  TW_TRY(const Value x, c.plus(node.input(0), c.input(1)));
  TW_TRY(const Value result, c.apply("Gelu", {x}, {{"approximate", is_fast ? "tanh" : "none"}}));
  return c.give(result);
}

Status convert_quick_gelu(const Node& node, Builder& builder) {
  TW_TRY(const double alpha, node.number("alpha", 1.702));
  Composition c(node, builder);
  TW_TRY(const Value result, c.apply("Swish", {node.input(0)}, {{"alpha", alpha}}));
  return c.give(result);
}

Status convert_skip_normalization(const Node& node, Builder& builder) {
  const bool is_root = node.op_type == "SkipSimplifiedLayerNormalization";
  TW_TRY(const double epsilon, node.number("epsilon", 1e-12));
  Composition c(node, builder);
  TW_TRY(const Value skipped, c.plus(node.input(0), c.input(1)));
  TW_TRY(const Value sum, c.plus(skipped, c.input(is_root ? 3 : 4)));
  const Composition::Inputs inputs = is_root ? Composition::Inputs{sum, node.input(2)}
                                             : Composition::Inputs{sum, node.input(2), c.input(3)};
  TW_TRY(const Value result, c.apply(is_root ? "RMSNormalization" : "LayerNormalization", inputs,
                                     {{"epsilon", epsilon}}));
  TW_RETURN_IF_ERROR(c.give(sum, 3));
  return c.give(result);
}

}  // namespace tw::graph::onnx
