// SPDX-License-Identifier: Apache-2.0
// Tests of the operators of ONNX Runtime against their definitions. Most scales are powers of two,
// so that rounding is exact.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <tuple>

#include "base/random.h"
#include "graph/rewrite.h"
#include "tests/graph/onnx_node.h"

namespace tw::graph::onnx {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

/// Quantized integers of 8 bits with their scale and zero point.
struct EightBits {
  Extents shape;
  Numbers numbers;
  double scale = 1;
  double zero = 0;
  DType type = UInt8;

  Numbers floats() const {
    Numbers values;
    for (const double number : numbers) values.push_back((number - zero) * scale);
    return values;
  }
  /// Returns the quantized integers for these values: rounded, and limited to the range of the
  /// type.
  Numbers of(Numbers values) const {
    const IntegerLimits limits = integer_limits(type);
    for (double& value : values)
      value = std::clamp(std::nearbyint(value / scale) + zero, static_cast<double>(limits.least),
                         static_cast<double>(limits.largest));
    return values;
  }
};

EightBits random_numbers(Random& random, const Extents& shape, double scale, DType type = UInt8) {
  EightBits q{shape, {}, scale, type == UInt8 ? 120.0 : -7.0, type};
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  for (int64_t i = 0; i < count; ++i)
    q.numbers.push_back(static_cast<double>(integer_limits(type).least + random.below(256)));
  return q;
}

/// Adds a scale and a zero point to the inputs of the node.
void add_parameters(OneNode& node, const EightBits& q) {
  node.constant({}, {q.scale}).constant({}, {q.zero}, q.type);
}

void add(OneNode& node, const EightBits& q) {
  node.data(q.shape, q.numbers, q.type);
  add_parameters(node, q);
}

Numbers mapped(Numbers values, const std::function<double(double)>& f) {
  std::ranges::transform(values, values.begin(), f);
  return values;
}

/// Returns the product of matrices [m, k] and [k, n].
Numbers multiplied(const Numbers& a, const Numbers& b, size_t m, size_t k, size_t n) {
  Numbers out(m * n, 0);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 0; l < k; ++l) out[i * n + j] += a[i * k + l] * b[l * n + j];
  return out;
}

Numbers exchanged(const Numbers& values, size_t rows, size_t columns) {
  Numbers out;
  for (size_t j = 0; j < columns; ++j)
    for (size_t i = 0; i < rows; ++i) out.push_back(values[i * columns + j]);
  return out;
}

// ---- quantized numbers ------------------------------------------------------------------------

TEST(OnnxContributed, SumsAndProductsOfQuantizedNumbers) {
  Random random(1);
  for (const DType type : {UInt8, Int8})
    for (const bool is_sum : {true, false}) {
      const EightBits a = random_numbers(random, {2, 3}, 1 / 16.0, type),
                      b = random_numbers(random, {3}, 1 / 32.0, type), y{{}, {}, 1 / 8.0, 3, type};
      OneNode node(is_sum ? "QLinearAdd" : "QLinearMul");
      add(node, a);
      add(node, b);
      add_parameters(node, y);
      Numbers expected = a.floats();
      for (size_t i = 0; i < expected.size(); ++i) {
        const double other = b.floats()[i % 3];
        expected[i] = is_sum ? expected[i] + other : expected[i] * other;
      }
      EXPECT_THAT(node.values(), ElementsAreArray(y.of(expected)));
    }
}

TEST(OnnxContributed, QuantizedNumbersWithoutZeroPointsHaveTheTypeOfTheFirst) {
  OneNode node("QLinearAdd");
  node.data({2}, {-100, 3}, Int8).constant({}, {1}).no_input();
  node.data({2}, {-100, 4}, Int8).constant({}, {1}).no_input();
  node.constant({}, {1});
  EXPECT_THAT(node.values(), ElementsAre(-128, 7));
}

TEST(OnnxContributed, FunctionsOfQuantizedNumbers) {
  Random random(2);
  const EightBits x = random_numbers(random, {2, 8}, 1 / 32.0), y{{}, {}, 1 / 256.0, 3, UInt8};
  OneNode sigmoid("QLinearSigmoid");
  add(sigmoid, x);
  add_parameters(sigmoid, y);
  EXPECT_THAT(
      sigmoid.values(),
      ElementsAreArray(y.of(mapped(x.floats(), [](double v) { return 1 / (1 + std::exp(-v)); }))));
  OneNode leaky("QLinearLeakyRelu");
  leaky.set("alpha", 0.25);
  add(leaky, x);
  add_parameters(leaky, y);
  EXPECT_THAT(
      leaky.values(),
      ElementsAreArray(y.of(mapped(x.floats(), [](double v) { return v < 0 ? v / 4 : v; }))));
}

