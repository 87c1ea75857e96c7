// SPDX-License-Identifier: Apache-2.0
#include "bench/random_workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/hash.h"
#include "base/text.h"
#include "dsl/parse.h"

namespace tw::bench {
namespace {

using dsl::Attributes;
using dsl::Workload;

constexpr double least_work = 1e4, most_work = 1e9, most_bytes = 64e6;
// Largest number of draws for one workload. For the rarest kinds, only one in some thousand draws
// is within the limits.
constexpr int most_draws = 100'000;

// ---- sizes -----------------------------------------------------------------------------------

/// Draws a number from `least` to `most`. Its logarithm is uniformly distributed, so that 10 to 100
/// is as likely as 100 to 1000.
int64_t scaled(Random& random, double least, double most) {
  return std::llround(least * std::pow(most / least, random.unit()));
}

/// Draws a number of channels of an image, or of columns of a matrix. Mostly it is a number that is
/// common in networks, otherwise a multiple of 8 or any number.
int64_t width(Random& random, int64_t most) {
  static const std::vector<int64_t> usual = {
      16,  24,  32,  48,  64,  96,  128, 144, 160, 192,  240,  256,  288,  320,  384,
      448, 512, 576, 640, 672, 768, 832, 896, 960, 1024, 1280, 1536, 2048, 3072, 4096};
  const double kind = random.unit();
  if (kind < 0.55) {
    const auto end = std::upper_bound(usual.begin(), usual.end(), most);
    return usual[static_cast<size_t>(random.below(std::max<int64_t>(1, end - usual.begin())))];
  }
  const auto largest = static_cast<double>(most);
  return kind < 0.8 ? 8 * scaled(random, 1, largest / 8) : scaled(random, 1, largest);
}

/// Draws the number of rows or columns of an image.
int64_t side(Random& random) {
  static const std::vector<int64_t> usual = {7,  8,  10, 13, 14, 16, 17, 19, 20,  26,  28,  32,
                                             35, 38, 40, 52, 56, 64, 75, 80, 104, 112, 150, 224};
  return random.chance(0.7) ? random.pick(usual) : scaled(random, 5, 200);
}

int64_t images(Random& random) { return random.chance(0.85) ? 1 : 2 + random.below(7); }

bool coin(Random& random) { return random.chance(0.5); }

/// Returns the text of a shape as in expressions: "[3, 4]".
std::string shape_text(const std::vector<int64_t>& extents) {
  std::vector<std::string> texts;
  for (const int64_t extent : extents) texts.push_back(std::to_string(extent));
  return "[" + join(texts, ", ") + "]";
}

Result<Workload> expression(const std::string& text) {
  TW_TRY(const dsl::Compute compute, dsl::parse_compute(text));
  return dsl::workload(compute);
}

// ---- convolutions ----------------------------------------------------------------------------

/// Draws the attributes of an image and of the window of a convolution or pooling. The window may
/// turn out larger than the image; the workload is then invalid, and draw_item() draws again.
Attributes image_and_window(Random& random, const std::vector<int64_t>& windows) {
  Attributes a;
  a["n"] = images(random);
  a["h"] = side(random);
  a["w"] = random.chance(0.8) ? a["h"] : side(random);
  a["r"] = random.pick(windows);
  a["s"] = random.chance(0.9) ? a["r"] : random.pick(windows);
  a["stride"] = random.chance(0.75) ? 1 : 2;
  if (random.chance(0.85)) {
    a["pad_top"] = a["pad_bottom"] = a["r"] / 2;
    a["pad_left"] = a["pad_right"] = a["s"] / 2;
  }
  return a;
}

void add_epilogue(Random& random, Attributes& a) {
  a["bias"] = coin(random);
  a["relu"] = coin(random);
  a["residual"] = random.chance(0.15);
}

Result<Workload> draw_conv(Random& random) {
  Attributes a = image_and_window(random, {1, 1, 1, 3, 3, 3, 5, 7});
  a["c"] = random.chance(0.1) ? 3 : width(random, 2048);
  a["k"] = width(random, 2048);
  add_epilogue(random, a);
  return dsl::make_workload("conv2d", a);
}

Result<Workload> draw_depthwise(Random& random) {
  Attributes a = image_and_window(random, {3, 3, 3, 5, 7});
  a["c"] = a["k"] = a["groups"] = width(random, 1024);
  add_epilogue(random, a);
  return dsl::make_workload("conv2d", a);
}

Result<Workload> draw_grouped(Random& random) {
  Attributes a = image_and_window(random, {1, 3, 3, 5});
  a["groups"] = coin(random) ? 1 : random.pick(std::vector<int64_t>{2, 3, 4, 8, 16, 32});
  a["c"] = a["groups"] * width(random, 128);
  a["k"] = a["groups"] * width(random, 128);
  if (a["groups"] == 1) a["dilation"] = 2 + random.below(3);
  add_epilogue(random, a);
  return dsl::make_workload("conv2d", a);
}

/// Returns the text of the condition that an index lies within an axis.
std::string within(const std::string& index, int64_t extent) {
  return fmt::format("0 <= {0} && {0} < {1}", index, extent);
}

Result<Workload> draw_conv1d(Random& random) {
  const int64_t c = width(random, 1024), k = width(random, 1024), length = scaled(random, 16, 4000);
  const int64_t taps = 1 + 2 * random.below(5), stride = 1 + random.below(2), pad = taps / 2;
  const int64_t out = (length + 2 * pad - taps) / stride + 1;
  const std::string at = fmt::format("x * {} + r - {}", stride, pad);
  return expression(fmt::format(R"(
input in: f32[{0}, {1}]
weight w: f32[{2}, {0}, {3}]
weight bias: f32[{2}]
conv: f32[k={2}, x={4}] = sum(c={0}, r={3}) select({5}, in[c, {6}], 0.0) * w[k, c, r]
out: f32[k={2}, x={4}] = max(conv[k, x] + bias[k], 0.0)
)",
                                c, length, k, taps, out, within(at, length), at));
}

Result<Workload> draw_conv3d(Random& random) {
  const int64_t c = width(random, 256), k = width(random, 256), depth = scaled(random, 2, 32);
  const int64_t rows = scaled(random, 5, 60), taps = coin(random) ? 3 : 1, pad = taps / 2;
  const std::string z = fmt::format("z + d - {}", pad), y = fmt::format("y + r - {}", pad),
                    x = fmt::format("x + s - {}", pad);
  const std::string inside = within(z, depth) + " && " + within(y, rows) + " && " + within(x, rows);
  return expression(fmt::format(R"(
input in: f32[{0}, {1}, {2}, {2}]
weight w: f32[{3}, {0}, {4}, {4}, {4}]
out: f32[k={3}, z={1}, y={2}, x={2}] = sum(c={0}, d={4}, r={4}, s={4}) (
    select({5}, in[c, {6}, {7}, {8}], 0.0) * w[k, c, d, r, s])
)",
                                c, depth, rows, k, taps, inside, z, y, x));
}

