// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/device_findings.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/devices/cuda_driver.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DeviceFindings : public testing::Test {
 protected:
  void SetUp() override {
    void* const driver = dlopen(TW_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(driver, nullptr) << dlerror();
    fake_ = reinterpret_cast<runtime::FakeCudaControl*>(dlsym(driver, "fake_cuda"))();
    *fake_ = {};
  }
  void TearDown() override { *fake_ = {}; }

  /// Returns the findings of CUDA's driver and its devices. Expects that no finding is a failure.
  static std::vector<Finding> findings() {
    const std::vector<Finding> all = driver_findings("cuda");
    for (const Finding& finding : all) EXPECT_FALSE(finding.failure) << finding.text;
    return all;
  }
  static Finding only() {
    const std::vector<Finding> all = findings();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Finding() : all.front();
  }

  runtime::FakeCuda* fake_ = nullptr;
};

TEST_F(DeviceFindings, EachGpuHasItsTarget) {
  fake_->devices = 2;
  const std::vector<Finding> all = findings();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].name, "cuda:1");
  EXPECT_EQ(all[1].text,
            "Fake GPU, cuda:sm_90a, 132 multiprocessors, 1024 MiB, driver for CUDA 13.0");
  EXPECT_TRUE(all[1].present);
  fake_->devices = 1;
  fake_->major = 7;
  EXPECT_THAT(only().text, HasSubstr("Fake GPU, sm_70, which no kernels are made for"));
}

TEST_F(DeviceFindings, Fault51_ABusyGpuIsOfNoUseNow) {
  fake_->retain = runtime::cuda::DeviceUnavailable;
  const Finding busy = only();
  EXPECT_EQ(busy.name, "cuda:0");
  EXPECT_FALSE(busy.present);
  EXPECT_THAT(busy.text, HasSubstr("Fake GPU is busy"));
}

TEST_F(DeviceFindings, Fault67_ALostGpuIsSeen) {
  fake_->sticky = runtime::cuda::IllegalAddress;
  const Finding lost = only();
  EXPECT_FALSE(lost.present);
  EXPECT_THAT(lost.text, AllOf(HasSubstr("is lost"), HasSubstr("ILLEGAL_ADDRESS")));
}

TEST_F(DeviceFindings, Fault50_WhatIsWrongWithTheDriverIsSaidOnce) {
  fake_->devices = 0;
  const Finding none = only();
  EXPECT_EQ(none.name, "cuda");
  EXPECT_FALSE(none.present);
  EXPECT_THAT(none.text, HasSubstr("finds no NVIDIA GPU"));
  fake_->init = runtime::cuda::StubLibrary;
  EXPECT_THAT(only().text, HasSubstr("no NVIDIA driver"));
}

}  // namespace
}  // namespace tw::tools
