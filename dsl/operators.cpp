// SPDX-License-Identifier: Apache-2.0
#include "dsl/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/integer.h"
#include "base/text.h"
#include "dsl/few_bits.h"

namespace tw::dsl {
namespace {

constexpr int64_t largest_attribute = int64_t{1} << 48;

tl::unexpected<Error> wrong(std::string_view op, const std::string& why) {
  return fail(ErrorCode::Usage, fmt::format("[{}] {}", op, why));
}

tl::unexpected<Error> overflow(std::string_view op) {
  return fail(ErrorCode::Unsupported,
              fmt::format("[{}] extent overflow: an extent leaves 64 bits", op));
}

Status needs_float(std::string_view op, DType type) {
  if (is_float(type)) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("[{}] data type {}: use f32, f64, f16 or bf16", op, to_string(type)));
}

Status needs_number(std::string_view op, DType type) {
  if (type != Bool) return {};
  return fail(ErrorCode::Unsupported, fmt::format("[{}] data type bool: use a number type", op));
}

/// Returns the type in which values of `type` are computed and summed.
DType accumulator(DType type) {
  if (is_float(type)) return type == Float64 ? Float64 : Float32;
  return type == Int64 || type == UInt32 || type == UInt16 ? Int64 : Int32;
}

Expr wide(const Expr& value) { return cast(accumulator(value.type()), value); }
/// Converts a result from accumulator(type). Floats are rounded to `type`; sums of integers keep
/// the wide type.
Expr narrow(const Expr& value, DType type) { return is_float(type) ? cast(type, value) : value; }

// ---- windows: what convolutions and pooling share -------------------------------------------

/// One spatial dimension of a sliding window.
struct Window {
  int64_t input, kernel, stride, dilation, pad_before, pad_after;
  int64_t output = 0;

  /// Returns the input position that element `tap` of the window at output position `at` reads.
  Expr position(const Expr& at, const Expr& tap) const {
    return at * Expr(stride) + tap * Expr(dilation) - Expr(pad_before);
  }
  /// Appends the conditions for `at_input` to lie inside of the input. A condition that always
  /// holds is left out.
  void guard(const Expr& at_input, std::vector<Expr>& conditions) const {
    const int64_t last = (output - 1) * stride + (kernel - 1) * dilation - pad_before;
    if (pad_before > 0) conditions.push_back(Expr(0) <= at_input);
    if (last >= input) conditions.push_back(at_input < Expr(input));
  }
};

/// Checks the window and sets `output`, the number of its positions. `direction` ("height" or
/// "width") is for the message of an error.
Status measure(std::string_view op, std::string_view direction, Window& window) {
  const auto reach = checked_mul(window.kernel - 1, window.dilation);
  const int64_t padded = window.input + window.pad_before + window.pad_after;
  if (!reach || *reach > largest_attribute) return overflow(op);
  const int64_t span = *reach + 1;
  if (span > padded)
    return wrong(
        op, fmt::format("a kernel that reaches over {} in {} is larger than the padded input's {}",
                        span, direction, padded));
  window.output = (padded - span) / window.stride + 1;
  return {};
}

Expr conjunction(const std::vector<Expr>& conditions) {
  Expr all = constant_int(Bool, 1);
  for (const Expr& condition : conditions) all = all && condition;
  return all;
}

/// Returns the expression that is `value` where the position (y, x) lies inside of the input, and
/// `otherwise` in the padding.
Expr guarded(const Window& rows, const Expr& y, const Window& columns, const Expr& x,
             const Expr& value, const Expr& otherwise) {
  std::vector<Expr> conditions;
  rows.guard(y, conditions);
  columns.guard(x, conditions);
  return select(conjunction(conditions), value, otherwise);
}

Status read_windows(std::string_view op, const Attributes& a, std::string_view kernel_h,
                    std::string_view kernel_w, Window& rows, Window& columns) {
  const auto get = [&](std::string_view name) {
    const auto found = a.find(std::string(name));
    return found == a.end() ? 1 : found->second;
  };
  rows = {get("h"),          get(kernel_h),  get("stride_h"),
          get("dilation_h"), get("pad_top"), get("pad_bottom")};
  columns = {get("w"),          get(kernel_w),   get("stride_w"),
             get("dilation_w"), get("pad_left"), get("pad_right")};
  TW_RETURN_IF_ERROR(measure(op, "height", rows));
  return measure(op, "width", columns);
}

// ---- epilogues ------------------------------------------------------------------------------

/// The epilogue of an operator: one stage "out". It reads the first stage, which has the sums. It
/// adds bias and residual, applies relu, multiplies by a scale for each channel, and rounds to the
/// type. If none of this is needed, there is no epilogue and the first stage is named "out".
struct Epilogue {
  bool bias = false, residual = false, relu = false;
  DType type = Float32;
  /// The type of the scales. If it is set, sums are multiplied by the scale of their channel,
  /// rounded and saturated.
  std::optional<DType> scale = std::nullopt;

