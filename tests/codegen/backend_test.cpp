// SPDX-License-Identifier: Apache-2.0
#include "codegen/backend.h"

#include <gmock/gmock.h>

#include <set>

#include "codegen/compile.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr;

TEST(Backend, EveryRowIsCompleteAndNamedOnce) {
  std::set<std::string_view> names;
  for (const Backend& backend : backends()) {
    EXPECT_TRUE(names.insert(backend.name).second) << backend.name;
    EXPECT_NE(backend.toolchain, nullptr) << backend.name;
    // A backend has either all functions that a device needs, or none of them.
    EXPECT_EQ(backend.gpu_code != nullptr, backend.open != nullptr) << backend.name;
    EXPECT_EQ(backend.peak_kernel != nullptr, backend.open != nullptr) << backend.name;
    EXPECT_EQ(backend.compare_kernels != nullptr, backend.open != nullptr) << backend.name;
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"cpu", "cuda", "opencl"}));
}

TEST(Backend, EveryTargetHasItsRow) {
  const auto name_of = [](const char* target) {
    return backend_of(parse_target(target).value()).name;
  };
  EXPECT_EQ(name_of("x86-64-v3"), "cpu");
  EXPECT_EQ(name_of("arm-64-linux"), "cpu");
  EXPECT_EQ(name_of("cuda:sm_90a"), "cuda");
  EXPECT_EQ(name_of("opencl"), "opencl");
  for (const Backend& backend : backends())
    EXPECT_EQ(backend.open != nullptr, backend.name != "cpu");
}

TEST(Backend, AnOpenDeviceHasItsRow) {
  runtime::DeviceFacts facts;
  facts.architecture = "sm_90";
  EXPECT_EQ(backend_of(facts).name, "cuda");
  facts.architecture = "opencl";
  EXPECT_EQ(backend_of(facts).name, "opencl");
}

TEST(Backend, PeakKernelsAreOfTheirLanguage) {
  const PeakKernel cuda = cuda_peak_kernel(), opencl = opencl_peak_kernel();
  EXPECT_THAT(cuda.code.text, HasSubstr(".visible .entry peak"));
  EXPECT_THAT(opencl.code.text, HasSubstr("__kernel void peak"));
  for (const PeakKernel& kernel : {cuda, opencl}) {
    EXPECT_GT(kernel.threads, 0);
    EXPECT_GT(kernel.blocks_per_multiprocessor, 0);
    EXPECT_GT(kernel.flops_per_thread, 0);
  }
}

}  // namespace
}  // namespace tw::codegen
