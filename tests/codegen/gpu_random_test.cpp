// SPDX-License-Identifier: Apache-2.0
// Tests random computes with random legal schedules that have threads, shared memory and barriers,
// and products with points of their spaces, on small odd shapes. The meaning of the compute, the
// interpreter of programs, the CUDA text on its host emulator and the OpenCL text on a device must
// agree.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <fstream>
#include <stdexcept>
#include <tuple>

#include "base/text.h"
#include "dsl/workload.h"
#include "schedules/program/threads.h"
#include "schedules/program/tma_copies.h"
#include "schedules/space/space.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/nightly.h"
#include "tests/schedules/mn_major_products.h"
#include "tests/schedules/property.h"
#include "tests/schedules/random_box_convolution.h"
#include "tests/schedules/random_bulk_product.h"
#include "tests/schedules/random_constants.h"
#include "tests/schedules/random_problem.h"
#include "tests/schedules/random_rounded_product.h"
#include "tests/schedules/random_rows.h"
#include "tests/schedules/random_tensor_product.h"

namespace tw::codegen {
namespace {

using schedules::Schedule;

/// Numbers of the cases that have certain features.
struct Seen {
  int64_t cases = 0, threads = 0, shared = 0, barriers = 0, partial = 0, several_phases = 0;
  int64_t tiles = 0, pipelines = 0, boxes = 0;

  void add(const Program& program) {
    ++cases;
    several_phases += program.phases.size() > 1;
    bool any_threads = false, any_shared = false, any_barrier = false, any_partial = false;
    bool any_tile = false;
    bool any_pipeline = false;
    bool any_box = false;
    for (const auto& phase : program.phases) {
      const int64_t most = schedules::threads_of(*phase.body);
      any_threads |= most > 1;
      any_shared |= schedules::shared_bytes(*phase.body) > 0;
      any_box |= schedules::has_tma_copies(*phase.body);
      schedules::for_each(*phase.body, [&](const schedules::Stmt& stmt) {
        any_barrier |= stmt.as<schedules::Barrier>() != nullptr;
        any_pipeline |= stmt.as<schedules::Wait>() != nullptr;
        const auto* loop = stmt.as<schedules::Loop>();
        any_tile |= loop && loop->tile;
        if (loop && loop->kind == schedules::LoopKind::Thread)
          any_partial |= schedules::thread_nest(*loop).threads() < most;
      });
    }
    threads += any_threads;
    shared += any_shared;
    barriers += any_barrier;
    partial += any_partial;
    tiles += any_tile;
    pipelines += any_pipeline;
    boxes += any_box;
  }