  bool is_needed() const {
    return bias || residual || relu || scale || (is_float(type) && type != accumulator(type));
  }
  std::string first_stage(const std::string& name) const { return is_needed() ? name : "out"; }

  Tensor finish(const Tensor& first, const std::vector<Axis>& axes,
                const std::vector<Axis>& channels, const std::string& letters) const {
    if (!is_needed()) return first;
    std::vector<Expr> at(axes.begin(), axes.end());
    Expr value = first.read_at(at);
    if (bias) {
      const Tensor b = weight("bias", value.type(), channels);
      value = value + b.read_at({channels.begin(), channels.end()});
    }
    if (residual) value = value + wide(input("res", type, axes, letters).read_at(at));
    if (relu) value = max(value, constant_int(value.type(), 0));
    if (scale) {
      const Tensor factors = weight("scale", *scale, channels);
      const Expr factor = wide(factors.read_at({channels.begin(), channels.end()}));
      value = saturated(cast(factor.type(), value) * factor, constant_int(type, 0));
    }
    return compute("out", axes, narrow(value, type), letters);
  }
};

Epilogue epilogue(const Attributes& a, DType type) {
  const auto flag = [&](const char* name) { return a.count(name) && a.at(name) != 0; };
  return {flag("bias"), flag("residual"), flag("relu"), type};
}

/// The types of the two factors of a product, and its epilogue.
struct Product {
  DType data, weights;
  Epilogue epilogue;
};

Product plain_product(const Attributes& a, DType type) { return {type, type, epilogue(a, type)}; }

/// Returns a product of u8 data and i8 weights with a u8 result. All zero points are 0. `scale` is
/// the type of the scales.
Product quantized_product(const Attributes& a, DType scale) {
  Product product{UInt8, Int8, epilogue(a, UInt8)};
  product.epilogue.scale = scale;
  return product;
}

// ---- convolution ----------------------------------------------------------------------------

struct Convolution {
  int64_t n, c, k, groups;
  Product product;
  Window rows = {}, columns = {};

  Axis y() const { return {"y", rows.output}; }
  Axis x() const { return {"x", columns.output}; }
  Axis r() const { return {"r", rows.kernel}; }
  Axis s() const { return {"s", columns.kernel}; }
  Axis h() const { return {"h", rows.input}; }
  Axis w() const { return {"w", columns.input}; }

  /// Returns the expression in[indices..., iy, ix] if (iy, ix) lies inside of the input, else 0.
  Expr padded(const Tensor& in, std::vector<Expr> indices) const {
    const Expr iy = rows.position(y(), r()), ix = columns.position(x(), s());
    indices.push_back(iy);
    indices.push_back(ix);
    const Expr value = in.read_at(std::move(indices));
    return wide(guarded(rows, iy, columns, ix, value, constant_int(product.data, 0)));
  }
};

Result<Compute> plain_conv(const Convolution& p) {
  const Axis n("n", p.n), k("k", p.k), c("c", p.c), y = p.y(), x = p.x(), r = p.r(), s = p.s();
  const Tensor in = input("in", p.product.data, {n, c, p.h(), p.w()}, "NCHW");
  const Tensor w = weight("w", p.product.weights, {k, c, r, s}, "OIHW");
  const Tensor conv = compute(p.product.epilogue.first_stage("conv"), {n, k, y, x},
                              sum({c, r, s}, p.padded(in, {n, c}) * wide(w(k, c, r, s))), "NCHW");
  return build(p.product.epilogue.finish(conv, {n, k, y, x}, {k}, "NCHW"));
}

Result<Compute> depthwise_conv(const Convolution& p) {
  const Axis n("n", p.n), c("c", p.c), y = p.y(), x = p.x(), r = p.r(), s = p.s();
  const Tensor in = input("in", p.product.data, {n, c, p.h(), p.w()}, "NCHW");
  const Tensor w = weight("w", p.product.weights, {c, r, s}, "CRS");
  const Tensor conv = compute(p.product.epilogue.first_stage("conv"), {n, c, y, x},
                              sum({r, s}, p.padded(in, {n, c}) * wide(w(c, r, s))), "NCHW");
  return build(p.product.epilogue.finish(conv, {n, c, y, x}, {c}, "NCHW"));
}

Result<Compute> grouped_conv(const Convolution& p) {
  const Axis n("n", p.n), g("g", p.groups), k("k", p.k / p.groups), c("c", p.c / p.groups);
  const Axis y = p.y(), x = p.x(), r = p.r(), s = p.s();
  const Tensor in = input("in", p.product.data, {n, g, c, p.h(), p.w()}, "NGCHW");
  const Tensor w = weight("w", p.product.weights, {g, k, c, r, s}, "GOIHW");
  const Tensor conv =
      compute(p.product.epilogue.first_stage("conv"), {n, g, k, y, x},
              sum({c, r, s}, p.padded(in, {n, g, c}) * wide(w(g, k, c, r, s))), "NGCHW");
  return build(p.product.epilogue.finish(conv, {n, g, k, y, x}, {g, k}, "NGCHW"));
}

Result<Compute> declare_conv(std::string_view op, const Attributes& a, const Product& product) {
  Convolution p{a.at("n"), a.at("c"), a.at("k"), a.at("groups"), product};
  if (p.c % p.groups != 0 || p.k % p.groups != 0)
    return wrong(op, fmt::format("groups={} must divide c={} and k={}", p.groups, p.c, p.k));
  TW_RETURN_IF_ERROR(read_windows(op, a, "r", "s", p.rows, p.columns));
  if (p.groups == 1) return plain_conv(p);
  return p.groups == p.c && p.groups == p.k ? depthwise_conv(p) : grouped_conv(p);
}

Result<Compute> declare_conv2d(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_number("conv2d", type));
  return declare_conv("conv2d", a, plain_product(a, type));
}

