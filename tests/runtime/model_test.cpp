// SPDX-License-Identifier: Apache-2.0
#include "runtime/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/session.h"
#include "tests/runtime/tiny_kernels.h"
#include "tests/runtime/tiny_model.h"
#include "tests/sanitizers.h"

namespace {
thread_local int new_calls = 0;  // number of calls of operator new in this thread
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Not inlined, because the compiler would otherwise see that free() is called for memory of
// operator new, and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++new_calls;
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelTest : public testing::Test {
 protected:
  std::vector<Buffer> buffers() {
    return {{x_.data(), Float32, {4}, {}}, {y_.data(), Float32, {4}, {}}};
  }
  void expect_error(const std::vector<Buffer>& given,
                    const testing::Matcher<const std::string&>& message) {
    const Status status = model_.call(given, pool_);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_THAT(status.error().message, message);
  }

  ThreadPool pool_{{.threads = 4}};
  const Model model_ = Model::load(tiny_model()).value();
  std::vector<float> x_ = {1, 2, 3, 4}, y_ = std::vector<float>(4, -1);
};

TEST_F(ModelTest, RunsItsStepsInOrder) {
  for (int round = 0; round < 100; ++round)
    for (const int threads : {0, 1, 2}) {
      y_.assign(4, -1);
      const Status status = model_.call(buffers(), pool_, threads);
      ASSERT_TRUE(status) << status.error().message;
      ASSERT_EQ(y_, tiny_result(x_));
    }
}

TEST_F(ModelTest, SaysWhatItTakes) {
  const auto arguments = model_.arguments();
  ASSERT_EQ(arguments.size(), 2u);
  EXPECT_EQ(arguments[0].name, "x");
  EXPECT_FALSE(arguments[0].is_output);
  EXPECT_EQ(arguments[1].name, "y");
  EXPECT_TRUE(arguments[1].is_output);
  EXPECT_THAT(arguments[1].shape, ElementsAre(4));
  EXPECT_EQ(model_.constant_bytes(), 16);
  EXPECT_EQ(model_.call_bytes(), 128 + 64 + 64 + 64);  // arena, scratch, pointers, arrays
  EXPECT_EQ(model_.info().variants, tiny_model_without_code().variants);
  EXPECT_EQ(model_.info().constants, "");
  EXPECT_EQ(model_.info().kernels[1].object, "");
}

TEST_F(ModelTest, IsOpenedFromAFile) {
  const TemporaryDirectory directory;
  const std::string path = directory / "net.twart";
  ASSERT_TRUE(write_model(path, tiny_model()));
  for (const Constants constants : {Constants::Checked, Constants::Trusted}) {
    const auto opened = Model::open(path, {.constants = constants, .library = {}});
    ASSERT_TRUE(opened) << opened.error().message;
    y_.assign(4, -1);
    ASSERT_TRUE(opened->call(buffers(), pool_));
    EXPECT_EQ(y_, tiny_result(x_));
    EXPECT_EQ(opened->constant_bytes(), 16);
  }
  EXPECT_EQ(Model::open(directory / "none").error().code, ErrorCode::NotCompiled);
}

TEST_F(ModelTest, OutlivesItsFileAndTheHandleThatOpenedIt) {
  const TemporaryDirectory directory;
  const std::string path = directory / "net.twart";
  ASSERT_TRUE(write_model(path, tiny_model()));
  std::vector<Model> copies;
  {
    const Model opened = Model::open(path).value();
    copies.push_back(opened);
  }
  ModelFile other = tiny_model();
  other.constants.assign(16, '\0');
  ASSERT_TRUE(write_model(path, other));
  ASSERT_TRUE(copies[0].call(buffers(), pool_));
  EXPECT_EQ(y_, tiny_result(x_));
  ASSERT_TRUE(Model::open(path)->call(buffers(), pool_));
  EXPECT_EQ(y_, x_);
}

TEST_F(ModelTest, SessionsOpenIt) {
  const TemporaryDirectory directory;
  const std::string path = directory / "net.twart";
  ASSERT_TRUE(write_model(path, tiny_model()));
  SessionOptions options;
  options.threads = 2;
  Session session = Session::open(options).value();
  const auto model = session.model(path);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE(model->call(buffers(), session.pool()));
  EXPECT_EQ(y_, tiny_result(x_));
}

TEST_F(ModelTest, AChainOfStepsTakesTwoArrays) {
  const ModelFile chain = chain_model(9);
  EXPECT_EQ(chain.variants[0].arena_bytes, 128);
  const Model model = Model::load(chain).value();
  ASSERT_TRUE(model.call(buffers(), pool_));
  EXPECT_THAT(y_, ElementsAre(512, 1024, 1536, 2048));
}

TEST_F(ModelTest, ArraysOfTheCallersAreUsedInPlace) {
  // The model has one step, so its kernel gets the caller's arrays and nothing else.
  const Model model = Model::load(one_step_model()).value();
  std::vector<float> line(9);
  std::copy(x_.begin(), x_.end(), line.begin() + 1);  // aligned to an element only
  const std::vector<Buffer> given = {{line.data() + 1, Float32, {4}, {1}},
                                     {line.data() + 5, Float32, {4}, {}}};
  ASSERT_TRUE(model.call(given, pool_));
  EXPECT_THAT(line, ElementsAre(0, 1, 2, 3, 4, 1, 4, 9, 16));
}

TEST_F(ModelTest, AWarmCallAllocatesNothing) {
  if (has_shadow_memory) GTEST_SKIP() << "the sanitizer has its own allocator";
  const auto given = buffers();
  ASSERT_TRUE(model_.call(given, pool_));
  const int before = new_calls;
  EXPECT_GT(before, 0) << "nothing is counted";
  bool ok = true;
  for (int round = 0; round < 10; ++round) ok &= model_.call(given, pool_).has_value();
  EXPECT_EQ(new_calls, before);
  EXPECT_TRUE(ok);
}

TEST_F(ModelTest, Fault09_WrongDtypeNamesArgumentGivenAndExpected) {
  auto given = buffers();
  given[0].dtype = Int32;
  expect_error(given,
               AllOf(HasSubstr("input 'x'"), HasSubstr("i32 given"), HasSubstr("expected f32")));
}

TEST_F(ModelTest, Fault10_StridedAndReversedArraysAreCopied) {
  std::vector<float> reversed(x_.rbegin(), x_.rend()), spread(8, -7);
  const std::vector<Buffer> given = {{reversed.data() + 3, Float32, {4}, {-1}},
                                     {spread.data(), Float32, {4}, {2}}};
  const Status status = model_.call(given, pool_);
  ASSERT_TRUE(status) << status.error().message;
  const std::vector<float> expected = tiny_result(x_);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(spread[2 * i], expected[i]);
    EXPECT_EQ(spread[2 * i + 1], -7) << "between the elements nothing is written";
  }
}

