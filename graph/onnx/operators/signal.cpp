// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, windows, and the weights of mel scales. A Fourier transform is a product with
// a table of cosines and sines that is made at import; a long transform is two such products.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <numeric>
#include <optional>

#include "base/integer.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// The most elements of the table of a transform.
constexpr int64_t most_table_elements = int64_t{1} << 26;

/// A discrete Fourier transform of `length` points along one dimension.
///
///   y[k] = sum(n) exp(-2 pi j k n / length) x[n]      (the conjugate / length where it is inverse)
struct Transform {
  int64_t length = 0;
  bool is_inverse = false, is_onesided = false;
  int64_t parts = 1;  ///< numbers of an input element: 1 if real, 2 if complex

  bool gives_real() const { return is_inverse && is_onesided; }
  int64_t half() const { return length / 2 + 1; }
  /// read() is the number of input elements that are read, and bins() is the number of output
  /// elements.
  int64_t read() const { return gives_real() ? half() : length; }
  int64_t bins() const { return is_onesided && !is_inverse ? half() : length; }
  int64_t result_parts() const { return gives_real() ? 1 : 2; }
  /// The angle, in radians, of the factor of x[n] in y[k], where nk is n * k.
  double angle(int64_t nk) const {
    const double turn = (is_inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(length);
    return turn * static_cast<double>(nk % length);
  }
};

/// Returns the magnitude of the factor of x[n] in y[k]. If half of a spectrum is transformed to
/// real numbers, each of its elements stands for two, except for the frequencies 0 and length / 2.
double magnitude(const Transform& t, int64_t n) {
  if (!t.is_inverse) return 1;
  const bool is_alone = !t.is_onesided || n == 0 || 2 * n == t.length;
  return (is_alone ? 1.0 : 2.0) / static_cast<double>(t.length);
}

double size_of(const Transform& t, int64_t n, const std::vector<double>& window) {
  return magnitude(t, n) * (window.empty() ? 1 : window[static_cast<size_t>(n)]);
}

/// Writes the factor size * exp(j angle) into a matrix with `columns` columns, as a block whose
/// first element is `at`. The block has a row for each part (real, imaginary) of an input element
/// and a column for each part of a result.
void set_rotation(dsl::Array& table, int64_t at, int64_t columns, double angle, double size,
                  int64_t parts, int64_t result_parts) {
  const double cosine = size * std::cos(angle), sine = size * std::sin(angle);
  table.set_float(at, cosine);
  if (result_parts == 2) table.set_float(at + 1, sine);
  if (parts == 1) return;
  table.set_float(at + columns, -sine);
  if (result_parts == 2) table.set_float(at + columns + 1, cosine);
}

/// Returns the matrix [samples * parts, bins * result parts] of the transform, with `window` as
/// factors of the input elements. Rows of elements beyond the length are 0.
Result<dsl::Array> table_of(const Node& node, const Transform& t, DType type, int64_t samples,
                            const std::vector<double>& window) {
  const int64_t rows = samples * t.parts, columns = t.bins() * t.result_parts();
  if (t.length > most_table_elements || rows > most_table_elements ||
      rows * columns > most_table_elements)
    return node.unsupported(fmt::format("a Fourier transform of {} points", t.length));
  TW_TRY(dsl::Array table, dsl::Array::make(type, {rows, columns}));
  for (int64_t n = 0; n < std::min(samples, t.read()); ++n)
    for (int64_t k = 0; k < t.bins(); ++k)
      set_rotation(table, n * t.parts * columns + k * t.result_parts(), columns, t.angle(n * k),
                   size_of(t, n, window), t.parts, t.result_parts());
  return table;
}

/// Adds `output`, the product of the rows of `samples` with the table, in the shape `result`.
Status add_product(Builder& builder, const Value& samples, dsl::Array table, const Shape& result,
                   const std::string& output) {
  const int64_t k = table.shape[0], n = table.shape[1];
  const int64_t m = k == 0 ? 0 : extent_of(samples.type.shape) / k;
  const std::string weights = builder.fresh_name(output + "_table");
  TW_RETURN_IF_ERROR(builder.add_constant(weights, std::move(table)));
  TW_TRY(const Value rows, reshaped(builder, samples, {m, k}));
  const std::string product = builder.fresh_name(output);
  TW_RETURN_IF_ERROR(add_named(builder, "dense", {{"m", m}, {"n", n}, {"k", k}}, samples.type.dtype,
                               {rows, builder.value(weights)}, product));
  return add_reshape(builder, builder.value(product), result, output);
}

// ---- in two steps ---------------------------------------------------------------------------

/// A length as the product of two numbers, `first` and `second`. It turns one transform into many
/// short ones (Cooley and Tukey, An Algorithm for the Machine Calculation of Complex Fourier
/// Series, 1965). With n = second a + b, k = c + first d, where a and c are below `first`, b and d
/// are below `second`:
///
///   z[b, c] = sum(a) exp(-2 pi j n c / length) x[n]
///   y[k] = sum(b) exp(-2 pi j b d / second) z[b, c]
///
/// With the factors 3 * 4, a transform of length 12 becomes 4 transforms of 3 points, and then 3
/// transforms of 4 points.
struct Factors {
  int64_t first = 1, second = 1;
  /// The number of values of d that the bins need.
  int64_t bins_of_second(const Transform& t) const { return ceil_div(t.bins(), first); }
};

/// The least share of the multiplications that two steps must save, because two steps move data
/// more often and have small products.
constexpr double least_saving = 0.5;

/// Returns the factors with the fewest multiplications; nullopt if they save too few
/// multiplications or if their tables would be too large.
std::optional<Factors> factors_of(const Transform& t) {
  if (t.gives_real() || t.length > most_table_elements) return std::nullopt;
  const auto product = [](std::initializer_list<int64_t> extents) {
    double result = 1;
    for (const int64_t extent : extents) result *= static_cast<double>(extent);
    return result;
  };
  std::optional<Factors> best;
  double least = (1 - least_saving) * product({t.length, t.parts, t.bins(), t.result_parts()});
  const auto consider = [&](const Factors& f) {
    const double first = product({t.length, t.parts, 2, f.first});
    const double second = product({f.first, 2, f.second, 2, f.bins_of_second(t)});
    const double table = product({2, f.second, 2, f.bins_of_second(t)});
    if (first + second >= least || std::max(first, table) > most_table_elements) return;
    least = first + second;
    best = f;
  };
  for (int64_t factor = 2; factor * factor <= t.length; ++factor) {
    if (t.length % factor != 0) continue;
    consider({factor, t.length / factor});
    consider({t.length / factor, factor});
  }
  return best;
}

/// Returns the tables of both steps: [second, first * parts, first * 2] and [second * 2, bins of
/// second * 2].
Result<std::array<dsl::Array, 2>> tables_of(const Transform& t, const Factors& f, DType type,
                                            const std::vector<double>& window) {
  const int64_t columns = 2 * f.first, last_columns = 2 * f.bins_of_second(t);
  TW_TRY(dsl::Array first, dsl::Array::make(type, {f.second, f.first * t.parts, columns}));
  for (int64_t b = 0; b < f.second; ++b)
    for (int64_t a = 0; a < f.first; ++a)
      for (int64_t c = 0; c < f.first; ++c) {
        const int64_t n = f.second * a + b;
        set_rotation(first, ((b * f.first + a) * t.parts) * columns + 2 * c, columns,
                     t.angle(n * c), size_of(t, n, window), t.parts, 2);
      }
  TW_TRY(dsl::Array second, dsl::Array::make(type, {2 * f.second, last_columns}));
  for (int64_t b = 0; b < f.second; ++b)
    for (int64_t d = 0; d < f.bins_of_second(t); ++d)
      set_rotation(second, 2 * b * last_columns + 2 * d, last_columns, t.angle(f.first * b * d), 1,
                   2, 2);
  return std::array{std::move(first), std::move(second)};
}

Result<Value> add_constant(Builder& builder, const std::string& stem, dsl::Array array) {
  const std::string name = builder.fresh_name(stem);
  TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(array)));
  return builder.value(name);
}