Result<Compute> declare_qlinear_conv2d(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_float("qlinear_conv2d", type));
  return declare_conv("qlinear_conv2d", a, quantized_product(a, type));
}

// ---- matrix products ------------------------------------------------------------------------

Result<Compute> dense_product(const Attributes& at, const Product& factors) {
  const Axis m("m", at.at("m")), k("k", at.at("k")), n("n", at.at("n"));
  const Tensor a = input("a", factors.data, {m, k}, "MK");
  const Tensor b = weight("b", factors.weights, {k, n}, "KN");
  const Epilogue& last = factors.epilogue;
  const Tensor product =
      compute(last.first_stage("product"), {m, n}, sum(k, wide(a(m, k)) * wide(b(k, n))), "MN");
  return build(last.finish(product, {m, n}, {n}, "MN"));
}

Result<Compute> declare_dense(const Attributes& at, DType type) {
  TW_RETURN_IF_ERROR(needs_number("dense", type));
  return dense_product(at, plain_product(at, type));
}

Result<Compute> declare_qlinear_dense(const Attributes& at, DType type) {
  TW_RETURN_IF_ERROR(needs_float("qlinear_dense", type));
  return dense_product(at, quantized_product(at, type));
}

/// A product whose weights have 4 or 8 bits, as in GGML's formats Q4_0 and Q8_0. A block is 32 rows
/// of a column of weights; all weights of a block have the same scale. In Q4_0 weights are from -8
/// to 7, and a byte holds the rows i and i + 16 of a block. The left factor is rounded to 8 bits,
/// with a scale for each 32 elements along k, so that the sum over a block is a sum of integers.
struct BlockedDense {
  static constexpr int64_t rows = 32;
  Axis m, k, n;
  int64_t bits;

  Axis block() const { return {"b", ceil_div(k.extent, rows)}; }
  Axis digit() const { return {"d", 8 / bits}; }
  Axis byte() const { return {"i", rows * bits / 8}; }

  /// Returns the element of the left factor that is multiplied by the weight at (block, digit,
  /// byte). The element is 0 if the last block has no such row.
  Expr element(DType type) const {
    const Expr row =
        Expr(block()) * Expr(rows) + Expr(digit()) * Expr(byte().extent) + Expr(byte());
    const Expr value = wide(input("a", type, {m, k}, "MK")(m, row));
    if (k.extent % rows == 0) return value;
    return select(row < Expr(k.extent), value, constant(value.type(), 0));
  }

  /// Returns the stored weight as an i32. A weight of 4 bits is stored 8 higher than its value.
  Expr stored_weight() const {
    const Tensor w = weight("w", bits == 8 ? Int8 : UInt8, {block(), byte(), n});
    const Expr element = w(block(), byte(), n);
    return bits == 8 ? cast(Int32, element) : digit_of_byte(element, Expr(digit()), bits);
  }