TEST(OnnxContributed, SoftmaxOfQuantizedNumbersIsThatOfItsOpset) {
  // Before opset 13, softmax treats all dimensions from the axis on as one row.
  const EightBits x{{1, 2, 2}, {2, 2, 2, 2}, 1, 0, UInt8}, y{{}, {}, 1 / 256.0, 0, UInt8};
  for (const auto& [opset, each] : {std::pair(int64_t{11}, 64.0), {13, 128.0}}) {
    OneNode node("QLinearSoftmax");
    node.set("axis", int64_t{1}).set("opset", opset);
    add(node, x);
    add_parameters(node, y);
    EXPECT_THAT(node.values(), ElementsAre(each, each, each, each)) << opset;
  }
}

TEST(OnnxContributed, PoolsOfQuantizedNumbers) {
  const EightBits x{{1, 1, 2, 4}, {10, 20, 30, 40, 50, 60, 70, 80}, 1, 0, UInt8},
      y{{}, {}, 0.5, 5, UInt8};
  OneNode global("QLinearGlobalAveragePool");
  add(global, x);
  add_parameters(global, y);
  EXPECT_THAT(global.values(), ElementsAre(95));
  OneNode windows("QLinearAveragePool");
  windows.set("kernel_shape", Extents{2, 2}).set("strides", Extents{2, 2});
  add(windows, x);
  add_parameters(windows, y);
  EXPECT_THAT(windows.values(), ElementsAre(75, 115));
  OneNode last("QLinearGlobalAveragePool");
  last.set("channels_last", int64_t{1});
  add(last, x);
  add_parameters(last, y);
  last.expect_error(ErrorCode::Unsupported, "channels_last=1");
}

TEST(OnnxContributed, ScalesBelongToWholeTensors) {
  OneNode node("QLinearSigmoid");
  node.data({2, 2}, {1, 2, 3, 4}, UInt8).constant({2}, {1, 2}).no_input().constant({}, {1});
  node.expect_error(ErrorCode::Invalid, "input 1 is a scale of several elements");
  OneNode result("QLinearSigmoid");
  result.data({2, 2}, {1, 2, 3, 4}, UInt8).constant({}, {1}).no_input().constant({2}, {1, 2});
  result.expect_error(ErrorCode::Invalid, "input 3 is a scale of several elements");
}

TEST(OnnxContributed, PartsOfAConcatenationHaveScalesOfTheirOwn) {
  Random random(3);
  const EightBits a = random_numbers(random, {2, 1}, 1 / 4.0),
                  b = random_numbers(random, {2, 2}, 1 / 8.0), y{{}, {}, 1 / 2.0, 99, UInt8};
  OneNode node("QLinearConcat");
  node.set("axis", int64_t{1});
  add_parameters(node, y);
  add(node, a);
  add(node, b);
  const Numbers p = a.floats(), q = b.floats();
  EXPECT_THAT(node.values(), ElementsAreArray(y.of({p[0], q[0], q[1], p[1], q[2], q[3]})));
  OneNode short_of_one("QLinearConcat");
  short_of_one.set("axis", int64_t{1});
  add_parameters(short_of_one, y);
  short_of_one.data({2}, {1, 2}, UInt8).constant({}, {1});
  short_of_one.expect_error(ErrorCode::Invalid, "three inputs a part");
}

TEST(OnnxContributed, QuantizedGemm) {
  Random random(4);
  const EightBits a = random_numbers(random, {3, 4}, 1 / 8.0),
                  b = random_numbers(random, {4, 2}, 1 / 4.0, Int8), y{{}, {}, 8, 100, UInt8};
  const Numbers bias = {1000, -3000};
  for (const bool is_transposed : {false, true})
    for (const bool is_quantized : {false, true}) {
      OneNode node("QGemm");
      const auto give = [&](const EightBits& q, size_t rows, size_t columns) {
        EightBits given = q;
        if (is_transposed) {
          given.numbers = exchanged(q.numbers, rows, columns);
          std::swap(given.shape[0], given.shape[1]);
        }
        add(node, given);
      };
      give(a, 3, 4);
      give(b, 4, 2);
      node.constant({2}, bias, Int32).set("alpha", 0.5);
      node.set("transA", int64_t{is_transposed}).set("transB", int64_t{is_transposed});
      if (is_quantized) add_parameters(node, y);
      Numbers expected = multiplied(a.floats(), b.floats(), 3, 4, 2);
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = 0.5 * (expected[i] + bias[i % 2] * a.scale * b.scale);
      EXPECT_THAT(node.values(), ElementsAreArray(is_quantized ? y.of(expected) : expected))
          << is_transposed;
    }
}

