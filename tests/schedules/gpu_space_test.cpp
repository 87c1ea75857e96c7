// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"
#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/program/threads.h"
#include "schedules/program/tma_copies.h"
#include "schedules/space/space.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/random_box_convolution.h"
#include "tests/schedules/random_bulk_product.h"
#include "tests/schedules/random_rows.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

/// Operators and shapes that have every kind of stage. The sizes are small enough for the
/// interpreters, and blocks do not divide them.
constexpr std::pair<std::string_view, std::string_view> small[] = {
    {"conv2d", "n=2 c=5 h=9 w=7 k=6 r=3 s=3 stride=2 pad=1"},
    {"conv2d", "n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=1 groups=4"},
    {"dense", "m=19 n=21 k=37"},
    {"dense_q4", "m=3 n=21 k=64"},
    {"batch_matmul", "b=3 m=9 n=10 k=11"},
    {"softmax", "rows=5 cols=70"},
    {"attention", "b=2 m=5 n=7 d=6"},
    {"attention", "b=1 m=6 n=40 d=3 causal=1"},
    {"layer_norm", "rows=3 cols=50"},
    {"reduce_sum", "rows=7 cols=90"},
    {"max_pool2d", "n=1 c=3 h=9 w=9 kernel=3 stride=2 pad=1"},
    {"global_avg_pool", "n=2 c=5 h=7 w=7"},
    {"transpose", "rows=13 cols=37"},
    {"gelu", "rows=5 cols=33"},
    {"argmax", "rows=5 cols=40"}};

struct Tried {
  int legal = 0, all = 0;
};

Tried expect_agreement(const dsl::Compute& compute, const std::string& name, const Target& target,
                       int samples) {
  const Space space = Space::derive(compute, target);
  Random random(7);
  Tried tried;
  for (; tried.all < samples; ++tried.all) {
    const Schedule schedule = space.schedule(space.sample(random));
    const auto program = schedule.program(limits_of(target));
    if (!program) {
      ADD_FAILURE() << name << "\n" << schedule.to_string() << program.error().message;
      continue;
    }
    ++tried.legal;
    EXPECT_EQ(disagreement(compute, *program, 3, 1e-4), std::nullopt)
        << name << "\n"
        << schedule.to_string() << to_string(*program);
    for (const Phase& phase : program->phases)
      EXPECT_LE(threads_of(*phase.body), target.machine.gpu->block_threads);
  }
  return tried;
}

class GpuSpace : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuSpace, PointsComputeWhatTheComputeMeans) {
  for (const auto& [op, shape] : small) {
    const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op));
    ASSERT_TRUE(workload) << workload.error().message;
    const Tried tried =
        expect_agreement(workload->compute, workload->key(), *parse_target(GetParam()), 6);
    EXPECT_EQ(tried.legal, tried.all);
  }
}

// The reduction of a row sums in one type, such as f32, and the result is stored in another.
TEST_P(GpuSpace, ReductionsOfRowsMayStoreAnotherType) {
  const Target target = *parse_target(GetParam());
  for (const DType type : {Float16, BFloat16}) {
    const auto sum =
        dsl::make_workload("reduce_sum", *dsl::parse_shape("rows=7 cols=90", "reduce_sum"), type);
    const Tried tried = expect_agreement(sum->compute, sum->key(), target, 4);
    EXPECT_EQ(tried.legal, tried.all);
  }
  for (const char* text :
       {"input a: f32[9, 50]; c: f32[i=9] = sum(j=50) a[i, j]; out: bool[i=9] = c[i] > 2.0",
        "input a: i32[9, 50]; c: i32[i=9] = max(j=50) a[i, j]; out: u8[i=9] = u8(c[i])"}) {
    const Tried tried = expect_agreement(dsl::parse_compute(text).value(), text, target, 4);
    EXPECT_EQ(tried.legal, tried.all);
  }
}