  /// Returns the sum over a block of the rounded left factor times the weights. The caller
  /// multiplies it by the scales.
  Expr sum_of_block(const Tensor& number, DType type) const {
    const Expr factor = cast(Int32, number(m, block(), digit(), byte()));
    const Tensor sums =
        compute("sums", {m, block(), n}, sum({digit(), byte()}, factor * stored_weight()));
    const Expr stored = cast(type, sums(m, block(), n));
    if (bits == 8) return stored;
    const Tensor total = compute("total", {m, block()}, sum({digit(), byte()}, factor));
    const Expr middle = constant(type, std::ldexp(1, static_cast<int>(bits) - 1));
    return stored - cast(type, total(m, block())) * middle;
  }
};

Result<Compute> declare_blocked_dense(std::string_view op, const Attributes& at, DType type,
                                      int64_t bits) {
  TW_RETURN_IF_ERROR(needs_float(op, type));
  const BlockedDense p{{"m", at.at("m")}, {"k", at.at("k")}, {"n", at.at("n")}, bits};
  const Expr x = p.element(type);
  const Tensor peaks = compute("peak", {p.m, p.block()}, max_over({p.digit(), p.byte()}, abs(x)));
  const Expr peak = peaks(p.m, p.block());
  const Tensor scales = weight("scale", Float16, {p.block(), p.n});
  const Expr scale = cast(x.type(), scales(p.block(), p.n));
  const Tensor number =
      compute("number", {p.m, p.block(), p.digit(), p.byte()}, round_to_byte(x, peak));
  const Expr of_block = p.sum_of_block(number, x.type());
  const Epilogue last = epilogue(at, type);
  const Tensor product = compute(
      last.first_stage("product"), {p.m, p.n},
      sum({p.block()}, peak / constant(x.type(), largest_rounded) * (of_block * scale)), "MN");
  return build(last.finish(product, {p.m, p.n}, {p.n}, "MN"));
}

Result<Compute> declare_dense_q4(const Attributes& at, DType type) {
  return declare_blocked_dense("dense_q4", at, type, 4);
}

Result<Compute> declare_dense_q8(const Attributes& at, DType type) {
  return declare_blocked_dense("dense_q8", at, type, 8);
}

Result<Compute> declare_batch_matmul(const Attributes& at, DType type) {
  TW_RETURN_IF_ERROR(needs_number("batch_matmul", type));
  const Axis batch("batch", at.at("b")), m("m", at.at("m")), k("k", at.at("k")), n("n", at.at("n"));
  const Tensor a = input("a", type, {batch, m, k}, "BMK"),
               b = input("b", type, {batch, k, n}, "BKN");
  const Epilogue last = epilogue(at, type);
  const Tensor product = compute(last.first_stage("product"), {batch, m, n},
                                 sum(k, wide(a(batch, m, k)) * wide(b(batch, k, n))), "BMN");
  return build(last.finish(product, {batch, m, n}, {n}, "BMN"));
}

/// Declares softmax(q k^T / sqrt(d)) v. The weights exp(...) are rounded to the type of v before
/// they are normalised, so that both factors of the second product have this type. Each row of the
/// result is then divided by the sum of its rounded weights.
Result<Compute> declare_attention(const Attributes& at, DType type) {
  TW_RETURN_IF_ERROR(needs_float("attention", type));
  if (at.at("causal") != 0 && at.at("m") > at.at("n"))
    return wrong("attention",
                 fmt::format("causal=1 with m={} and n={}: the first queries would see "
                             "no key",
                             at.at("m"), at.at("n")));
  const Axis batch("batch", at.at("b")), m("m", at.at("m")), n("n", at.at("n")), d("d", at.at("d"));
  const Tensor q = input("q", type, {batch, m, d}, "BMD"),
               k = input("k", type, {batch, n, d}, "BND"),
               v = input("v", type, {batch, n, d}, "BND");
  const Tensor score =
      compute("score", {batch, m, n}, sum(d, wide(q(batch, m, d)) * wide(k(batch, n, d))), "BMN");
  const Expr scale = constant(accumulator(type), 1 / std::sqrt(static_cast<double>(d.extent)));
  // Causal attention: the last query sees all keys, the query before it sees all keys but the last,
  // and so on.
  const Expr is_seen = Expr(n) <= Expr(m) + Expr(n.extent - m.extent);
  const Expr scaled = score(batch, m, n) * scale;
  const Expr seen = at.at("causal") == 0
                        ? scaled
                        : select(is_seen, scaled, identity(Combine::Max, scaled.type()));
  const Tensor peak = compute("peak", {batch, m}, max_over({n}, seen));
  const Tensor e = compute("e", {batch, m, n}, narrow(exp(seen - peak(batch, m)), type), "BMN");
  const Tensor total = compute("total", {batch, m}, sum(n, wide(e(batch, m, n))));
  const Tensor mixed =
      compute("mixed", {batch, m, d}, sum(n, wide(e(batch, m, n)) * wide(v(batch, n, d))), "BMD");
  const Expr mean = mixed(batch, m, d) / total(batch, m);
  return build(compute("out", {batch, m, d}, narrow(mean, type), "BMD"));
}