TEST_F(ModelTest, Fault10_MisalignedArraysAreCopied) {
  std::vector<char> bytes(2 * 16 + 1);
  std::memcpy(bytes.data() + 1, x_.data(), 16);
  const std::vector<Buffer> given = {{bytes.data() + 1, Float32, {4}, {}},
                                     {bytes.data() + 17, Float32, {4}, {}}};
  ASSERT_TRUE(model_.call(given, pool_));
  std::memcpy(y_.data(), bytes.data() + 17, 16);
  EXPECT_EQ(y_, tiny_result(x_));
}

TEST_F(ModelTest, Fault10_StridesThatLeaveTheAddressSpace) {
  auto given = buffers();
  given[0].strides = {std::numeric_limits<int64_t>::max() / 2};
  expect_error(given, HasSubstr("outside memory"));
}

TEST_F(ModelTest, Fault11_WrongRankShapeCountAndNull) {
  auto given = buffers();
  given[0].shape = {4, 1};
  expect_error(given, AllOf(HasSubstr("input 'x'"), HasSubstr("rank 2"), HasSubstr("rank 1")));
  given = buffers();
  given[1].shape = {3};
  expect_error(given, AllOf(HasSubstr("output 'y'"), HasSubstr("[3] given")));
  given = buffers();
  given[1].data = nullptr;
  expect_error(given, AllOf(HasSubstr("output 'y'"), HasSubstr("null")));
  given = buffers();
  given[0].strides = {1, 1};
  expect_error(given, HasSubstr("2 strides given, expected 1"));
  given.pop_back();
  expect_error(given, AllOf(HasSubstr("1 arrays"), HasSubstr("expected 2")));
}

TEST_F(ModelTest, Fault12_AnOutputThatOverlapsAnInputNamesBoth) {
  std::vector<float> line(8);
  auto given = buffers();
  given[0].data = line.data();
  given[1].data = line.data() + 3;
  expect_error(given,
               AllOf(HasSubstr("output 'y'"), HasSubstr("input 'x'"), HasSubstr("shares memory")));
  given[0].strides = {2};  // arrays that are copied are checked too
  expect_error(given, AllOf(HasSubstr("output 'y'"), HasSubstr("shares memory")));
  given = buffers();
  given[1].data = given[0].data;
  expect_error(given, HasSubstr("shares memory"));
}