TEST_P(GpuSpace, EveryPointOfTheExamplesIsLegal) {
  const Target target = *parse_target(GetParam());
  for (const Case& c : cases()) {
    const Space space = Space::derive(c.compute, target);
    Random random(5);
    EXPECT_TRUE(space.schedule(space.default_point()).program(limits_of(target))) << c.name;
    for (int i = 0; i < 12; ++i) {
      const auto program = space.schedule(space.sample(random)).program(limits_of(target));
      EXPECT_TRUE(program) << c.name << ": " << program.error().message;
    }
  }
}

TEST_P(GpuSpace, PointsAreFoundBackFromTheirSchedules) {
  for (const Case& c : cases()) EXPECT_EQ(found_back(space_of(c.compute, GetParam()), 8, 11), 8);
}

INSTANTIATE_TEST_SUITE_P(Targets, GpuSpace, ::testing::Values("cuda:sm_90a", "opencl"));

/// Returns the buffers in registers whose elements threads write in one nest of thread loops and
/// read in another.
std::vector<std::string> kept_in_registers(const Program& program) {
  std::vector<std::string> names;
  for (const Phase& phase : program.phases)
    for (const Buffer& buffer : local_buffers(*phase.body))
      if (buffer.scope == Scope::Register && !buffer.name.ends_with(".acc"))
        names.push_back(buffer.name);
  return names;
}

TEST(GpuSpaceOfRows, ARowIsLoadedOnceAndStaysInRegisters) {
  const Target target = *parse_target("cuda:sm_90a");
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"softmax rows=64 cols=1024 f32 fast", {"in@out", "e"}},
      {"layer_norm rows=64 cols=1000 bf16 fast", {"in@out"}}};
  for (const auto& [key, kept] : cases) {
    const auto workload = dsl::parse_workload(key);
    const Space space = Space::derive(workload->compute, target);
    Random random(5);
    int found = 0;
    for (int i = 0; i < 400; ++i) {
      const Schedule schedule = space.schedule(space.sample(random));
      if (kept_stages(schedule).size() != kept.size()) continue;
      const auto program = schedule.program(limits_of(target));
      ASSERT_TRUE(program) << key << "\n" << schedule.to_string() << program.error().message;
      if (program->phases.size() > 1) continue;
      ++found;
      EXPECT_THAT(kept_in_registers(*program), testing::UnorderedElementsAreArray(kept))
          << key << to_string(*program);
      int loads = 0;
      for_each(*program->phases[0].body, [&](const Stmt& stmt) {
        for_each_access(stmt, [&](const BufferAccess& access) { loads += access.buffer == "in"; });
      });
      EXPECT_EQ(loads, 1) << key << to_string(*program);
    }
    EXPECT_GE(found, 8) << key;
  }
}

// Some stages read other elements of a row than those that their threads compute.
TEST(GpuSpaceOfRows, RowsThatAreReadElsewhereStayInSharedMemory) {
  const Target target = *parse_target("cuda:sm_90a");
  for (const char* text : {
           R"(input a: f32[6, 100]
p: f32[i=6] = sum(k=100) a[i, k]
out: f32[i=6, j=100] = a[i, j] / p[i] + a[i, 0])",
           R"(input a: f32[6, 100]
p: f32[i=6] = sum(k=100) a[i, k]
out: f32[i=6, j=100] = a[i, 99 - j] - p[i])",
           R"(input a: f32[6, 100]
p: f32[i=6] = max(k=100) a[i, k]
t: f32[i=6, j=100] = exp(a[i, j] - p[i])
s: f32[i=6] = sum(k=100) t[i, k]
out: f32[i=6, j=100] = t[i, 99 - j] / s[i])",
           R"(input a: f32[6, 40]
input b: f32[6, 20000]
p: f32[i=6] = sum(k=20000) b[i, k]
out: f32[i=6, j=40] = a[i, j] + p[i])"}) {
    const auto compute = dsl::parse_compute(text);
    const Space space = Space::derive(*compute, target);
    Random random(3);
    int in_rows = 0;
    for (int i = 0; i < 120; ++i) {
      const Point point = space.sample(random);
      const Schedule schedule = space.schedule(point);
      const auto program = schedule.program(limits_of(target));
      ASSERT_TRUE(program) << text << schedule.to_string() << program.error().message;
      in_rows += value_of(space, point, "rows") == 2;
    }
    EXPECT_GE(in_rows, 20) << text;
  }
}