TEST(OnnxContributed, ErrorsOfQuantizedGemm) {
  const auto expect = [](const Extents& a, const Extents& bias, size_t last, ErrorCode code,
                         const std::string& what) {
    OneNode node("QGemm");
    node.data(a, Numbers(4, 1), UInt8).constant({}, {1}).no_input();
    node.constant({2, 2}, {1, 2, 3, 4}, Int8).constant({}, {1}).no_input();
    node.constant(bias, Numbers(bias.size() == 1 ? 2 : 4, 1), Int32);
    for (size_t i = 7; i <= 8; ++i)
      if (i != last)
        node.no_input();
      else if (i == 7)
        node.constant({}, {1});
      else
        node.constant({}, {0}, UInt8);
    node.expect_error(code, what);
  };
  expect({4}, {2}, 0, ErrorCode::Invalid, "input 0 is no matrix");
  expect({2, 2}, {2, 1, 2}, 0, ErrorCode::Invalid, "does not fit what it is added to");
  for (const size_t last : {7, 8})
    expect({2, 2}, {2}, last, ErrorCode::Invalid, "without the other");
}

TEST(OnnxContributed, TotalsOfQuantizedProductsMayLeaveHalfFloats) {
  // The sum 64 * 127 * 127 is 1,032,256, too large for f16. Scaled by 2^-6 it is a number of f16.
  OneNode node("MatMulIntegerToFloat");
  node.data({1, 64}, Numbers(64, 127), Int8).constant({64, 1}, Numbers(64, 127), Int8);
  node.constant({}, {1 / 8.0}, Float16).constant({}, {1 / 8.0}, Float16);
  const std::vector<dsl::Array> results = node.run();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].type, Float16);
  EXPECT_EQ(results[0].get_float(0), 16128);  // 16,129 rounded
}

TEST(OnnxContributed, ProductsOfQuantizedNumbersAsFloats) {
  Random random(5);
  const EightBits a = random_numbers(random, {3, 4}, 1 / 8.0),
                  b = random_numbers(random, {4, 2}, 1 / 4.0, Int8);
  OneNode node("MatMulIntegerToFloat");
  node.data(a.shape, a.numbers, a.type).constant(b.shape, b.numbers, b.type);
  node.constant({}, {a.scale}).constant({}, {b.scale});
  node.constant({}, {a.zero}, a.type).constant({}, {b.zero}, b.type).constant({2}, {10, 20});
  Numbers expected = multiplied(a.floats(), b.floats(), 3, 4, 2);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += i % 2 == 0 ? 10 : 20;
  EXPECT_THAT(node.values(), ElementsAreArray(expected));
}

TEST(OnnxContributed, ProductsOfFloatsQuantizedAtEachCall) {
  // If the values range from -127 to 128, the scale is 1 and the zero point is 127.
  const EightBits b{{2, 2}, {1, -2, 3, 4}, 0.5, 0, Int8};
  OneNode node("DynamicQuantizeMatMul");
  node.data({2, 2}, {-127, 128, 3, 10.25}).constant(b.shape, b.numbers, b.type);
  node.constant({}, {b.scale}).no_input().constant({2}, {1, 2});
  Numbers expected = multiplied({-127, 128, 3, 10}, b.floats(), 2, 2, 2);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += i % 2 == 0 ? 1 : 2;
  EXPECT_THAT(node.values(), ElementsAreArray(expected));
}

// ---- recurrent layers ---------------------------------------------------------------------------