// ---- pooling --------------------------------------------------------------------------------

Result<Compute> declare_max_pool2d(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_number("max_pool2d", type));
  Window rows, columns;
  TW_RETURN_IF_ERROR(read_windows("max_pool2d", a, "kernel_h", "kernel_w", rows, columns));
  const Axis n("n", a.at("n")), c("c", a.at("c")), h("h", rows.input), w("w", columns.input);
  const Axis y("y", rows.output), x("x", columns.output), r("r", rows.kernel),
      s("s", columns.kernel);
  const Tensor in = input("in", type, {n, c, h, w}, "NCHW");
  const Expr iy = rows.position(y, r), ix = columns.position(x, s);
  const Expr value = guarded(rows, iy, columns, ix, in(n, c, iy, ix), identity(Combine::Max, type));
  return build(compute("out", {n, c, y, x}, max_over({r, s}, value), "NCHW"));
}

Result<Compute> declare_global_avg_pool(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_float("global_avg_pool", type));
  const Axis n("n", a.at("n")), c("c", a.at("c")), h("h", a.at("h")), w("w", a.at("w"));
  const Tensor in = input("in", type, {n, c, h, w}, "NCHW");
  const Tensor total = compute("total", {n, c}, sum({h, w}, wide(in(n, c, h, w))), "NC");
  const double area = static_cast<double>(h.extent) * static_cast<double>(w.extent);
  return build(
      compute("out", {n, c}, narrow(total(n, c) / constant(accumulator(type), area), type), "NC"));
}

// ---- rows of a matrix -----------------------------------------------------------------------

struct Matrix {
  Axis i, j;
  Tensor in;
};

Matrix matrix(const Attributes& a, DType type) {
  const Axis i("i", a.at("rows")), j("j", a.at("cols"));
  return {i, j, input("in", type, {i, j})};
}

Result<Compute> declare_softmax(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_float("softmax", type));
  const auto [i, j, in] = matrix(a, type);
  const Tensor peak = compute("peak", {i}, max_over({j}, wide(in(i, j))));
  const Tensor e = compute("e", {i, j}, exp(wide(in(i, j)) - peak(i)));
  const Tensor total = compute("total", {i}, sum(j, e(i, j)));
  return build(compute("out", {i, j}, narrow(e(i, j) / total(i), type)));
}

Result<Compute> declare_layer_norm(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_float("layer_norm", type));
  const auto [i, j, in] = matrix(a, type);
  const DType wider = accumulator(type);
  const Tensor scale = weight("scale", wider, {j}), shift = weight("shift", wider, {j});
  const Expr cols = constant(wider, static_cast<double>(j.extent));
  const Expr epsilon = constant(wider, 1e-5);
  const Tensor total = compute("total", {i}, sum(j, wide(in(i, j))));
  const Tensor mean = compute("mean", {i}, total(i) / cols);
  const Expr difference = wide(in(i, j)) - mean(i);
  const Tensor spread = compute("spread", {i}, sum(j, difference * difference));
  const Tensor deviation = compute("deviation", {i}, sqrt(spread(i) / cols + epsilon));
  const Expr normal = difference / deviation(i) * scale(j) + shift(j);
  return build(compute("out", {i, j}, narrow(normal, type)));
}

Result<Compute> declare_gelu(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_float("gelu", type));
  const auto [i, j, in] = matrix(a, type);
  const Expr x = wide(in(i, j));
  const Expr half = constant(x.type(), 0.5), one = constant(x.type(), 1);
  const Expr root = constant(x.type(), 0.70710678118654752);  // 1 / sqrt(2)
  return build(compute("out", {i, j}, narrow(half * x * (one + erf(x * root)), type)));
}

Result<Compute> declare_transpose(const Attributes& a, DType type) {
  const auto [i, j, in] = matrix(a, type);
  return build(compute("out", {j, i}, in(i, j)));
}

Result<Compute> declare_reduce_sum(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_number("reduce_sum", type));
  const auto [i, j, in] = matrix(a, type);
  const Epilogue last{false, false, false, type};
  const Tensor total = compute(last.first_stage("total"), {i}, sum(j, wide(in(i, j))));
  return build(last.finish(total, {i}, {}, ""));
}