TEST(GpuSpaceOfRows, RandomRowsComputeWhatTheComputeMeans) {
  for (int i = 0; i < cases_of(25, 300); ++i) {
    Random random(static_cast<uint64_t>(i));
    const auto [compute, schedule] = random_rows(random);
    const auto program = schedule.program(limits_of(*parse_target("cuda:sm_90a")));
    EXPECT_EQ(disagreement(compute, *program, 3, rows_tolerance), std::nullopt)
        << dsl::to_text(compute) << schedule.to_string() << to_string(*program);
  }
}

TEST(GpuSpaceOfProducts, OperandsPassThroughSharedMemory) {
  const auto workload =
      dsl::make_workload("dense", *dsl::parse_shape("m=512 n=512 k=512", "dense"));
  const Target target = *parse_target("cuda:sm_120");
  const Space space = Space::derive(workload->compute, target);
  const Point point = space.default_point();
  EXPECT_TRUE(space.to_string(point).starts_with("out: gpu_simt ")) << space.to_string(point);
  const auto value = [&](const std::string& knob) { return value_of(space, point, knob); };
  const int64_t rows = value("block.rows"), columns = value("block.columns");
  const int64_t sums = value("tile.rows") * value("tile.columns");
  const Program program = space.schedule(point).program(limits_of(target)).value();
  ASSERT_EQ(program.phases.size(), 1u);
  const Block& body = *program.phases[0].body;
  EXPECT_EQ(program.phases[0].tasks() * rows * columns, 512 * 512);
  EXPECT_EQ(threads_of(body) * sums, rows * columns);
  EXPECT_EQ(thread_bytes(body), sums * 4);
  EXPECT_GE(value("stages"), 2);
  const auto padding = [&](const std::string& operand) {
    return value("copy." + operand) == 1 ? value("pad." + operand) : 0;
  };
  EXPECT_EQ(shared_bytes(body), value("stages") * value("kblock") *
                                    (rows + padding("rows") + columns + padding("columns")) * 4);
}

/// Returns the name of the tensor tile of the space's default point, which a search measures first.
/// Returns "none" if the default point has no tensor tile, and "no tile" if the space offers no
/// choice of strategies, so that no point has one.
std::string first_tile(std::string_view op, std::string_view shape, DType type,
                       const std::string& target) {
  const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op), type);
  EXPECT_TRUE(workload) << workload.error().message;
  const Space space = Space::derive(workload->compute, *parse_target(target));
  const auto is_choice = [](const Knob& knob) { return knob.name.ends_with(".strategy"); };
  if (std::ranges::none_of(space.decisions(), is_choice)) return "no tile";
  const std::string text = space.schedule(space.default_point()).to_string();
  const size_t step = text.find("\ntensorize "), end = text.find('\n', step + 1);
  if (step == std::string::npos) return "none";
  const size_t at = text.rfind(' ', end) + 1;
  return text.substr(at, end - at);
}

