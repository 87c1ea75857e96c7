// SPDX-License-Identifier: Apache-2.0
#include "dsl/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "dsl/parse.h"
#include "tests/dsl/random_expr.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

Workload conv(const char* shape) { return *make_workload("conv2d", *parse_shape(shape)); }

TEST(Workload, HasACanonicalKey) {
  EXPECT_EQ(conv("n1c64h56w56k64r3s3p1").key(),
            "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast");
  EXPECT_EQ(conv("c=64 h=56 w=56 k=64 r=3 s=3 stride_h=2 stride_w=2 pad_top=1 pad_left=1 "
                 "pad_bottom=1,pad_right=1")
                .key(),
            conv("c64h56w56k64r3s3st2p1").key());
  EXPECT_EQ(conv("c=4 h=9 w=9 k=4 r=3 s=3 stride_w=2 pad_bottom=1 relu=1").key(),
            "conv2d n=1 c=4 h=9 w=9 k=4 r=3 s=3 stride=1 stride_w=2 pad=0 pad_bottom=1 dilation=1 "
            "groups=1 relu=1 f32 fast");
  EXPECT_EQ(
      make_workload("dense", {{"m", 2}, {"n", 3}, {"k", 4}}, BFloat16, Accuracy::Strict)->key(),
      "dense m=2 n=3 k=4 bf16 strict");
}

TEST(Workload, KeysParseBack) {
  for (const Operator& op : operators())
    for (const Accuracy accuracy : {Accuracy::Fast, Accuracy::Strict}) {
      const std::string name(op.name);
      const Workload made = *make_workload(name, *parse_shape(op.example, name), Float16, accuracy);
      const auto parsed = parse_workload(made.key());
      ASSERT_TRUE(parsed) << made.key() << parsed.error().message;
      EXPECT_EQ(parsed->key(), made.key());
      EXPECT_EQ(parsed->hash(), made.hash());
      EXPECT_EQ(parsed->attributes, made.attributes);
      EXPECT_EQ(to_line(parsed->compute), to_line(made.compute));
    }
}

TEST(Workload, RandomConvolutionKeysParseBack) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    Attributes given = {{"c", 6}, {"h", 12}, {"w", 12}, {"k", 6}, {"r", 3}, {"s", 3}};
    for (const Attribute& attribute : (*find_operator("conv2d"))->attributes)
      if (!given.count(std::string(attribute.name)) && random.chance(0.3))
        given[std::string(attribute.name)] =
            attribute.is_flag ? random.below(2) : std::max(attribute.minimum, random.below(3));
    const auto made = make_workload("conv2d", given);
    ASSERT_TRUE(made) << made.error().message;
    const auto parsed = parse_workload(made->key());
    ASSERT_TRUE(parsed) << made->key();
    EXPECT_EQ(parsed->key(), made->key());
    EXPECT_EQ(parsed->attributes, made->attributes) << made->key();
  }
}

TEST(Workload, ExpressionsAreWorkloadsToo) {
  const Axis m("m"), n("n"), k("k");
  const Tensor a = input("a", Float32, {m, k}), b = input("b", Float32, {k, n});
  const Tensor c = compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
  const Workload made = *workload(c, {{m, 4}, {n, 5}, {k, 6}}, Accuracy::Strict);
  EXPECT_EQ(made.key(),
            "expr strict input a: f32[4, 6]; input b: f32[6, 5]; "
            "c: f32[m=4, n=5] = sum(k=6) a[m, k] * b[k, n]");
  EXPECT_EQ(parse_workload(made.key())->key(), made.key());
  EXPECT_FALSE(workload(c, {{m, 4}}));
}

TEST(Workload, RandomExpressionKeysParseBack) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const Compute compute = random_compute(random);
    ASSERT_TRUE(validate(compute)) << validate(compute).error().message << "\n" << to_text(compute);
    const Workload made = *workload(compute);
    const auto parsed = parse_workload(made.key());
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << made.key();
    EXPECT_EQ(parsed->hash(), made.hash());
  }
}

