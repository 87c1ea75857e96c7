// SPDX-License-Identifier: Apache-2.0
// Tests which outputs verification compares and how. broken_kernels_test.cpp tests whether that
// finds broken kernels.
#include "tuner/measure/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "codegen/compile.h"
#include "schedules/schedule.h"
#include "tests/nightly.h"
#include "tests/tuner/tuning.h"
#include "tuner/measure/executor.h"
#include "tuner/measure/verdict.h"

namespace tw::tuner {
namespace {

dsl::Array array_of(DType type, std::vector<double> values) {
  auto array = dsl::Array::make(type, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) array.set({static_cast<int64_t>(i)}, values[i]);
  return array;
}

TEST(RelativeError, IsMeasuredAgainstTheLargestElement) {
  const dsl::Array expected = array_of(Float32, {100, 1, -200});
  EXPECT_EQ(relative_error(expected, expected), 0);
  EXPECT_DOUBLE_EQ(relative_error(array_of(Float32, {100, 2, -200}), expected), 1.0 / 200);
  EXPECT_DOUBLE_EQ(relative_error(array_of(Float32, {100, 1, 200}), expected), 2);
}

TEST(RelativeError, Fault08_WhatIsNotANumberEqualsOnlyItself) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const dsl::Array special = array_of(Float32, {nan, inf, 1});
  EXPECT_EQ(relative_error(special, special), 0);
  EXPECT_EQ(relative_error(array_of(Float32, {0, inf, 1}), special), inf);
  EXPECT_EQ(relative_error(array_of(Float32, {nan, -inf, 1}), special), inf);
  EXPECT_EQ(relative_error(array_of(Float32, {nan, inf, nan}), special), inf);
}

TEST(RelativeError, LeavesOutWhatOverflows) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const dsl::Array expected = array_of(Float32, {inf, 3.4028e38, 1});
  EXPECT_LT(relative_error(array_of(Float32, {nan, inf, 1}), expected, true), 1e-4);
  EXPECT_GT(relative_error(array_of(Float32, {inf, 3.4028e38, inf}), expected, true), 0.9);
  EXPECT_EQ(relative_error(array_of(Float32, {inf, nan, 1}), expected, true), inf);
}

TEST(RelativeError, LeavesOutTheElementsThatAreNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<bool> left_out = {true, false, true, false};
  const dsl::Array expected = array_of(Float32, {-2147483648.0, 2, nan, 1});
  EXPECT_EQ(relative_error(array_of(Float32, {nan, 2, 5, 1}), expected, false, &left_out), 0);
  EXPECT_DOUBLE_EQ(relative_error(array_of(Float32, {7, 2, 5, 2}), expected, false, &left_out),
                   0.5);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(relative_error(array_of(Float32, {7, 2, 5, nan}), expected, false, &left_out), inf);
}

TEST(RelativeError, WhereAllIsZeroNothingElseIsAllowed) {
  const dsl::Array zeros = array_of(Float32, {0, 0});
  EXPECT_EQ(relative_error(array_of(Float32, {0, -0.0}), zeros), 0);
  EXPECT_GT(relative_error(array_of(Float32, {0, 1e-30}), zeros), 1);
}

TEST(Tolerance, FollowsTypesAndTheAccuracyClass) {
  const auto of = [](const char* key) { return tolerance_of(workload_of(key)); };
  EXPECT_EQ(of("dense m=2 n=2 k=2 i8 fast"), 0);
  EXPECT_LT(of("dense m=2 n=2 k=2 f64 strict"), of("dense m=2 n=2 k=2 f64 fast"));
  EXPECT_LT(of("dense m=2 n=2 k=2 f64 fast"), 1e-13);
  EXPECT_GT(of("dense m=2 n=2 k=2 f64 strict"), 1e-15);
  EXPECT_LT(of("dense m=2 n=2 k=2 f32 strict"), of("dense m=2 n=2 k=2 f32 fast"));
  EXPECT_LT(of("dense m=2 n=2 k=2 f32 fast"), of("dense m=2 n=2 k=2 f16 fast"));
  EXPECT_LT(of("dense m=2 n=2 k=2 f16 fast"), of("dense m=2 n=2 k=2 bf16 fast"));
}