  std::string text() const {
    return fmt::format(
        "{} cases: {} with threads, {} with shared memory, {} with barriers, {} with nests of "
        "fewer threads than the block, {} with several phases, {} with tensor tiles, {} with "
        "pipelines, {} with bulk copies",
        cases, threads, shared, barriers, partial, several_phases, tiles, pipelines, boxes);
  }
};

/// Returns a random matrix product or convolution of a small odd shape.
dsl::Compute small_product(Random& random) {
  const auto between = [&](int64_t low, int64_t high) { return low + random.below(high - low); };
  const std::string type = random.pick(std::vector<std::string>{"f32", "f32", "f16", "i8"});
  std::string text;
  switch (random.below(3)) {
    case 0:
      text = fmt::format("dense m={} n={} k={}", between(1, 40), between(1, 40), between(1, 80));
      break;
    case 1:
      text = fmt::format("batch_matmul b=2 m={} n={} k={}", between(1, 20), 4 * between(1, 5),
                         4 * between(1, 20));
      break;
    default:
      text = fmt::format("conv2d n=1 c={} h={} w={} k={} r=3 s=3 stride={} pad=1", between(1, 12),
                         between(3, 9), between(3, 9), between(1, 12), between(1, 3));
  }
  const auto workload = dsl::parse_workload(text + " " + type + " fast");
  TW_CHECK(workload, "these shapes are of workloads");
  return workload->compute;
}

/// Returns a small_product() with a random legal schedule of its space for sm_90a or for OpenCL.
std::pair<dsl::Compute, Schedule> random_product(Random& random) {
  const dsl::Compute compute = small_product(random);
  const Target target = *parse_target(random.chance(0.7) ? "cuda:sm_90a" : "opencl");
  const auto space = schedules::Space::derive(compute, target);
  Schedule schedule = space.schedule(space.sample(random));
  while (!schedule.program()) schedule = space.schedule(space.sample(random));
  return {compute, schedule};
}

struct Drawn {
  dsl::Compute compute;
  double tolerance;
  Schedule schedule;
};

/// Draws a case. One seed in five gives a product by tensor tiles. Of the others, one in seven uses
/// TMA copies. Of the rest, a third comes from a search space for GPUs, where operands pass through
/// shared memory, mostly in pipelines; the others are random schedules.
Drawn draw(uint64_t seed) {
  Random random(seed);
  if (seed % 5 == 0) {
    const auto [workload, schedule] = schedules::random_tensor_product(random);
    return {workload.compute, 0, schedule};
  }
  if (seed % 7 == 0) {
    const auto [compute, schedule] = schedules::random_bulk_product(random);
    return {compute, 0, schedule};
  }
  if (seed % 3 == 0) {
    const auto [compute, schedule] = random_product(random);
    return {compute, 1e-3, schedule};
  }
  const auto [compute, tolerance] = schedules::random_compute(random);
  schedules::Tally tally;
  return {compute, tolerance,
          schedules::random_schedule(random, compute, tally, schedules::Favour::Threads)};
}

GpuCase make_case(uint64_t seed) {
  const auto [compute, tolerance, schedule] = draw(seed);
  const Program program = schedule.program().value();
  const std::string title =
      fmt::format("seed {}\n{}\n{}", seed, dsl::to_text(compute), schedule.to_string());
  const auto different = schedules::disagreement(compute, program, seed, tolerance);
  EXPECT_FALSE(different) << title << "\n" << to_string(program) << "\n" << *different;
  const dsl::Arrays arrays = schedules::exact_inputs(compute, seed);
  Storage inputs;
  for (const auto& argument : program.arguments)
    if (!argument.is_output && !argument.prepared)
      inputs[argument.buffer.name] = schedules::packed(argument, arrays.at(argument.buffer.name));
  return gpu_case(title, program, inputs, std::max(tolerance, 4e-6));
}

GpuCase case_of(const std::string& title, const dsl::Compute& compute, const Schedule& schedule,
                const Target& target, uint64_t seed, double slack = 4e-6) {
  const Program program = schedule.program(schedules::limits_of(target)).value();
  const dsl::Arrays arrays = schedules::exact_inputs(compute, seed);
  Storage inputs;
  for (const auto& argument : program.arguments)
    if (!argument.is_output && !argument.prepared)
      inputs[argument.buffer.name] = schedules::packed(argument, arrays.at(argument.buffer.name));
  return gpu_case(fmt::format("seed {}\n{}\n{}", seed, title, schedule.to_string()), program,
                  inputs, slack);
}

GpuCase warpgroup_case(const std::string& title, const dsl::Compute& compute,
                       const Schedule& schedule, uint64_t seed) {
  return case_of(title, compute, schedule, *parse_target("cuda:sm_90a"), seed);
}

/// Returns a compute with layouts that are asked for, for some of its inputs and outputs, and a
/// random legal schedule of its space. Two of three seeds give a product, one of them a product
/// that is large enough for tensor tiles.
GpuCase make_case_with_layouts(uint64_t seed, const Target& target) {
  Random random(seed);
  const auto [compute, tolerance] =
      seed % 3 == 0 ? schedules::random_compute(random)
      : seed % 3 == 1
          ? schedules::RandomCompute{small_product(random), 0}
          : schedules::RandomCompute{schedules::random_tensor_product(random).workload.compute, 0};
  const schedules::Problem problem = schedules::random_problem(random, compute);
  const auto space = schedules::Space::derive(problem, target).value();
  const schedules::Limits limits = schedules::limits_of(target);
  Schedule schedule = space.schedule(space.sample(random));
  for (int samples = 1; !schedule.program(limits); ++samples) {
    if (samples == 1000)
      throw std::runtime_error(fmt::format("seed {}: no legal sample of\n{}\n{}\n{}", seed,
                                           dsl::to_text(compute), schedule.to_string(),
                                           schedule.program(limits).error().message));
    schedule = space.schedule(space.sample(random));
  }
  const auto different = schedules::disagreement(compute, schedule.program(limits).value(), seed,
                                                 std::max(tolerance, 1e-3));
  EXPECT_FALSE(different) << schedule.to_string() << *different;
  return case_of(dsl::to_text(compute), compute, schedule, target, seed, std::max(tolerance, 4e-6));
}

std::vector<GpuCase> cases_with_layouts(uint64_t first_seed, int64_t count, const char* target) {
  std::vector<GpuCase> cases;
  for (int64_t i = 0; i < count && !testing::Test::HasFailure(); ++i)
    cases.push_back(
        make_case_with_layouts(first_seed + static_cast<uint64_t>(i), *parse_target(target)));
  return cases;
}

GpuCase make_warpgroup_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_warpgroup_product(random);
  return warpgroup_case(workload.key(), workload.compute, schedule, seed);
}

/// Returns cases of every `share`-th of the mn_major_products(), or of all of them under
/// TW_NIGHTLY.
std::vector<GpuCase> mn_major_cases(size_t share) {
  std::vector<GpuCase> cases;
  for (const schedules::MnMajorProduct& p : due(schedules::mn_major_products(), share))
    cases.push_back(warpgroup_case(title_of(p), compute_of(p), schedule_of(p), 5));
  return cases;
}

/// Expects that the legality check counts at least as much shared memory as the kernel asks for.
void expect_shared_memory_is_counted(const GpuCase& c) {
  const auto code = emit_gpu(c.program, "k", GpuDialect::Cuda);
  ASSERT_TRUE(code) << code.error().message;
  for (size_t i = 0; i < code->kernels.size(); ++i)
    EXPECT_LE(code->kernels[i].shared_bytes, schedules::shared_bytes(*c.program.phases[i].body))
        << c.title;
}

/// Returns products with results that are rounded to 16 bits. At least a sixth of the texts stores
/// results packed, and at least a sixth one by one.
std::vector<GpuCase> rounded_products(uint64_t first_seed, int64_t count) {
  std::vector<GpuCase> cases;
  int64_t packed = 0, guarded = 0;
  for (int64_t i = 0; i < count; ++i) {
    Random random(first_seed + static_cast<uint64_t>(i));
    const auto [workload, schedule] = schedules::random_rounded_product(random);
    cases.push_back(case_of(workload.key(), workload.compute, schedule,
                            *parse_target("cuda:sm_90a"), first_seed, 1e-2));
    const std::string text = emit_gpu(cases.back().program, "k", GpuDialect::Cuda)->text;
    const size_t kernels = text.find("extern \"C\"");
    packed += text.find("tw_pack_", kernels) != std::string::npos;
    guarded += text.find("] = tw_to_", kernels) != std::string::npos;
  }
  EXPECT_GE(packed * 6, count);
  EXPECT_GE(guarded * 6, count);
  return cases;
}

/// Number of cases in one text. In a small text a failure is easier to find. A larger text shares
/// the fixed costs of compilers.
constexpr int64_t batch = 20;

template <typename Expect>
void run(uint64_t first_seed, int64_t cases, Expect&& expect) {
  Seen seen;
  for (int64_t done = 0; done < cases && !testing::Test::HasFailure(); done += batch) {
    std::vector<GpuCase> some;
    for (int64_t i = done; i < std::min(done + batch, cases); ++i) {
      some.push_back(make_case(first_seed + static_cast<uint64_t>(i)));
      seen.add(some.back().program);
      expect_shared_memory_is_counted(some.back());
    }
    if (!testing::Test::HasFailure()) expect(some);
  }
  if (testing::Test::HasFailure()) return;
  printf("%s\n", seen.text().c_str());
  EXPECT_GE(seen.threads * 2, seen.cases);
  EXPECT_GE(seen.shared * 10, seen.cases);
  EXPECT_GE(seen.barriers * 10, seen.cases);
  EXPECT_GE(seen.partial * 20, seen.cases);
  EXPECT_GE(seen.several_phases * 10, seen.cases);
  EXPECT_GE(seen.tiles * 10, seen.cases);
  EXPECT_GE(seen.pipelines * 6, seen.cases);
  EXPECT_GE(seen.boxes * 14, seen.cases);
}

void run_emulated(uint64_t first_seed, int64_t cases) {
  run(first_seed, cases, [](const std::vector<GpuCase>& some) { expect_emulation_agrees(some); });
}

void run_opencl(uint64_t first_seed, int64_t cases) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  run(first_seed, cases,
      [&](const std::vector<GpuCase>& some) { expect_opencl_agrees(**device, some); });
}