/// Draws a transposed convolution with a stride of 2. It is declared as by the import of models: as
/// an ordinary convolution for each phase of the output.
Result<Workload> draw_transposed(Random& random) {
  const int64_t c = width(random, 512), k = width(random, 256), rows = scaled(random, 4, 64);
  const int64_t taps = 1 + random.below(2);
  return expression(fmt::format(R"(
input in: f32[{0}, {1}, {1}]
weight w: f32[{0}, {2}, {3}, 2, {3}, 2]
out: f32[k={2}, y={1}, p=2, x={1}, q=2] = sum(c={0}, r={3}, s={3}) (
    select({4} && {5}, in[c, y - r, x - s], 0.0) * w[c, k, r, p, s, q])
)",
                                c, rows, k, taps, within("y - r", rows), within("x - s", rows)));
}

// ---- products --------------------------------------------------------------------------------

Result<Workload> draw_product(Random& random, std::string_view op, int64_t m) {
  return dsl::make_workload(op, {{"m", m},
                                 {"n", width(random, 4096)},
                                 {"k", width(random, 4096)},
                                 {"bias", coin(random)},
                                 {"relu", random.chance(0.3)}});
}

Result<Workload> draw_dense(Random& random) {
  const int64_t m = coin(random) ? width(random, 2048) : scaled(random, 8, 2000);
  return draw_product(random, "dense", std::max<int64_t>(m, 8));
}