/// Returns the values after quantization to u8, with the scale and zero point of their range, and
/// back.
Numbers quantized_by_range(const Numbers& values) {
  double least = 0, largest = 0;
  for (const double value : values) {
    least = std::min(least, value);
    largest = std::max(largest, value);
  }
  EightBits q{{}, {}, static_cast<float>((largest - least) / 255)};
  if (q.scale == 0) return values;
  q.zero = std::nearbyint(-least / q.scale);
  q.numbers = q.of(values);
  return q.floats();
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Random weights [direction, row, column]. There is a scale and a zero point for each direction
/// or, if `by_column`, for each column of each direction.
struct RecurrentWeights {
  EightBits q;
  Extents parameters_shape;
  Numbers scales, zeros;

  RecurrentWeights(Random& random, const Extents& shape, DType type, bool by_column)
      : q(random_numbers(random, shape, 1, type)), parameters_shape({shape[0]}) {
    if (by_column) parameters_shape.push_back(shape[2]);
    for (int64_t i = 0; i < shape[0] * (by_column ? shape[2] : 1); ++i) {
      scales.push_back(std::ldexp(static_cast<double>(1 + random.below(8)), -10));
      zeros.push_back(q.zero + static_cast<double>(random.below(16)));
    }
  }
  void add_to(OneNode& node, bool is_known) const {
    if (is_known)
      node.constant(q.shape, q.numbers, q.type);
    else
      node.data(q.shape, q.numbers, q.type);
  }
  void add_parameters_to(OneNode& node) const {
    node.constant(parameters_shape, scales).constant(parameters_shape, zeros, q.type);
  }
  Numbers of_direction(size_t direction) const {
    const auto columns = static_cast<size_t>(q.shape[2]);
    const size_t size = columns * static_cast<size_t>(q.shape[1]);
    Numbers values;
    for (size_t i = 0; i < size; ++i) {
      const size_t at =
          parameters_shape.size() == 1 ? direction : direction * columns + i % columns;
      values.push_back((q.numbers[direction * size + i] - zeros[at]) * scales[at]);
    }
    return values;
  }
};

/// Returns random numbers from -1 to 1 that are exact in f32.
Numbers short_numbers(Random& random, size_t count) {
  Numbers values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(random.below(2049)) / 1024 - 1);
  return values;
}

Numbers part_of(const Numbers& all, size_t part, size_t parts) {
  const auto size = std::ssize(all) / static_cast<ptrdiff_t>(parts);
  const auto begin = all.begin() + static_cast<ptrdiff_t>(part) * size;
  return {begin, begin + size};
}

/// One direction of an LSTM, computed by its definition. The gates are input, output, forget and
/// cell.
struct LstmDirection {
  size_t steps, batch, size, hidden;
  Numbers w, r, bias, h, c;
  bool is_backward;

  /// Returns Y, [time, batch, hidden]. Afterwards `h` and `c` are the last states.
  Numbers run(const Numbers& x) {
    const Numbers projected = multiplied(quantized_by_range(x), w, steps * batch, size, 4 * hidden);
    Numbers y(steps * batch * hidden);
    for (size_t step = 0; step < steps; ++step) {
      const size_t time = is_backward ? steps - 1 - step : step;
      const Numbers recurrent = multiplied(quantized_by_range(h), r, batch, hidden, 4 * hidden);
      for (size_t i = 0; i < batch * hidden; ++i) {
        const size_t b = i / hidden;
        const auto gate = [&](size_t which) {
          const size_t row = which * hidden + i % hidden;
          return projected[(time * batch + b) * 4 * hidden + row] +
                 recurrent[b * 4 * hidden + row] + bias[row] + bias[4 * hidden + row];
        };
        c[i] = sigmoid(gate(2)) * c[i] + sigmoid(gate(0)) * std::tanh(gate(3));
        h[i] = y[time * batch * hidden + i] = sigmoid(gate(1)) * std::tanh(c[i]);
      }
    }
    return y;
  }
};

/// Says in which form a node of a test has its weights.
struct QuantizedLstm {
  DType type;
  bool by_column, is_known;
  std::string direction;
};