TEST(GpuSpaceOfProducts, BeginWithTensorTilesWhereTheyAreFaster) {
  const auto dense = [](DType type, const std::string& target) {
    return first_tile("dense", "m=128 n=128 k=128", type, target);
  };
  EXPECT_EQ(dense(Float32, "cuda:sm_80"), "mma_m16n8k8_3xtf32");
  EXPECT_EQ(dense(Float32, "cuda:sm_90a"), "mma_m16n8k8_3xtf32");
  EXPECT_EQ(dense(Float32, "cuda:sm_120"), "none");
  EXPECT_EQ(dense(BFloat16, "cuda:sm_120"), "mma_m16n8k16_bf16");
  EXPECT_EQ(dense(Float16, "cuda:sm_86"), "mma_m16n8k16_f16");
  EXPECT_EQ(dense(Int8, "cuda:sm_80"), "mma_m16n8k32_s8");
  EXPECT_EQ(dense(BFloat16, "cuda:sm_90a"), "wgmma_m64k16_bf16");
  EXPECT_EQ(dense(Float16, "cuda:sm_90a"), "wgmma_m64k16_f16");
  EXPECT_EQ(dense(Int8, "cuda:sm_90a"), "wgmma_m64k32_s8");
  EXPECT_EQ(first_tile("dense", "m=32 n=128 k=128", BFloat16, "cuda:sm_90a"), "mma_m16n8k16_bf16");
  EXPECT_EQ(first_tile("conv2d", "n=1 c=64 h=8 w=8 k=64 r=3 s=3 pad=1", BFloat16, "cuda:sm_90a"),
            "wgmma_m64k16_bf16");
  EXPECT_EQ(dense(BFloat16, "cuda:sm_75"), "no tile");
  EXPECT_EQ(dense(BFloat16, "opencl"), "no tile");
  EXPECT_EQ(first_tile("dense", "m=8 n=128 k=128", BFloat16, "cuda:sm_80"), "no tile");
  EXPECT_EQ(
      first_tile("conv2d", "n=1 c=32 h=8 w=8 k=32 r=3 s=3 pad=1 groups=32", BFloat16, "cuda:sm_80"),
      "no tile");
  EXPECT_EQ(first_tile("conv2d", "n=1 c=32 h=8 w=8 k=32 r=3 s=3 pad=1", BFloat16, "cuda:sm_80"),
            "mma_m16n8k16_bf16");
}

/// Samples points in which the named knob of a product is not 1, and checks that three of them
/// compute what the compute means.
void expect_agreement_with(std::string_view knob, std::string_view op, std::string_view shape,
                           DType type) {
  const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op), type);
  ASSERT_TRUE(workload) << workload.error().message;
  const Target target = *parse_target("cuda:sm_80");
  const Space space = Space::derive(workload->compute, target);
  Random random(11);
  for (int found = 0; found < 3;) {
    const Point point = space.sample(random);
    if (value_of(space, point, std::string(knob)) == 1) continue;
    ++found;
    const Schedule schedule = space.schedule(point);
    const auto program = schedule.program(limits_of(target));
    ASSERT_TRUE(program) << schedule.to_string() << "\n" << program.error().message;
    EXPECT_EQ(disagreement(workload->compute, *program, 3, 1e-3), std::nullopt)
        << schedule.to_string();
    EXPECT_EQ(program->phases.size(), knob == "split" ? 2u : 1u);
  }
}

TEST(GpuSpaceOfProducts, LongSumsAreSplitOverBlocks) {
  expect_agreement_with("split", "dense", "m=9 n=10 k=128", Float32);
  expect_agreement_with("split", "dense", "m=17 n=8 k=128", BFloat16);
  expect_agreement_with("split", "conv2d", "n=1 c=32 h=3 w=3 k=4 r=3 s=3 pad=1", Float32);
}

TEST(GpuSpaceOfProducts, BlocksOfSeveralRowsAreNeighbours) {
  expect_agreement_with("raster", "dense", "m=32 n=20 k=8", Float32);
  expect_agreement_with("raster", "conv2d", "n=1 c=4 h=5 w=5 k=32 r=1 s=1", Float32);
}

TEST(GpuSpaceOfProducts, SearchesBeginWithEnoughBlocks) {
  const auto tasks = [](std::string_view op, std::string_view shape) {
    const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op));
    const Target target = *parse_target("cuda:sm_90a");
    const Space space = Space::derive(workload->compute, target);
    return space.schedule(space.default_point()).program(limits_of(target))->phases[0].tasks();
  };
  EXPECT_GE(tasks("conv2d", "n=1 c=512 h=7 w=7 k=512 r=3 s=3 pad=1"), 66);
  EXPECT_GE(tasks("dense", "m=1 n=1000 k=2048"), 66);
}

/// Returns the sorted names of the operands that TMA copies in at least one of 400 points: 200
/// samples and 200 mutations of the default point.
std::string boxes_of(const Space& space) {
  Random random(1);
  std::set<std::string> operands;
  const auto note = [&](const Point& point) {
    for (const std::string& operand : tma_operands(space.schedule(point)))
      operands.insert(operand.substr(0, operand.find('@')));
  };
  const Point first = space.default_point();
  for (int i = 0; i < 200; ++i) {
    note(space.sample(random));
    note(space.mutate(first, random));
  }
  return join(std::vector<std::string>(operands.begin(), operands.end()), " ");
}