Result<Workload> draw_gemv(Random& random) {
  return draw_product(random, "dense", coin(random) ? 1 : 1 + random.below(7));
}

Result<Workload> draw_batch(Random& random) {
  return dsl::make_workload("batch_matmul", {{"b", scaled(random, 2, 64)},
                                             {"m", scaled(random, 4, 1000)},
                                             {"n", scaled(random, 4, 1000)},
                                             {"k", width(random, 256)}});
}

Result<Workload> draw_attention(Random& random) {
  const int64_t n = coin(random)
                        ? scaled(random, 16, 1000)
                        : random.pick(std::vector<int64_t>{49, 50, 77, 128, 196, 197, 384});
  return dsl::make_workload(
      "attention", {{"b", scaled(random, 1, 24)},
                    {"m", random.chance(0.8) ? n : scaled(random, 1, 500)},
                    {"n", n},
                    {"d", random.pick(std::vector<int64_t>{16, 24, 32, 40, 48, 64, 80, 96, 128})},
                    {"causal", random.chance(0.2)}});
}

Result<Workload> draw_few_bits(Random& random) {
  const int64_t m = coin(random) ? 1 : scaled(random, 2, 64);
  const std::string_view op = coin(random) ? "dense_q4" : "dense_q8";
  return dsl::make_workload(op, {{"m", m}, {"n", width(random, 4096)}, {"k", width(random, 4096)}});
}

/// Draws a product of u8 and i8 elements: of two matrices, or of the channels of pixels and a
/// matrix of weights.
Result<Workload> draw_integers(Random& random) {
  if (coin(random)) {
    const int64_t m = scaled(random, 1, 1000), depth = 4 * width(random, 512),
                  n = width(random, 2048);
    return expression(fmt::format(R"(
input a: u8[{0}, {1}]
weight b: i8[{1}, {2}]
out: i32[m={0}, n={2}] = sum(k={1}) i32(a[m, k]) * i32(b[k, n])
)",
                                  m, depth, n));
  }
  const int64_t c = 4 * width(random, 128), k = width(random, 512), rows = side(random);
  const int64_t taps = coin(random) ? 3 : 1, pad = taps / 2;
  const std::string y = fmt::format("y + r - {}", pad), x = fmt::format("x + s - {}", pad);
  return expression(fmt::format(R"(
input in: u8[{0}, {1}, {1}]
weight w: i8[{2}, {0}, {3}, {3}]
out: i32[k={2}, y={1}, x={1}] = sum(c={0}, r={3}, s={3}) (
    select({4} && {5}, i32(in[c, {6}, {7}]), 0) * i32(w[k, c, r, s]))
)",
                                c, rows, k, taps, within(y, rows), within(x, rows), y, x));
}

// ---- rows, reductions and copies --------------------------------------------------------------

Result<Workload> draw_rows(Random& random) {
  const int64_t rows = scaled(random, 1, 4000), columns = width(random, 4096);
  const Attributes matrix = {{"rows", rows}, {"cols", columns}};
  switch (random.below(5)) {
    case 0:
      return dsl::make_workload("softmax", matrix);
    case 1:
      return dsl::make_workload("layer_norm", matrix);
    case 2:
      return dsl::make_workload("argmax", matrix);
    case 3:
      return expression(fmt::format(R"(
input in: f32[{0}, {1}]
weight scale: f32[{1}]
squares: f32[i={0}] = sum(j={1}) in[i, j] * in[i, j]
out: f32[i={0}, j={1}] = in[i, j] / sqrt(squares[i] / {1}.0 + 0.00001) * scale[j]
)",
                                    rows, columns));
    default:
      return expression(fmt::format(R"(
input in: f32[{0}, {1}]
peak: f32[i={0}] = max(j={1}) in[i, j]
total: f32[i={0}] = sum(j={1}) exp(in[i, j] - peak[i])
out: f32[i={0}, j={1}] = in[i, j] - peak[i] - log(total[i])
)",
                                    rows, columns));
  }
}

