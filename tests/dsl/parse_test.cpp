// SPDX-License-Identifier: Apache-2.0
#include "dsl/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/operators.h"
#include "tests/dsl/random_expr.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string error_of(std::string_view text) {
  const auto compute = parse_compute(text);
  return compute ? "ok" : compute.error().message;
}

std::string reprinted(const char* text) {
  const auto expr = parse_expr(text, {{"a", Float32}, {"u", UInt8}});
  return expr ? to_string(*expr) : expr.error().message;
}

TEST(ParseExpr, ReadsTheSugar) {
  EXPECT_EQ(reprinted("x > 1"), "1 < x");
  EXPECT_EQ(reprinted("x >= y"), "y <= x");
  EXPECT_EQ(reprinted("!(x < y)"), "not(x < y)");
  EXPECT_EQ(reprinted("-a[x]"), "neg(a[x])");
  EXPECT_EQ(reprinted("-3 + -x"), "-3 + neg(x)");
  EXPECT_EQ(reprinted("clamp(x, 0, 7)"), "max(min(x, 7), 0)");
  EXPECT_EQ(reprinted("f32(x) + 1"), "f32(x) + 1.0");
  EXPECT_EQ(reprinted("u[0] + 1"), "u[0] + 1u8");
  EXPECT_EQ(reprinted("1 + 2 * 3"), "7");
  EXPECT_EQ(reprinted("a[oc.0 * 8 + oc.1]"), "a[oc.0 * 8 + oc.1]");
  EXPECT_EQ(reprinted("pow(a[x], 2)"), "a[x] * a[x]");
  EXPECT_EQ(reprinted("pow(a[x], 0.5)"), "sqrt(a[x])");
  EXPECT_EQ(reprinted("pow(a[x], -0.5)"), "1.0 / sqrt(a[x])");
  EXPECT_EQ(reprinted("pow(a[x], 2.5)"), "pow(a[x], 2.5)");
  EXPECT_EQ(reprinted("a[x] * pi"), "a[x] * 3.1415927");
  EXPECT_EQ(reprinted("-pibf16"), "-3.14bf16");
  EXPECT_EQ(reprinted("-inf"), "-inf");
  EXPECT_EQ(reprinted("- inf"), "-inf");
}

TEST(ParseExpr, RandomExpressionsPrintBack) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    RandomExpr make(random, {"x", "y", "k.0"}, {{"a", 2}, {"b", 1}});
    const DType type = random.chance(0.1) ? Bool : random.pick(RandomExpr::number_types());
    const Expr expr = make.make(type, 5);
    const auto parsed = parse_expr(to_string(expr), {{"a", Float32}, {"b", Float32}});
    ASSERT_TRUE(parsed) << to_string(expr) << "\n" << parsed.error().message;
    EXPECT_TRUE(equal(*parsed, expr)) << to_string(expr) << "\n" << to_string(*parsed);
  }
}

TEST(ParseCompute, ReadsWhatTheHeaderShows) {
  const auto compute = parse_compute(R"(
    # a matrix product
    input a: f32[16, 32]
    weight b: f32[32, 8] @IO          # letters are optional
    c: f32[m=16, n=8] = sum(k=32) a[m, k] * b[k, n]
    out: f32[m=16, n=8] = max(c[m, n],
                              0.0)
    output out
  )");
  ASSERT_TRUE(compute) << compute.error().message;
  EXPECT_EQ(to_text(*compute),
            "input a: f32[16, 32]\nweight b: f32[32, 8] @IO\n"
            "c: f32[m=16, n=8] = sum(k=32) a[m, k] * b[k, n]\n"
            "out: f32[m=16, n=8] = max(c[m, n], 0.0)\n");
  EXPECT_EQ(parse_compute(to_line(*compute))->stages.size(), 2u);
  EXPECT_EQ(hash(*compute).size(), 16u);
}