Result<Compute> declare_argmax(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_number("argmax", type));
  const auto [i, j, in] = matrix(a, type);
  return build(compute("out", {i}, argmax(j, in(i, j))));
}

Result<Compute> declare_argmin(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_number("argmin", type));
  const auto [i, j, in] = matrix(a, type);
  return build(compute("out", {i}, argmin(j, in(i, j))));
}

Result<Compute> declare_add_relu(const Attributes& a, DType type) {
  TW_RETURN_IF_ERROR(needs_number("add_relu", type));
  const Axis n("n", a.at("n")), c("c", a.at("c")), h("h", a.at("h")), w("w", a.at("w"));
  const Tensor x = input("a", type, {n, c, h, w}, "NCHW"),
               y = input("b", type, {n, c, h, w}, "NCHW");
  const Expr total = wide(x(n, c, h, w)) + wide(y(n, c, h, w));
  const Expr positive = max(total, constant_int(total.type(), 0));
  return build(compute("out", {n, c, h, w}, narrow(positive, type), "NCHW"));
}

// ---- the table ------------------------------------------------------------------------------

Attribute extent(std::string_view name, std::string_view meaning, int64_t minimum = 1) {
  return {.name = name, .meaning = meaning, .minimum = minimum, .always = true};
}
Attribute flag(std::string_view name, std::string_view meaning) {
  return {.name = name, .meaning = meaning, .value = 0, .is_flag = true};
}
Attribute batch() {
  return {.name = "n", .meaning = "batch", .minimum = 0, .value = 1, .always = true};
}
Attribute shared(std::string_view name, std::string_view meaning, int64_t minimum, int64_t value,
                 std::string_view alias) {
  return {.name = name,
          .meaning = meaning,
          .minimum = minimum,
          .value = value,
          .alias = alias,
          .always = true};
}
Attribute part(std::string_view name, std::string_view same_as, std::string_view meaning,
               int64_t minimum) {
  return {.name = name, .meaning = meaning, .minimum = minimum, .same_as = same_as};
}

std::vector<Attribute> window_attributes() {
  return {shared("stride", "step between windows", 1, 1, "st"),
          part("stride_h", "stride", "vertical step", 1),
          part("stride_w", "stride", "horizontal step", 1),
          shared("pad", "zeros around the input", 0, 0, "p"),
          part("pad_top", "pad", "rows above", 0),
          part("pad_left", "pad", "columns to the left", 0),
          part("pad_bottom", "pad", "rows below", 0),
          part("pad_right", "pad", "columns to the right", 0)};
}