void expect_lstm(const QuantizedLstm& how) {
  constexpr size_t steps = 5, batch = 2, size = 3, hidden = 4;
  const size_t directions = how.direction == "bidirectional" ? 2 : 1;
  const auto d = static_cast<int64_t>(directions);
  Random random(11);
  const RecurrentWeights w(random, {d, size, 4 * hidden}, how.type, how.by_column),
      r(random, {d, hidden, 4 * hidden}, how.type, how.by_column);
  const Numbers x = short_numbers(random, steps * batch * size),
                bias = short_numbers(random, directions * 8 * hidden),
                h = short_numbers(random, directions * batch * hidden),
                c = short_numbers(random, directions * batch * hidden);
  OneNode node("DynamicQuantizeLSTM");
  node.data({steps, batch, size}, x);
  w.add_to(node, how.is_known);
  r.add_to(node, how.is_known);
  node.constant({d, 8 * hidden}, bias).no_input();
  node.data({d, batch, hidden}, h).data({d, batch, hidden}, c).no_input();
  w.add_parameters_to(node);
  r.add_parameters_to(node);
  node.set("direction", how.direction).outputs({"y", "h", "c"});

  Numbers y(steps * directions * batch * hidden), last_h, last_c;
  for (size_t i = 0; i < directions; ++i) {
    LstmDirection one{steps,
                      batch,
                      size,
                      hidden,
                      w.of_direction(i),
                      r.of_direction(i),
                      part_of(bias, i, directions),
                      part_of(h, i, directions),
                      part_of(c, i, directions),
                      how.direction == "reverse" || i == 1};
    const Numbers own = one.run(x);
    for (size_t t = 0; t < steps; ++t)
      std::ranges::copy(part_of(own, t, steps),
                        y.begin() + static_cast<ptrdiff_t>((t * directions + i) * batch * hidden));
    last_h.insert(last_h.end(), one.h.begin(), one.h.end());
    last_c.insert(last_c.end(), one.c.begin(), one.c.end());
  }
  const std::vector<dsl::Array> found = node.run();
  ASSERT_EQ(found.size(), 3u);
  expect_near(numbers_of(found[0]), y, 2e-6);
  expect_near(numbers_of(found[1]), last_h, 2e-6);
  expect_near(numbers_of(found[2]), last_c, 2e-6);
}

TEST(OnnxContributed, LstmsWithQuantizedWeights) {
  for (const QuantizedLstm& how : {QuantizedLstm{Int8, false, true, "forward"},
                                   {UInt8, false, true, "bidirectional"},
                                   {Int8, true, true, "bidirectional"},
                                   {UInt8, true, true, "reverse"},
                                   {UInt8, true, false, "bidirectional"}}) {
    SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(how.type), how.by_column, how.is_known,
                             how.direction));
    expect_lstm(how);
  }
}

/// Adds the inputs of an LSTM with one direction, 3 inputs and 4 units. Optional inputs are left
/// out.
void add_small_lstm(OneNode& node, DType type, double number) {
  node.data({2, 1, 3}, Numbers(6, 1));
  node.constant({1, 3, 16}, Numbers(48, number), type);
  node.constant({1, 4, 16}, Numbers(64, number), type);
  for (int i = 0; i < 5; ++i) node.no_input();
}

TEST(OnnxContributed, WeightsOfQuantizedLstmsStayBytes) {
  for (const auto& [type, number, zero] : {std::tuple(Int8, -3.0, 0.0), {UInt8, 130.0, 128.0}}) {
    OneNode node("DynamicQuantizeLSTM");
    add_small_lstm(node, type, number);
    for (int i = 0; i < 2; ++i) node.constant({1}, {0.5}).constant({1}, {zero}, type);
    const Graph graph = node.graph();
    int large = 0;
    for (const auto& [name, constant] : graph.constants) {
      if (constant.array->size() < 48) continue;
      ++large;
      EXPECT_EQ(size_bytes(constant.array->type), 1) << name;
    }
    EXPECT_EQ(large, 2);
  }
}

TEST(OnnxContributed, ErrorsOfQuantizedLstms) {
  const auto expect_error = [](const Extents& scale_of_recurrence, DType type, ErrorCode code,
                               const char* what) {
    OneNode node("DynamicQuantizeLSTM");
    add_small_lstm(node, type, 1);
    node.constant({1}, {1}).no_input();
    if (!scale_of_recurrence.empty()) {
      const auto count = static_cast<size_t>(std::accumulate(
          scale_of_recurrence.begin(), scale_of_recurrence.end(), int64_t{1}, std::multiplies()));
      node.constant(scale_of_recurrence, Numbers(count, 1));
    }
    node.expect_error(code, what);
  };
  expect_error({}, Int8, ErrorCode::Invalid, "the scale of its weights is left out");
  expect_error({4}, Int8, ErrorCode::Invalid, "the weights do not fit");
  expect_error({1, 4}, Int8, ErrorCode::Invalid, "the weights do not fit");
  expect_error({1, 16, 1}, Int8, ErrorCode::Invalid, "the weights do not fit");
  expect_error({1}, Float32, ErrorCode::Unsupported, "the data type f32");
}

// ---- weights of few bits ----------------------------------------------------------------------

/// Random weights [n, k] of few bits, and the arrays with which MatMulNBits gets them.
struct FewBits {
  int64_t k, n, bits, block;
  Numbers weights = {}, scales = {}, zeros = {};  ///< scales and zeros: [n, blocks]