void run_cuda(uint64_t first_seed, int64_t cases) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << device.error().message;
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  run(first_seed, cases,
      [&](const std::vector<GpuCase>& some) { expect_cuda_agrees(**device, *nvrtc, some); });
}

/// Returns random schedules of computes with stages that read only constants. Each program and each
/// preparation is a case.
std::vector<GpuCase> prepared_cases(uint64_t first_seed, uint64_t count) {
  std::vector<GpuCase> cases;
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    Random random(seed);
    const dsl::Compute compute = schedules::random_constants(random);
    schedules::Tally tally;
    const Schedule schedule =
        schedules::random_schedule(random, compute, tally, schedules::Favour::Threads);
    const Program program = *schedule.program();
    const dsl::Arrays arrays = schedules::exact_inputs(compute, seed);
    const auto add = [&](const Program& part) {
      Storage inputs;
      for (const auto& argument : part.arguments)
        if (!argument.is_output && !argument.prepared)
          inputs[argument.buffer.name] =
              schedules::packed(argument, arrays.at(argument.buffer.name));
      cases.push_back(
          gpu_case(fmt::format("seed {}\n{}", seed, schedule.to_string()), part, inputs));
    };
    add(program);
    if (program.preparation) add(*program.preparation);
  }
  return cases;
}

