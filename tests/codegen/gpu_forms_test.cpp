// SPDX-License-Identifier: Apache-2.0
// Tests random pairs of a compute and a schedule of each form that a kernel for sm_90a may have.
// The CUDA text runs on an emulator on the host. Its results must agree with those of the
// interpreter of programs.

#include <gtest/gtest.h>

#include "tests/codegen/form_cases.h"

namespace tw::codegen {
namespace {

class GpuForms : public testing::TestWithParam<schedules::KernelForm> {};

TEST_P(GpuForms, AgreeOnTheEmulator) {
  run_pairs_of(GetParam(), 1,
               [](const std::vector<GpuCase>& cases) { expect_emulation_agrees(cases); });
}

INSTANTIATE_TEST_SUITE_P(All, GpuForms, testing::ValuesIn(schedules::kernel_forms), name_of_form);

}  // namespace
}  // namespace tw::codegen