TEST(Compare, TellsTheErrorOfTheWorstOutput) {
  Reference reference;
  reference.normal.allowed = {{"a", 1e-3}, {"b", 1e-3}};
  reference.normal.outputs = {{"a", array_of(Float32, {1, 2})}, {"b", array_of(Float32, {4})}};
  dsl::Arrays outputs = reference.normal.outputs;
  EXPECT_EQ(compare(reference, Pass::Normal, outputs).status, db::TrialStatus::Ok);
  outputs["b"] = array_of(Float32, {4.001});
  const Verdict close = compare(reference, Pass::Normal, outputs);
  EXPECT_EQ(close.status, db::TrialStatus::Ok);
  EXPECT_NEAR(close.error, 0.00025, 1e-6);
  outputs["a"] = array_of(Float32, {1, 2.1});
  const Verdict wrong = compare(reference, Pass::Normal, outputs);
  EXPECT_EQ(wrong.status, db::TrialStatus::Wrong);
  EXPECT_NE(wrong.reason.find("0.05"), std::string::npos) << wrong.reason;
}

// ---- conversions ----------------------------------------------------------------------------

/// Returns the outputs of a timed call of an expression's kernel. Before the call, the kernel's
/// storage was packed from the arrays `packed`. The call packs the arrays `called` instead if it
/// converts layouts, so the outputs show whether it does.
Result<dsl::Arrays> outputs_of_timed_call(const dsl::Workload& workload, const dsl::Arrays& packed,
                                          const dsl::Arrays& called) {
  codegen::KernelSpec spec;
  const auto schedule =
      schedules::Schedule(workload.compute).set_layout("a", "BA").set_layout("out", "BA");
  TW_TRY(spec.program, schedule.program());
  TW_TRY(auto artifacts, codegen::compile({&spec, 1}, host_target()));
  TW_RETURN_IF_ERROR(artifacts[0]);
  TW_TRY(const runtime::Kernel kernel, runtime::Kernel::load(std::move(*artifacts[0])));
  TW_TRY(KernelBuffers buffers,
         KernelBuffers::make(kernel, workload, packed, {.align = Align::Begin}, nullptr));
  TW_TRY(Conversions conversions, Conversions::of(kernel, workload, called, buffers));
  const std::vector<void*> pointers = buffers.pointers();
  runtime::ThreadPool pool(runtime::PoolOptions{.threads = 1});
  TW_RETURN_IF_ERROR(conversions.call(kernel, pointers, pool, 1));
  return buffers.outputs(kernel);
}

// The caller keeps the arrays in these layouts, so packing them is not a part of the call.
TEST(Conversions, ArraysInLayoutsThatAreAskedForAreNotConverted) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  const dsl::Workload free =
      workload_of("expr fast input a: f32[2, 3]; out: f32[i=2, j=3] = a[i, j] * 2.0");
  const auto filled = [](double value) {
    dsl::Arrays arrays = {{"a", dsl::Array::make(Float32, {2, 3}).value()}};
    for (int64_t i = 0; i < 6; ++i) arrays["a"].set_float(i, value);
    return arrays;
  };
  const auto first = [&](const dsl::Workload& workload) {
    const auto outputs = outputs_of_timed_call(workload, filled(1), filled(10));
    if (!outputs) throw std::runtime_error(outputs.error().message);
    return outputs->at("out").get_float(0);
  };
  EXPECT_EQ(first(free), 20);
  EXPECT_EQ(first(dsl::with_layouts(free, {{"a", "BA"}, {"out", "BA"}}).value()), 2);
  EXPECT_EQ(first(dsl::with_layouts(free, {{"out", "BA"}}).value()), 20);
}

// ---- preparations ---------------------------------------------------------------------------

constexpr const char* prepared_key =
    "expr fast input a: f32[6, 8]; weight w: f32[10, 8]; "
    "u: f32[c=8, k=10] = w[k, c] * w[k, c] + 1.0; "
    "out: f32[m=6, k=10] = sum(c=8) a[m, c] * u[c, k]";

/// A kernel of the workload `prepared_key` that computes u in its preparation. verdict() applies
/// `change` to the program and verifies the result.
struct PreparedKernel {
  dsl::Workload workload = workload_of(prepared_key);
  Reference reference =
      make_reference(
          workload,
          [this](const dsl::Arrays& inputs) { return dsl::interpret(workload.compute, inputs); },
          monotonic_clock())
          .value();
  runtime::ThreadPool pool = runtime::ThreadPool({.threads = 2});
  PackedInputs packed;