TEST(GpuRandom, PreparedStagesAgreeOnTheEmulator) {
  const std::vector<GpuCase> cases = prepared_cases(1, 30);
  EXPECT_GE(cases.size(), 40u);
  expect_emulation_agrees(cases);
}
TEST(GpuRandom, PreparedStagesAgreeOnOpenCl) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, prepared_cases(101, 20));
}

TEST(GpuRandom, NvrtcCompilesSchedules) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  run(201, 60, [&](const std::vector<GpuCase>& some) { expect_nvrtc_compiles(*nvrtc, some); });
}
TEST(GpuRandom, SchedulesAgreeOnTheEmulator) { run_emulated(1, 60); }
TEST(GpuRandom, SchedulesAgreeOnOpenCl) { run_opencl(101, 40); }
TEST(GpuRandom, SchedulesAgreeOnCuda) { run_cuda(301, 60); }

// Only sm_90a has these instructions; OpenCL and other architectures run the loops.
TEST(GpuRandom, WarpgroupsAgreeOnTheEmulator) {
  std::vector<GpuCase> cases;
  for (uint64_t seed = 1; seed <= 8; ++seed) cases.push_back(make_warpgroup_case(seed));
  expect_emulation_agrees(cases);
}

TEST(GpuRandom, RoundedProductsAgreeOnTheEmulator) {
  expect_emulation_agrees(rounded_products(1, 24));
}

TEST(GpuRandom, RoundedProductsAgreeOnOpenCl) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, rounded_products(101, 16));
}

TEST(GpuRandom, LayoutsThatAreAskedForAgreeOnTheEmulator) {
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"})
    expect_emulation_agrees(cases_with_layouts(1, batch, target));
}
TEST(GpuRandom, LayoutsThatAreAskedForAgreeOnOpenCl) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, cases_with_layouts(101, batch, "opencl"));
}
TEST(GpuRandom, NvrtcCompilesLayoutsThatAreAskedFor) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  expect_nvrtc_compiles(*nvrtc, cases_with_layouts(201, 12, "cuda:sm_80"));
}

GpuCase case_of_workload(const dsl::Workload& workload, const Schedule& schedule, uint64_t seed) {
  return interpreted_case(workload.key(), workload.compute, schedule, seed, 1e-2);
}

/// Returns convolutions with pixels that TMA copies as rectangles.
std::vector<GpuCase> box_convolutions(uint64_t first_seed, int64_t count) {
  std::vector<GpuCase> cases;
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(count); ++seed) {
    Random random(seed);
    const auto [workload, schedule] = schedules::random_box_convolution(random);
    cases.push_back(case_of_workload(workload, schedule, seed));
  }
  return cases;
}

