// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/nvrtc.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "tests/codegen/gpu_runs.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::codegen {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* saxpy = R"(
extern "C" __global__ void saxpy_p0(const float* x, float* y, void* scratch) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] += 2.0f * x[i];
})";

// A kernel with two phases. The first is the product c = a b of 1024 x 1024 matrices, in tiles of
// 128 x 128, of which each thread computes 8 x 8 elements.
constexpr const char* cuda_gemm = R"(
extern "C" __global__ void __launch_bounds__(256)
gemm_p0(const float* a, const float* b, float* c, void* scratch) {
  __shared__ float as[16][128];
  __shared__ float bs[16][128];
  const int row = blockIdx.x / 8 * 128, column = blockIdx.x % 8 * 128;
  const int m = threadIdx.x / 16 * 8, n = threadIdx.x % 16 * 8;
  float sum[8][8] = {};
  for (int k0 = 0; k0 < 1024; k0 += 16) {
    for (int i = threadIdx.x; i < 16 * 128; i += 256) {
      as[i % 16][i / 16] = a[(row + i / 16) * 1024 + k0 + i % 16];
      bs[i / 128][i % 128] = b[(k0 + i / 128) * 1024 + column + i % 128];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k)
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += as[k][m + i] * bs[k][n + j];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) c[(row + m + i) * 1024 + column + n + j] = sum[i][j];
}
extern "C" __global__ void gemm_p1(const float* a, const float* b, float* c, void* scratch) {
  c[threadIdx.x] += 1.0f;
})";

// Two blocks of 1024 threads leave each thread 32 registers, so that 64 running sums must spill.
constexpr const char* spilling = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spilling_p0(const float* x, float* y, void*) {
  float sum[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) sum[i] = x[i * 1024 + threadIdx.x];
  for (int k = 0; k < 1000; ++k) {
#pragma unroll
    for (int i = 0; i < 64; ++i) sum[i] = sum[i] * sum[(i + 1) % 64] + x[k];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) y[i * 1024 + threadIdx.x] = sum[i];
})";

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    NvrtcOptions options;
    if (const char* home = getenv("CUDA_HOME"))
      options.directories = {std::string(home) + "/lib64"};
    auto opened = Nvrtc::open(options);
    if (!opened) GTEST_SKIP() << opened.error().message;
    nvrtc_ = *opened;
  }

  std::optional<Nvrtc> nvrtc_;
};

TEST_F(NvrtcTest, CompilesForEachGenerationWithoutAGpu) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120"}) {
    const auto compiled = nvrtc_->compile(saxpy, architecture);
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_THAT(compiled->code.binary, StartsWith("\177ELF"));
    EXPECT_EQ(compiled->code.architecture, architecture);
    EXPECT_EQ(compiled->code.text, "");
    EXPECT_EQ(compiled->code.toolkit, nvrtc_->version());
    ASSERT_EQ(compiled->functions.size(), 1);
    EXPECT_EQ(compiled->functions[0].name, "saxpy_p0");
    EXPECT_GT(compiled->functions[0].registers, 0);
    EXPECT_EQ(compiled->functions[0].spill_store_bytes, 0);
    EXPECT_EQ(compiled->functions[0].shared_bytes, 0);
  }
}

TEST_F(NvrtcTest, SaysWhatEachFunctionTakes) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120"}) {
    const auto compiled = nvrtc_->compile(cuda_gemm, architecture);
    ASSERT_TRUE(compiled) << compiled.error().message;
    ASSERT_EQ(compiled->functions.size(), 2);
    const bool first = compiled->functions[0].name == "gemm_p0";
    const CudaFunctionFacts& function = compiled->functions[first ? 0 : 1];
    EXPECT_EQ(function.name, "gemm_p0");
    EXPECT_EQ(compiled->functions[first ? 1 : 0].name, "gemm_p1");
    EXPECT_GT(function.registers, 64) << architecture;  // the sums alone
    EXPECT_LE(function.registers, 255) << architecture;
    EXPECT_EQ(function.shared_bytes, 2 * 16 * 128 * 4) << architecture;
    EXPECT_EQ(function.spill_store_bytes, 0) << architecture;
    EXPECT_EQ(function.spill_load_bytes, 0) << architecture;
  }
}