/// Returns boxes_of() for a named operator.
std::string boxes_in(std::string_view op, std::string_view shape, DType type = Float32,
                     const std::string& target = "cuda:sm_90a") {
  const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op), type);
  EXPECT_TRUE(workload) << workload.error().message;
  return boxes_of(Space::derive(workload->compute, *parse_target(target)));
}

TEST(GpuSpaceOfProducts, OperandsThatAreBoxesMayBeCopiedInBulk) {
  // The first operand is contiguous along the reduction, as tensor tiles read it. The second is
  // contiguous across the reduction.
  EXPECT_EQ(boxes_in("dense", "m=64 n=64 k=64"), "a b");
  EXPECT_EQ(boxes_in("dense", "m=64 n=64 k=64", Float32, "cuda:sm_120"), "a b");
  EXPECT_EQ(boxes_in("dense", "m=64 n=64 k=64", Float32, "cuda:sm_80"), "");
  EXPECT_EQ(boxes_in("dense", "m=64 n=64 k=64", Float32, "opencl"), "");
  EXPECT_EQ(boxes_in("dense", "m=64 n=66 k=68"), "a");
  EXPECT_EQ(boxes_in("dense", "m=64 n=68 k=66"), "b");
  EXPECT_EQ(boxes_in("dense", "m=8 n=64 k=64"), "b");  // too small for tiles
  EXPECT_EQ(boxes_in("dense", "m=64 n=72 k=72", Int8), "");
  EXPECT_EQ(boxes_in("batch_matmul", "b=3 m=64 n=64 k=64"), "a b");
  EXPECT_EQ(boxes_in("conv2d", "n=1 c=64 h=14 w=14 k=64 r=1 s=1"), "in w");
  EXPECT_EQ(boxes_in("conv2d", "n=2 c=64 h=14 w=14 k=64 r=1 s=1"), "w");
  EXPECT_EQ(boxes_in("conv2d", "n=1 c=64 h=14 w=14 k=64 r=1 s=1 stride=2"), "w");
  EXPECT_EQ(boxes_in("conv2d", "n=1 c=64 h=14 w=14 k=64 r=3 s=3 pad=1"), "");
}

/// Returns boxes_of() for a convolution with layouts that are asked for.
std::string boxes_in_convolution(std::string_view shape, std::string_view layouts,
                                 const std::string& target = "cuda:sm_90a",
                                 std::string_view type = "bf16") {
  const auto workload =
      dsl::parse_workload(fmt::format("conv2d {} {} fast {{{}}}", shape, type, layouts));
  EXPECT_TRUE(workload) << workload.error().message;
  const auto space =
      Space::derive(Problem{workload->compute, workload->layouts}, *parse_target(target));
  EXPECT_TRUE(space) << space.error().message;
  return boxes_of(*space);
}

