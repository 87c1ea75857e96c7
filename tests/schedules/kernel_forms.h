// SPDX-License-Identifier: Apache-2.0
#pragma once
// The forms of kernels for sm_90a, and random pairs of a compute and a schedule of each form, on
// small sizes that blocks do not divide. A schedule may have several forms: a persistent kernel
// also has producer warps and TMA copies.
//
//   for (const KernelForm& form : kernel_forms)
//     const FormPair pair = random_pair_of(form, seed);

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"
#include "tests/schedules/mn_major_products.h"
#include "tests/schedules/random_box_convolution.h"
#include "tests/schedules/random_bulk_product.h"
#include "tests/schedules/random_compute.h"
#include "tests/schedules/random_rows.h"

namespace tw::schedules {

struct FormPair {
  std::string title;
  dsl::Compute compute;
  Schedule schedule;
  std::string configuration;  ///< text of the point; empty if the schedule is of no space
  double slack = 0;           ///< relative and absolute difference that outputs may have
};

struct KernelForm {
  const char* name;
  bool (*has)(const FormPair&);
  /// Draws a pair, or returns nullopt. The pair need not have the form.
  std::optional<FormPair> (*draw)(Random&);

  /// Prints the name in messages of GoogleTest.
  friend void PrintTo(const KernelForm& form, std::ostream* out) { *out << form.name; }
};

/// True if a step of the schedule is of this type.
template <typename S>
bool has_step(const FormPair& pair) {
  return std::ranges::any_of(pair.schedule.steps(),
                             [](const Step& step) { return std::get_if<S>(&step) != nullptr; });
}

inline bool has_tile(const FormPair& pair, bool is_of_warpgroup) {
  return std::ranges::any_of(pair.schedule.steps(), [&](const Step& step) {
    const auto* tile = std::get_if<Tensorize>(&step);
    return tile && tile->tile.starts_with("wgmma_") == is_of_warpgroup;
  });
}

inline bool has_strategy(const FormPair& pair, const std::string& name) {
  return pair.configuration.find(": " + name + " ") != std::string::npos;
}

/// True if TMA copies the input of a convolution. A convolution reads its input in sliding windows,
/// so a box has an axis for each dimension of the image.
inline bool copies_pixels(const FormPair& pair) {
  return std::ranges::any_of(tma_operands(pair.schedule),
                             [](const std::string& operand) { return operand.starts_with("in@"); });
}

/// Samples up to 60 points of the compute's space. Returns the compute with the first schedule that
/// is legal and satisfies `wanted`; nullopt if there is none.
inline std::optional<FormPair> sampled_pair(const std::string& title, const dsl::Compute& compute,
                                            const dsl::Layouts& layouts, double slack,
                                            Random& random, bool (*wanted)(const FormPair&)) {
  const Target target = *parse_target("cuda:sm_90a");
  const auto space = Space::derive(Problem{compute, layouts}, target);
  EXPECT_TRUE(space) << title << ": " << space.error().message;
  for (int tries = 0; space && tries < 60; ++tries) {
    const Point point = space->sample(random);
    FormPair pair{title, compute, space->schedule(point), space->to_string(point), slack};
    if (wanted(pair) && pair.schedule.program(limits_of(target))) return pair;
  }
  return std::nullopt;
}

inline std::optional<FormPair> sampled_pair(const std::string& key, double slack, Random& random,
                                            bool (*wanted)(const FormPair&)) {
  const auto workload = dsl::parse_workload(key);
  EXPECT_TRUE(workload) << key << ": " << workload.error().message;
  if (!workload) return std::nullopt;
  return sampled_pair(key, workload->compute, workload->layouts, slack, random, wanted);
}

/// Returns the key of a random product whose rows, columns and terms are at least `least` and less
/// than `least` + 40. The number of terms of a product of i8 is greater by `least`. A convolution
/// may have more rows and terms.
inline std::string random_product_key(Random& random, int64_t least,
                                      const std::vector<std::string>& types) {
  const std::string type = random.pick(types);
  const int64_t unit = random.chance(0.6) ? (type == "i8" ? 16 : type == "f32" ? 4 : 8) : 1;
  const auto size = [&](int64_t smallest) {
    return std::max((smallest + random.below(40)) / unit * unit, smallest);
  };
  const int64_t terms = type == "i8" ? 2 * least : least;
  std::string flags;
  for (const char* flag : {"bias", "relu"})
    if (random.chance(0.3)) flags += fmt::format(" {}=1", flag);
  switch (random.below(4)) {
    case 0:
      return fmt::format("batch_matmul b=2 m={} n={} k={} {} fast", size(least), size(least),
                         size(terms), type);
    case 1:
      return fmt::format("conv2d n=1 c={} h={} w={} k={} r=3 s={} stride={} pad=1{} {} fast{}",
                         std::max<int64_t>(size(terms) / 9, 1) + (terms + 8) / 9,
                         4 + random.below(5) + least / 16, 4 + random.below(5) + least / 16,
                         size(least), 1 + random.below(3), 1 + random.below(2), flags, type,
                         random.chance(0.5) ? " {in=NHWC out=NHWC}" : "");
    default:
      return fmt::format("dense m={} n={} k={}{} {} fast", size(least), size(least), size(terms),
                         flags, type);
  }
}

/// Draw pairs of products whose sizes suffice for one kind of kernel: small_product_pair() for
/// kernels in which each thread computes alone, tile_pair() for tiles of warps (mma), and
/// warpgroup_pair() for tiles of warpgroups (wgmma).
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> small_product_pair(Random& random) {
  return sampled_pair(random_product_key(random, 1, {"f32", "f32", "f16", "bf16", "i8"}), 4e-6,
                      random, wanted);
}
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> tile_pair(Random& random) {
  return sampled_pair(random_product_key(random, 16, {"f32", "f32", "f16", "bf16", "i8"}), 4e-6,
                      random, wanted);
}
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> warpgroup_pair(Random& random) {
  return sampled_pair(random_product_key(random, 64, {"f16", "bf16", "bf16", "i8"}), 4e-6, random,
                      wanted);
}

/// Draws pairs in which TMA copies operands. A third of them are hand-written schedules of
/// random_bulk_product(), and a third have a factor whose contiguous dimension is its rows or
/// columns, not the terms (MN-major).
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> tma_pair(Random& random) {
  switch (random.below(3)) {
    case 0: {
      const auto [compute, schedule] = random_bulk_product(random);
      return FormPair{dsl::to_text(compute), compute, schedule, "", 4e-6};
    }
    case 1: {
      MnMajorProduct p{64 + random.below(100), 64 + random.below(130), 64 + random.below(100), {}};
      if (random.chance(0.7)) p.m = p.m / 8 * 8, p.n = p.n / 8 * 8, p.k = p.k / 8 * 8;
      p.across_a = random.chance(0.5);
      p.across_b = !p.across_a || random.chance(0.5);
      p.type = random.chance(0.5) ? Float16 : BFloat16;
      const dsl::Compute compute = compute_of(p);
      return sampled_pair(dsl::to_text(compute), compute, {}, 4e-6, random, wanted);
    }
    default:
      return warpgroup_pair<wanted>(random);
  }
}

/// Draws pairs of products with long sums, which may be split over blocks of threads.
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> long_sum_pair(Random& random) {
  const std::string type =
      random.pick(std::vector<std::string>{"f32", "f16", "bf16", "bf16", "i8"});
  const int64_t k = 64 * (3 + random.below(6)) + (random.chance(0.3) ? random.below(16) : 0);
  const int64_t m = 1 + random.below(80), n = 8 * (1 + random.below(12));
  const std::string key =
      random.chance(0.3)
          ? fmt::format("conv2d n=1 c={} h={} w=7 k={} r=3 s=3 stride={} pad=1 bias={} {} fast{}",
                        32 * (2 + random.below(4)), 1 + random.below(8), 8 * (1 + random.below(8)),
                        1 + random.below(2), random.below(2), type,
                        random.chance(0.5) ? " {in=NHWC out=NHWC w=HWIO}" : "")
      : random.chance(0.3)
          ? fmt::format("batch_matmul b=2 m={} n={} k={} {} fast", m, n, k, type)
          : fmt::format("dense m={} n={} k={} relu={} {} fast", m, n, k, random.below(2), type);
  return sampled_pair(key, 4e-6, random, wanted);
}

inline std::optional<FormPair> box_pair(Random& random) {
  const auto [workload, schedule] = random_box_convolution(random);
  return FormPair{workload.key(), workload.compute, schedule, "", 4e-6};
}

inline std::optional<FormPair> kept_row_pair(Random& random) {
  const auto [compute, schedule] = random_rows(random);
  return FormPair{dsl::to_text(compute), compute, schedule, "", rows_tolerance};
}

/// Draws pairs that satisfy `wanted`. Their compute is a random compute, or a named operator whose
/// rows may be longer than a block has threads.
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> row_pair(Random& random) {
  if (random.chance(0.4)) {
    const auto [compute, tolerance] = random_compute(random);
    return sampled_pair(dsl::to_text(compute), compute, {}, std::max(tolerance, 4e-6), random,
                        wanted);
  }
  const int64_t rows = 1 + random.below(9);
  const int64_t columns = random.pick(std::vector<int64_t>{1, 2, 8, 64, 256}) + random.below(120);
  const std::string type = random.pick(std::vector<std::string>{"f32", "f32", "f16", "bf16"});
  const char* const op = random.pick(std::vector<const char*>{
      "softmax", "layer_norm", "reduce_sum", "argmax", "argmin", "gelu", "transpose", "add_relu",
      "max_pool2d", "global_avg_pool", "attention", "conv2d"});
  const std::string name = op;
  const std::string shape =
      name == "add_relu" || name == "global_avg_pool"
          ? fmt::format("n={} c={} h=7 w={}", 1 + random.below(2), rows, 1 + columns / 16)
      : name == "max_pool2d" ? fmt::format("n=1 c={} h=9 w={} kernel=3 stride={} pad=1", rows,
                                           4 + columns / 16, 1 + random.below(2))
      : name == "attention"
          ? fmt::format("b=2 m={} n={} d={}", rows, 1 + columns / 4, 4 + random.below(9))
      : name == "conv2d" ? fmt::format("n=1 c={0} h=9 w={1} k={0} r=3 s=3 pad=1 groups={0}",
                                       1 + rows, 4 + columns / 16)
                         : fmt::format("rows={} cols={}", rows, columns);
  return sampled_pair(fmt::format("{} {} {} fast", name, shape, type), type == "f32" ? 2e-5 : 2e-2,
                      random, wanted);
}

/// Draws pairs that reduce a few long rows, or reduce to single numbers.
template <bool (*wanted)(const FormPair&)>
std::optional<FormPair> parts_pair(Random& random) {
  const int64_t rows = 1 + random.below(9);
  const int64_t columns = random.pick(std::vector<int64_t>{32, 128, 500, 2000}) + random.below(90);
  const std::string combine = random.pick(std::vector<std::string>{"sum", "max", "min"});
  const std::string matrix = fmt::format("input x: f32[{}, {}]; ", rows, columns);
  const std::string vector = fmt::format("input x: f32[{}]; ", columns);
  const std::string text =
      random.chance(0.3)
          ? matrix + fmt::format("out: f32[i={}] = {}(k={}) x[i, k]", rows, combine, columns)
      : random.chance(0.3)
          ? fmt::format(
                "input x: f32[{0}, {1}]; input y: f32[{1}]; out: f32[i={1}] = {2}(k={0}) "
                "select(k % 7 == {3}, x[k, i], x[k, i] * y[i])",
                columns, rows, combine, random.below(9))
      : random.chance(0.3)
          ? matrix + fmt::format("out: f32[] = {}(i={}, k={}) x[i, k]", combine, rows, columns)
      : random.chance(0.3)
          ? matrix + fmt::format("s: f32[] = {}(k={}, i={}) x[i, k]; out: f32[] = exp(s[] * 0.01)",
                                 combine, columns, rows)
      : random.chance(0.2) ? fmt::format(
                                 "input x: f32[{0}, {1}, 11]; out: f32[] = {2}(a={0}, "
                                 "b={1}, c=11) x[a, b, c]",
                                 3 + rows, 2 + columns % 13, combine)
      : random.chance(0.4)
          ? matrix + fmt::format(
                         "m: f32[] = {0}(k={1}) x[0, k]; out: f32[i={2}, k={1}] = x[i, k] "
                         "- m[]",
                         combine, columns, rows)
          : vector + fmt::format(
                         "m: f32[] = max(k={0}) x[k]; e: f32[k={0}] = exp(x[k] - m[]); "
                         "s: f32[] = sum(k={0}) e[k]; out: f32[k={0}] = e[k] / s[]",
                         columns);
  return sampled_pair(text, 2e-5, random, wanted);
}

inline bool is_simt(const FormPair& pair) {
  return has_step<CacheOperand>(pair) && !has_step<Tensorize>(pair);
}
inline bool is_mma(const FormPair& pair) { return has_tile(pair, false); }
inline bool is_wgmma(const FormPair& pair) { return has_tile(pair, true); }
inline bool is_copied_by_tma(const FormPair& pair) { return has_step<Bulk>(pair); }
inline bool is_wgmma_by_tma(const FormPair& pair) {
  return is_wgmma(pair) && is_copied_by_tma(pair);
}
inline bool is_specialised(const FormPair& pair) { return has_step<Specialise>(pair); }
inline bool is_persistent(const FormPair& pair) { return has_step<Persist>(pair); }
inline bool is_bounded(const FormPair& pair) { return has_step<LaunchBounds>(pair); }
inline bool stages_results(const FormPair& pair) { return has_step<CacheResult>(pair); }
inline bool splits_sums(const FormPair& pair) {
  return has_step<CacheOperand>(pair) && has_step<Rfactor>(pair);
}
inline bool keeps_rows(const FormPair& pair) { return !kept_stages(pair.schedule).empty(); }
inline bool is_lanes(const FormPair& pair) { return has_strategy(pair, "gpu_lanes"); }
inline bool has_parts(const FormPair& pair) {
  return pair.configuration.find(" parts=") != std::string::npos;
}
inline bool is_elementwise(const FormPair& pair) { return has_strategy(pair, "gpu_elementwise"); }

/// All forms.
inline constexpr KernelForm kernel_forms[] = {
    {"simt", is_simt, small_product_pair<is_simt>},
    {"mma", is_mma, tile_pair<is_mma>},
    {"wgmma", is_wgmma, warpgroup_pair<is_wgmma>},
    {"tma", is_copied_by_tma, tma_pair<is_copied_by_tma>},
    {"wgmma_by_tma", is_wgmma_by_tma, tma_pair<is_wgmma_by_tma>},
    {"producers", is_specialised, tma_pair<is_specialised>},
    {"persistent", is_persistent, tma_pair<is_persistent>},
    {"launch_bounds", is_bounded, tma_pair<is_bounded>},
    {"staged_results", stages_results, tma_pair<stages_results>},
    {"split_sums", splits_sums, long_sum_pair<splits_sums>},
    {"boxes_of_pixels", copies_pixels, box_pair},
    {"rows_in_registers", keeps_rows, kept_row_pair},
    {"lanes", is_lanes, row_pair<is_lanes>},
    {"rows_in_parts", has_parts, parts_pair<has_parts>},
    {"elementwise", is_elementwise, row_pair<is_elementwise>},
};

/// Returns a random pair that has the form. Draws up to 200 times.
inline FormPair random_pair_of(const KernelForm& form, uint64_t seed) {
  Random random(mix(short_hash_number(form.name), seed));
  for (int tries = 0; tries < 200; ++tries)
    if (auto pair = form.draw(random); pair && form.has(*pair)) return *pair;
  TW_CHECK(false, "200 draws have no pair of this form");
  std::abort();
}

/// Numbers of pairs by form. A pair counts for each of its forms.
struct FormTally {
  int64_t pairs = 0;
  std::map<std::string, int64_t> forms;

  void add(const FormPair& pair) {
    ++pairs;
    for (const KernelForm& form : kernel_forms) forms[form.name] += form.has(pair);
  }
  std::string text() const {
    std::vector<std::string> parts;
    for (const KernelForm& form : kernel_forms)
      if (const auto at = forms.find(form.name); at != forms.end() && at->second > 0)
        parts.push_back(fmt::format("{} {}", at->second, form.name));
    return fmt::format("{} pairs: {}", pairs, join(parts, ", "));
  }
};

}  // namespace tw::schedules
