// SPDX-License-Identifier: Apache-2.0
// Tests random pairs of a compute and a schedule of each form that a kernel for sm_90a may have.
// NVRTC compiles each kernel to PTX, and the interpreter of PTX runs it.

#include <gtest/gtest.h>

#include "tests/codegen/form_cases.h"
#include "tests/ptx/launches.h"

namespace tw::ptx {
namespace {

class PtxForms : public testing::TestWithParam<schedules::KernelForm> {};

TEST_P(PtxForms, Agree) {
  const auto nvrtc = codegen::open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << "[SKIP] " << nvrtc.error().message;
  codegen::run_pairs_of(GetParam(), 100'001, [&](const std::vector<codegen::GpuCase>& cases) {
    expect_ptx_agrees(*nvrtc, cases);
  });
}

INSTANTIATE_TEST_SUITE_P(All, PtxForms, testing::ValuesIn(schedules::kernel_forms),
                         codegen::name_of_form);

}  // namespace
}  // namespace tw::ptx
