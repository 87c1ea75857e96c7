// SPDX-License-Identifier: Apache-2.0
// Tests kernels as NVRTC compiles them. The interpreter of PTX runs them under the fake driver.
// They must compute what the declared expression means, and do nothing that PTX leaves undefined.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/nightly.h"
#include "tests/ptx/launches.h"
#include "tests/schedules/mn_major_products.h"
#include "tests/schedules/property.h"
#include "tests/schedules/random_box_convolution.h"
#include "tests/schedules/random_bulk_product.h"
#include "tests/schedules/random_rounded_product.h"
#include "tests/schedules/random_rows.h"
#include "tests/schedules/random_tensor_product.h"

namespace tw::ptx {
namespace {

using codegen::GpuCase;
using schedules::Schedule;
using schedules::Storage;

/// Interprets a case after matches of the regular expression `from` in its PTX are replaced by
/// `to`. Returns the interpreter's error, "differs" if the outputs are wrong, or "" if they are
/// right.
std::string verdict(const Compiled& compiled, const GpuCase& c, const std::string& from,
                    const std::string& to) {
  Compiled changed = compiled;
  changed.ptx = std::regex_replace(compiled.ptx, std::regex(from), to);
  EXPECT_NE(changed.ptx, compiled.ptx) << from;
  const auto outputs = outputs_of(changed, {&c, 1}, {});
  if (!outputs) return outputs.error().message;
  return codegen::difference(c.program, c.expected, (*outputs)[0], c.slack, c.slack).empty()
             ? ""
             : "differs";
}

GpuCase case_of(const std::string& title, const dsl::Compute& compute, const Schedule& schedule,
                uint64_t seed, double tolerance) {
  return codegen::interpreted_case(title, compute, schedule, seed, std::max(tolerance, 4e-6));
}

GpuCase plain_case(uint64_t seed) {
  Random random(seed);
  const auto [compute, tolerance] = schedules::random_compute(random);
  schedules::Tally tally;
  const Schedule schedule =
      schedules::random_schedule(random, compute, tally, schedules::Favour::Threads);
  return case_of(dsl::to_text(compute), compute, schedule, seed, tolerance);
}
GpuCase tensor_core_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_tensor_product(random);
  return case_of(workload.key(), workload.compute, schedule, seed, 1e-3);
}
GpuCase tma_case(uint64_t seed) {
  Random random(seed);
  const auto [compute, schedule] = schedules::random_bulk_product(random);
  return case_of(dsl::to_text(compute), compute, schedule, seed, 0);
}
GpuCase warpgroup_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_warpgroup_product(random);
  return case_of(workload.key(), workload.compute, schedule, seed, 1e-3);
}
GpuCase rounded_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_rounded_product(random);
  return case_of(workload.key(), workload.compute, schedule, seed, 1e-2);
}
GpuCase box_convolution_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_box_convolution(random);
  return case_of(workload.key(), workload.compute, schedule, seed, 1e-2);
}

GpuCase rows_case(uint64_t seed) {
  Random random(seed);
  const auto [compute, schedule] = schedules::random_rows(random);
  return case_of(dsl::to_text(compute), compute, schedule, seed, schedules::rows_tolerance);
}

class PtxKernels : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = codegen::open_nvrtc();
    if (!opened) GTEST_SKIP() << "[SKIP] " << opened.error().message;
    nvrtc_.emplace(*opened);
  }

  /// Makes `count` cases and compiles them as one text, which is faster than one by one.
  void run(GpuCase (*make)(uint64_t), uint64_t first_seed, int count) {
    std::vector<GpuCase> cases;
    for (int i = 0; i < count; ++i) cases.push_back(make(first_seed + static_cast<uint64_t>(i)));
    if (!HasFailure()) expect_ptx_agrees(*nvrtc_, cases);
  }

  std::optional<codegen::Nvrtc> nvrtc_;
};

TEST_F(PtxKernels, OfRandomComputesAgree) {
  run(plain_case, 1, 25);
  run(plain_case, 101, 25);
}
TEST_F(PtxKernels, OfTensorCoresAgree) { run(tensor_core_case, 1, 24); }
TEST_F(PtxKernels, OfTheCopyEngineAgree) { run(tma_case, 1, 24); }
TEST_F(PtxKernels, OfWarpgroupsAgree) { run(warpgroup_case, 1, 6); }
TEST_F(PtxKernels, OfRoundedProductsAgree) { run(rounded_case, 1, 16); }
TEST_F(PtxKernels, OfBoxConvolutionsAgree) { run(box_convolution_case, 1, cases_of(4, 40)); }
TEST_F(PtxKernels, OfRowsInRegistersAgree) { run(rows_case, 1, 20); }
TEST_F(PtxKernels, OfMnMajorFactorsAgree) {
  std::vector<GpuCase> cases;
  for (const schedules::MnMajorProduct& p : due(schedules::mn_major_products(), 2))
    cases.push_back(case_of(title_of(p), compute_of(p), schedule_of(p), 5, 0));
  expect_ptx_agrees(*nvrtc_, cases);
}