/// Returns `of_each` schedules of each of five products. The sums are split over blocks of threads,
/// and TMA copies operands.
std::vector<GpuCase> split_products(int of_each) {
  const Target target = *parse_target("cuda:sm_90a");
  std::vector<GpuCase> cases;
  for (const char* key :
       {"dense m=65 n=72 k=320 bf16 fast", "dense m=20 n=72 k=512 f32 fast",
        "batch_matmul b=2 m=65 n=72 k=320 f16 fast",
        "conv2d n=2 c=192 h=8 w=8 k=64 r=3 s=3 stride=2 pad=1 dilation=1 groups=1 f16 fast "
        "{in=NHWC out=NHWC w=HWIO}",
        "conv2d n=2 c=160 h=7 w=6 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 bf16 fast "
        "{in=NHWC out=NHWC}"}) {
    const auto workload = dsl::parse_workload(key);
    const auto space =
        schedules::Space::derive(schedules::Problem{workload->compute, workload->layouts}, target);
    Random random(1);
    for (int found = 0; found < of_each;) {
      const auto point = schedules::bulk_point(*space, random);
      if (!point) break;
      if (schedules::value_of(*space, *point, "split", 1) == 1) continue;
      ++found;
      cases.push_back(case_of_workload(*workload, space->schedule(*point), 1));
    }
  }
  return cases;
}

/// Returns rows that threads keep in registers.
std::vector<GpuCase> rows_in_registers(uint64_t first_seed, int64_t count) {
  std::vector<GpuCase> cases;
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(count); ++seed) {
    Random random(seed);
    const auto [compute, schedule] = schedules::random_rows(random);
    cases.push_back(interpreted_case(dsl::to_text(compute), compute, schedule, seed,
                                     schedules::rows_tolerance));
  }
  return cases;
}

TEST(GpuRandom, RowsInRegistersAgreeOnTheEmulator) {
  for (uint64_t first_seed : {1, 101})
    expect_emulation_agrees(rows_in_registers(first_seed, batch));
}
TEST(GpuRandom, RowsInRegistersAgreeOnOpenCl) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, rows_in_registers(1001, batch));
}
TEST(GpuRandom, RowsInRegistersAgreeOnCuda) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << device.error().message;
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  expect_cuda_agrees(**device, *nvrtc, rows_in_registers(1001, 2 * batch));
}

TEST(SplitSums, OfBoxesAgreeOnTheEmulator) {
  const int of_each = cases_of(1, 3);
  const std::vector<GpuCase> cases = split_products(of_each);
  EXPECT_EQ(cases.size(), static_cast<size_t>(5 * of_each));
  expect_emulation_agrees(cases);
}

TEST(BoxConvolutions, AgreeOnTheEmulator) {
  const int64_t count = cases_of(8, 400);
  for (int64_t done = 0; done < count && !testing::Test::HasFailure(); done += batch)
    expect_emulation_agrees(
        box_convolutions(1 + static_cast<uint64_t>(done), std::min(batch, count - done)));
}

TEST(MnMajor, ProductsAgreeOnTheEmulator) { expect_emulation_agrees(mn_major_cases(4)); }

/// Returns products with blocks of 128 by 256, copies by producers and four stages, which is the
/// fastest configuration on sm_90a. They have tails. The second factor is K-major in one and
/// MN-major in the other. The producers hand registers to 256 consumers.
std::vector<GpuCase> large_blocks_by_producers() {
  std::vector<GpuCase> cases;
  for (const bool across : {false, true}) {
    schedules::MnMajorProduct p{72, 320, 264,
                                schedules::in_bulk(4, true,
                                                   {{"block.rows", 128},
                                                    {"block.columns", 256},
                                                    {"warps.rows", 2},
                                                    {"warps.columns", 1},
                                                    {"tiles", 4}})};
    p.across_b = across;
    cases.push_back(warpgroup_case(title_of(p), compute_of(p), schedule_of(p), 6));
  }
  return cases;
}

TEST(Producers, LargeBlocksAgreeOnTheEmulator) {
  expect_emulation_agrees(large_blocks_by_producers());
}

