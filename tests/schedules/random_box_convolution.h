// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random convolutions of images in NHWC layout, with random points in which TMA copies the pixels
// as rectangles. Some images are padded, some windows have strides or dilation, and the rectangles
// need not divide the images.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"
#include "tests/schedules/random_bulk_product.h"

namespace tw::schedules {

struct BoxConvolutionCase {
  dsl::Workload workload;
  Schedule schedule;
};

/// Returns the key of a random convolution whose layouts allow TMA to copy the pixels.
inline std::string random_box_convolution_key(Random& random) {
  const auto between = [&](int64_t low, int64_t high) {
    return low + random.below(high - low + 1);
  };
  const int64_t r = between(1, 3), s = r == 1 ? between(2, 3) : between(1, 3);
  const bool is_padded = random.chance(0.7);
  const int64_t dilation = random.chance(0.2) ? 2 : 1;
  // Both sides of an axis are padded alike, and so little that each window reaches the image.
  const auto padding = [&](int64_t kernel) {
    return is_padded && kernel > 1 ? between(1, std::min<int64_t>((kernel - 1) * dilation, 2)) : 0;
  };
  const int64_t rows = padding(r), columns = padding(s);
  const int64_t stride = random.chance(0.3) ? 2 : 1;
  const std::string type = random.pick(std::vector<std::string>{"bf16", "bf16", "f16", "i8"});
  const int64_t unit = type == "i8" ? 16 : 8;
  const int64_t least = (type == "i8" ? 128 : 64) / (r * s);
  const int64_t channels = unit * std::max(between(1, 5), (least + unit - 1) / unit);
  const auto extent = [&](int64_t kernel) { return (kernel - 1) * dilation + between(2, 9); };
  const char* const weights = random.pick(
      std::vector<const char*>{"", "", " w=OHWI", " w=HWOI", type == "i8" ? "" : " w=HWIO"});
  return fmt::format(
      "conv2d n={} c={} h={} w={} k={} r={} s={} stride={} pad_top={} pad_left={} pad_bottom={} "
      "pad_right={} dilation={} groups=1 {} fast {{in=NHWC out={}{}}}",
      between(1, 4), channels, extent(r), extent(s), 64 + unit * between(0, 3), r, s, stride, rows,
      columns, rows, columns, dilation, type, random.chance(0.8) ? "NHWC" : "NCHW", weights);
}

/// Returns a convolution and a legal schedule in which TMA copies the pixels. Makes up to 50
/// convolutions, since a few have no such schedule. Appends the illegal schedules that it met to
/// `illegal`, unless it is null.
inline BoxConvolutionCase random_box_convolution(Random& random,
                                                 std::vector<std::string>* illegal = nullptr) {
  const Target target = *parse_target("cuda:sm_90a");
  for (int convolutions = 0; convolutions < 50; ++convolutions) {
    const auto workload = dsl::parse_workload(random_box_convolution_key(random));
    EXPECT_TRUE(workload) << workload.error().message;
    const auto space = Space::derive(Problem{workload->compute, workload->layouts}, target);
    EXPECT_TRUE(space) << space.error().message;
    for (int tries = 0; tries < 400; ++tries) {
      const Schedule schedule = space->schedule(space->sample(random));
      const std::vector<std::string> operands = tma_operands(schedule);
      if (std::ranges::none_of(operands, [](const auto& o) { return o.starts_with("in@"); }))
        continue;
      if (schedule.program(limits_of(target))) return {*workload, schedule};
      if (illegal) illegal->push_back(workload->key() + "\n" + schedule.to_string());
    }
  }
  TW_CHECK(false, "50 convolutions have no point in which TMA copies the pixels");
  std::abort();
}

}  // namespace tw::schedules