TEST_F(ModelTest, Fault13_AnArenaThatTheMachineCannotHaveIsOutOfMemory) {
  ModelFile file = tiny_model();
  file.variants[0].arena_bytes = int64_t{1} << 50;
  const Model large = Model::load(file).value();
  const Status status = large.call(buffers(), pool_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Environment);
  EXPECT_THAT(status.error().message, HasSubstr("out of memory"));
  file.variants[0].arena_bytes = std::numeric_limits<int64_t>::max();
  const auto impossible = Model::load(file);
  ASSERT_FALSE(impossible);
  EXPECT_EQ(impossible.error().code, ErrorCode::Invalid);
  EXPECT_THAT(impossible.error().message, HasSubstr("an arena of 9223372036854775807 bytes"));
}

TEST_F(ModelTest, Fault62_ManyThreadsCallOneModel) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 64; ++caller)
    callers.emplace_back([&, caller] {
      const auto first = static_cast<float>(caller);
      std::vector<float> x = {first, first + 1, first + 2, first + 3}, y(4);
      const std::vector<Buffer> mine = {{x.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}};
      for (int round = 0; round < 50; ++round) {
        y.assign(4, -1);
        wrong += !model_.call(mine, pool_) || y != tiny_result(x);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ModelTest, Fault62_TwoModelsWithPoolsOfTheirOwn) {
  const Model second = Model::load(chain_model(5)).value();
  std::atomic<int> wrong{0};
  std::thread other([&] {
    ThreadPool pool({.threads = 2});
    std::vector<float> x = {1, 1, 1, 1}, y(4);
    const std::vector<Buffer> mine = {{x.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}};
    for (int round = 0; round < 200; ++round) {
      y.assign(4, -1);
      wrong += !second.call(mine, pool) || y != std::vector<float>(4, 32);
    }
  });
  for (int round = 0; round < 200; ++round) {
    y_.assign(4, -1);
    wrong += !model_.call(buffers(), pool_) || y_ != tiny_result(x_);
  }
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ModelTest, Fault63_ACallInAChildOfFork) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after such a fork";
  ASSERT_TRUE(model_.call(buffers(), pool_));
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    y_.assign(4, -1);
    const bool ok = model_.call(buffers(), pool_) && y_ == tiny_result(x_);
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ModelTest, Fault65_AFailingStepIsNamedAndTheModelStaysUsable) {
  std::vector<float> bad = {1, -1, 1, 1};
  auto given = buffers();
  given[0].data = bad.data();
  const Status status = model_.call(given, pool_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Internal);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("[model] step 0 'multiply'"), HasSubstr("with 7")));
  EXPECT_FALSE(model_.profile(given, pool_));
  ASSERT_TRUE(model_.call(buffers(), pool_));
  EXPECT_EQ(y_, tiny_result(x_));
}

TEST_F(ModelTest, Fault65_AProgramMayEndWithAModelAndItsPoolAlive) {
  const auto end_here = [] {
    static ThreadPool pool({.threads = 2});
    static const Model model = Model::load(one_step_model()).value();
    std::vector<float> x(4), y(4);
    const bool ok =
        model
            .call(std::vector<Buffer>{{x.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}},
                  pool)
            .has_value();
    std::exit(ok ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_here(), testing::ExitedWithCode(0), "");
}

class ModelVariants : public ModelTest {
 protected:
  std::vector<Buffer> of_shape(const std::vector<int64_t>& shape) {
    return {{x_.data(), Float32, shape, {}}, {y_.data(), Float32, shape, {}}};
  }
  const Model both_ = Model::load(two_variants_model()).value();
};

TEST_F(ModelVariants, TheShapesOfTheInputsChoose) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(both_.call(of_shape({4}), pool_));
    EXPECT_THAT(y_, ElementsAre(1, 4, 9, 16));
    ASSERT_TRUE(both_.call(of_shape({2, 2}), pool_));
    EXPECT_THAT(y_, ElementsAre(2, 4, 6, 8));
  }
  EXPECT_EQ(both_.variant_of(of_shape({4})), 0u);
  EXPECT_EQ(both_.variant_of(of_shape({2, 2})), 1u);
  EXPECT_THAT(both_.arguments(1)[0].shape, ElementsAre(2, 2));
  EXPECT_EQ(both_.call_bytes(1), 64 + 64);  // the pointers and arrays
}

