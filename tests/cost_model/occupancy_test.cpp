// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/occupancy.h"

#include <gtest/gtest.h>

namespace tw::cost_model {
namespace {

Gpu hopper() { return *gpu_machine("sm_90a")->gpu; }

struct Case {
  double threads, registers, shared_bytes;
  double blocks;
  const char* limit;
};

// The expected values are those of CUDA's occupancy calculator for compute capability 9.0.
TEST(Occupancy, IsLimitedByTheScarcestResource) {
  for (const Case& c : {Case{256, 32, 0, 8, "threads"}, Case{256, 33, 0, 6, "registers"},
                        Case{256, 255, 0, 1, "registers"}, Case{128, 40, 49152, 4, "shared memory"},
                        Case{32, 16, 0, 32, "slots for blocks"}, Case{33, 16, 0, 32, "threads"},
                        Case{1024, 128, 0, 0, "registers"}}) {
    SCOPED_TRACE(c.threads);
    const Residency r = residency(c.threads, c.registers, c.shared_bytes, hopper());
    EXPECT_EQ(r.blocks(), c.blocks);
    EXPECT_EQ(r.limit(), c.limit);
  }
}

}  // namespace
}  // namespace tw::cost_model