/// Adds an operator that computes `element` over `axes`, and returns its result. The result gets a
/// new name that begins with `stem`.
Result<Value> computed(Builder& builder, Declaration& declaration, const std::vector<Axis>& axes,
                       const Expr& element, const std::string& stem) {
  const std::string name = builder.fresh_name(stem);
  TW_RETURN_IF_ERROR(declaration.add(compute("out", axes, element), name));
  return builder.value(name);
}

/// Does as add_transform(), in two steps. Requires: each row has as many samples as the length of
/// the transform.
Status add_in_two_steps(Builder& builder, const Value& samples, const Transform& t,
                        const Factors& f, const std::vector<double>& window, const Shape& result,
                        const std::string& output) {
  const DType type = samples.type.dtype;
  const int64_t rows = extent_of(samples.type.shape) / (t.length * t.parts);
  TW_TRY(auto tables, tables_of(t, f, type, window));
  TW_TRY(const Value first_table, add_constant(builder, output + "_table", std::move(tables[0])));
  TW_TRY(const Value second_table, add_constant(builder, output + "_table", std::move(tables[1])));

  TW_TRY(const Value x, reshaped(builder, samples, {rows, t.length, t.parts}));
  Declaration split(builder);
  const std::vector<Axis> s = axes_of({f.second, rows, f.first, t.parts});
  const Expr sample = split.read(x)(s[1], Expr(s[2]) * Expr(f.second) + Expr(s[0]), s[3]);
  TW_TRY(const Value parts, computed(builder, split, s, sample, output + "_split"));
  TW_TRY(const Value a, reshaped(builder, parts, {f.second, rows, f.first * t.parts}));
  const std::string z = builder.fresh_name(output + "_first");
  TW_RETURN_IF_ERROR(
      add_named(builder, "batch_matmul",
                {{"b", f.second}, {"m", rows}, {"n", 2 * f.first}, {"k", f.first * t.parts}}, type,
                {a, first_table}, z));

  TW_TRY(const Value halves, reshaped(builder, builder.value(z), {f.second, rows, f.first, 2}));
  TW_TRY(const Value turned, transposed(builder, halves, {1, 2, 0, 3}));
  TW_TRY(const Value b, reshaped(builder, turned, {rows * f.first, 2 * f.second}));
  const int64_t bins = f.bins_of_second(t);
  const std::string y = builder.fresh_name(output + "_second");
  TW_RETURN_IF_ERROR(add_named(builder, "dense",
                               {{"m", rows * f.first}, {"n", 2 * bins}, {"k", 2 * f.second}}, type,
                               {b, second_table}, y));

  TW_TRY(const Value last, reshaped(builder, builder.value(y), {rows, f.first, bins, 2}));
  Declaration join(builder);
  const std::vector<Axis> o = axes_of({rows, t.bins(), 2});
  const Expr k(o[1]), first(f.first);
  TW_TRY(const Value joined,
         computed(builder, join, o, join.read(last)(o[0], k % first, k / first, o[2]),
                  output + "_joined"));
  return add_reshape(builder, joined, result, output);
}