TEST_F(ModelVariants, StridedArraysChooseToo) {
  std::vector<float> transposed = {1, 3, 2, 4};
  auto given = of_shape({2, 2});
  given[0].data = transposed.data();
  given[0].strides = {1, 2};
  ASSERT_TRUE(both_.call(given, pool_));
  EXPECT_THAT(y_, ElementsAre(2, 4, 6, 8));
}

TEST_F(ModelVariants, ProfilesSayWhichOneRan) {
  const auto profile = both_.profile(of_shape({2, 2}), pool_);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->variant, 1u);
  const auto trace = nlohmann::json::parse(to_trace(both_.info(), *profile));
  EXPECT_EQ(trace.at("traceEvents").at(0).at("name"), "twice");
}

TEST_F(ModelVariants, Fault11_OtherShapesAreRefusedWithAListOfThoseThereAre) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3}, {4, 1}, {2, 3}}) {
    const Status status = both_.call(of_shape(shape), pool_);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_THAT(status.error().message, HasSubstr("given, expected x [4]; or x [2, 2]"));
  }
  auto given = of_shape({2, 2});
  given[1].shape = {4};
  EXPECT_THAT(both_.call(given, pool_).error().message,
              AllOf(HasSubstr("output 'y'"), HasSubstr("expected rank 2")));
  given.pop_back();
  EXPECT_THAT(both_.call(given, pool_).error().message, HasSubstr("1 arrays given, expected 2"));
}

