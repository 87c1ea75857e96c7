// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(Nearest, ALikelyTypo) {
  EXPECT_EQ(nearest("tuen", {"list", "tune", "run"}), "tune");
  EXPECT_EQ(nearest("f33", {"f16", "f32", "i8"}), "f32");
  EXPECT_EQ(nearest("resnet50_cnv", {"gemm", "resnet50_conv"}), "resnet50_conv");
}

TEST(Nearest, NothingIsNearToALetter) {
  EXPECT_EQ(nearest("m", {"k", "n"}), std::nullopt);
  EXPECT_EQ(nearest("ab", {"xy", "a"}), "a");
  EXPECT_EQ(nearest("abc", {"a", "xyc"}), std::nullopt);
  EXPECT_EQ(nearest("", {"a"}), std::nullopt);
}

TEST(ToLower, ChangesAsciiLettersOnly) {
  EXPECT_EQ(to_lower('A'), 'a');
  EXPECT_EQ(to_lower('Z'), 'z');
  for (const char c : {'a', 'z', '@', '[', '0', '\xc4'}) EXPECT_EQ(to_lower(c), c);
}

TEST(Nearest, CaseIsNoDistance) {
  EXPECT_EQ(nearest("K", {"k", "n"}), "k");
  EXPECT_EQ(nearest("Conv2D", {"conv2d"}), "conv2d");
}

TEST(Counted, HasThePluralOfAllButOne) {
  EXPECT_EQ(tw::counted(1, "thread"), "1 thread");
  EXPECT_EQ(tw::counted(2, "thread"), "2 threads");
  EXPECT_EQ(tw::counted(0, "thread"), "0 threads");
}

TEST(Hex, BytesComeBack) {
  const std::string bytes("\0\x7f\x80\xff", 4);
  EXPECT_EQ(hex_of_bytes(bytes), "007f80ff");
  EXPECT_EQ(bytes_of_hex("007f80ff"), bytes);
  EXPECT_EQ(bytes_of_hex("007F80FF"), bytes);
  EXPECT_TRUE(is_hex("007f80ff"));
  EXPECT_TRUE(is_hex(""));
  EXPECT_FALSE(is_hex("007F"));
  EXPECT_FALSE(is_hex("0x7f"));
}

TEST(GraphvizQuoted, EscapesWhatEndsAStringAndBreaksLines) {
  EXPECT_EQ(graphviz_quoted(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(graphviz_quoted("conv2d\ny"), R"("conv2d\ny")");
}

}  // namespace
}  // namespace tw