TEST(ParseCompute, TellsReductionsFromFunctions) {
  const Compute compute = *parse_compute(
      "input a: f32[4]; s: f32[] = max(k=4) a[k]; t: f32[i=4] = max(a[i], s[]); output t, s");
  EXPECT_EQ(compute.stages[0].combine, Combine::Max);
  EXPECT_EQ(compute.stages[1].combine, Combine::None);
  EXPECT_EQ(compute.outputs, (std::vector<std::string>{"t", "s"}));
  EXPECT_EQ(to_line(compute),
            "input a: f32[4]; s: f32[] = max(k=4) a[k]; t: f32[i=4] = max(a[i], s[]); output t, s");
}

TEST(ParseCompute, TellsScansFromFunctionsAndReductions) {
  const char* text =
      "input a: f32[4, 8]; s: f32[i=4, j=8] = sum(k <= j) a[i, k]; "
      "t: f32[i=4, j=8] = max(k < i) s[k, j]; u: f32[i=4, j=8] = max(select(j < i, 1.0, 0.0), "
      "t[i, j])";
  const Compute compute = *parse_compute(text);
  EXPECT_EQ(to_line(compute), text);
  EXPECT_EQ(compute.stages[0].scan->along, "j");
  EXPECT_TRUE(compute.stages[0].scan->inclusive);
  EXPECT_EQ(compute.stages[0].reduction, (std::vector<Axis>{{"k", 8}}));
  EXPECT_EQ(compute.stages[1].scan->along, "i");
  EXPECT_FALSE(compute.stages[1].scan->inclusive);
  EXPECT_FALSE(compute.stages[2].scan);
}

TEST(ParseCompute, PositionsOfExtremesAreStages) {
  EXPECT_EQ(to_text(*parse_compute("input in: f32[6, 10]; out: i64[i=6] = argmax(j=10) in[i, j]")),
            "input in: f32[6, 10]\n"
            "out_peak: f32[i=6] = max(j=10) select(in[i, j] <= inf, in[i, j], -inf)\n"
            "out_first: i64[i=6] = min(j=10) select(in[i, j] <= inf, "
            "select(select(in[i, j] <= inf, in[i, j], -inf) == out_peak[i], j, 9), j - 10)\n"
            "out: i64[i=6] = out_first[i] % 10\n");
  const Compute of_bytes =
      *parse_compute("input in: u8[10]; at: i64[] = argmin(j=10) in[j]; out: i64[] = at[] + 1");
  EXPECT_EQ(to_text(of_bytes),
            "input in: u8[10]\n"
            "at_peak: u8[] = min(j=10) in[j]\n"
            "at: i64[] = min(j=10) select(in[j] == at_peak[], j, 9)\n"
            "out: i64[] = at[] + 1\n");
  EXPECT_EQ(to_line(*parse_compute(to_text(of_bytes))), to_line(of_bytes));
}

TEST(ParseCompute, RandomComputesPrintBack) {
  Random random(4);
  for (int round = 0; round < 500; ++round) {
    const Compute compute = random_compute(random);
    for (const std::string& text : {to_text(compute), to_line(compute)}) {
      const auto parsed = parse_compute(text);
      ASSERT_TRUE(parsed) << text << parsed.error().message;
      EXPECT_EQ(to_line(*parsed), to_line(compute));
      for (size_t i = 0; i < compute.stages.size(); ++i)
        EXPECT_TRUE(equal(parsed->stages[i].body, compute.stages[i].body)) << text;
    }
  }
}

TEST(ParseCompute, OperatorsPrintBack) {
  for (const Operator& op : operators()) {
    Attributes small;
    for (const Attribute& attribute : op.attributes)
      if (!attribute.value && attribute.same_as.empty()) small[std::string(attribute.name)] = 3;
    const Compute compute = *declare(op, *resolve(op, small), Float16);
    EXPECT_EQ(to_text(*parse_compute(to_text(compute))), to_text(compute)) << op.name;
  }
}