/// Runs the cases on the GPU of this machine if it is of sm_90. Otherwise skips the test and says
/// why.
void expect_hopper_agrees(std::vector<GpuCase> (*make_cases)()) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << device.error().message;
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  if ((*device)->facts().architecture != "sm_90")
    GTEST_SKIP() << (*device)->facts().architecture << " has no such instructions";
  for (const GpuCase& each : make_cases()) expect_cuda_agrees(**device, *nvrtc, {&each, 1});
}

TEST(Producers, LargeBlocksAgreeOnCuda) { expect_hopper_agrees(large_blocks_by_producers); }

TEST(SplitSums, OfBoxesAgreeOnCuda) {
  expect_hopper_agrees([] { return split_products(3); });
}

TEST(BoxConvolutions, AgreeOnCuda) {
  expect_hopper_agrees([] { return box_convolutions(1001, batch); });
}

TEST(MnMajor, ProductsAgreeOnCuda) {
  expect_hopper_agrees([] { return mn_major_cases(1); });
}

// Tensor cores truncate when they add. If these sums were made inside of a tensor core, the error
// would be larger than `fast` allows.
TEST(LongSums, OfSplitTf32AgreeOnCuda) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << device.error().message;
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const auto workload = dsl::parse_workload("dense m=64 n=64 k=4096 f32 fast");
  const Target target = *parse_target("cuda:sm_90a");
  const auto space = schedules::Space::derive(workload->compute, target);
  const auto point = schedules::changed(space, space.default_point(), {{"split", 1}});
  ASSERT_TRUE(point && space.allowed(*point));
  const Schedule schedule = space.schedule(*point);
  ASSERT_NE(schedule.to_string().find("3xtf32"), std::string::npos) << schedule.to_string();
  const Program program = schedule.program(schedules::limits_of(target)).value();
  // `fast` allows an error of 2e-5 of the largest sum, which is about 300. The slack is multiplied
  // by the expected sum, and added to it as it is.
  const std::vector<GpuCase> cases = {
      gpu_case("3xTF32", program, real_inputs(program, 5), 300 * 2e-5)};
  expect_cuda_agrees(**device, *nvrtc, cases);
}

TEST(MnMajor, ProductsCompileForSm90aWithoutSpills) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  for (const GpuCase& each : mn_major_cases(6)) {
    const std::string text = emit_gpu(each.program, "k", GpuDialect::Cuda)->text;
    EXPECT_NE(text.find("tw_descriptor_mn<"), std::string::npos) << text;
    const auto code = nvrtc->compile(text, "sm_90a");
    ASSERT_TRUE(code) << each.title << code.error().message << text;
    EXPECT_EQ(code->functions[0].spill_store_bytes, 0) << each.title << "\n" << text;
    EXPECT_EQ(code->functions[0].stack_bytes, 0) << each.title;
  }
}

TEST(GpuRandom, WarpgroupsCompileForSm90a) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const GpuCase each = make_warpgroup_case(seed);
    const std::string text = emit_gpu(each.program, "k", GpuDialect::Cuda)->text;
    const auto code = nvrtc->compile(text, "sm_90a");
    ASSERT_TRUE(code) << each.title << code.error().message << text;
  }
}

/// Returns the products of two tables of bench/workloads, in f32: matrix products and 1 x 1
/// convolutions.
std::vector<dsl::Workload> bench_products() {
  std::vector<dsl::Workload> workloads;
  for (const char* table : {"gemm.tsv", "resnet50_conv.tsv"}) {
    std::ifstream in(std::string(TW_SOURCE_DIR "/bench/workloads/") + table);
    EXPECT_TRUE(in) << table;
    for (std::string line; std::getline(in, line);) {
      const std::vector<std::string> w = words(line);
      if (w.empty() || w[0].starts_with("#")) continue;
      std::string text;
      if (w.size() == 5)
        text = fmt::format("{} m={} n={} k={}",
                           w[1] == "1" ? "dense" : fmt::format("batch_matmul b={}", w[1]), w[2],
                           w[3], w[4]);
      else if (w[6] == "1")
        text = fmt::format("conv2d n=1 c={} h={} w={} k={} r=1 s=1 stride={}", w[2], w[3], w[4],
                           w[5], w[8]);
      if (text.empty()) continue;
      const auto workload = dsl::parse_workload(text + " f32 fast");
      EXPECT_TRUE(workload) << text << ": " << workload.error().message;
      if (workload) workloads.push_back(*workload);
    }
  }
  return workloads;
}