std::vector<Attribute> joined(std::vector<Attribute> a, const std::vector<Attribute>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Attribute> conv_attributes() {
  std::vector<Attribute> all =
      joined({batch(), extent("c", "input channels"), extent("h", "input rows"),
              extent("w", "input columns"), extent("k", "output channels", 0),
              extent("r", "kernel rows"), extent("s", "kernel columns")},
             window_attributes());
  return joined(std::move(all),
                {shared("dilation", "step between taps", 1, 1, "d"),
                 part("dilation_h", "dilation", "vertical step between taps", 1),
                 part("dilation_w", "dilation", "horizontal step between taps", 1),
                 shared("groups", "groups of channels; c where depthwise", 1, 1, "g"),
                 flag("bias", "add a bias a channel")});
}

std::vector<Attribute> conv2d_attributes() {
  return joined(conv_attributes(),
                {flag("residual", "add a second input 'res'"), flag("relu", "max(x, 0) at last")});
}

std::vector<Attribute> max_pool2d_attributes() {
  return joined(
      {batch(), extent("c", "channels", 0), extent("h", "input rows"), extent("w", "input columns"),
       extent("kernel", "window rows and columns"), part("kernel_h", "kernel", "window rows", 1),
       part("kernel_w", "kernel", "window columns", 1)},
      window_attributes());
}

std::vector<Attribute> matrix_attributes(int64_t least_columns = 1) {
  return {extent("rows", "rows", 0), extent("cols", "columns", least_columns)};
}

std::vector<Operator> make_table() {
  const std::vector<Attribute> image = {batch(), extent("c", "channels", 0), extent("h", "rows"),
                                        extent("w", "columns")};
  const Attribute m = extent("m", "rows of the product", 0), k = extent("k", "what is summed over");
  const Attribute n = extent("n", "columns of the product", 0);
  Attribute b = extent("b", "number of products", 0);
  b.alias = "batch";
  std::vector<Operator> table = {
      {"add_relu", "max(a + b, 0) of two images", image, "c=256 h=56 w=56", declare_add_relu},
      {"argmax", "column of the largest element of each row, i64", matrix_attributes(),
       "rows=128 cols=1000", declare_argmax},
      {"argmin", "column of the smallest element of each row, i64", matrix_attributes(),
       "rows=128 cols=1000", declare_argmin},
      {"attention",
       "softmax(q k^T / sqrt(d)) v of each head",
       {b, extent("m", "queries", 0), extent("n", "keys"), extent("d", "size of a head"),
        flag("causal", "queries see no key that comes after them")},
       "b=12 m=128 n=128 d=64",
       declare_attention},
      {"batch_matmul",
       "products of pairs of matrices",
       {b, m, n, k, flag("relu", "max(x, 0) at last")},
       "b=12 m=128 n=128 k=64",
       declare_batch_matmul},
      {"conv2d", "2-D convolution: dense, grouped or depthwise", conv2d_attributes(),
       "n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1", declare_conv2d},
      {"dense",
       "matrix product with a weight matrix",
       {m, n, k, flag("bias", "add a bias a column"), flag("relu", "max(x, 0) at last")},
       "m=512 n=512 k=512",
       declare_dense},
      {"dense_q4",
       "matrix product with weights of 4 bits, a scale for 32 rows of a column",
       {m, n, k, flag("bias", "add a bias a column"), flag("relu", "max(x, 0) at last")},
       "m=1 n=4096 k=4096",
       declare_dense_q4},
      {"dense_q8",
       "matrix product with weights of 8 bits, a scale for 32 rows of a column",
       {m, n, k, flag("bias", "add a bias a column"), flag("relu", "max(x, 0) at last")},
       "m=1 n=4096 k=4096",
       declare_dense_q8},
      {"gelu", "x * (1 + erf(x / sqrt(2))) / 2", matrix_attributes(0), "rows=128 cols=3072",
       declare_gelu},
      {"global_avg_pool", "mean of each channel", image, "c=2048 h=7 w=7", declare_global_avg_pool},
      {"layer_norm", "rows to mean 0 and variance 1, scaled and shifted a column; epsilon 1e-5",
       matrix_attributes(), "rows=128 cols=768", declare_layer_norm},
      {"max_pool2d", "largest element of each window", max_pool2d_attributes(),
       "c=64 h=112 w=112 kernel=3 stride=2 pad=1", declare_max_pool2d},
      {"qlinear_conv2d", "convolution of u8 and i8 weights with a scale a channel, u8 result",
       conv_attributes(), "n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1", declare_qlinear_conv2d},
      {"qlinear_dense",
       "matrix product of u8 and i8 weights with a scale a column, u8 result",
       {m, n, k, flag("bias", "add a bias a column")},
       "m=512 n=512 k=512",
       declare_qlinear_dense},
      {"reduce_sum", "sum of each row", matrix_attributes(), "rows=4096 cols=4096",
       declare_reduce_sum},
      {"softmax", "exp(x) / sum(exp(x)) of each row", matrix_attributes(), "rows=1536 cols=128",
       declare_softmax},
      {"transpose", "the matrix with rows and columns swapped", matrix_attributes(0),
       "rows=1024 cols=1024", declare_transpose},
  };
  return table;
}

/// Names that other libraries give to the operators; sorted.
struct OtherName {
  std::string_view name, op;
};
constexpr OtherName other_names[] = {
    {"addmm", "dense"},
    {"batched_gemm", "batch_matmul"},
    {"bmm", "batch_matmul"},
    {"conv", "conv2d"},
    {"convolution", "conv2d"},
    {"depthwise_conv2d", "conv2d"},
    {"fc", "dense"},
    {"fully_connected", "dense"},
    {"gemm", "dense"},
    {"gemv", "dense"},
    {"global_average_pool", "global_avg_pool"},
    {"layernorm", "layer_norm"},
    {"linear", "dense"},
    {"matmul", "dense"},
    {"max_pool", "max_pool2d"},
    {"maxpool", "max_pool2d"},
    {"maxpool2d", "max_pool2d"},
    {"mha", "attention"},
    {"mm", "dense"},
    {"qlinearconv", "qlinear_conv2d"},
    {"qlinearmatmul", "qlinear_dense"},
    {"quantized_conv2d", "qlinear_conv2d"},
    {"quantized_linear", "qlinear_dense"},
    {"reducesum", "reduce_sum"},
    {"scaled_dot_product_attention", "attention"},
    {"sdpa", "attention"},
    {"sgemm", "dense"},
    {"sum", "reduce_sum"},
};

/// A second name of an operator. A workload that is made with the second name stores the first
/// name.
struct Alias {
  std::string_view name, op;
};
constexpr Alias aliases[] = {{"matmul", "dense"}};

std::string_view name_of(std::string_view given) {
  const auto* found = std::ranges::find(aliases, given, &Alias::name);
  return found == std::end(aliases) ? given : found->op;
}

/// Returns the end of an error message: ", it is called 'dense' here" for a name of other
/// libraries, ", did you mean 'dense'?" for a misspelling, or an empty text if no operator has a
/// similar name.
std::string operator_hint(std::string_view name, const std::vector<std::string>& names) {
  const auto known = std::ranges::find_if(other_names, [&](const OtherName& other) {
    return std::ranges::equal(other.name, name, [](char a, char b) { return a == to_lower(b); });
  });
  if (known != std::end(other_names)) return fmt::format(", it is called '{}' here", known->op);
  const auto near = nearest(name, names);
  return near ? fmt::format(", did you mean '{}'?", *near) : "";
}

std::vector<std::string> attribute_names(const Operator& op) {
  std::vector<std::string> names;
  for (const Attribute& attribute : op.attributes) names.emplace_back(attribute.name);
  return names;
}

Status check_value(const Operator& op, const Attribute& attribute, int64_t value) {
  if (attribute.is_flag && value != 0 && value != 1)
    return wrong(op.name, fmt::format("{}={}: expected 0 or 1", attribute.name, value));
  if (value < attribute.minimum)
    return wrong(op.name, fmt::format("{}={}: expected {} or more ({})", attribute.name, value,
                                      attribute.minimum, attribute.meaning));
  if (value > largest_attribute)
    return fail(ErrorCode::Unsupported, fmt::format("[{}] extent overflow: {}={} exceeds 2^48",
                                                    op.name, attribute.name, value));
  return {};
}

/// If an attribute is the default of other attributes, sets it to the value of the first of them.
/// For example, stride is the default of stride_h and stride_w, and becomes the value of stride_h.
void make_canonical(const Operator& op, Attributes& resolved) {
  for (auto part = op.attributes.rbegin(); part != op.attributes.rend(); ++part)
    if (!part->same_as.empty())
      resolved[std::string(part->same_as)] = resolved.at(std::string(part->name));
}

}  // namespace