Result<Workload> draw_reductions(Random& random) {
  const int64_t c = width(random, 1024), h = side(random);
  switch (random.below(5)) {
    case 0:
      return dsl::make_workload("reduce_sum",
                                {{"rows", scaled(random, 1, 4000)}, {"cols", width(random, 4096)}});
    case 1:
      return dsl::make_workload("global_avg_pool", {{"c", c}, {"h", h}, {"w", h}});
    case 2: {
      const int64_t kernel = 2 + random.below(2);
      return dsl::make_workload("max_pool2d", {{"n", images(random)},
                                               {"c", c},
                                               {"h", h},
                                               {"w", h},
                                               {"kernel", kernel},
                                               {"stride", 1 + random.below(2)},
                                               {"pad", kernel / 2}});
    }
    case 3: {
      const int64_t rows = scaled(random, 4, 4000), columns = width(random, 4096);
      return expression(fmt::format(
          "input in: f32[{0}, {1}]; out: f32[j={1}] = sum(i={0}) in[i, j]", rows, columns));
    }
    default: {
      const int64_t outer = scaled(random, 1, 200), depth = scaled(random, 2, 300),
                    inner = width(random, 512);
      return expression(fmt::format(
          "input in: f32[{0}, {1}, {2}]; out: f32[i={0}, k={2}] = max(j={1}) in[i, j, k]", outer,
          depth, inner));
    }
  }
}

/// Draws an activation function, and returns the text of its value at `x`.
std::string activation(Random& random, const std::string& x) {
  const std::vector<std::string> known = {
      fmt::format("max({}, 0.0)", x),
      fmt::format("clamp({}, 0.0, 6.0)", x),
      fmt::format("{0} / (1.0 + exp(0.0 - {0}))", x),
      fmt::format("tanh({})", x),
      fmt::format("{0} * clamp({0} / 6.0 + 0.5, 0.0, 1.0)", x),
      fmt::format("0.5 * {0} * (1.0 + erf({0} * 0.70710678))", x),
      fmt::format("select({0} > 0.0, {0}, {0} * 0.1)", x)};
  return random.pick(known);
}

Result<Workload> draw_elementwise(Random& random) {
  const int64_t c = width(random, 1024), pixels = side(random) * side(random);
  const std::string shape = shape_text({c, pixels});
  const bool by_channel = coin(random), has_second = coin(random);
  std::string x = "a[c, x]";
  if (by_channel) x = fmt::format("({} * scale[c] + shift[c])", x);
  if (has_second) x = fmt::format("({} + b[c, x])", x);
  std::string text = fmt::format("input a: f32{}\n", shape);
  if (has_second) text += fmt::format("input b: f32{}\n", shape);
  if (by_channel) text += fmt::format("weight scale: f32[{0}]\nweight shift: f32[{0}]\n", c);
  return expression(text +
                    fmt::format("out: f32[c={}, x={}] = {}\n", c, pixels, activation(random, x)));
}

/// Draws a layer normalisation of the sum of two inputs.
Result<Workload> draw_norm_of_sum(Random& random) {
  const int64_t rows = scaled(random, 1, 2000), columns = width(random, 2048);
  return expression(fmt::format(R"(
input in: f32[{0}, {1}]
input res: f32[{0}, {1}]
weight scale: f32[{1}]
weight shift: f32[{1}]
x: f32[i={0}, j={1}] = in[i, j] + res[i, j]
mean: f32[i={0}] = sum(j={1}) x[i, j] / {1}.0
var: f32[i={0}] = sum(j={1}) (x[i, j] - mean[i]) * (x[i, j] - mean[i]) / {1}.0
out: f32[i={0}, j={1}] = (x[i, j] - mean[i]) / sqrt(var[i] + 0.00001) * scale[j] + shift[j]
)",
                                rows, columns));
}