// Each row changes instructions in inline assembler. The host emulator skips inline assembler, so
// it would not notice these defects.
TEST_F(PtxKernels, WrongInstructionsShow) {
  const auto products = schedules::mn_major_products();
  const auto find = [&](const char* copies) {
    return *std::ranges::find_if(products, [&](const schedules::MnMajorProduct& p) {
      return title_of(p).find("stages=2") != std::string::npos &&
             title_of(p).find(copies) != std::string::npos;
    });
  };
  struct Defect {
    const char *from, *to, *shows;
  };
  const Defect of_threads[] = {
      {"wgmma.wait_group.sync.aligned 0;", "", "wgmma"},
      {"wgmma.commit_group.sync.aligned;", "", "wgmma"},
      {"p, 1, 1, 0, 1;", "p, 1, 1, 0, 0;", "that a wgmma still reads"},
      {"cp.async.wait_group [0-9]+;", "", "asynchronous copy still writes"},
      {"fence.proxy.async.shared::cta;", "", "without fence.proxy.async"},
      {"bar.sync[ \\t]+0;", "", "without a barrier"},
  };
  const Defect of_boxes[] = {
      {"wgmma.wait_group.sync.aligned 0;", "", "wgmma"},
      {"p, 1, 1, 0, 1;", "p, 1, 1, 0, 0;", "differs"},
      {"mbarrier.init.shared::cta.b64 (.*), (.*);", "mbarrier.init.shared::cta.b64 $1, 2;",
       "never comes"},
      {"mbarrier.expect_tx[^;]*;", "", "asynchronous copy still writes"},
      {"selp.u32 (%r[0-9]+), 1, 0, p;", "mov.u32 $1, 1;", "asynchronous copy still writes"},
  };
  const auto expect_shown = [&](const schedules::MnMajorProduct& p, std::span<const Defect> some) {
    const GpuCase c = case_of(title_of(p), compute_of(p), schedule_of(p), 5, 0);
    const auto compiled = compile(*nvrtc_, {&c, 1});
    ASSERT_TRUE(compiled) << compiled.error().message;
    for (const Defect& defect : some)
      EXPECT_THAT(verdict(*compiled, c, defect.from, defect.to), testing::HasSubstr(defect.shows))
          << defect.from;
  };
  expect_shown(find("copies=0"), of_threads);
  expect_shown(find("copies=1"), of_boxes);
}

// Tensor cores truncate, so products by split TF32 add their partial sums outside of them. Their
// error is below the documented 2e-5 of the largest result.
TEST_F(PtxKernels, SplitTf32IsAccurateInLongSums) {
  constexpr int64_t rows = 32, columns = 32, terms = 4096;
  const auto workload =
      dsl::parse_workload(fmt::format("dense m={} n={} k={} f32 fast", rows, columns, terms));
  ASSERT_TRUE(workload) << workload.error().message;
  const auto space = schedules::Space::derive(workload->compute, *parse_target("cuda:sm_90a"));
  const auto point = schedules::changed(space, space.default_point(), {{"split", 1}});
  ASSERT_TRUE(point && space.allowed(*point));
  const Schedule schedule = space.schedule(*point);
  ASSERT_NE(schedule.to_string().find("3xtf32"), std::string::npos) << schedule.to_string();
  GpuCase c{.title = schedule.to_string(), .program = schedule.program().value()};
  c.inputs = codegen::real_inputs(c.program, 1);
  const auto compiled = compile(*nvrtc_, {&c, 1});
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto outputs = outputs_of(*compiled, {&c, 1}, {});
  ASSERT_TRUE(outputs) << outputs.error().message;
  const auto value = [&](const Storage& storage, const char* name, int64_t i) {
    return load_float(Float32, storage.at(name).data(), i);
  };
  double error = 0, largest = 0;
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < columns; ++n) {
      double want = 0;
      for (int64_t k = 0; k < terms; ++k)
        want += value(c.inputs, "a", m * terms + k) * value(c.inputs, "b", k * columns + n);
      largest = std::max(largest, std::fabs(want));
      error = std::max(error, std::fabs(want - value((*outputs)[0], "out", m * columns + n)));
    }
  EXPECT_LT(error, 2e-5 * largest) << error / largest;
}

}  // namespace
}  // namespace tw::ptx