TEST(GpuSpaceOfProducts, PixelsWhoseChannelsAreLastAreBoxes) {
  const char* const padded = "n=2 c=64 h=14 w=14 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1";
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NHWC"), "in w");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NCHW"), "in w");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NHWC w=OHWI"), "in w");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NHWC w=HWIO"), "in w");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NHWC w=OIHW"), "in");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NCHW out=NCHW"), "");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NCHW8c out=NHWC"), "");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NHWC", "cuda:sm_80"), "");
  EXPECT_EQ(boxes_in_convolution(padded, "in=NHWC out=NHWC", "cuda:sm_90a", "f32"), "");
  // A pixel has 120 bytes, which is no multiple of 16.
  EXPECT_EQ(boxes_in_convolution("n=2 c=60 h=14 w=14 k=64 r=3 s=3 stride=1 pad=1 dilation=1 "
                                 "groups=1",
                                 "in=NHWC out=NHWC"),
            "");
  // Strides and padding on one side are allowed. With a stride of 2 and padding, even and odd
  // pixels are separate parts of the image and must have the same extents: 28 pixels are 14 and 14,
  // but 27 are 14 and 13.
  EXPECT_EQ(boxes_in_convolution("n=2 c=64 h=15 w=15 k=64 r=3 s=3 stride=2 pad=0 dilation=1 "
                                 "groups=1",
                                 "in=NHWC out=NHWC"),
            "in w");
  EXPECT_EQ(boxes_in_convolution("n=2 c=64 h=28 w=28 k=64 r=1 s=1 stride=2 pad=0 dilation=1 "
                                 "groups=1",
                                 "in=NHWC out=NHWC"),
            "in w");
  EXPECT_EQ(boxes_in_convolution("n=2 c=64 h=14 w=14 k=64 r=3 s=3 stride=1 pad=1 pad_top=0 "
                                 "dilation=1 groups=1",
                                 "in=NHWC out=NHWC"),
            "in w");
  EXPECT_EQ(boxes_in_convolution("n=2 c=64 h=28 w=28 k=64 r=3 s=3 stride=2 pad=1 dilation=1 "
                                 "groups=1",
                                 "in=NHWC out=NHWC"),
            "in w");
  EXPECT_EQ(boxes_in_convolution("n=2 c=64 h=28 w=27 k=64 r=3 s=3 stride=2 pad=1 dilation=1 "
                                 "groups=1",
                                 "in=NHWC out=NHWC"),
            "");
}

TEST(GpuSpaceOfProducts, ConvolutionsBeginWithRectanglesOfPixels) {
  struct Layer {
    int64_t channels, extent;
  };
  const Target target = *parse_target("cuda:sm_90a");
  for (const Layer& l : {Layer{64, 56}, {128, 28}, {256, 14}, {512, 7}}) {
    const auto workload = dsl::parse_workload(
        fmt::format("conv2d n=32 c={0} h={1} w={1} k={0} r=3 s=3 stride=1 pad=1 dilation=1 "
                    "groups=1 bf16 fast {{in=NHWC out=NHWC}}",
                    l.channels, l.extent));
    ASSERT_TRUE(workload) << workload.error().message;
    const Space space =
        Space::derive(Problem{workload->compute, workload->layouts}, target).value();
    const Schedule schedule = space.schedule(space.default_point());
    const std::string steps = schedule.to_string();
    EXPECT_EQ(tma_operands(schedule).size(), 2u) << steps;
    EXPECT_NE(steps.find(" wgmma_m64k16_bf16"), steps.npos) << steps;
    EXPECT_NE(steps.find("\nspecialise "), steps.npos) << steps;
    EXPECT_NE(steps.find("\nset_layout w OHWI"), steps.npos) << steps;
    // The rectangles cover each pixel once. Images of 7 x 7 pixels are an exception: rectangles
    // compute 8 x 8 pixels.
    const auto program = schedule.program(limits_of(target));
    ASSERT_TRUE(program) << program.error().message;
    const int64_t rows = value_of(space, space.default_point(), "block.rows"),
                  columns = value_of(space, space.default_point(), "block.columns"),
                  split = value_of(space, space.default_point(), "split");
    const int64_t covered = l.extent == 7 ? 8 : l.extent;
    EXPECT_EQ(program->phases[0].tasks() * rows * columns,
              split * 32 * covered * covered * l.channels);
  }
}

TEST(GpuSpaceOfProducts, BoxConvolutionsAreFoundBack) {
  for (const char* layouts : {"in=NHWC out=NHWC", "in=NHWC out=NCHW w=HWIO"}) {
    const auto workload = dsl::parse_workload(
        fmt::format("conv2d n=2 c=64 h=14 w=14 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 "
                    "bf16 fast {{{}}}",
                    layouts));
    const auto space =
        Space::derive(Problem{workload->compute, workload->layouts}, *parse_target("cuda:sm_90a"));
    ASSERT_TRUE(space) << space.error().message;
    EXPECT_EQ(found_back(*space, 8, 3), 8);
  }
}