/// Draws a product that is followed by an activation and perhaps the sum with a residual, or a
/// layer normalisation of a sum.
Result<Workload> draw_fused(Random& random) {
  const int64_t c = width(random, 512), k = width(random, 512), pixels = scaled(random, 16, 4000);
  const int64_t form = random.below(3);
  if (form == 2) return draw_norm_of_sum(random);
  std::string residual, sum = activation(random, "(p[k, x] + bias[k])");
  if (form == 1) {
    residual = fmt::format("input res: f32[{}, {}]\n", k, pixels);
    sum += " + res[k, x]";
  }
  return expression(fmt::format(R"(
input in: f32[{0}, {1}]
{2}weight w: f32[{3}, {0}]
weight bias: f32[{3}]
p: f32[k={3}, x={1}] = sum(c={0}) in[c, x] * w[k, c]
out: f32[k={3}, x={1}] = {4}
)",
                                c, pixels, residual, k, sum));
}

/// Draws a workload that copies a tensor and exchanges its axes.
Result<Workload> draw_transform(Random& random) {
  const std::vector<std::string> axes = {"i", "j", "k", "l"};
  std::vector<int64_t> extents = {scaled(random, 1, 16), width(random, 512), side(random),
                                  scaled(random, 2, 300)};
  random.shuffle(extents);
  std::vector<size_t> order = {0, 1, 2, 3};
  random.shuffle(order);
  std::vector<std::string> out;
  for (const size_t axis : order) out.push_back(fmt::format("{}={}", axes[axis], extents[axis]));
  return expression(fmt::format("input in: f32{}; out: f32[{}] = in[{}]", shape_text(extents),
                                join(out, ", "), join(axes, ", ")));
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"conv", "2-D convolutions", draw_conv},
      {"depthwise", "depthwise 2-D convolutions", draw_depthwise},
      {"grouped", "grouped or dilated 2-D convolutions", draw_grouped},
      {"conv1d", "1-D convolutions", draw_conv1d},
      {"conv3d", "3-D convolutions", draw_conv3d},
      {"transposed", "transposed 2-D convolutions", draw_transposed},
      {"dense", "products of 8 rows and more", draw_dense},
      {"gemv", "products of fewer rows", draw_gemv},
      {"batch", "products of pairs of matrices", draw_batch},
      {"attention", "attention", draw_attention},
      {"rows", "softmax, norms and argmax of rows", draw_rows},
      {"reductions", "sums, maxima and pooling", draw_reductions},
      {"elementwise", "activations, sums and scales of images", draw_elementwise},
      {"fused", "products with activations and residuals, norms of sums", draw_fused},
      {"transform", "copies in another order of the axes", draw_transform},
      {"integers", "products and convolutions of bytes", draw_integers},
      {"few_bits", "products with weights of 4 and 8 bits", draw_few_bits},
  };
  return all;
}

Result<std::vector<const Kind*>> choose_kinds(std::string_view names) {
  std::vector<const Kind*> chosen;
  std::vector<std::string> known;
  for (const Kind& kind : kinds()) {
    known.emplace_back(kind.name);
    if (trim(names).empty()) chosen.push_back(&kind);
  }
  if (!chosen.empty()) return chosen;
  for (const std::string& name : split(names, ',')) {
    const auto found = std::ranges::find(kinds(), trim(name), &Kind::name);
    if (found == kinds().end())
      return fail(ErrorCode::Usage, fmt::format("[bench] --kinds '{}': expected some of {}", name,
                                                join(known, ", ")));
    if (std::ranges::find(chosen, &*found) == chosen.end()) chosen.push_back(&*found);
  }
  return chosen;
}

Result<Item> draw_item(const Kind& kind, uint64_t seed, int64_t number) {
  const std::string name = fmt::format("{}_{}", kind.name, number);
  Random random(short_hash_number(fmt::format("{} {}", name, seed)));
  for (int i = 0; i < most_draws; ++i) {
    auto workload = kind.draw(random);
    if (!workload) continue;  // a window that is larger than its image
    const double bytes = dsl::compulsory_traffic(workload->compute).bytes(),
                 work = std::max(dsl::count_flops(workload->compute), bytes);
    if (work < least_work || work > most_work || bytes > most_bytes) continue;
    return Item{name, *std::move(workload), 1};
  }
  return fail(ErrorCode::Internal, fmt::format("[bench] no {} is within the limits", kind.name));
}

}  // namespace tw::bench