TEST_F(ModelVariants, Fault62_ManyThreadsCallBoth) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&, caller] {
      const bool is_square = caller % 2 == 1;
      const std::vector<int64_t> shape =
          is_square ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{4};
      const std::vector<float> expected =
          is_square ? std::vector<float>{2, 2, 2, 2} : std::vector<float>{1, 2, 3, 4};
      std::vector<float> x(4, 1), y(4);
      const std::vector<Buffer> mine = {{x.data(), Float32, shape, {}},
                                        {y.data(), Float32, shape, {}}};
      for (int round = 0; round < 50; ++round) {
        y.assign(4, -1);
        wrong += !both_.call(mine, pool_) || y != expected;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ModelTest, AStepRunsOnAtMostAsManyThreadsAsItSays) {
  ModelFile file = tiny_model();
  for (const int limit : {0, 1, 3}) {
    for (ModelStep& step : file.variants[0].steps) step.threads = limit;
    const Model limited = Model::load(file).value();
    for (const int threads : {0, 1, 2}) {
      y_.assign(4, -1);
      ASSERT_TRUE(limited.call(buffers(), pool_, threads));
      ASSERT_EQ(y_, tiny_result(x_));
    }
  }
}

TEST(Model, EmptyArraysNeedNoMemory) {
  ModelFile file = one_step_model();
  for (ModelTensor& tensor : file.variants[0].tensors) {
    tensor.shape = {0};
    tensor.bytes = 0;
  }
  for (ArgumentInfo& argument : file.kernels[0].info.arguments) {
    argument.shape = {0};
    argument.storage_elements = 0;
  }
  file.kernels[0].info.phases[0].tasks = 0;
  file.constants.clear();
  const auto model = Model::load(file);
  ASSERT_TRUE(model) << model.error().message;
  ThreadPool pool({.threads = 2});
  const std::vector<Buffer> given = {{nullptr, Float32, {0}, {}}, {nullptr, Float32, {0}, {}}};
  EXPECT_TRUE(model->call(given, pool));
}

TEST(Model, WhatCannotRunIsNotLoaded) {
  ModelFile unsafe = tiny_model();
  unsafe.variants[0].steps.pop_back();
  EXPECT_THAT(Model::load(unsafe).error().message, HasSubstr("the caller reads tensor 'y'"));
  ModelFile no_code = tiny_model_without_code();
  EXPECT_EQ(Model::load(no_code).error().code, ErrorCode::Invalid);
  ModelFile no_symbol = tiny_model();
  no_symbol.kernels[1].info.phases[0].symbol = "thrice";
  EXPECT_THAT(Model::load(no_symbol).error().message, HasSubstr("thrice"));
  ModelFile foreign = tiny_model();
  foreign.target =
      host_target().architecture == Architecture::X86_64 ? "arm-64-linux" : "x86-64-linux";
  EXPECT_THAT(Model::load(foreign).error().message, HasSubstr("this machine has no"));
}

TEST_F(ModelTest, ProfilesItsSteps) {
  const auto times = model_.profile(buffers(), pool_);
  ASSERT_TRUE(times) << times.error().message;
  EXPECT_EQ(y_, tiny_result(x_));
  EXPECT_EQ(times->variant, 0u);
  ASSERT_EQ(times->steps.size(), 3u);
  int64_t last = 0;
  for (size_t i = 0; i < 3; ++i) {
    const StepTime& time = times->steps[i];
    EXPECT_EQ(time.step, static_cast<int>(i));
    EXPECT_LE(last, time.begin_ns);
    EXPECT_LE(time.begin_ns, time.end_ns);
    last = time.end_ns;
  }
}

TEST(Model, StepsOfALoopRunOnceATrip) {
  for (const int64_t trips : {1, 2, 7}) {
    const auto model = Model::load(loop_model(trips));
    ASSERT_TRUE(model) << model.error().message;
    std::vector<float> s = {1, 2, 3, 4}, x, y(static_cast<size_t>(4 * trips)), expected;
    for (int64_t i = 0; i < 4 * trips; ++i) x.push_back(static_cast<float>(i % 3 + 1));
    for (size_t i = 0; i < x.size(); ++i) {
      const float first = s[i % 4] * static_cast<float>(i % 4 + 1);
      expected.push_back((i < 4 ? first : expected[i - 4]) * x[i]);
    }
    ThreadPool pool({.threads = 2});
    const std::vector<Buffer> arrays = {{s.data(), Float32, {4}, {}},
                                        {x.data(), Float32, {trips, 4}, {}},
                                        {y.data(), Float32, {trips, 4}, {}}};
    const auto profile = model->profile(arrays, pool);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(y, expected);
    ASSERT_EQ(std::ssize(profile->steps), trips + 2);
    const std::vector<double> times = times_of_steps(model->info(), *profile);
    ASSERT_EQ(times.size(), 3u);
    double loop_ns = 0;
    for (int64_t trip = 0; trip < trips; ++trip) {
      const StepTime& time = profile->steps[static_cast<size_t>(1 + trip)];
      EXPECT_EQ(time.step, 1);
      loop_ns += static_cast<double>(time.end_ns - time.begin_ns);
    }
    EXPECT_EQ(times[1], loop_ns);
    std::ranges::fill(y, 0);
    const Status called = model->call(arrays, pool);
    ASSERT_TRUE(called) << called.error().message;
    EXPECT_EQ(y, expected);
    // If a trip fails, the error names its step.
    x.back() = -1;
    EXPECT_THAT(model->call(arrays, pool).error().message, HasSubstr("step 1 'next'"));
  }
}

TEST(Model, AProfileIsATrace) {
  const ModelProfile times = {0, {{0, 0, 1500}, {1, 2000, 2250}}};
  const auto trace = nlohmann::json::parse(to_trace(tiny_model_without_code(), times));
  const auto& events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("name"), "multiply");
  EXPECT_EQ(events[0].at("ph"), "X");
  EXPECT_EQ(events[1].at("ts"), 2.0);
  EXPECT_EQ(events[1].at("dur"), 0.25);
  EXPECT_EQ(events[1].at("args").at("predicted_ns"), 10.5);
  EXPECT_EQ(events[1].at("args").at("workload"), "twice(a[2,2])");
  EXPECT_EQ(nlohmann::json::parse(to_trace(tiny_model_without_code(), {})).at("traceEvents").size(),
            0u);
}

TEST(Model, AStepOfABandIsOnItsChainsThreadInATrace) {
  ModelProfile times;
  for (int step = 0; step < 7; ++step) times.steps.push_back({step, step, step + 1});
  const auto trace = nlohmann::json::parse(to_trace(branches_model_without_code(2), times));
  std::vector<int> threads;
  for (const auto& event : trace.at("traceEvents")) threads.push_back(event.at("tid"));
  EXPECT_THAT(threads, ElementsAre(1, 1, 1, 2, 2, 2, 1));
}

// ---- bands ----------------------------------------------------------------------------------

/// A fixture that calls branches_model() in a pool with as many threads as the parameter says.
class Branches : public testing::TestWithParam<int> {
 protected:
  static constexpr int chains = 5;
  std::vector<Buffer> buffers() {
    return {{x_.data(), Float32, {4}, {}}, {y_.data(), Float32, {4}, {}}};
  }
  void expect_result() { EXPECT_EQ(y_, branches_result(chains, x_)); }