TEST(Workload, StandingRowsAreExpressible) {
  const std::string columns = "n c h w k r s stride pad dilation groups";
  const struct {
    const char* row;
    int64_t y;
    size_t rank;
  } rows[] = {{"1 3 224 224 64 7 7 2 3 1 1", 112, 4},  {"1 256 56 56 512 1 1 2 0 1 1", 28, 4},
              {"1 96 112 112 96 3 3 2 1 1 96", 56, 4}, {"1 128 56 56 128 3 3 1 1 1 32", 56, 5},
              {"1 3 224 224 64 11 11 4 2 1 1", 55, 4}, {"1 256 33 33 256 3 3 1 6 6 1", 33, 4},
              {"1 256 3 3 24 3 3 1 1 1 1", 3, 4}};
  for (const auto& [row, y, rank] : rows) {
    const std::vector<std::string> names = words(columns), values = words(row);
    std::string shape;
    for (size_t i = 0; i < names.size(); ++i) shape += names[i] + "=" + values[i] + " ";
    const Workload made = conv(shape.c_str());
    const std::vector<int64_t> out = made.compute.shape_of("out");
    EXPECT_EQ(out.size(), rank) << row;
    EXPECT_EQ(out[rank - 2], y) << row;
  }
  for (const char* row : {"b=12 m=128 n=64 k=128", "batch=1 m=1 n=4096 k=4096"})
    EXPECT_TRUE(make_workload("batch_matmul", *parse_shape(row, "batch_matmul"))) << row;
}

TEST(Workload, ShapesNameTheBadPart) {
  const auto why = [](const char* text) {
    const auto shape = parse_shape(text);
    return shape ? std::string("ok") : shape.error().message;
  };
  EXPECT_EQ(*parse_shape("n1c2h3w4k5r6s7st2p1d3g4"), (Attributes{{"n", 1},
                                                                 {"c", 2},
                                                                 {"h", 3},
                                                                 {"w", 4},
                                                                 {"k", 5},
                                                                 {"r", 6},
                                                                 {"s", 7},
                                                                 {"stride", 2},
                                                                 {"pad", 1},
                                                                 {"dilation", 3},
                                                                 {"groups", 4}}));
  EXPECT_EQ(parse_shape("n1stride2")->at("stride"), 2);
  EXPECT_THAT(why("n1q64"), HasSubstr("'q' names no attribute of conv2d"));
  EXPECT_THAT(why("n1strid2"), HasSubstr("did you mean 'stride'?"));
  EXPECT_THAT(why("n1c"), HasSubstr("expected a name and a number at 'c'"));
  EXPECT_THAT(why("n1n2"), HasSubstr("'n' is given twice"));
  EXPECT_THAT(why("n=x"), HasSubstr("'x' of 'n' is no whole number"));
  EXPECT_THAT(why(""), HasSubstr("it is empty"));
  EXPECT_EQ(parse_shape("m128k768n64", "dense")->at("k"), 768);
}

TEST(Workload, Fault04_BadNumbersAreUsageErrors) {
  for (const char* shape :
       {"n-1c64h56w56k64r3s3", "n1c99999999999999999999h5w5k6r3s3", "n1e400", "n=1e400", "n=0x10",
        "n= 1", "c=1.5", "n1c64h56w56k64r3s3p-1", "64x64"}) {
    const auto parsed = parse_shape(shape);
    ASSERT_FALSE(parsed) << shape;
    EXPECT_EQ(parsed.error().code, ErrorCode::Usage) << shape;
  }
}

TEST(Workload, Fault03_EmptyOutputsAreRecognised) {
  EXPECT_TRUE(conv("n0c64h56w56k64r3s3p1").is_empty());
  EXPECT_FALSE(conv("n1c64h56w56k64r3s3p1").is_empty());
}

TEST(Workload, LayoutsFollowTheKeyInItsText) {
  const Workload free = conv("n1c64h56w56k64r3s3p1");
  EXPECT_EQ(free.text(), free.key());
  const Workload asked = *with_layouts(free, {{"out", "NHWC"}, {"in", "NCHW16c"}});
  EXPECT_EQ(asked.key(), free.key());
  EXPECT_EQ(asked.hash(), free.hash());
  EXPECT_EQ(asked.text(), free.key() + " {in=NCHW16c out=NHWC}");
  const auto parsed = parse_workload(asked.text());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->layouts, asked.layouts);
  EXPECT_EQ(parsed->key(), free.key());
  // The declared layout may be asked for, too, and then stands in the text.
  EXPECT_EQ(with_layouts(free, {{"in", "NCHW"}})->text(), free.key() + " {in=NCHW}");
  const Workload expression =
      *workload(*parse_compute("input a: f32[4, 6] @MN; out: f32[i=4, j=6] = a[i, j] * 2.0"));
  const auto again = parse_workload(with_layouts(expression, {{"a", "NM4n"}})->text());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->layouts, (Layouts{{"a", "NM4n"}}));
  EXPECT_EQ(again->key(), expression.key());
}