const Attribute* Operator::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> table = make_table();
  return table;
}

Result<const Operator*> find_operator(std::string_view name) {
  std::vector<std::string> names;
  for (const Operator& op : operators()) {
    if (op.name == name_of(name)) return &op;
    names.emplace_back(op.name);
  }
  return fail(ErrorCode::Usage, fmt::format("[operator] there is no '{}'{}; known: {}", name,
                                            operator_hint(name, names), join(names, ", ")));
}

Result<Attributes> resolve(const Operator& op, const Attributes& given) {
  for (const auto& [name, value] : given) {
    const Attribute* attribute = op.find(name);
    if (!attribute) {
      const std::vector<std::string> names = attribute_names(op);
      const auto near = nearest(name, names);
      return wrong(op.name, fmt::format("there is no attribute '{}'{}; known: {}", name,
                                        near ? fmt::format(", did you mean '{}'?", *near) : "",
                                        join(names, ", ")));
    }
    TW_RETURN_IF_ERROR(check_value(op, *attribute, value));
  }
  Attributes resolved = given;
  for (const Attribute& attribute : op.attributes) {
    const std::string name(attribute.name);
    if (resolved.count(name)) continue;
    if (attribute.value) {
      resolved[name] = *attribute.value;
    } else if (attribute.same_as.empty()) {
      return wrong(op.name, fmt::format("'{}' is missing ({}): give all of {}", name,
                                        attribute.meaning, op.example));
    } else {
      resolved[name] = resolved.at(std::string(attribute.same_as));
    }
  }
  make_canonical(op, resolved);
  return resolved;
}

Result<Compute> declare(const Operator& op, const Attributes& resolved, DType type) {
  return op.declare(resolved, type);
}

std::string print_attributes(const Operator& op, const Attributes& resolved) {
  std::vector<std::string> parts;
  for (const Attribute& attribute : op.attributes) {
    const int64_t value = resolved.at(std::string(attribute.name));
    const int64_t usual = attribute.same_as.empty() ? attribute.value.value_or(-1)
                                                    : resolved.at(std::string(attribute.same_as));
    if (attribute.always || value != usual)
      parts.push_back(fmt::format("{}={}", attribute.name, value));
  }
  return join(parts, " ");
}

}  // namespace tw::dsl