  ThreadPool pool_{{.threads = GetParam()}};
  const Model model_ = Model::load(branches_model(chains)).value();
  std::vector<float> x_ = {1, 2, 3, 4}, y_ = std::vector<float>(4, -1);
};
INSTANTIATE_TEST_SUITE_P(Threads, Branches, testing::Values(1, 2, 3, 8));

TEST_P(Branches, ChainsSideBySideComputeWhatStepsInOrderDo) {
  for (int call = 0; call < 3000; ++call) {
    x_[static_cast<size_t>(call % 4)] = static_cast<float>(call % 97);
    std::ranges::fill(y_, -1);
    ASSERT_TRUE(model_.call(buffers(), pool_, call % 5));
    ASSERT_EQ(y_, branches_result(chains, x_)) << "call " << call;
  }
}

TEST_P(Branches, CallersAtTheSameTimeHaveMemoryOfTheirOwn) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&, caller] {
      std::vector<float> x = {1, 2, 3, static_cast<float>(caller)}, y(4);
      const std::vector<Buffer> arrays = {{x.data(), Float32, {4}, {}},
                                          {y.data(), Float32, {4}, {}}};
      for (int call = 0; call < 500; ++call) {
        x[0] = static_cast<float>(call % 31);
        if (!model_.call(arrays, pool_) || y != branches_result(chains, x)) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Branches, AProfileHasTheTimeOfEachStep) {
  for (const BandOrder order : {BandOrder::SideBySide, BandOrder::InOrder}) {
    const auto profile = model_.profile(buffers(), pool_, 0, order);
    ASSERT_TRUE(profile) << profile.error().message;
    expect_result();
    const std::vector<ModelStep>& steps = model_.info().variants[0].steps;
    ASSERT_EQ(profile->steps.size(), steps.size());
    const ModelBand& band = model_.info().variants[0].bands[0];
    for (size_t i = 0; i < steps.size(); ++i) {
      const StepTime& time = profile->steps[i];
      EXPECT_EQ(time.step, static_cast<int>(i));
      EXPECT_LE(time.begin_ns, time.end_ns);
      EXPECT_LE(profile->steps[0].end_ns, i == 0 ? time.end_ns : time.begin_ns);
      if (std::cmp_greater_equal(i, band.end())) {
        for (size_t before = 0; before < i; ++before)
          EXPECT_LE(profile->steps[before].end_ns, time.begin_ns);
      } else if (i > 0 && order == BandOrder::InOrder) {
        EXPECT_LE(profile->steps[i - 1].end_ns, time.begin_ns);
      }
    }
    for_each_chain(band, [&](size_t, size_t first, size_t end) {
      for (size_t i = first + 1; i < end; ++i)
        EXPECT_LE(profile->steps[i - 1].end_ns, profile->steps[i].begin_ns);
    });
  }
}

TEST_P(Branches, LoopsRunWithinTheirChain) {
  ModelFile file = branches_model(2);
  file.variants[0].loops = {{"again", 1, 2, 3}, {"last", 6, 1, 2}};
  const auto model = Model::load(file);
  ASSERT_TRUE(model) << model.error().message;
  const auto profile = model->profile(buffers(), pool_);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(y_, branches_result(2, x_));
  std::vector<int> runs;
  for (const StepTime& time : profile->steps) runs.push_back(time.step);
  EXPECT_THAT(runs, ElementsAre(0, 1, 2, 1, 2, 1, 2, 3, 4, 5, 6, 6));
}

TEST_P(Branches, AStepThatFailsIsNamed) {
  // With w = 0, h = w w = 0 and d = x. So only the steps that compute e fail if x has a -1.
  ModelFile file = branches_model(chains);
  file.constants = std::string(16, '\0');
  file.variants[0].steps[0].arguments[0] = 1;
  const Model failing = Model::load(file).value();
  for (int call = 0; call < 100; ++call) {
    x_[2] = -1;
    const Status status = failing.call(buffers(), pool_);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, testing::ContainsRegex("step [0-9]+ 'e[0-4]'"));
    x_[2] = 3;
    ASSERT_TRUE(failing.call(buffers(), pool_));
  }
}

TEST_P(Branches, CallsAfterTheFirstAllocateNothing) {
  const std::vector<Buffer> arrays = buffers();
  ASSERT_TRUE(model_.call(arrays, pool_));
  const int before = new_calls;
  ASSERT_TRUE(model_.call(arrays, pool_));
  EXPECT_EQ(new_calls, before);
}

}  // namespace
}  // namespace tw::runtime