  Verdict verdict(const std::function<void(schedules::Program&)>& change,
                  const std::string& layout = "AB", bool packs = true) {
    codegen::KernelSpec spec;
    spec.packs = packs;
    spec.program = schedules::Schedule(workload.compute)
                       .prepare("u")
                       .set_layout("a", layout)
                       .program()
                       .value();
    change(spec.program);
    auto artifacts = codegen::compile({&spec, 1}, host_target()).value();
    const runtime::Kernel kernel = runtime::Kernel::load(artifacts[0].value()).value();
    return verify(kernel, workload, reference, packed, pool, 2);
  }
};

TEST(Preparation, IsVerifiedWithTheKernel) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  PreparedKernel prepared;
  const Verdict right = prepared.verdict([](schedules::Program&) {});
  EXPECT_EQ(right.status, db::TrialStatus::Ok) << right.reason;
  // The changed preparation leaves half of its buffer unwritten.
  const Verdict partial = prepared.verdict([](schedules::Program& program) {
    schedules::Program changed = *program.preparation;
    schedules::Loop outer = *(*changed.phases[0].body)[0].as<schedules::Loop>();
    outer.end = dsl::Expr(4);
    changed.phases[0].body = schedules::block({schedules::Stmt{outer}});
    program.preparation = std::make_shared<const schedules::Program>(std::move(changed));
  });
  EXPECT_EQ(partial.status, db::TrialStatus::Wrong) << partial.reason;
}

TEST(Preparation, IsVerifiedInKernelsThatAreMeasuredWithoutPacks) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  for (const bool packs : {false, true}) {
    const Verdict verdict = PreparedKernel().verdict([](schedules::Program&) {}, "BA", packs);
    EXPECT_EQ(verdict.status, db::TrialStatus::Ok) << packs << ": " << verdict.reason;
  }
}

// ---- algorithms -----------------------------------------------------------------------------

/// Returns the verdict on a kernel with these `steps`. Its artifact names `schedule` as its
/// schedule.
Verdict verdict_on_steps(const dsl::Workload& workload, const std::string& steps,
                         const std::string& schedule) {
  const PlainCall interpreter = [&](const dsl::Arrays& inputs) {
    return dsl::interpret(workload.compute, inputs);
  };
  const Reference reference = make_reference(workload, interpreter, monotonic_clock()).value();
  codegen::KernelSpec spec;
  spec.schedule = schedule;
  spec.program = schedules::parse_schedule(workload.compute, steps).value().program().value();
  const auto artifacts = codegen::compile({&spec, 1}, host_target()).value();
  const runtime::Kernel kernel = runtime::Kernel::load(artifacts[0].value()).value();
  runtime::ThreadPool pool = runtime::ThreadPool({.threads = 2});
  PackedInputs packed;
  return verify(kernel, workload, reference, packed, pool, 2);
}

TEST(Algorithms, ThatRoundAreComparedWithinTheToleranceOnIntegersToo) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  const dsl::Workload workload = workload_of("conv2d n=1 c=16 h=8 w=8 k=4 r=3 s=3 pad=1 f32 fast");
  const std::string four = "tw1; winograd out x 4; winograd out.m y 4";
  const Verdict right = verdict_on_steps(workload, four, four);
  EXPECT_EQ(right.status, db::TrialStatus::Ok) << right.reason;
  EXPECT_GT(right.error, 0);
  // If the schedule names no algorithm, the comparison on integers stays exact.
  const Verdict exact = verdict_on_steps(workload, four, "tw1");
  EXPECT_EQ(exact.status, db::TrialStatus::Wrong);
  EXPECT_NE(exact.reason.find("on integer data, at most 0"), std::string::npos) << exact.reason;
}

TEST(Algorithms, AreWrongWhereTheirErrorExceedsTheClass) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  const std::string eight = "tw1; winograd out x 8; winograd out.m y 8";
  const dsl::Workload strict = workload_of("conv2d n=1 c=16 h=8 w=8 k=4 r=3 s=3 pad=1 f32 strict");
  EXPECT_EQ(verdict_on_steps(strict, eight, eight).status, db::TrialStatus::Wrong);
}

