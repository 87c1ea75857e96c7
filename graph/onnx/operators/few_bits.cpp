// SPDX-License-Identifier: Apache-2.0
// MatMulNBits of ONNX Runtime, the domain com.microsoft: products with weights of 2, 4 and 8 bits.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include "dsl/few_bits.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/integer.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// Packed weights [n, blocks, bytes] of a product. A byte holds several weights, the first in the
/// lowest bits. The weights of a block share a scale and a zero point.
struct PackedWeights {
  int64_t k, n, bits, block;  ///< numbers of rows and columns, bits of a weight, weights of a block

  int64_t blocks() const { return ceil_div(k, block); }
  int64_t digits() const { return 8 / bits; }  ///< number of weights in a byte
  int64_t bytes() const { return block / digits(); }
  /// True if 32 bits hold the sum of a block's products with numbers of 8 bits.
  bool sums_fit() const {
    return dsl::largest_rounded * ((int64_t{1} << bits) - 1) * block <=
           integer_limits(Int32).largest;
  }
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
  TW_RETURN_IF_ERROR(check_float(node, node.input(2).type.dtype));
  if (node.has_input(3) && node.input(3).type.dtype != UInt8)
    TW_RETURN_IF_ERROR(check_float(node, node.input(3).type.dtype));
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

/// Returns the zero points [n, blocks] as numbers. In the model they are packed like the weights,
/// or they are floats.
Result<std::vector<double>> zero_points_of(const Node& node, const PackedWeights& w) {
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

/// The least `accuracy_level` at which the left factor may be quantized to 8 bits by blocks.
constexpr int64_t level_of_bytes = 4;

/// The parts of a product [m, n]. A weight is (digit - zero point) * scale.
struct Parts {
  PackedWeights weights;
  Value left;    ///< [m, k]
  Value packed;  ///< [blocks, bytes, n]; columns are last, so that vectors lie along them
  Value scales;  ///< [blocks, n]
  std::optional<Value> zeros;  ///< [blocks, n]; nullopt: all zero points are 2^(bits - 1)

  Axis m() const { return {"m", left.type.shape[0]}; }
  Axis n() const { return {"n", weights.n}; }
  Axis block() const { return {"b", weights.blocks()}; }
  Axis byte() const { return {"i", weights.bytes()}; }
  Axis digit() const { return {"d", weights.digits()}; }
};

/// Adds a constant [blocks, n] with `numbers`, which are given as [n, blocks].
Result<Value> constant_per_block(Builder& builder, const Node& node, const PackedWeights& w,
                                 DType type, const std::vector<double>& numbers) {
  TW_TRY(dsl::Array array, dsl::Array::make(type, {w.blocks(), w.n}));
  for (int64_t i = 0; i < w.blocks(); ++i)
    for (int64_t j = 0; j < w.n; ++j) {
      const double number = numbers[static_cast<size_t>(j * w.blocks() + i)];
      if (is_float(type))
        array.set_float(i * w.n + j, number);
      else
        array.set_int(i * w.n + j, static_cast<int64_t>(number));
    }
  const std::string name = builder.fresh_name(node.name);
  TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(array)));
  return builder.value(name);
}

Result<Parts> product_parts_of(const Node& node, Builder& builder) {
  TW_TRY(const PackedWeights w, packed_weights_of(node));
  TW_TRY(const std::vector<double> scales, node.constant_numbers(2));
  if (std::ssize(scales) != w.n * w.blocks()) return node.invalid("scales do not fit the blocks");
  Parts parts{w, {}, {}, {}, {}};
  const auto constant = [&](size_t input, const std::vector<double>& numbers) {
    return constant_per_block(builder, node, w, node.input(input).type.dtype, numbers);
  };
  TW_TRY(parts.scales, constant(2, scales));
  if (node.has_input(3)) {
    TW_TRY(const std::vector<double> zeros, zero_points_of(node, w));
    TW_TRY(parts.zeros, constant(3, zeros));
  }
  TW_TRY(parts.packed, transposed(builder, node.input(1), {1, 2, 0}));
  const Value& a = node.input(0);
  TW_TRY(parts.left, reshaped(builder, a, {extent_of(a.type.shape) / w.k, w.k}));
  return parts;
}

/// Returns the element of the left factor for a digit of a byte of a block; 0 after the last
/// element.
Expr element_of(const Parts& parts, Declaration& declaration) {
  const PackedWeights& w = parts.weights;
  const Expr byte = Expr(parts.block()) * Expr(w.bytes()) + Expr(parts.byte());
  const Expr k = byte * Expr(w.digits()) + Expr(parts.digit());
  const Expr element = wide(declaration.read(parts.left).read_at({parts.m(), k}));
  return w.k % w.block == 0 ? element : select(k < Expr(w.k), element, number(element, 0));
}

/// A weight as it is packed, as an i32.
Expr packed_weight(const Parts& parts, Declaration& declaration) {
  const Expr byte =
      declaration.read(parts.packed).read_at({parts.block(), parts.byte(), parts.n()});
  return dsl::digit_of_byte(byte, Expr(parts.digit()), parts.weights.bits);
}