TEST(Workload, TheStateOfTheCachesFollowsTheLayouts) {
  const Workload free = conv("n1c64h56w56k64r3s3p1");
  for (const auto& [state, text] : {std::pair(CacheState::NetworkL3, "network:L3"),
                                    {CacheState::NetworkMemory, "network:memory"}}) {
    Workload asked = *with_layouts(free, {{"in", "NCHW16c"}});
    EXPECT_EQ(asked.asked(), "in=NCHW16c");
    asked.state = state;
    EXPECT_EQ(asked.key(), free.key());
    EXPECT_EQ(asked.hash(), free.hash());
    EXPECT_EQ(asked.asked(), std::string("in=NCHW16c ") + text);
    const auto parsed = parse_workload(asked.text());
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->state, state);
    EXPECT_EQ(parsed->layouts, asked.layouts);
    EXPECT_EQ(parse_workload(free.key() + " {" + text + "}")->text(),
              free.key() + " {" + text + "}");
    EXPECT_EQ(with_asked(free, asked.asked())->text(), asked.text());
  }
  EXPECT_EQ(parse_workload(free.key())->state, CacheState::Hot);
}

TEST(Workload, StatesThatAreNoneAreUsageErrors) {
  const Workload free = conv("n1c64h56w56k64r3s3p1");
  for (const char* text : {"network:L4", "network:", "L3:", "network:L3 network:memory"}) {
    const auto asked = with_asked(free, text);
    ASSERT_FALSE(asked) << text;
    EXPECT_EQ(asked.error().code, ErrorCode::Usage) << text;
  }
  EXPECT_THAT(parse_cache_state("warm").error().message,
              HasSubstr("hot, network:L3 or network:memory"));
  EXPECT_EQ(*parse_cache_state("hot"), CacheState::Hot);
}

TEST(Workload, LayoutsThatCannotBeAreUsageErrors) {
  const Workload free = conv("n1c64h56w56k64r3s3p1");
  const auto message_of = [&](const Layouts& layouts) {
    const auto made = with_layouts(free, layouts);
    EXPECT_FALSE(made) << print_layouts(layouts);
    if (made) return std::string();
    EXPECT_EQ(made.error().code, ErrorCode::Usage);
    return made.error().message;
  };
  EXPECT_THAT(message_of({{"input", "NHWC"}}), HasSubstr("expected one of in, w, out"));
  EXPECT_THAT(message_of({{"in", "NCHX"}}), HasSubstr("'X' names no dimension"));
  EXPECT_THAT(message_of({{"in", "NCH"}}), HasSubstr("'W' must occur once"));
  EXPECT_THAT(message_of({{"in", "16000000nNCHW"}}), HasSubstr("'N' must stand before"));
  EXPECT_THAT(message_of({{"in", "NCHW16777216n16777216c16777216h"}}), HasSubstr("2^56 bytes"));
  EXPECT_THAT(message_of({{"in", "NCHW16777216n16777216c8h"}}), HasSubstr("2^56 bytes"));
  const Workload sum = *parse_workload("expr fast input a: f32[3]; s: f32[] = sum(j=3) a[j]");
  EXPECT_FALSE(with_layouts(sum, {{"s", ""}}));
  EXPECT_FALSE(with_layouts(*with_layouts(free, {{"in", "NHWC"}}), {{"in", "NHWC"}}));
  for (const char* text :
       {"{", "{}}", "{in}", "{in=}", "{=NHWC}", "{in=NHWC in=NHWC}", "{in=NHWC", "{in=NHXC}"})
    EXPECT_FALSE(parse_workload(free.key() + " " + text)) << text;
}

TEST(ParseWorkload, ReadsDeclarations) {
  const std::string key = "expr fast input a: f32[3]; s: f32[] = sum(j=3) a[j]";
  for (const char* text : {"input a: f32[3]; s: f32[] = sum(j=3) a[j]",
                           "# a sum\ninput a: f32[3]\ns: f32[] = sum(j=3) "
                           "a[j]\noutput s\n"})
    EXPECT_EQ(parse_workload(text)->key(), key) << text;
  EXPECT_EQ(parse_workload("ones : f32[i=3] = 1")->key(), "expr fast ones: f32[i=3] = 1.0");
  EXPECT_EQ(parse_workload("input a: f32[3]; s: f32[i=3] = a[i] {a=A2a}")->layouts.count("a"), 1);
  EXPECT_EQ(parse_workload("input a: f32[3]; s: f32[i=3] = b[i]").error().message,
            "[parse] line 1, column 32: 'b' is no tensor declared before");
}

TEST(Workload, BadKeysAreErrors) {
  for (const char* key : {"", "conv2d", "conv2d f32 fast", "conv3d n=1",
                          "dense m=1 n=1 k=1 f128 fast", "dense m=1 n=1 k=1 f32 faster", "expr",
                          "expr fast", "expr fast a b c", "dense m=1 m=2 n=1 k=1 f32 fast"})
    EXPECT_FALSE(parse_workload(key)) << key;
}

}  // namespace
}  // namespace tw::dsl