// ---- timing ---------------------------------------------------------------------------------

/// Result of timed_calls(): the number of clock readings while `calls` calls are timed, and the
/// verdict on the outputs after these calls.
struct TimedCalls {
  int64_t reads = 0;
  Verdict after;
};
TimedCalls timed_calls(const dsl::Workload& workload, int64_t calls) {
  codegen::KernelSpec spec;
  spec.program = schedules::Schedule(workload.compute).program().value();
  auto artifacts = codegen::compile({&spec, 1}, host_target()).value();
  int64_t reads = 0;
  const Clock clock = [&] { return ++reads; };
  const PlainCall interpreter = [&](const dsl::Arrays& inputs) {
    return dsl::interpret(workload.compute, inputs);
  };
  const ReferencedWorkload referenced = {
      workload, make_reference(workload, interpreter, monotonic_clock()).value()};
  Threads threads;
  const auto executor = processor(threads, clock);
  const auto kernel = executor->load(std::move(*artifacts[0]), referenced).value();
  EXPECT_EQ(kernel->verify().status, db::TrialStatus::Ok);
  const Timer timer = kernel->timer().value();
  const int64_t before = reads;
  (void)timer(calls);
  return {reads - before, kernel->check_after_timing()};
}

TEST(Timing, EachCallIsTimedByItselfWhereTheCachesAreThoseOfANetwork) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  for (const char* key : {"dense m=4 n=16 k=8 f32 fast",
                          "expr fast input a: f32[4, 8]; weight w: f32[8]; "
                          "out: f32[i=4, j=8] = a[i, j] * w[j]"}) {
    dsl::Workload workload = workload_of(key);
    EXPECT_EQ(timed_calls(workload, 5).reads, 2) << key;
    for (const auto state : {dsl::CacheState::NetworkL3, dsl::CacheState::NetworkMemory}) {
      workload.state = state;
      const TimedCalls timed = timed_calls(workload, 5);
      EXPECT_EQ(timed.reads, 2 * 5) << key;
      EXPECT_EQ(timed.after.status, db::TrialStatus::Ok) << timed.after.reason;
    }
  }
}

// ---- long sums ------------------------------------------------------------------------------

using Sum = std::function<float(const std::vector<float>&)>;

float sequential(const std::vector<float>& terms) {
  return std::accumulate(terms.begin(), terms.end(), 0.0f);
}
float in_lanes(const std::vector<float>& terms) {
  std::vector<float> lanes(16, 0);
  for (size_t i = 0; i < terms.size(); ++i) lanes[i % lanes.size()] += terms[i];
  return sequential(lanes);
}
float pairwise(const float* terms, size_t count) {
  if (count == 1) return *terms;
  return pairwise(terms, count / 2) + pairwise(terms + count / 2, count - count / 2);
}
float without_the_last(const std::vector<float>& terms) {
  return sequential({terms.begin(), terms.end() - 1});
}

/// Returns a kernel with one input `x` and one output. Each element of the output is computed from
/// a row of `x`.
PlainCall kernel_of(const std::function<float(const std::vector<float>& row)>& element) {
  return [element](const dsl::Arrays& inputs) -> Result<dsl::Arrays> {
    const dsl::Array& x = inputs.at("x");
    const int64_t rows = x.shape[0], columns = x.shape[1];
    auto out = dsl::Array::make(Float32, {rows}).value();
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<float> row;
      for (int64_t k = 0; k < columns; ++k)
        row.push_back(static_cast<float>(x.get_float(i * columns + k)));
      out.set_float(i, element(row));
    }
    return dsl::Arrays{{"out", std::move(out)}};
  };
}

struct LongSum {
  const char* name;
  int64_t terms;
  std::string stages;
  std::function<float(const std::vector<float>&, const Sum&)> element;
};

std::vector<float> mapped(std::vector<float> row, const std::function<float(float)>& change) {
  for (float& value : row) value = change(value);
  return row;
}