TEST(Nvrtc, CompilesBulkProductsOfTheBench) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const Target target = *parse_target("cuda:sm_90a");
  Random random(1);
  int compiled = 0, both = 0;
  for (const dsl::Workload& workload : due(bench_products(), 6)) {
    const auto space = schedules::Space::derive(workload.compute, target);
    auto point = schedules::bulk_point(space, random, 2);
    if (!point) point = schedules::bulk_point(space, random);
    if (!point) {  // no operand is a box
      for (const auto& knob : space.decisions())
        EXPECT_EQ(knob.name.find(".bulk."), std::string::npos) << workload.key();
      continue;
    }
    const auto program = space.schedule(*point).program(schedules::limits_of(target));
    ASSERT_TRUE(program) << workload.key() << "\n" << program.error().message;
    const auto code = emit_gpu(*program, "k", GpuDialect::Cuda);
    ASSERT_TRUE(code) << code.error().message;
    const auto cubin = nvrtc->compile(code->text, target.gpu);
    ASSERT_TRUE(cubin) << workload.key() << "\n" << cubin.error().message << code->text;
    ++compiled;
    both += code->kernels.back().maps.size() > 1;
  }
  EXPECT_GT(both, 0);  // with two tensor maps
  EXPECT_GE(compiled, cases_of(4, 20));
}

int64_t many() { return cases_asked_for(240); }
TEST(GpuRandom, ManySchedulesAgreeOnTheEmulator) {
  TW_ONLY_NIGHTLY();
  run_emulated(10000, many());
}

TEST(GpuRandom, ManyMnMajorProductsAgreeOnTheEmulator) {
  TW_ONLY_NIGHTLY();
  const auto nvrtc = open_nvrtc();
  int64_t transposing = 0, boxes = 0;
  for (int64_t done = 0; done < many() / 2 && !testing::Test::HasFailure(); done += batch) {
    std::vector<GpuCase> cases;
    for (int64_t i = done; i < done + batch; ++i) {
      Random random(static_cast<uint64_t>(40000 + i));
      const auto [compute, schedule] = schedules::random_mn_major_product(random);
      cases.push_back(
          warpgroup_case(dsl::to_text(compute), compute, schedule, static_cast<uint64_t>(i)));
      const std::string text = emit_gpu(cases.back().program, "k", GpuDialect::Cuda)->text;
      transposing += text.find("tw_descriptor_mn<") != std::string::npos;
      boxes += text.find("tw_copy_box<") != std::string::npos;
      if (!nvrtc || i % 8 != 0) continue;
      const auto code = nvrtc->compile(text, "sm_90a");
      ASSERT_TRUE(code) << cases.back().title << code.error().message << text;
    }
    expect_emulation_agrees(cases);
  }
  printf("%d transposed by the instruction, %d by the copy engine\n", static_cast<int>(transposing),
         static_cast<int>(boxes));
  EXPECT_GE(transposing * 4, many() / 2);
  EXPECT_GE(boxes * 4, many() / 2);
}

TEST(GpuRandom, ManyLayoutsThatAreAskedForAgreeOnTheEmulator) {
  TW_ONLY_NIGHTLY();
  for (int64_t done = 0; done < many() && !testing::Test::HasFailure(); done += batch)
    expect_emulation_agrees(cases_with_layouts(static_cast<uint64_t>(50000 + done), batch,
                                               done % 40 == 0 ? "cuda:sm_80" : "cuda:sm_90a"));
}

TEST(GpuRandom, ManyRoundedProductsAgreeOnTheEmulator) {
  TW_ONLY_NIGHTLY();
  for (int64_t done = 0; done < many() && !testing::Test::HasFailure(); done += batch)
    expect_emulation_agrees(rounded_products(static_cast<uint64_t>(60000 + done), batch));
}
TEST(GpuRandom, ManySchedulesAgreeOnOpenCl) {
  TW_ONLY_NIGHTLY();
  run_opencl(20000, many());
}
TEST(GpuRandom, ManySchedulesAgreeOnCuda) {
  TW_ONLY_NIGHTLY();
  run_cuda(30000, many());
}

}  // namespace
}  // namespace tw::codegen
