// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/loops.h"

#include <gtest/gtest.h>

#include "tests/codegen/amx_emulator.h"
#include "tests/isa_targets.h"

namespace tw::tuner {
namespace {

TEST(Loops, OfTilesAreThereWhereTilesAre) {
  const Loops without = loops_for(parse_target("x86-64-v4").value());
  EXPECT_EQ(without.byte_tiles, nullptr);
  EXPECT_EQ(without.bf16_tiles, nullptr);
}

TEST(Loops, OfTilesMultiplyWholeTiles) {
  const Target target = parse_target(target_text_of_isa("amx")).value();
  const Loops loops = loops_for(target);
  if (host_target().has("amx_tile") || host_target().architecture != Architecture::X86_64)
    GTEST_SKIP() << "[SKIP] the processor executes tiles itself, or none";
  for (void (*const loop)() : {loops.byte_tiles, loops.bf16_tiles}) {
    ASSERT_NE(loop, nullptr);
    const codegen::AmxEmulator emulator;
    loop();
    EXPECT_EQ(codegen::AmxEmulator::products() * 16 * 16, loops.tile_dots);
  }
}

}  // namespace
}  // namespace tw::tuner