std::vector<LongSum> long_sums() {
  const auto mean = [](const std::vector<float>& row, const Sum& sum) {
    return sum(row) / static_cast<float>(row.size());
  };
  return {
      {"mean", 25088, "s: f32[i=ROWS] = sum(k=TERMS) x[i, k]; out: f32[i=ROWS] = s[i] / TERMS.0",
       mean},
      {"variance", 25088,
       "s: f32[i=ROWS] = sum(k=TERMS) x[i, k]; m: f32[i=ROWS] = s[i] / TERMS.0; "
       "v: f32[i=ROWS] = sum(k=TERMS) (x[i, k] - m[i]) * (x[i, k] - m[i]); "
       "out: f32[i=ROWS] = v[i] / TERMS.0",
       [mean](const std::vector<float>& row, const Sum& sum) {
         const float m = mean(row, sum);
         return mean(mapped(row, [m](float x) { return (x - m) * (x - m); }), sum);
       }},
      {"norm", 1'000'000,
       "s: f32[i=ROWS] = sum(k=TERMS) x[i, k] * x[i, k]; out: f32[i=ROWS] = sqrt(s[i])",
       [](const std::vector<float>& row, const Sum& sum) {
         return std::sqrt(sum(mapped(row, [](float x) { return x * x; })));
       }},
      {"logsumexp", 100'000,
       "s: f32[i=ROWS] = sum(k=TERMS) exp(x[i, k]); out: f32[i=ROWS] = log(s[i])",
       [](const std::vector<float>& row, const Sum& sum) {
         return std::log(sum(mapped(row, [](float x) { return std::exp(x); })));
       }},
  };
}

dsl::Workload made_of(const LongSum& sum, int rows, const char* accuracy) {
  std::string text = fmt::format("expr {} input x: f32[ROWS, TERMS]; {}", accuracy, sum.stages);
  for (const auto& [word, number] : {std::pair<std::string, int64_t>{"ROWS", rows},
                                     std::pair<std::string, int64_t>{"TERMS", sum.terms}})
    for (size_t at; (at = text.find(word)) != std::string::npos;)
      text.replace(at, word.size(), std::to_string(number));
  return workload_of(text);
}

Verdict verdict_on(const Reference& reference, const PlainCall& kernel) {
  dsl::Arrays left;
  const auto run = [&](Pass pass) {
    left = kernel(fill_of(reference, pass).inputs).value();
    return compare(reference, pass, left);
  };
  return judge("tw1", run, [&]() -> Repeated {
    const dsl::Arrays again = kernel(reference.normal.inputs).value();
    return std::ranges::all_of(again, [&](const auto& output) {
      return left.at(output.first).data == output.second.data;
    });
  });
}

TEST(Accuracy, Fault76_LongSumsMayBeTakenInAnyUsualOrder) {
  const Sum in_pairs = [](const auto& terms) { return pairwise(terms.data(), terms.size()); };
  for (const LongSum& sum : long_sums())
    for (const char* accuracy : {"fast", "strict"})
      for (const int rows : {1, 3}) {
        // By day each accuracy class is tried with one number of rows: fast with 1, strict with 3.
        if (!is_nightly() && (rows == 1) != (accuracy == std::string_view("fast"))) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", sum.name, accuracy, rows));
        const auto kernel = [&](const Sum& order) {
          return kernel_of([&sum, order](const auto& row) { return sum.element(row, order); });
        };
        const auto reference =
            make_reference(made_of(sum, rows, accuracy), kernel(sequential), monotonic_clock());
        ASSERT_TRUE(reference) << reference.error().message;
        for (const Sum& order : {Sum(sequential), Sum(in_lanes), in_pairs}) {
          const Verdict verdict = verdict_on(*reference, kernel(order));
          EXPECT_EQ(verdict.status, db::TrialStatus::Ok) << verdict.reason;
        }
      }
}

TEST(Accuracy, Fault76_ALongSumThatLeavesATermOutIsWrong) {
  for (const LongSum& sum : long_sums()) {
    // In a sum of a million positive terms, one missing term is smaller than the rounding errors.
    if (sum.terms > 25088) continue;
    SCOPED_TRACE(sum.name);
    const auto kernel = [&](const Sum& order) {
      return kernel_of([&sum, order](const auto& row) { return sum.element(row, order); });
    };
    const auto reference =
        make_reference(made_of(sum, 3, "fast"), kernel(sequential), monotonic_clock());
    ASSERT_TRUE(reference) << reference.error().message;
    EXPECT_EQ(verdict_on(*reference, kernel(without_the_last)).status, db::TrialStatus::Wrong);
  }
}