  FewBits(Random& random, int64_t k, int64_t n, int64_t bits, int64_t block)
      : k(k), n(n), bits(bits), block(block) {
    const int64_t blocks = (k + block - 1) / block;
    for (int64_t i = 0; i < n * blocks * block; ++i)
      weights.push_back(static_cast<double>(random.below(int64_t{1} << bits)));
    for (int64_t i = 0; i < n * blocks; ++i) {
      scales.push_back(std::ldexp(1, static_cast<int>(random.below(4)) - 4));
      zeros.push_back(static_cast<double>(random.below(int64_t{1} << bits)));
    }
  }
  int64_t blocks() const { return (k + block - 1) / block; }
  /// Packs rows of `row` numbers into bytes. The first number of a byte is in its lowest bits.
  Numbers packed(const Numbers& numbers, int64_t row) const {
    const int64_t digits = 8 / bits, bytes = (row + digits - 1) / digits;
    const int64_t rows = std::ssize(numbers) / row;
    Numbers out(static_cast<size_t>(rows * bytes), 0);
    for (int64_t i = 0; i < std::ssize(numbers); ++i)
      out[static_cast<size_t>(i / row * bytes + i % row / digits)] +=
          std::ldexp(numbers[static_cast<size_t>(i)], static_cast<int>(i % row % digits * bits));
    return out;
  }
  double weight(int64_t row, int64_t column, bool has_zeros) const {
    const auto group = static_cast<size_t>(column * blocks() + row / block);
    const auto at = static_cast<size_t>(column * blocks() * block + row);
    const double zero = has_zeros ? zeros[group] : std::ldexp(1, static_cast<int>(bits) - 1);
    return (weights[at] - zero) * scales[group];
  }
  void give(OneNode& node, DType type = Float32) const {
    node.constant({n, blocks(), block * bits / 8}, packed(weights, blocks() * block), UInt8);
    node.constant({n * blocks()}, scales, type);
    node.set("K", k).set("N", n).set("bits", bits).set("block_size", block);
  }
  /// Adds the zero points in one of the forms that the operator accepts: "packed", "floats", or
  /// "none".
  void give_zeros(OneNode& node, const std::string& form) const {
    if (form == "packed")
      node.constant({n * ((blocks() * bits + 7) / 8)}, packed(zeros, blocks()), UInt8);
    else if (form == "floats")
      node.constant({n * blocks()}, zeros);
    else
      node.no_input();
  }
};

TEST(OnnxContributed, WeightsOfFewBits) {
  Random random(6);
  for (const int64_t bits : {2, 4, 8})
    for (const int64_t k : {48, 64, 80})
      for (const std::string form : {"none", "packed", "floats"}) {
        const FewBits w(random, k, 3, bits, 32);
        Numbers x;
        for (int64_t i = 0; i < 2 * k; ++i) x.push_back(static_cast<double>(random.below(9) - 4));
        OneNode node("MatMulNBits");
        node.data({2, 1, k}, x);
        w.give(node);
        w.give_zeros(node, form);
        node.no_input().constant({3}, {0, 1, 2});
        Numbers expected;
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 3; ++j) {
            auto total = static_cast<double>(j);
            for (int64_t l = 0; l < k; ++l)
              total += x[static_cast<size_t>(i * k + l)] * w.weight(l, j, form != "none");
            expected.push_back(total);
          }
        EXPECT_THAT(node.values(), ElementsAreArray(expected)) << bits << " " << k << " " << form;
      }
}