TEST_F(NvrtcTest, CountsSpills) {
  const auto compiled = nvrtc_->compile(spilling, "sm_80");
  ASSERT_TRUE(compiled) << compiled.error().message;
  ASSERT_EQ(compiled->functions.size(), 1);
  EXPECT_LE(compiled->functions[0].registers, 32);
  EXPECT_GT(compiled->functions[0].spill_store_bytes, 0);
  EXPECT_GT(compiled->functions[0].spill_load_bytes, 0);
  EXPECT_GT(compiled->functions[0].stack_bytes, 0);
}

TEST_F(NvrtcTest, GivesPtxWhereItIsAskedFor) {
  const auto compiled = nvrtc_->compile(saxpy, "sm_80", true);
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_THAT(compiled->code.text,
              AllOf(HasSubstr(".target sm_80"), HasSubstr(".visible .entry saxpy_p0")));
  EXPECT_EQ(compiled->code.text.find('\0'), std::string::npos);
}

TEST_F(NvrtcTest, Fault43_WhatDoesNotCompileIsOneLineWithWhatTheCompilerSaid) {
  const auto compiled = nvrtc_->compile(
      "extern \"C\" __global__ void f(float* x) {\n  int unused = 0;\n  x[0] = y;\n}\n", "sm_80");
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, ErrorCode::Invalid);
  EXPECT_THAT(compiled.error().message,
              AllOf(HasSubstr("for sm_80: kernel.cu(3): error: identifier \"y\" is undefined"),
                    Not(HasSubstr("\n"))));
}

// ptxas finds this error, not the front end.
TEST_F(NvrtcTest, Fault43_WhatDoesNotFitTheGpuIsOneLineToo) {
  const auto compiled = nvrtc_->compile(
      "extern \"C\" __global__ void f(float* x) {\n"
      "  __shared__ float s[20000];\n  s[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n"
      "  x[threadIdx.x] = s[threadIdx.x + 7];\n}\n",
      "sm_80");
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, ErrorCode::Invalid);
  EXPECT_THAT(
      compiled.error().message,
      AllOf(HasSubstr("for sm_80: ptxas error   : Entry function 'f' uses too much shared data"),
            Not(HasSubstr("\n"))));
}