TEST(Accuracy, Fault76_APlainKernelThatIsWrongIsNoReference) {
  for (const LongSum& sum : long_sums()) {
    const auto wrong = kernel_of([&sum](const auto& row) {
      return sum.element({row.begin(), row.end() - static_cast<int64_t>(row.size() / 100)},
                         sequential);
    });
    const auto reference = make_reference(made_of(sum, 2, "fast"), wrong, monotonic_clock());
    ASSERT_FALSE(reference) << sum.name;
    EXPECT_EQ(reference.error().code, ErrorCode::Invalid);
  }
}

using OfElement = std::function<double(double x, int64_t i)>;
/// Returns a kernel that computes each element i of `out` from the element i of `x`. It calls
/// `undefined` if x < -0.5 and `defined` otherwise.
PlainCall elementwise(const OfElement& undefined, const OfElement& defined) {
  return [=](const dsl::Arrays& inputs) -> Result<dsl::Arrays> {
    const dsl::Array& x = inputs.at("x");
    TW_TRY(dsl::Array out, dsl::Array::make(Float32, x.shape));
    for (int64_t i = 0; i < x.size(); ++i) {
      const double value = x.get_float(i);
      out.set_float(i, value < -0.5 ? undefined(value, i) : defined(value, i));
    }
    return dsl::Arrays{{"out", std::move(out)}};
  };
}

OfElement always(double value) {
  return [value](double, int64_t) { return value; };
}

// If the argument of log() is negative, the element is undefined and a kernel may give any value.
TEST(Undefined, ElementsThatDependOnANaNAreNotCompared) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const OfElement correct = [](double x, int64_t) { return 1 + std::trunc(std::log(x + 0.5)); };
  const OfElement one_more = [&](double x, int64_t i) { return correct(x, i) + 1; };
  // For the larger array, the interpreter evaluates only some of the elements.
  for (const int64_t size : {64, 600'000}) {
    SCOPED_TRACE(size);
    const OfElement half_wrong = [&](double x, int64_t i) {
      return correct(x, i) + (2 * i > size ? 1 : 0);
    };
    const auto workload = workload_of(fmt::format(
        "expr fast input x: f32[{0}]; out: f32[i={0}] = 1.0 + f32(i32(log(x[i] + 0.5)))", size));
    const auto reference =
        make_reference(workload, elementwise(always(-2147483648.0), correct), monotonic_clock());
    ASSERT_TRUE(reference) << reference.error().message;
    const auto status = [&](const OfElement& undefined, const OfElement& defined) {
      return verdict_on(*reference, elementwise(undefined, defined)).status;
    };
    EXPECT_EQ(status(always(0), correct), db::TrialStatus::Ok);
    EXPECT_EQ(status(always(nan), correct), db::TrialStatus::Ok);
    for (const OfElement& wrong : {one_more, half_wrong, always(nan)})
      EXPECT_EQ(status(always(-2147483648.0), wrong), db::TrialStatus::Wrong);
    for (const OfElement& wrong : {one_more, always(nan)})
      EXPECT_FALSE(
          make_reference(workload, elementwise(always(-2147483648.0), wrong), monotonic_clock()));
  }
}

TEST(Accuracy, ShortSumsKeepTheToleranceOfTheirClass) {
  const auto reference_of = [](const char* key) {
    const dsl::Workload workload = workload_of(key);
    const PlainCall interpreter = [&](const dsl::Arrays& inputs) {
      return dsl::interpret(workload.compute, inputs);
    };
    return make_reference(workload, interpreter, monotonic_clock()).value();
  };
  const Reference fast = reference_of("dense m=20 n=30 k=200 f32 fast");
  EXPECT_EQ(fast.integers.allowed.at("out"), 0);
  EXPECT_EQ(fast.normal.allowed.at("out"), 2e-5);
  const Reference strict = reference_of("dense m=20 n=30 k=200 f32 strict");
  EXPECT_EQ(strict.normal.allowed.at("out"), 4e-6);
  // Integer data is compared exactly only while the sums are exact. These sums exceed 2^24.
  const Reference large = reference_of(
      "expr fast input x: f32[2, 9000]; out: f32[i=2] = sum(k=9000) x[i, k] * x[i, k] * 1001.0");
  EXPECT_GT(large.integers.allowed.at("out"), 0);
}

}  // namespace
}  // namespace tw::tuner