TEST(ParseCompute, ErrorsNameThePlaceAndWhatWasExpected) {
  EXPECT_EQ(error_of("input a: f32[4]\nt: f32[i=4] = a[i] +"),
            "[parse] line 2, column 21: expected an expression, found the end of the declaration");
  EXPECT_EQ(error_of("input a: f32[4]\nt: f32[i=4] = a[j]"),
            "[parse] line 2, column 17: 'j' is no axis of this stage");
  EXPECT_EQ(
      error_of("input image: f32[4]; t: f32[i=4] = imgae[i]"),
      "[parse] line 1, column 36: 'imgae' is no tensor declared before; did you mean 'image'?");
  EXPECT_THAT(error_of("input a: f33[4]"), HasSubstr("'f33' is no data type"));
  EXPECT_THAT(error_of("input a f32[4]"), HasSubstr("line 1, column 9: expected ':', found 'f32'"));
  EXPECT_THAT(error_of("input a: f32[4"),
              HasSubstr("expected ']', found the end of the declaration"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a[i, i]"),
              HasSubstr("has 1 dimensions, here are 2"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a[1.0]"), HasSubstr("expected i64"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = sqr(a[i])"),
              HasSubstr("did you mean 'sqrt'?"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a[i] + i"),
              HasSubstr("joins f32 and i64: cast one"));
  EXPECT_THAT(error_of("input a: u8[4]; t: u8[i=4] = a[i] + 300"), HasSubstr("does not fit"));
  EXPECT_THAT(error_of("input a: f32[4]; t: u8[i=4] = a[i]"), HasSubstr("cast it, as in u8(...)"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a"),
              HasSubstr("is a tensor: read an element"));
  EXPECT_THAT(error_of("input a: f32[4]; a: f32[i=4] = 1"), HasSubstr("declared twice"));
  EXPECT_THAT(error_of("input exp: f32[4]"), HasSubstr("word of the language"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = select(1, a[i], 0)"),
              HasSubstr("bool condition"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = min(a[i])"), HasSubstr("takes 2 operands"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a[i] $ 2"), HasSubstr("'$' is no part"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a[i / 0]"), HasSubstr("divides by 0"));
  EXPECT_THAT(error_of("input a: f32[4];\nt: f32[i=4] = a[i] / 0"),
              HasSubstr("line 2, column 20: divides by 0"));
  EXPECT_THAT(error_of("input a: f16[4]; t: f16[i=4] = a[i] / -0.0f16"), HasSubstr("divides by 0"));
  EXPECT_THAT(error_of("input a: i32[4]; t: i32[i=4] = a[i] % 0"), HasSubstr("divides by 0"));
  EXPECT_THAT(error_of("input a: i32[4]; t: i32[i=4] = pow(a[i], 5)"),
              HasSubstr("'pow' needs floats, not i32"));
  EXPECT_THAT(error_of("input pi: i32[4]"), HasSubstr("word of the language"));
  EXPECT_THAT(error_of("input a: f32[4]; t: i32[] = argmax(k=4) a[k]"),
              HasSubstr("column 29: 'argmax' gives i64, 't' is i32"));
  EXPECT_THAT(error_of("input a: f32[4]; t: i64[] = argmin(k=0) a[k]"),
              HasSubstr("'argmin' runs over one axis with elements"));
  EXPECT_THAT(error_of("input a: f32[4, 4]; t: i64[] = argmax(k=4, l=4) a[k, l]"),
              HasSubstr("'argmax' runs over one axis with elements"));
  EXPECT_THAT(error_of("input t_peak: f32[4]; t: i64[] = argmax(k=4) t_peak[k]"),
              HasSubstr("needs a stage 't_peak', which is declared before"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[column=4] = sum(k <= colunm) a[k]"),
              HasSubstr("column 46: 'colunm' is no axis of 't', along which it could scan; did "
                        "you mean 'column'?"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = sum(i <= i) a[i]"),
              HasSubstr("has two axes 'i'"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = sum(k <= i) a[i]"),
              HasSubstr("uses 'i' in the terms of its scan along 'i'"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = sum(k > i) a[i]"),
              HasSubstr("'k' is no axis of this stage"));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = t[i - 1] + a[i]"),
              HasSubstr("column 32: 't' reads itself, and a stage reads tensors that are declared "
                        "before it; a running sum, product, minimum or maximum is a scan"));
  for (const std::string reduction : {"sum(k=4)", "max(k=4)", "argmin(k=4)", "min(k <= i)"})
    EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = 2.0 * " + reduction + " a[k]"),
                HasSubstr("inside of an expression: a reduction is the whole expression of a "
                          "stage; declare one, as in s: f32[i=4] = "));
  EXPECT_THAT(error_of("input a: f32[4]; t: f32[i=4] = a[i]; output u"),
              HasSubstr("'u' is no stage"));
  EXPECT_THAT(error_of("input a: f32[4]"), HasSubstr("there is no output"));
  EXPECT_THAT(error_of(""), HasSubstr("there is no output"));
}

// & binds more tightly than ==, as in Python. In C, == binds more tightly.
TEST(ParseExpr, BitsBindTighterThanComparisons) {
  for (const char* text : {"a[x] >> 4i32 & 15i32", "a[x] | b[x] ^ a[x] & b[x] << a[x] + 1i32",
                           "(a[x] | b[x]) & 1i32 << a[x]"}) {
    const auto parsed = parse_expr(text, {{"a", Int32}, {"b", Int32}});
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(to_string(*parsed), text);
  }
  const std::map<std::string, DType> tensors = {{"a", Int32}};
  EXPECT_EQ(to_string(*parse_expr("a[x] & 1 == 0", tensors)), "a[x] & 1i32 == 0i32");
  EXPECT_TRUE(
      equal(*parse_expr("a[x] & 1 == 0", tensors), *parse_expr("(a[x] & 1) == 0", tensors)));
  EXPECT_TRUE(equal(*parse_expr("1 + 2 << 3", {}), Expr(24)));
  EXPECT_THAT(parse_expr("a[x] & 1.0", tensors).error().message, HasSubstr("joins i32 and f32"));
}

TEST(ParseCompute, AByteOrderMarkIsNoPartOfTheText) {
  EXPECT_EQ(error_of("\xEF\xBB\xBFinput a: f32[4]\nt: f32[i=4] = a[i]"), "ok");
  EXPECT_THAT(error_of("\xEF\xBB\xBF$"), HasSubstr("line 1, column 1: '$'"));
  EXPECT_THAT(error_of("input a: f32[4]\n\xEF\xBB\xBFt: f32[i=4] = a[i]"), HasSubstr("0xef"));
}

TEST(ParseCompute, Fault04_NumbersThatDoNotFitAreErrors) {
  EXPECT_THAT(error_of("input a: f32[-1]"), HasSubstr("an extent is 0 or more"));
  EXPECT_THAT(error_of("input a: f32[99999999999999999999]"), HasSubstr("no extent"));
  EXPECT_THAT(error_of("input a: f32[1e400]"), HasSubstr("no extent"));
  EXPECT_THAT(error_of("t: f32[i=4] = 1e400"), HasSubstr("does not fit into f32"));
  EXPECT_THAT(error_of("t: f32[i=4] = 1e39"), HasSubstr("does not fit into f32"));
  EXPECT_THAT(error_of("t: i64[i=4] = 9223372036854775808"), HasSubstr("does not fit into i64"));
  EXPECT_THAT(error_of("t: i8[i=4] = 128i8"), HasSubstr("does not fit into i8"));
  EXPECT_EQ(error_of("t: i8[i=4] = -129"), "[parse] line 1, column 14: -129 does not fit into i8");
  EXPECT_THAT(error_of("t: u32[i=4] = 2147483647 * 2 + 2"), HasSubstr("does not fit into u32"));
  EXPECT_THAT(error_of("t: bool[i=4] = 2"), HasSubstr("2 does not fit into bool"));
  EXPECT_EQ(error_of("t: i8[i=4] = -128"), "ok");
  EXPECT_EQ(error_of("t: f32[i=4] = 16777217"), "ok");
  EXPECT_EQ(error_of("t: i64[i=4] = -9223372036854775808"), "ok");
}

TEST(ParseCompute, Fault05_ExtentsThatOverflowAreUnsupported) {
  const auto compute =
      parse_compute("input a: f32[1099511627776, 1099511627776]; t: f32[i=4] = a[i, 0]");
  ASSERT_FALSE(compute);
  EXPECT_EQ(compute.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(compute.error().message, HasSubstr("extent overflow"));
}

TEST(ParseCompute, SumsHaveAsManyTermsAsTheReferenceSays) {
  const auto sum = [](int terms) {
    std::string text = "input a: f32[4]; out: f32[i=4] = a[i]";
    for (int i = 1; i < terms; ++i) text += " + a[i]";
    return parse_compute(text).has_value();
  };
  EXPECT_TRUE(sum(499));
  EXPECT_FALSE(sum(500));
}

TEST(ParseCompute, HostileTextIsBounded) {
  const std::string deep =
      "t: i64[i=4] = " + std::string(100000, '(') + "i" + std::string(100000, ')');
  EXPECT_THAT(error_of(deep), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of("t: i64[i=4] = " + std::string(100000, '-') + "i"),
              HasSubstr("nested deeper"));
  std::string chain = "t: i64[i=4] = i";
  for (int i = 0; i < 100000; ++i) chain += "+i";
  EXPECT_THAT(error_of(chain), HasSubstr("declare stages in between"));
  EXPECT_THAT(error_of(std::string(2 << 20, ' ')), HasSubstr("bytes of text"));
  std::string longest = "t: i64[i=4] = i";
  for (int i = 0; i < 498; ++i) longest += "+i";
  EXPECT_EQ(error_of(longest), "ok");
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "input a" + std::to_string(i) + ": f32[1];";
  EXPECT_THAT(error_of(many), HasSubstr("more than 10000 declarations"));
}

TEST(ParseCompute, MutatedTextNeverCrashesAndStillPrintsBack) {
  Random random(9);
  const std::string alphabet =
      "abkm01 9.:;,[]()=+-*/%<>!&|@#\n\"\x01\xff"
      "e";
  for (int round = 0; round < 3000; ++round) {
    std::string text = to_text(random_compute(random));
    for (int64_t i = 1 + random.below(4); i > 0; --i) {
      const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(text.size())));
      const char c =
          alphabet[static_cast<size_t>(random.below(static_cast<int64_t>(alphabet.size())))];
      if (random.chance(0.3)) {
        text.erase(at, 1);
      } else {
        text[at] = c;
      }
    }
    const auto parsed = parse_compute(text);
    if (!parsed) continue;
    const auto again = parse_compute(to_text(*parsed));
    ASSERT_TRUE(again) << to_text(*parsed) << again.error().message;
    EXPECT_EQ(to_line(*again), to_line(*parsed));
  }
}

TEST(ParseCompute, EachExampleFileParses) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(TW_SOURCE_DIR "/bench/expressions")) {
    if (entry.path().extension() != ".tw") continue;
    ++files;
    const auto compute = parse_compute(contents(entry.path()));
    ASSERT_TRUE(compute) << entry.path() << compute.error().message;
    EXPECT_EQ(to_line(*parse_compute(to_text(*compute))), to_line(*compute));
  }
  EXPECT_GE(files, 5);
}

TEST(ParseCompute, EachExampleOfTheReferenceParses) {
  const std::string text = contents(TW_SOURCE_DIR "/docs/expressions.md");
  int examples = 0;
  for (size_t at = text.find("```tw\n"); at != std::string::npos; at = text.find("```tw\n", at)) {
    at += 6;
    const std::string example = text.substr(at, text.find("```", at) - at);
    EXPECT_EQ(error_of(example), "ok") << example;
    ++examples;
  }
  EXPECT_GE(examples, 5);
}

}  // namespace
}  // namespace tw::dsl