TEST(GpuSpaceOfProducts, RandomBoxConvolutionsAreLegal) {
  uint64_t two = 0, specialised = 0;
  std::vector<std::string> illegal;
  const uint64_t cases = cases_of<uint64_t>(20, 60);
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Random random(seed);
    const auto [workload, schedule] = random_box_convolution(random, &illegal);
    two += tma_operands(schedule).size() == 2;
    specialised += schedule.to_string().find("\nspecialise ") != std::string::npos;
  }
  EXPECT_EQ(join(illegal, "\n"), "");
  EXPECT_GE(two * 3, cases * 2);
  EXPECT_GE(specialised * 4, cases);
}

/// True if the default point, with split=1, raster=1 and the given values of knobs, is allowed.
bool allows(std::string_view op, std::string_view shape, DType type, KnobChanges values) {
  const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op), type);
  EXPECT_TRUE(workload) << workload.error().message;
  const Space space = Space::derive(workload->compute, *parse_target("cuda:sm_90a"));
  values.insert(values.begin(), {{"split", 1}, {"raster", 1}});
  const auto point = changed(space, space.default_point(), values);
  return point && space.allowed(*point);
}

TEST(GpuSpaceOfProducts, WarpgroupsReadBothOperandsAsTheyAreCopied) {
  const auto dense = [](std::string_view shape, DType type, int64_t block, int64_t warps) {
    return allows("dense", shape, type,
                  {{"copies", 2},
                   {"stages", 2},
                   {"tiles", 4},
                   {"block.rows", 128},
                   {"warps.rows", 2},
                   {"block.columns", block},
                   {"warps.columns", warps}});
  };
  EXPECT_TRUE(dense("m=256 n=256 k=256", BFloat16, 128, 1));
  EXPECT_TRUE(dense("m=256 n=256 k=256", Float16, 128, 2));
  EXPECT_TRUE(dense("m=256 n=256 k=256", BFloat16, 64, 1));
  EXPECT_TRUE(dense("m=256 n=256 k=256", BFloat16, 64, 2));
  EXPECT_TRUE(dense("m=256 n=256 k=256", BFloat16, 16, 1));
  // If a block has several groups of columns, the last block may be cut off to whole groups only.
  EXPECT_TRUE(dense("m=256 n=288 k=256", BFloat16, 64, 2));
  EXPECT_FALSE(dense("m=256 n=296 k=256", BFloat16, 64, 2));
  EXPECT_TRUE(dense("m=256 n=320 k=256", BFloat16, 128, 1));
  EXPECT_FALSE(dense("m=256 n=328 k=256", BFloat16, 128, 1));
  EXPECT_TRUE(dense("m=256 n=328 k=256", BFloat16, 64, 1));
  // The instruction transposes factors of 16-bit types only.
  EXPECT_FALSE(dense("m=256 n=256 k=256", Int8, 128, 1));
}

/// A large product of bf16 on sm_90a with two points. `first` is the default. `fast` has blocks of
/// 128 by 256, three pipeline stages, and TMA copies by the producers of persistent blocks.
/// CUTLASS's fastest kernels for this product have that shape.
struct LargeProduct {
  Space space = Space::derive(dsl::parse_workload("dense m=4096 n=4096 k=4096 bf16 fast")->compute,
                              *parse_target("cuda:sm_90a"));
  Point first = space.default_point();
  Point fast = changed(space, first,
                       {{"block.rows", 128}, {"block.columns", 256}, {"stages", 3}, {"copies", 3}})
                   .value();
  /// Starts `chains` chains of at most `mutations` mutations at `from`. Returns how many reach a
  /// point with the blocks and the copies of `fast`.
  int reached(const Point& from, int chains, int mutations) const {
    Random random(1);
    int count = 0;
    for (int chain = 0; chain < chains; ++chain) {
      Point at = from;
      for (int i = 0; i < mutations && !is_alike(at); ++i) at = space.mutate(at, random);
      count += is_alike(at);
    }
    return count;
  }
  bool is_alike(const Point& point) const {
    const auto is = [&](const std::string& knob, int64_t value) {
      return value_of(space, point, knob) == value;
    };
    return space.to_string(point).find("gpu_wgmma") != std::string::npos && is("copies", 3) &&
           is("block.rows", 128) && is("block.columns", 256);
  }
};

