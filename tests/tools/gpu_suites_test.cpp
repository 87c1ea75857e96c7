// SPDX-License-Identifier: Apache-2.0
// Tests that every standing workload has a kernel for GPUs of each generation. Needs no GPU.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <functional>
#include <initializer_list>

#include "codegen/gpu/emitter.h"
#include "codegen/gpu/nvrtc.h"
#include "schedules/space/space.h"
#include "tests/nightly.h"
#include "tests/schedules/spaces.h"
#include "tools/suites.h"

namespace tw::tools {
namespace {

/// Compiles the program for the architecture. Expects one GPU kernel for each phase, no register
/// spills and no memory on the stack. Stores the CUDA text in `*emitted` unless it is null.
void expect_no_spills(const codegen::Nvrtc& nvrtc, const schedules::Program& program,
                      const std::string& architecture, const std::string& name,
                      std::string* emitted = nullptr) {
  const auto text = codegen::emit_gpu(program, "k", codegen::GpuDialect::Cuda);
  ASSERT_TRUE(text) << name << ": " << text.error().message;
  if (emitted) *emitted = text->text;
  const auto code = nvrtc.compile(text->text, architecture);
  ASSERT_TRUE(code) << name << ": " << code.error().message << "\n" << text->text;
  ASSERT_EQ(code->functions.size(), program.phases.size()) << name;
  for (const codegen::CudaFunctionFacts& function : code->functions) {
    EXPECT_EQ(function.spill_store_bytes + function.spill_load_bytes, 0)
        << name << ", " << function.registers << " registers\n"
        << text->text;
    EXPECT_EQ(function.stack_bytes, 0) << name;
    EXPECT_GT(function.registers, 0) << name;
  }
}

/// Calls `visit` with the name of each standing operator and its workload, once for each of `types`
/// for which the operator is declared. Operators such as argmax are declared for one type only.
void for_each_operator(
    std::initializer_list<DType> types,
    const std::function<void(const std::string& name, const dsl::Workload& workload)>& visit) {
  for (const SuiteInfo& info : suites()) {
    const auto items = suite(info.name);
    for (const SuiteItem& item : *items) {
      if (item.workload.is_empty() || item.workload.op == "expr") continue;
      for (const DType type : types) {
        const auto workload = dsl::make_workload(item.workload.op, item.workload.attributes, type);
        if (workload) visit(item.name, *workload);
      }
    }
  }
}

// By day every 40th row is tested, because NVRTC compiles a kernel with tensor tiles for a second
// or two.
constexpr size_t share = 40;

class GpuSuites : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuSuites, DefaultSchedulesCompileWithoutSpills) {
  const auto nvrtc = codegen::Nvrtc::open();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const Target target = *parse_target("cuda:" + GetParam());
  int kernels = 0;
  for (const SuiteInfo& info : suites()) {
    const auto items = suite(info.name);
    for (const SuiteItem& item : *items) {
      if (item.workload.is_empty() || !is_due(static_cast<size_t>(kernels++), share)) continue;
      const auto space = schedules::Space::derive(item.workload.compute, target);
      const auto program =
          space.schedule(space.default_point()).program(schedules::limits_of(target));
      ASSERT_TRUE(program) << item.name << ": " << program.error().message;
      expect_no_spills(*nvrtc, *program, GetParam(), item.name);
    }
  }
  EXPECT_GE(kernels, 75);
}

/// A search on sm_80 begins with tensor-core tiles where these are worth it. Such schedules compile
/// for the architecture under test.
TEST_P(GpuSuites, TensorSchedulesCompileWithoutSpills) {
  const auto nvrtc = codegen::Nvrtc::open();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const Target target = *parse_target("cuda:" + GetParam());
  int kernels = 0;
  const auto visit = [&](const std::string& name, const dsl::Workload& workload) {
    const auto space = schedules::Space::derive(workload.compute, *parse_target("cuda:sm_80"));
    const auto schedule = space.schedule(space.default_point());
    if (schedule.to_string().find("\ntensorize ") == std::string::npos) return;
    if (!is_due(static_cast<size_t>(kernels++), share)) return;
    const auto program = schedule.program(schedules::limits_of(target));
    ASSERT_TRUE(program) << name << ": " << program.error().message;
    expect_no_spills(*nvrtc, *program, GetParam(), name);
  };
  for_each_operator({Float32, BFloat16, Int8}, visit);
  EXPECT_GE(kernels, 40);
}

/// Tests the schedules with which a search on sm_90a begins, for products that are large enough for
/// warpgroup instructions (wgmma).
TEST(GpuSuitesOfWarpgroups, SchedulesCompileWithoutSpills) {
  const auto nvrtc = codegen::Nvrtc::open();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const Target target = *parse_target("cuda:sm_90a");
  int kernels = 0;
  const auto visit = [&](const std::string& name, const dsl::Workload& workload) {
    const auto space = schedules::Space::derive(workload.compute, target);
    const auto schedule = space.schedule(space.default_point());
    if (schedule.to_string().find(" wgmma_") == std::string::npos) return;
    if (!is_due(static_cast<size_t>(kernels++), share)) return;
    const auto program = schedule.program(schedules::limits_of(target));
    ASSERT_TRUE(program) << name << ": " << program.error().message;
    expect_no_spills(*nvrtc, *program, "sm_90a", name);
  };
  for_each_operator({Float16, BFloat16, Int8}, visit);
  EXPECT_GE(kernels, 60);
}

/// Tests schedules with warpgroup instructions for which TMA copies both operands. Producer warps
/// issue the copies.
TEST(GpuSuitesOfWarpgroups, BulkSchedulesCompileWithoutSpills) {
  TW_ONLY_NIGHTLY();
  const auto nvrtc = codegen::Nvrtc::open();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const Target target = *parse_target("cuda:sm_90a");
  int kernels = 0, transposed = 0;
  const auto visit = [&](const std::string& name, const dsl::Workload& workload) {
    const auto space = schedules::Space::derive(workload.compute, target);
    const auto point = schedules::changed(space, space.default_point(),
                                          {{"copies", 2}, {"split", 1}, {"stages", 3}}, true);
    if (!point) return;  // TMA cannot copy its operands as boxes
    const auto schedule = space.schedule(*point);
    const std::string steps = schedule.to_string();
    if (!space.allowed(*point) || steps.find(" wgmma_") == std::string::npos ||
        steps.find("\nspecialise ") == std::string::npos)
      return;
    const auto program = schedule.program(schedules::limits_of(target));
    ASSERT_TRUE(program) << name << ": " << program.error().message;
    std::string text;
    expect_no_spills(*nvrtc, *program, "sm_90a", name, &text);
    ++kernels;
    transposed += text.find("tw_descriptor_mn<") != std::string::npos;
  };
  for_each_operator({BFloat16}, visit);
  printf("%d kernels, %d of them with a factor that is transposed\n", kernels, transposed);
  EXPECT_GE(kernels, 10);
  EXPECT_GE(transposed, 10);
}

INSTANTIATE_TEST_SUITE_P(Generations, GpuSuites, ::testing::Values("sm_80", "sm_90a", "sm_120"),
                         [](const auto& generation) { return generation.param; });

}  // namespace
}  // namespace tw::tools