/// The shape and the name of a transform's result.
struct Transformed {
  Shape shape;
  std::string name;
};

/// Adds the transform of rows [..., count, parts]. The elements are first multiplied by `window`,
/// unless `window` is empty.
Status add_transform(const Node& node, Builder& builder, const Value& samples, int64_t count,
                     const Transform& t, const std::vector<double>& window,
                     const Transformed& result) {
  const DType type = samples.type.dtype;
  const bool is_whole = count == t.length && extent_of(samples.type.shape) > 0;
  // Other types would round the result of the first step.
  const bool keeps_digits = type == Float32 || type == Float64;
  const auto factors = is_whole && keeps_digits ? factors_of(t) : std::nullopt;
  if (factors)
    return add_in_two_steps(builder, samples, t, *factors, window, result.shape, result.name);
  TW_TRY(dsl::Array table, table_of(node, t, type, count, window));
  return add_product(builder, samples, std::move(table), result.shape, result.name);
}

/// Returns the number of parts of an element, which is the extent of the last dimension of the
/// signal: 1 for real numbers, 2 for a real and an imaginary part. Fails with Invalid for another
/// extent.
Result<int64_t> parts_of(const Node& node, const Value& signal) {
  TW_RETURN_IF_ERROR(check_float(node, signal.type.dtype));
  if (signal.rank() < 2 || signal.type.shape.back() < 1 || signal.type.shape.back() > 2)
    return node.invalid("expected one or two numbers in the last dimension");
  if (extent_of(signal.type.shape) == 0) return node.unsupported("a signal without elements");
  return signal.type.shape.back();
}