TEST(OnnxContributed, ALowAccuracyLevelQuantizesTheLeftFactorByBlocks) {
  Random random(8);
  for (const auto& [bits, k, form] :
       std::vector<std::tuple<int64_t, int64_t, std::string>>{{2, 64, "floats"},
                                                              {2, 40, "packed"},
                                                              {4, 64, "none"},
                                                              {4, 64, "packed"},
                                                              {4, 40, "floats"},
                                                              {8, 64, "packed"},
                                                              {8, 40, "none"}}) {
    const FewBits w(random, k, 3, bits, 32);
    // Two rows have 8-bit integers times a power of two for each block, which are quantized
    // exactly. The third row is 0.
    Numbers x;
    for (int64_t i = 0; i < 2 * k; ++i) {
      const auto number = i % k % 32 == 0 ? 127 : static_cast<int>(random.below(255)) - 127;
      x.push_back(std::ldexp(number, i % k < 32 ? -3 : 2));
    }
    x.insert(x.end(), static_cast<size_t>(k), 0);
    const auto product = [&](const Numbers& left, int64_t level) {
      OneNode node("MatMulNBits");
      node.data({3, k}, left);
      w.give(node);
      w.give_zeros(node, form);
      node.no_input().constant({3}, {0, 1, 2}).set("accuracy_level", level);
      return node.values();
    };
    const Numbers exact = product(x, 0), quantized = product(x, 4);
    EXPECT_THAT(quantized, ElementsAreArray(exact)) << bits << " " << k;
    // Other numbers are rounded to multiples of 1/127 of the largest number of their block.
    for (double& number : x) number *= 1 + random.unit() / 10;
    const Numbers rounded = product(x, 4), expected = product(x, 0);
    EXPECT_NE(rounded, expected) << bits << " " << k;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        double largest_error = 1e-3;
        for (int64_t l = 0; l < k; ++l)
          largest_error +=
              std::ldexp(1.1 / 2, l < 32 ? -3 : 2) * std::abs(w.weight(l, j, form != "none"));
        const auto at = static_cast<size_t>(i * 3 + j);
        EXPECT_NEAR(rounded[at], expected[at], largest_error) << bits << " " << k;
      }
  }
}

TEST(OnnxContributed, WeightsOfFewBitsWithScalesOf16Bits) {
  Random random(9);
  const FewBits w(random, 64, 3, 4, 32);
  Numbers x;
  for (int64_t i = 0; i < 64; ++i) x.push_back(i % 32 == 0 ? 127 : static_cast<double>(i % 16));
  for (const int64_t level : {0, 4}) {
    OneNode node("MatMulNBits");
    node.data({1, 64}, x, Float16);
    w.give(node, Float16);
    node.set("accuracy_level", level);
    const Numbers values = node.values();
    for (int64_t j = 0; j < 3; ++j) {
      double total = 0;
      for (int64_t l = 0; l < 64; ++l) total += x[static_cast<size_t>(l)] * w.weight(l, j, false);
      // The result is rounded to f16 once.
      EXPECT_NEAR(values[static_cast<size_t>(j)], total, std::abs(total) * 0x1p-11) << level;
    }
  }
}

TEST(OnnxContributed, ErrorsOfWeightsOfFewBits) {
  Random random(7);
  const FewBits w(random, 64, 3, 4, 32);
  const auto expect = [&](const std::string& attribute, int64_t value, ErrorCode code,
                          const std::string& what) {
    OneNode node("MatMulNBits");
    node.data({2, 64}, Numbers(128, 1));
    w.give(node);
    node.set(attribute, value);
    node.expect_error(code, what);
  };
  expect("bits", 3, ErrorCode::Unsupported, "bits=3");
  expect("bits", 8, ErrorCode::Invalid, "do not fit the factors");
  expect("K", 63, ErrorCode::Invalid, "do not fit the factors");
  expect("N", 4, ErrorCode::Invalid, "do not fit the factors");
  for (const int64_t block : {int64_t{0}, int64_t{1} << 62})
    expect("block_size", block, ErrorCode::Invalid, "do not fit the factors");
  expect("weight_prepacked", 1, ErrorCode::Unsupported, "weight_prepacked=1");
  for (const auto& [type, bias] :
       {std::pair(Float64, Float64), {Int32, Int32}, {Float32, Float64}}) {
    OneNode node("MatMulNBits");
    node.data({2, 64}, Numbers(128, 1), type);
    w.give(node);
    node.no_input().no_input().constant({3}, {1, 2, 3}, bias);
    node.expect_error(type == Float32 ? ErrorCode::Invalid : ErrorCode::Unsupported, "");
  }
  for (const DType type : {Int32, Int64}) {
    OneNode node("MatMulNBits");
    node.data({2, 64}, Numbers(128, 1));
    w.give(node);
    node.constant({6}, Numbers(6, 8), type);
    node.expect_error(ErrorCode::Unsupported, "data type");
  }
  OneNode unknown("MatMulNBits");
  unknown.data({2, 64}, Numbers(128, 1));
  unknown.data({3, 2, 16}, Numbers(96, 0), UInt8).data({6}, Numbers(6, 1));
  unknown.set("K", int64_t{64}).set("N", int64_t{3}).set("block_size", int64_t{32});
  unknown.expect_error(ErrorCode::Unsupported, "input 'x2' is not known");
}

// ---- floats -----------------------------------------------------------------------------------

