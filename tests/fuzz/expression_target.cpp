// SPDX-License-Identifier: Apache-2.0
// Fuzz target for the text of a compute, of a workload's key, or of a shape.
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "tests/fuzz/promises.h"
#include "tests/fuzz/target.h"

namespace tw::fuzz {
namespace {

std::vector<std::string> expression_seeds() {
  std::vector<std::string> seeds = {
      "input a: f32[16, 32]\nweight b: f32[32, 8] @IO\n"
      "c: f32[m=16, n=8] = sum(k=32) a[m, k] * b[k, n]\n"
      "out: f32[m=16, n=8] = max(c[m, n], 0.0)\noutput out\n",
      "input a: u8[8]; out: f16[i=8] = f16(a[i] & 7u8) + select(i < 4, pi, -inf) ** 2",
      "input a: bf16[4, 4]; out: f32[i=4] = argmax(k=4) exp(f32(a[i, k])) / 3.0 # axis",
      "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 f32 fast",
      "dense m=100 n=100 k=70 bias=1 relu=1 f32 fast {a=IO8i}",
      "n1c64h56w56k64r3s3p1"};
  for (const char* file : {"blur", "color", "int_conv5x5", "pairwise", "softmax"})
    seeds.push_back(source_file(std::string("bench/expressions/") + file + ".tw"));
  return seeds;
}

/// Checks that the compute parses back from its text, and that its workload parses back from its
/// key.
void check_compute(const dsl::Compute& compute) {
  const auto again = dsl::parse_compute(dsl::to_text(compute));
  TW_CHECK(again && dsl::to_line(*again) == dsl::to_line(compute), "its text must parse back");
  const auto workload = dsl::workload(compute);
  if (!workload) return check_error(workload.error());
  const auto known = dsl::parse_workload(workload->key());
  TW_CHECK(known && known->key() == workload->key(), "its key must parse back");
}

bool expression_accepts(std::string_view input) {
  const auto compute = dsl::parse_compute(input);
  if (compute) return check_compute(*compute), true;
  check_error(compute.error());
  const auto shape = dsl::parse_shape(input);
  if (!shape) check_error(shape.error());
  const auto workload = dsl::parse_workload(input);
  if (!workload) return check_error(workload.error()), shape.has_value();
  const auto again = dsl::parse_workload(workload->text());
  TW_CHECK(again && again->text() == workload->text(), "a workload's text must parse back");
  return true;
}

}  // namespace

const Target expression_target = {
    .name = "expression",
    .summary = "expressions, workloads and shapes",
    .seeds = expression_seeds,
    .accepts = expression_accepts,
    .words = {"input ",  "weight ", "output ", ": ",       "f32[",  "f16",   "bf16", "i8",
              "u8",      "i64",     "sum(",    "max(",     "min(",  "prod(", "any(", "argmax(",
              "select(", "clamp(",  "pow(",    "exp(",     "sqrt(", "=",     " * ",  " + ",
              " - ",     " / ",     " % ",     " < ",      "&&",    "||",    "!",    "[",
              "]",       "(",       ")",       "((((((((", "@IO",   ";",     "\n",   "#",
              "inf",     "nan",     "pi",      "x.0",      "in=",   " {",    "}"}};

}  // namespace tw::fuzz