/// Returns the single number that an input has, or `otherwise` if the input is left out.
Result<int64_t> single(const Node& node, size_t index, int64_t otherwise) {
  if (!node.has_input(index)) return otherwise;
  TW_TRY(const std::vector<int64_t> numbers, node.constant_integers(index));
  if (numbers.size() != 1) return node.invalid(fmt::format("input {} is no single number", index));
  return numbers[0];
}

Result<size_t> transformed_axis(const Node& node, int64_t rank) {
  int64_t axis = 0;
  if (node.opset < 20) {
    TW_TRY(axis, node.integer("axis", 1));
  } else {
    TW_TRY(axis, single(node, 2, -2));
  }
  TW_TRY(const size_t position, axis_of(node, axis, rank));
  if (position + 1 == static_cast<size_t>(rank))
    return node.invalid("the axis is that of the real and imaginary parts");
  return position;
}

}  // namespace

Status convert_dft(const Node& node, Builder& builder) {
  const Value& signal = node.input(0);
  Transform t;
  TW_TRY(t.parts, parts_of(node, signal));
  TW_TRY(const size_t axis, transformed_axis(node, signal.rank()));
  TW_TRY(const int64_t is_inverse, node.integer("inverse", 0));
  TW_TRY(const int64_t is_onesided, node.integer("onesided", 0));
  t.is_inverse = is_inverse != 0;
  t.is_onesided = is_onesided != 0;
  if (t.is_onesided && !t.is_inverse && t.parts == 2)
    return node.invalid("one side of the transform of complex numbers");
  const int64_t samples = signal.type.shape[axis];
  TW_TRY(t.length, single(node, 1, t.gives_real() ? 2 * (samples - 1) : samples));
  if (t.length < 1) return node.invalid(fmt::format("a transform of {} points", t.length));
  // The transformed dimension is moved to just before that of the parts, and the result is moved
  // back.
  std::vector<size_t> order(signal.type.shape.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t last = order.size() - 2;
  std::swap(order[axis], order[last]);
  TW_TRY(const Value rows, transposed(builder, signal, order));
  Shape result = rows.type.shape;
  result[last] = t.bins();
  result.back() = t.result_parts();
  const std::string name = axis == last ? node.outputs[0] : builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(add_transform(node, builder, rows, samples, t, {}, {result, name}));
  return axis == last ? Status()
                      : add_transpose(builder, builder.value(name), order, node.outputs[0]);
}

Status convert_stft(const Node& node, Builder& builder) {
  Value signal = node.input(0);
  // Real samples may lack the last dimension of extent 1, as in ONNX Runtime.
  if (signal.rank() == 2) {
    TW_TRY(signal, reshaped(builder, signal, {signal.type.shape[0], signal.type.shape[1], 1}));
  }
  if (signal.rank() != 3)
    return node.invalid("expected [batch, length], or [batch, length, 1 or 2]");
  Transform t;
  TW_TRY(t.parts, parts_of(node, signal));
  TW_TRY(const int64_t step, single(node, 1, 1));
  const bool has_window = node.has_input(2);
  if (has_window && node.input(2).rank() != 1) return node.invalid("the window is no vector");
  const int64_t batch = signal.type.shape[0], samples = signal.type.shape[1];
  TW_TRY(t.length, single(node, 3, has_window ? node.input(2).type.shape[0] : samples));
  if (step < 1 || t.length < 1 || t.length > samples ||
      (has_window && node.input(2).type.shape[0] != t.length))
    return node.invalid(
        fmt::format("frames of {} of {} samples, {} apart", t.length, samples, step));
  TW_TRY(const int64_t is_onesided, node.integer("onesided", 1));
  t.is_onesided = is_onesided != 0 && t.parts == 1;
  std::vector<double> window;
  if (has_window && node.input(2).constant) {
    TW_TRY(window, node.constant_numbers(2));
  }
  const int64_t frames = (samples - t.length) / step + 1;
  const std::vector<Axis> o = axes_of({batch, frames, t.length, t.parts});
  Declaration declaration(builder);
  Expr sample = declaration.read(signal)(o[0], Expr(o[1]) * Expr(step) + Expr(o[2]), o[3]);
  if (has_window && window.empty()) {
    TW_RETURN_IF_ERROR(check_same_type(node, {0, 2}));
    const Expr factor = wide(declaration.read(node.input(2))(o[2]));
    sample = cast(sample.type(), wide(sample) * factor);
  }
  const std::string cut = builder.fresh_name(node.outputs[0] + "_frames");
  TW_RETURN_IF_ERROR(declaration.add(compute("out", o, sample), cut));
  return add_transform(node, builder, builder.value(cut), t.length, t, window,
                       {{batch, frames, t.bins(), t.result_parts()}, node.outputs[0]});
}

// ---- windows and mel scales -----------------------------------------------------------------

namespace {

/// Adds a constant of these values in the type that the attribute `output_datatype` names.
Status add_generated(const Node& node, Builder& builder, const Shape& shape,
                     const std::vector<double>& values) {
  TW_TRY(const int64_t given, node.integer("output_datatype", 1));
  TW_TRY(const DType type, element_type(given));
  TW_TRY(dsl::Array array, dsl::Array::make(type, shape));
  for (size_t i = 0; i < values.size(); ++i) array.set_float(static_cast<int64_t>(i), values[i]);
  return builder.add_constant(node.outputs[0], std::move(array));
}

}  // namespace

Status convert_window(const Node& node, Builder& builder) {
  TW_TRY(const int64_t size, single(node, 0, 0));
  TW_TRY(const int64_t is_periodic, node.integer("periodic", 1));
  if (size < 0) return node.invalid(fmt::format("a window of {} elements", size));
  if (size > most_table_elements)
    return node.unsupported(fmt::format("a window of {} elements", size));
  // w[n] = a0 - a1 cos(x) + a2 cos(2 x)
  struct Cosines {
    double a0, a1, a2;
  };
  const Cosines c = node.op_type == "HannWindow"      ? Cosines{0.5, 0.5, 0}
                    : node.op_type == "HammingWindow" ? Cosines{25.0 / 46, 21.0 / 46, 0}
                                                      : Cosines{0.42, 0.5, 0.08};
  const double period = static_cast<double>(std::max<int64_t>(is_periodic ? size : size - 1, 1));
  std::vector<double> values;
  for (int64_t n = 0; n < size; ++n) {
    const double x = 2 * std::numbers::pi * static_cast<double>(n) / period;
    values.push_back(c.a0 - c.a1 * std::cos(x) + c.a2 * std::cos(2 * x));
  }
  return add_generated(node, builder, {size}, values);
}

Status convert_mel_weight_matrix(const Node& node, Builder& builder) {
  TW_TRY(const int64_t bands, single(node, 0, 0));
  TW_TRY(const int64_t length, single(node, 1, 0));
  TW_TRY(const int64_t rate, single(node, 2, 0));
  TW_TRY(const std::vector<double> low, node.constant_numbers(3));
  TW_TRY(const std::vector<double> high, node.constant_numbers(4));
  if (low.size() != 1 || high.size() != 1) return node.invalid("an edge is no single number");
  if (bands < 1 || length < 1 || rate < 1 || low[0] < 0 || high[0] < low[0])
    return node.invalid("no such scale");
  const int64_t bins = length / 2 + 1;
  if (bands > most_table_elements || bins > most_table_elements ||
      bands * bins > most_table_elements)
    return node.unsupported("so large a scale");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high[0]) - mel(low[0])) / static_cast<double>(bands + 2);
  // The bins at which the triangles of the bands begin, are highest, and end: edge[0], edge[1] and
  // edge[2] of each band.
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz =
        700 * (std::pow(10.0, (mel(low[0]) + step * static_cast<double>(i)) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(bin < static_cast<double>(bins))) return node.invalid("an edge beyond the spectrum");
    edges.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> values(static_cast<size_t>(bins * bands));
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t* edge = &edges[static_cast<size_t>(band)];
    const auto weight = [&](int64_t bin) -> double& {
      return values[static_cast<size_t>(bin * bands + band)];
    };
    for (int64_t bin = edge[0]; bin < edge[1]; ++bin)
      weight(bin) = static_cast<double>(bin - edge[0]) / static_cast<double>(edge[1] - edge[0]);
    weight(edge[1]) = 1;
    for (int64_t bin = edge[1] + 1; bin < edge[2]; ++bin)
      weight(bin) = static_cast<double>(edge[2] - bin) / static_cast<double>(edge[2] - edge[1]);
  }
  return add_generated(node, builder, {bins, bands}, values);
}

}  // namespace tw::graph::onnx
