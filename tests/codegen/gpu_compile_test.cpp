// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "codegen/abi.h"
#include "codegen/compile.h"
#include "codegen/gpu/compile.h"
#include "runtime/devices/device_kernel.h"
#include "schedules/schedule.h"
#include "tests/codegen/kernels.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::codegen {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

Target target_of(const char* name) { return parse_target(name).value(); }

/// Returns a program with two phases: the first writes the mean of each row to scratch memory, and
/// the second subtracts it from the row.
Program two_phases() { return subtract_mean(16, 32); }

class GpuCompile : public testing::Test {
 protected:
  void SetUp() override {
    // The compiler that is opened first serves the whole process.
    NvrtcOptions options;
    if (const char* home = getenv("CUDA_HOME"))
      options.directories = {std::string(home) + "/lib64"};
    if (const auto compiler = toolchain(target_of("cuda:sm_80"), {.nvrtc = options}); !compiler)
      GTEST_SKIP() << "[SKIP] " << compiler.error().message;
  }
};

TEST_F(GpuCompile, FactsAreInTheOrderOfThePhases) {
  const auto compiled = compile_for_gpu(two_phases(), "k", target_of("cuda:sm_90a"), {});
  ASSERT_TRUE(compiled) << compiled.error().message;
  ASSERT_THAT(compiled->phases, SizeIs(2));
  ASSERT_THAT(compiled->functions, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(compiled->phases[i].symbol, phase_symbol("k", i));
    EXPECT_EQ(compiled->functions[i].name, compiled->phases[i].symbol);
    EXPECT_GT(compiled->functions[i].registers, 0);
    EXPECT_GE(compiled->phases[i].threads, 1);
  }
  EXPECT_EQ(compiled->spills, 0);
  EXPECT_THAT(compiled->object, StartsWith("\177ELF"));
  EXPECT_THAT(toolchain(target_of("cuda:sm_90a")).value(), StartsWith("nvrtc-1"));
}

// An artifact has PTX only if newer GPUs can run it. PTX for an architecture with a letter, such as
// sm_90a, runs on no other GPU than its cubin.
TEST_F(GpuCompile, PtxComesAlongWhereItIsPortable) {
  const auto compile = [](const char* target) {
    return compile_for_gpu(two_phases(), "k", target_of(target), {}).value();
  };
  EXPECT_THAT(compile("cuda:sm_80").ptx,
              AllOf(HasSubstr(".target sm_80\n"), HasSubstr(".visible .entry k_p1")));
  EXPECT_THAT(compile("cuda:sm_90").ptx, HasSubstr(".target sm_90\n"));
  EXPECT_THAT(compile("cuda:sm_90a").ptx, IsEmpty());
}

TEST_F(GpuCompile, AnArtifactOfAnOlderGpuRunsOnAYoungerOne) {
  const KernelSpec spec{"subtract_mean", "tw1", two_phases(), 1};
  const auto artifacts = compile({&spec, 1}, target_of("cuda:sm_80"));
  ASSERT_TRUE(artifacts && (*artifacts)[0]);
  const runtime::Artifact& artifact = *(*artifacts)[0];
  auto* const fake = reinterpret_cast<runtime::FakeCudaControl*>(
      dlsym(dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake_cuda"))();
  for (const int major : {8, 9, 12}) {
    *fake = {};
    fake->driver_version = 13090;
    fake->major = major;
    for (const runtime::PhaseInfo& phase : artifact.info.phases)
      fake->kernels[phase.symbol] = {3, [](void* const*) {}};
    const auto device = runtime::open_cuda_device({.library = TW_FAKE_CUDA}).value();
    const auto kernel = runtime::DeviceKernel::load(artifact, device);
    ASSERT_TRUE(kernel) << kernel.error().message;
    EXPECT_EQ(fake->loaded, (major == 8 ? artifact.object : artifact.ptx).substr(0, 4));
  }
  *fake = {};
}

// The object of a kernel for a CPU has phases that pack arguments. Kernels for GPUs have none.
TEST_F(GpuCompile, ArtifactsHaveNoPacks) {
  KernelSpec spec{"doubling", "tw1", {}, 1};
  Argument in = argument("x", Float32, {}, false);
  in.shape = {2, 6};
  in.letters = "NC";
  in.layout = *dsl::Layout::parse("NC4c", in.letters);
  in.buffer.extents = in.layout.storage_shape(in.shape);
  Argument out = argument("y", Float32, in.buffer.extents, true);
  const std::vector<Expr> at = {var("n"), var("c"), var("v")};
  spec.program =
      single_phase({in, out}, {{"n", 2}, {"c", 2}},
                   {serial("v", 4, {assign("y", at, f32("x", at) * dsl::constant(Float32, 2))})});
  for (const char* target : {"cuda:sm_80", "opencl"}) {
    const auto artifacts = compile({&spec, 1}, target_of(target));
    ASSERT_TRUE(artifacts && (*artifacts)[0]) << target;
    const runtime::KernelInfo& info = (*artifacts)[0]->info;
    EXPECT_EQ(info.arguments[0].layout, "NC4c");
    EXPECT_EQ(info.arguments[0].pack, "");
    EXPECT_THAT(info.packs, IsEmpty());
  }
}

TEST_F(GpuCompile, Fault53_AnArchitectureThatTheToolkitHasNotIsUnsupported) {
  Target old = target_of("cuda:sm_80");
  old.gpu = "sm_35";
  const auto compiled = compile_for_gpu(two_phases(), "k", old, {});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(compiled.error().message, AllOf(HasSubstr("'sm_35'"), HasSubstr("sm_80")));
}

// check_spills() is for kernels that are compiled without being measured. It refuses kernels for
// GPUs that spill; a kernel for a CPU may spill a few registers.
TEST(CheckSpills, RefusesKernelsOfGpusAlone) {
  runtime::Artifact artifact;
  artifact.info.workload = "dense m=64 n=64 k=64 bf16 fast";
  for (const char* target : {"cuda:sm_90a", "opencl", "x86-64-v4"}) {
    artifact.info.target = target_of(target).to_string();
    artifact.info.spills = 0;
    EXPECT_TRUE(check_spills(artifact)) << target;
    artifact.info.spills = 6;
    const Status status = check_spills(artifact);
    EXPECT_EQ(status.has_value(), !target_of(target).is_gpu()) << target;
    if (status) continue;
    EXPECT_EQ(status.error().code, ErrorCode::Invalid);
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr("'dense m=64 n=64 k=64 bf16 fast'"), HasSubstr("6 accesses")));
  }
}

TEST(GpuCompileForOpenCl, IsTextForTheDriver) {
  const Target opencl = target_of("opencl");
  const auto compiled = compile_for_gpu(two_phases(), "k", opencl, {});
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_THAT(compiled->object, AllOf(HasSubstr("__kernel"), HasSubstr(phase_symbol("k", 1))));
  EXPECT_THAT(compiled->phases, SizeIs(2));
  EXPECT_THAT(compiled->functions, IsEmpty());
  EXPECT_THAT(compiled->ptx, IsEmpty());
  EXPECT_EQ(toolchain(opencl).value(), "opencl");
}

}  // namespace
}  // namespace tw::codegen