/// The scale and the zero point of a block of a column, as f32.
struct OfBlock {
  Expr scale, zero;
};
OfBlock of_block(const Parts& parts, Declaration& declaration) {
  const auto read = [&](const Value& value) {
    return cast(Float32, declaration.read(value).read_at({parts.block(), parts.n()}));
  };
  const double middle = std::ldexp(1, static_cast<int>(parts.weights.bits) - 1);
  return {read(parts.scales), parts.zeros ? read(*parts.zeros) : dsl::constant(Float32, middle)};
}

/// Returns the product in floats. The amount that is added to a digit to get a weight is the same
/// for all weights of a block, so that kernels compute it once. The weights are a stage of their
/// own, so that many rows of the other factor can share them.
Tensor float_product(const Parts& parts, Declaration& declaration) {
  const OfBlock block = of_block(parts, declaration);
  const std::vector<Axis> in_column = {parts.block(), parts.byte(), parts.digit()};
  const std::vector<Axis> axes = {parts.block(), parts.byte(), parts.digit(), parts.n()};
  const Tensor weight = compute(
      "unpacked", axes,
      cast(Float32, packed_weight(parts, declaration)) * block.scale + -block.zero * block.scale);
  return compute("product", {parts.m(), parts.n()},
                 sum(in_column, element_of(parts, declaration) * weight.read_at(at(axes))));
}

/// The left factor in numbers of 8 bits. The numbers of a block share a scale.
struct QuantizedLeft {
  Value numbers;  ///< i8 [m, blocks, digits, bytes]: numbers for neighbouring bytes are adjacent
  Value scale, total;  ///< [m, blocks]: f32, and the i32 sum of the numbers
};

Result<QuantizedLeft> quantized_left(const Node& node, const Parts& parts, Builder& builder) {
  Declaration declaration(builder);
  const Expr element = element_of(parts, declaration);
  const std::vector<Axis> blocks = {parts.m(), parts.block()},
                          in_block = {parts.digit(), parts.byte()};
  const Tensor peak = compute("peak", blocks, max_over(in_block, abs(element)));
  const Expr at_peak = peak.read_at(at(blocks));
  const Tensor scale = compute("scale", blocks, at_peak / number(element, dsl::largest_rounded));
  const std::vector<Axis> axes = {parts.m(), parts.block(), parts.digit(), parts.byte()};
  const Tensor numbers = compute("numbers", axes, dsl::round_to_byte(element, at_peak));
  const Tensor total =
      compute("total", blocks, sum(in_block, cast(Int32, numbers.read_at(at(axes)))));
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) names.push_back(builder.fresh_name(node.name));
  TW_RETURN_IF_ERROR(declaration.add({numbers, scale, total}, names));
  return QuantizedLeft{builder.value(names[0]), builder.value(names[1]), builder.value(names[2])};
}

/// Returns the product. The sum over each block is computed with integers.
Tensor integer_product(const Parts& parts, const QuantizedLeft& left, Declaration& declaration) {
  const std::vector<Expr> indices = {parts.m(), parts.block(), parts.digit(), parts.byte()};
  const Expr rounded = cast(Int32, declaration.read(left.numbers).read_at(indices));
  const Tensor sums =
      compute("sums", {parts.m(), parts.block(), parts.n()},
              sum({parts.digit(), parts.byte()}, rounded * packed_weight(parts, declaration)));
  const auto in_row = [&](const Value& value) {
    return cast(Float32, declaration.read(value).read_at({parts.m(), parts.block()}));
  };
  const OfBlock block = of_block(parts, declaration);
  const Expr total = cast(Float32, sums.read_at({parts.m(), parts.block(), parts.n()})) -
                     in_row(left.total) * block.zero;
  return compute("product", {parts.m(), parts.n()},
                 sum({parts.block()}, in_row(left.scale) * (total * block.scale)));
}

}  // namespace

Status convert_matmul_nbits(const Node& node, Builder& builder) {
  TW_TRY(const Parts parts, product_parts_of(node, builder));
  TW_TRY(const int64_t level, node.integer("accuracy_level", 0));
  std::optional<QuantizedLeft> left;
  if (level >= level_of_bytes && parts.weights.sums_fit()) {
    TW_TRY(left, quantized_left(node, parts, builder));
  }
  Declaration declaration(builder);
  const Tensor product =
      left ? integer_product(parts, *left, declaration) : float_product(parts, declaration);
  Expr result = product.read_at({parts.m(), parts.n()});
  if (node.has_input(5)) {
    if (node.input(5).type.shape != Shape{parts.weights.n})
      return node.invalid("the bias does not fit N");
    result = result + wide(declaration.read(node.input(5)).read_at({parts.n()}));
  }
  const Value& a = node.input(0);
  const std::string name = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(
      declaration.add(compute("out", {parts.m(), parts.n()}, cast(a.type.dtype, result)), name));
  Shape shape = a.type.shape;
  shape.back() = parts.weights.n;
  return add_reshape(builder, builder.value(name), shape, node.outputs[0]);
}

}  // namespace tw::graph::onnx