TEST(OnnxContributed, ProductsOfTransposedFactors) {
  const Numbers a = {1, 2, 3, 4, 5, 6}, b = {7, 8, 9, 10, 11, 12};
  Numbers expected = mapped(multiplied(a, b, 2, 3, 2), [](double v) { return 0.5 * v; });
  OneNode node("FusedMatMul");
  node.data({3, 2}, exchanged(a, 2, 3)).data({2, 3}, exchanged(b, 3, 2));
  node.set("transA", int64_t{1}).set("transB", int64_t{1}).set("alpha", 0.5);
  EXPECT_THAT(node.values(), ElementsAreArray(expected));
  OneNode integers("FusedMatMul");
  integers.data({1, 1}, {3}, Int32).data({1, 1}, {5}, Int32).set("alpha", 0.5);
  integers.expect_error(ErrorCode::Unsupported, "the data type i32");
  OneNode vectors("FusedMatMul");
  vectors.data({2}, {3, 4}).data({2}, {5, 6}).set("transA", int64_t{1});
  EXPECT_THAT(vectors.values(), ElementsAre(39));
  OneNode batch("FusedMatMul");
  batch.data({3, 2}, exchanged(a, 2, 3)).data({2, 3}, b).set("transBatchA", int64_t{1});
  batch.expect_error(ErrorCode::Unsupported, "transBatchA=1");
}

TEST(OnnxContributed, GelusOfSums) {
  const Numbers x = {-2, -0.5, 0, 1, 3, 4}, bias = {1, 0, -1};
  const auto gelu = [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2))); };
  const auto fast = [](double v) {
    return v / 2 * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
  };
  Numbers sums = x;
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i % 3];
  OneNode plain("Gelu"), with_bias("BiasGelu"), approximate("FastGelu"), quick("QuickGelu");
  plain.data({2, 3}, x);
  with_bias.data({2, 3}, x).constant({3}, bias);
  approximate.data({2, 3}, x).constant({3}, bias);
  quick.data({2, 3}, x).set("alpha", 1.5);
  expect_near(plain.values(), mapped(x, gelu), 1e-5);
  expect_near(with_bias.values(), mapped(sums, gelu), 1e-5);
  expect_near(approximate.values(), mapped(sums, fast), 1e-5);
  expect_near(quick.values(), mapped(x, [](double v) { return v / (1 + std::exp(-1.5 * v)); }),
              1e-5);
}

TEST(OnnxContributed, NormalizedSums) {
  const Numbers x = {1, 2, 4}, skip = {1, -1, 2}, scale = {1, 2, 3}, shift = {5, 6, 7},
                bias = {0, 1, 0}, sum = {2, 2, 6};
  const double mean = 10 / 3.0, variance = (2 * 16 / 9.0 + 64 / 9.0) / 3,
               root = std::sqrt(44 / 3.0);
  Numbers layer, simplified;
  for (size_t i = 0; i < 3; ++i) {
    layer.push_back((sum[i] - mean) / std::sqrt(variance) * scale[i] + shift[i]);
    simplified.push_back(sum[i] / root * scale[i]);
  }
  OneNode with_mean("SkipLayerNormalization");
  with_mean.data({1, 3}, x).data({1, 3}, skip).constant({3}, scale);
  with_mean.constant({3}, shift).constant({3}, bias).outputs({"y", "", "", "sum"});
  const std::vector<dsl::Array> results = with_mean.run();
  ASSERT_EQ(results.size(), 2u);
  expect_near(numbers_of(results[0]), layer, 1e-5);
  EXPECT_THAT(numbers_of(results[1]), ElementsAreArray(sum));
  OneNode larger("SkipLayerNormalization");
  larger.data({1, 3}, x).data({2, 3}, {1, 2, 3, 4, 5, 6}).constant({3}, scale);
  larger.expect_error(ErrorCode::Invalid, "does not fit what it is added to");
  OneNode half("SkipSimplifiedLayerNormalization");
  half.data({1, 3}, x, Float16).data({1, 3}, skip, Float16).constant({3}, scale);
  const std::vector<dsl::Array> of_half = half.run();
  ASSERT_EQ(of_half.size(), 1u);
  EXPECT_EQ(of_half[0].type, Float32) << "the type of the scale";
  OneNode without("SkipSimplifiedLayerNormalization");
  without.data({1, 3}, x).data({1, 3}, skip).constant({3}, scale).constant({3}, bias);
  expect_near(without.values(), simplified, 1e-5);
}

}  // namespace
}  // namespace tw::graph::onnx