TEST(GpuSpaceOfProducts, DefaultsOfWarpgroupsCopyByProducers) {
  const LargeProduct product;
  const std::string steps = product.space.schedule(product.first).to_string();
  EXPECT_NE(steps.find(" wgmma_m64k16_bf16"), steps.npos) << steps;
  EXPECT_NE(steps.find("\nspecialise "), steps.npos) << steps;
  EXPECT_EQ(tma_operands(product.space.schedule(product.first)).size(), 2u);
}

TEST(GpuSpaceOfProducts, LargeBlocksByProducersAreNearTheDefault) {
  const LargeProduct product;
  ASSERT_TRUE(product.space.allowed(product.fast));
  EXPECT_TRUE(product.space.schedule(product.fast).program(limits_of(product.space.target())));
  int differences = 0;
  for (size_t d = 0; d < product.fast.choices.size(); ++d)
    differences += product.fast.choices[d] != product.first.choices[d];
  EXPECT_LE(differences, 2);
  // The two points differ in at most two of some twenty decisions. A chain makes two random
  // mutations, each of which changes one or two decisions. At least 10 of 2,000 chains must lead
  // from one point to the other.
  EXPECT_GE(product.reached(product.first, 2000, 2), 10);
  // A point in which threads copy the operands is one decision further away.
  const Point plain = changed(product.space, product.first, {{"copies", 0}}).value();
  ASSERT_TRUE(product.space.allowed(plain));
  EXPECT_GE(product.reached(plain, 16'000, 4), 10);
}

TEST(GpuSpaceOfProducts, BulkPointsComputeWhatTheComputeMeans) {
  const std::tuple<const char*, const char*, DType> products[] = {
      {"dense", "m=40 n=48 k=72", Float32},
      {"dense", "m=33 n=40 k=72", BFloat16},
      {"dense", "m=33 n=48 k=80", Int8},
      {"dense", "m=9 n=20 k=33", Float32},
      {"batch_matmul", "b=2 m=33 n=20 k=44", Float32},
      {"conv2d", "n=1 c=36 h=4 w=9 k=24 r=1 s=1", Float32}};
  const Target target = *parse_target("cuda:sm_90a");
  int several = 0, specialised = 0;
  for (const auto& [op, shape, type] : products) {
    const auto workload = dsl::make_workload(op, *dsl::parse_shape(shape, op), type);
    ASSERT_TRUE(workload) << workload.error().message;
    const Space space = Space::derive(workload->compute, target);
    Random random(3);
    for (int i = 0; i < 24; ++i) {
      auto point = i < 3 ? bulk_point(space, random, 2) : std::nullopt;
      if (!point) point = bulk_point(space, random);
      ASSERT_TRUE(point) << workload->key();
      const Schedule schedule = space.schedule(*point);
      const auto program = schedule.program(limits_of(target));
      ASSERT_TRUE(program) << workload->key() << "\n"
                           << schedule.to_string() << "\n"
                           << program.error().message;
      const auto copies = tma_copies(*program, program->phases.back());
      ASSERT_TRUE(copies);
      EXPECT_FALSE(copies->empty());
      several += copies->size() > 2;
      specialised += program->phases.back().specialised;
      if (i >= 4) continue;
      EXPECT_EQ(disagreement(workload->compute, *program, 3, 1e-4), std::nullopt)
          << schedule.to_string() << to_string(*program);
    }
  }
  EXPECT_GE(several, 8);
  EXPECT_GE(specialised, 2);
}

TEST(GpuSpaceOfProducts, NarrowOperandsStayNarrowInSharedMemory) {
  const auto workload =
      dsl::make_workload("dense", *dsl::parse_shape("m=256 n=256 k=256", "dense"), BFloat16);
  const Target target = *parse_target("cuda:sm_80");
  const Space space = Space::derive(workload->compute, target);
  const Program program = space.schedule(space.default_point()).program(limits_of(target)).value();
  int shared = 0;
  for (const Buffer& buffer : local_buffers(*program.phases[0].body))
    if (buffer.scope == Scope::Shared) {
      ++shared;
      EXPECT_EQ(buffer.type, BFloat16) << buffer.name;
    }
  EXPECT_EQ(shared, 2);
}

}  // namespace
}  // namespace tw::schedules