TEST_F(NvrtcTest, Fault53_ARemovedArchitectureIsUnsupportedAndTheRestListed) {
  EXPECT_THAT(nvrtc_->architectures(), AllOf(Contains("sm_80"), Contains("sm_90a")));
  for (const char* architecture : {"sm_35", "sm_80a", "sm_", "", "compute_80"}) {
    const auto compiled = nvrtc_->compile(saxpy, architecture);
    ASSERT_FALSE(compiled) << architecture;
    EXPECT_EQ(compiled.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(compiled.error().message, AllOf(HasSubstr("sm_80, "), HasSubstr("sm_90a, ")));
  }
  if (nvrtc_->version() >= 13000) {
    EXPECT_EQ(nvrtc_->compile(saxpy, "sm_70").error().code, ErrorCode::Unsupported);
  }
}

// The fake driver checks the headers of real cubins.
TEST_F(NvrtcTest, Fault52_ItsCubinsAreTakenByTheirOwnGpusAlone) {
  void* library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* fake = reinterpret_cast<runtime::FakeCudaControl*>(dlsym(library, "fake_cuda"))();
  const std::vector<std::pair<std::string, int>> gpus = {
      {"sm_80", 8}, {"sm_90a", 9}, {"sm_120", 12}};
  for (const auto& [architecture, major] : gpus) {
    const auto compiled = nvrtc_->compile(saxpy, architecture, architecture == "sm_80");
    ASSERT_TRUE(compiled) << compiled.error().message;
    for (const auto& [other, other_major] : gpus) {
      *fake = {.driver_version = nvrtc_->version(), .major = other_major};
      const auto device = runtime::open_cuda_device({.library = TW_FAKE_CUDA}).value();
      const auto module = device->load(compiled->code);
      EXPECT_EQ(module.has_value(), architecture == other || architecture == "sm_80")
          << architecture << " on " << other;
      EXPECT_EQ(fake->loaded, architecture == other     ? "\177ELF"
                              : architecture == "sm_80" ? "//\n/"
                                                        : "");
    }
  }
}

TEST(Nvrtc, Fault50_WithoutTheLibraryTheMessageNamesThePackage) {
  const auto nvrtc = Nvrtc::open({.directories = {"/nonexistent"}, .usual_places = false});
  ASSERT_FALSE(nvrtc);
  EXPECT_EQ(nvrtc.error().code, ErrorCode::Environment);
  EXPECT_THAT(nvrtc.error().message,
              AllOf(HasSubstr("cuda-toolkit[nvrtc,cudart]==13.0.*"), Not(HasSubstr("\n"))));
}

// The wheel of this project and NVIDIA's packages may be in an environment with any name.
TEST(Nvrtc, TheWheelsEnvironmentIsSearched) {
  const fs::path folder =
      mkdtemp(fs::path(testing::TempDir() / fs::path("nvrtc_XXXXXX")).string().data());
  const fs::path site_packages = folder / "env/lib/python3.12/site-packages";
  const fs::path place = site_packages / "nvidia/cu13/lib";
  fs::create_directories(place);
  const OwnFiles python = {.program = "/usr/bin/python3.12",
                           .library = site_packages / "tilewright/lib/libtilewright.so.0"};
  const OwnFiles worker = {.program = site_packages / "tilewright/bin/tilewright"};
  EXPECT_THAT(nvrtc_places(python), Contains(place.string()));
  EXPECT_THAT(nvrtc_places(worker), Contains(place.string()));
  EXPECT_THAT(nvrtc_places({.program = "/usr/bin/python3.12"}), Not(Contains(place.string())));
  fs::remove_all(folder);
}

TEST(PtxasLog, EachAdviceIsToldOnce) {
  const auto advice = parse_ptxas_advice(
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 62 by compiler\n"
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 73 by compiler\n"
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unknown\n"
      "ptxas info    : Compiling entry function 's' for 'sm_90a'\n");
  ASSERT_EQ(advice.size(), 2);
  EXPECT_EQ(advice[0], "C7517: warpgroup.wait is injected in around line 62 by compiler");
  EXPECT_FALSE(is_loss(advice[0]));
  EXPECT_EQ(advice[1], "C7508: Potential Performance Loss: 'setmaxnreg' ignored; unknown");
  EXPECT_TRUE(is_loss(advice[1]));
  EXPECT_FALSE(is_loss("C7519: Potential Performance Loss: some wait for others"));
}

// Uses the real compiler. Without launch bounds it does not know the registers of a thread, and
// ignores setmaxnreg.
TEST(Nvrtc, SaysWhereRegistersDoNotGoToOtherWarpgroups) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const auto compiled = nvrtc->compile(R"(extern "C" __global__ void k(float* out) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  out[threadIdx.x] = 1;
}
)",
                                       "sm_90a");
  ASSERT_TRUE(compiled) << compiled.error().message;
  ASSERT_EQ(compiled->advice.size(), 1);
  EXPECT_THAT(compiled->advice[0], HasSubstr("'setmaxnreg' ignored"));
  EXPECT_TRUE(is_loss(compiled->advice[0]));
}

TEST(PtxasLog, FactsOfEveryEntry) {
  const auto functions = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a_p1' for 'sm_90a'\n"
      "ptxas info    : Function properties for a_p1\n"
      "ptxas         .     256 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 16 barriers, 256 bytes cumulative stack size, "
      "16640 bytes smem\n"
      "ptxas info    : Compiling entry function 'a_p0' for 'sm_90a'\n"
      "ptxas info    : Function properties for a_p0\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 18 registers, used 1 barriers, 376 bytes cmem[0]\n");
  ASSERT_EQ(functions.size(), 2);
  EXPECT_EQ(functions[0].name, "a_p1");
  EXPECT_EQ(functions[0].registers, 168);
  EXPECT_EQ(functions[0].stack_bytes, 256);
  EXPECT_EQ(functions[0].spill_store_bytes, 12);
  EXPECT_EQ(functions[0].spill_load_bytes, 8);
  EXPECT_EQ(functions[0].shared_bytes, 16640);
  EXPECT_EQ(functions[1].name, "a_p0");
  EXPECT_EQ(functions[1].registers, 18);
  EXPECT_EQ(functions[1].shared_bytes, 0);
  EXPECT_TRUE(parse_ptxas_log("").empty());
}

}  // namespace
}  // namespace tw::codegen
