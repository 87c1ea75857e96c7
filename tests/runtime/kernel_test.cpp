// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/runtime/tiny_kernels.h"
#include "tests/sanitizers.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> counted(size_t count, float first = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<float> reference_matvec(const std::vector<float>& a, const std::vector<float>& x) {
  std::vector<float> y(64, 0);
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 5; ++j) y[i] += a[i * 5 + j] * x[j];
  return y;
}

class MatvecTest : public testing::Test {
 protected:
  std::vector<Buffer> buffers() {
    return {{a_.data(), Float32, {64, 5}, {}},
            {x_.data(), Float32, {5}, {}},
            {y_.data(), Float32, {64}, {}}};
  }
  void expect_error(const std::vector<Buffer>& given,
                    const testing::Matcher<const std::string&>& message) {
    const Status status = kernel_.call(given, pool_);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_THAT(status.error().message, message);
  }

  ThreadPool pool_{{.threads = 4}};
  const Kernel kernel_ = Kernel::load(matvec_artifact()).value();
  std::vector<float> a_ = counted(320), x_ = counted(5, -2), y_ = std::vector<float>(64, -1);
};

TEST_F(MatvecTest, RunsItsPhasesInOrderOnStorageBuffers) {
  for (int round = 0; round < 100; ++round)
    for (const int threads : {0, 1, 2}) {
      y_.assign(64, -1);
      void* const storage[] = {a_.data(), x_.data(), y_.data()};
      ASSERT_TRUE(kernel_.run(storage, pool_, threads));
      ASSERT_EQ(y_, reference_matvec(a_, x_));
    }
}

TEST_F(MatvecTest, CallsOnLogicalArrays) {
  const Status status = kernel_.call(buffers(), pool_);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(y_, reference_matvec(a_, x_));
}

TEST_F(MatvecTest, CopiesShareTheCodeAndOutliveTheOriginal) {
  std::vector<Kernel> copies;
  {
    const Kernel original = Kernel::load(matvec_artifact()).value();
    copies.push_back(original);
  }
  ASSERT_TRUE(copies[0].call(buffers(), pool_));
  EXPECT_EQ(y_, reference_matvec(a_, x_));
}

TEST_F(MatvecTest, Fault64_ManyThreadsCallOneKernel) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 16; ++caller)
    callers.emplace_back([&] {
      std::vector<float> y(64);
      std::vector<Buffer> mine = buffers();
      mine[2].data = y.data();
      for (int round = 0; round < 20; ++round) {
        y.assign(64, -1);
        wrong += !kernel_.call(mine, pool_) || y != reference_matvec(a_, x_);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(MatvecTest, Fault09_WrongDtypeNamesArgumentGivenAndExpected) {
  auto given = buffers();
  given[0].dtype = Int64;
  expect_error(given,
               AllOf(HasSubstr("input 'a'"), HasSubstr("i64 given"), HasSubstr("expected f32")));
}

TEST_F(MatvecTest, Fault11_WrongRankShapeAndCount) {
  auto given = buffers();
  given[1].shape = {5, 1};
  expect_error(given, AllOf(HasSubstr("input 'x'"), HasSubstr("rank 2"), HasSubstr("rank 1")));
  given = buffers();
  given[2].shape = {63};
  expect_error(given,
               AllOf(HasSubstr("output 'y'"), HasSubstr("[63] given"), HasSubstr("expected [64]")));
  given = buffers();
  given.pop_back();
  expect_error(given, AllOf(HasSubstr("2 arrays"), HasSubstr("expected 3")));
  given = buffers();
  given[0].strides = {5};
  expect_error(given, HasSubstr("1 strides given, expected 2"));
}

TEST_F(MatvecTest, Fault11_NullIsNamed) {
  auto given = buffers();
  given[1].data = nullptr;
  expect_error(given, AllOf(HasSubstr("input 'x'"), HasSubstr("null")));
  void* const storage[] = {a_.data(), nullptr, y_.data()};
  EXPECT_THAT(kernel_.run(storage, pool_).error().message, HasSubstr("input 'x'"));
}

TEST_F(MatvecTest, Fault12_OutputThatOverlapsAnInputNamesBoth) {
  auto given = buffers();
  given[2].data = a_.data() + 300;  // y begins in the last 20 elements of a
  expect_error(given,
               AllOf(HasSubstr("output 'y'"), HasSubstr("input 'a'"), HasSubstr("shares memory")));
  void* const storage[] = {a_.data(), x_.data(), a_.data() + 319};
  EXPECT_THAT(kernel_.run(storage, pool_).error().message,
              AllOf(HasSubstr("output 'y'"), HasSubstr("input 'a'")));
}

TEST_F(MatvecTest, Fault12_NeighboursAndSharedInputsAreFine) {
  std::vector<float> block(5 + 64 + 320);
  std::copy(a_.begin(), a_.end(), block.begin() + 69);
  auto given = buffers();
  given[0].data = block.data() + 69;
  given[1].data = block.data() + 69;  // x shares memory with the first row of a
  given[2].data = block.data() + 5;   // y ends where a begins
  EXPECT_TRUE(kernel_.call(given, pool_));
}

TEST_F(MatvecTest, Fault12_OutputWithElementsThatShareMemory) {
  auto given = buffers();
  given[2].strides = {0};
  expect_error(given, AllOf(HasSubstr("output 'y'"), HasSubstr("share memory")));
}

TEST_F(MatvecTest, Fault10_StridedNegativeAndTransposedInputs) {
  const auto expected = reference_matvec(a_, x_);
  std::vector<float> transposed(320), reversed(x_.rbegin(), x_.rend()), spread(128, -7);
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 5; ++j) transposed[j * 64 + i] = a_[i * 5 + j];
  const std::vector<Buffer> given = {{transposed.data(), Float32, {64, 5}, {1, 64}},
                                     {reversed.data() + 4, Float32, {5}, {-1}},
                                     {spread.data(), Float32, {64}, {2}}};
  const Status status = kernel_.call(given, pool_);
  ASSERT_TRUE(status) << status.error().message;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(spread[2 * i], expected[i]);
    EXPECT_EQ(spread[2 * i + 1], -7) << "between the elements nothing is written";
  }
}

TEST_F(MatvecTest, Fault10_MisalignedArraysAreCopied) {
  std::vector<char> bytes(64 * 4 + 1);
  auto given = buffers();
  given[2].data = bytes.data() + 1;
  ASSERT_TRUE(kernel_.call(given, pool_));
  std::vector<float> y(64);
  std::memcpy(y.data(), bytes.data() + 1, 256);
  EXPECT_EQ(y, reference_matvec(a_, x_));
  void* const storage[] = {a_.data(), x_.data(), bytes.data() + 1};
  EXPECT_THAT(kernel_.run(storage, pool_).error().message, HasSubstr("misaligned"));
}

TEST_F(MatvecTest, Fault10_StridesThatLeaveTheAddressSpace) {
  auto given = buffers();
  given[1].strides = {std::numeric_limits<int64_t>::max() / 2};
  expect_error(given, HasSubstr("outside memory"));
  given[1].strides = {std::numeric_limits<int64_t>::min()};
  expect_error(given, HasSubstr("outside memory"));
  given = buffers();
  given[2].strides = {std::numeric_limits<int64_t>::min()};
  expect_error(given, HasSubstr("outside memory"));
}

TEST_F(MatvecTest, Fault63_ACallInAChildOfFork) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after such a fork";
  ASSERT_TRUE(kernel_.call(buffers(), pool_));
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    y_.assign(64, -1);
    const bool ok = kernel_.call(buffers(), pool_) && y_ == reference_matvec(a_, x_);
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(BlockedKernel, PacksRunsAndUnpacks) {
  ThreadPool pool({.threads = 2});
  const Kernel kernel = Kernel::load(blocked_artifact()).value();
  std::vector<float> x = counted(15, 1), y(15, -1), expected;
  for (const float value : x) expected.push_back(2 * value);
  const std::vector<Buffer> given = {{x.data(), Float32, {3, 5}, {}},
                                     {y.data(), Float32, {3, 5}, {}}};
  const Status status = kernel.call(given, pool);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(y, expected);
}

TEST(BlockedKernel, PackAndUnpackAreInverse) {
  ThreadPool pool({.threads = 2});
  const Kernel kernel = Kernel::load(blocked_artifact()).value();
  std::vector<float> logical = counted(15, 1), storage(24, -1), back(15, -1);
  ASSERT_TRUE(kernel.pack(0, logical.data(), storage.data(), pool));
  EXPECT_THAT(std::vector<float>(storage.begin() + 12, storage.end()),
              ElementsAre(5, 0, 0, 0, 10, 0, 0, 0, 15, 0, 0, 0));
  ASSERT_TRUE(kernel.unpack(1, storage.data(), back.data(), pool));
  EXPECT_EQ(back, logical);
}

// A blocked array may be larger in storage than the caller's array. The kernel would read beyond
// the end of the caller's array.
TEST(BlockedKernel, ALayoutWithoutPackIsRefusedForLogicalArraysAndRunsOnStorage) {
  ThreadPool pool({.threads = 2});
  Artifact artifact = blocked_artifact();
  artifact.info.packs.clear();
  for (ArgumentInfo& argument : artifact.info.arguments) argument.pack.clear();
  const Kernel kernel = Kernel::load(artifact).value();
  std::vector<float> x = counted(24, 1), y(24, -1);
  const std::vector<Buffer> given = {{x.data(), Float32, {3, 5}, {}},
                                     {y.data(), Float32, {3, 5}, {}}};
  for (const Status& status : {kernel.call(given, pool), kernel.pack(0, x.data(), y.data(), pool),
                               kernel.unpack(1, x.data(), y.data(), pool)}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(status.error().message, HasSubstr("no code to convert"));
  }
  void* const storage[] = {x.data(), y.data()};
  ASSERT_TRUE(kernel.run(storage, pool));
  EXPECT_EQ(y[23], 48);
}

TEST(BlockedKernel, ArgumentsWithoutPackAreCopied) {
  ThreadPool pool({.threads = 1});
  const Kernel kernel = Kernel::load(copy_artifact()).value();
  std::vector<float> logical = counted(4), storage(4, -1);
  ASSERT_TRUE(kernel.pack(0, logical.data(), storage.data(), pool));
  EXPECT_EQ(storage, logical);
}

TEST(PreparedKernel, CallsPrepareAndRunsReadWhatWasPrepared) {
  ThreadPool pool({.threads = 2});
  const Kernel kernel = Kernel::load(prepared_artifact()).value();
  std::vector<float> x = {1, 2, 3, 4}, w = {0, 1, 2, 3}, y(4, -1), u(4, -1);
  const std::vector<Buffer> given = {
      {x.data(), Float32, {4}, {}}, {w.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}};
  const Status called = kernel.call(given, pool);
  ASSERT_TRUE(called) << called.error().message;
  EXPECT_THAT(y, ElementsAre(1, 4, 15, 40));

  void* const storage[] = {x.data(), w.data(), y.data(), u.data()};
  ASSERT_TRUE(kernel.prepare(storage, pool));
  EXPECT_THAT(u, ElementsAre(1, 2, 5, 10));
  u = {1, 1, 1, 2};
  void* const without_w[] = {x.data(), nullptr, y.data(), u.data()};
  ASSERT_TRUE(kernel.run(without_w, pool));
  EXPECT_THAT(y, ElementsAre(1, 2, 3, 8));
  ASSERT_TRUE(kernel.prepare_backwards(storage));
  EXPECT_THAT(u, ElementsAre(1, 2, 5, 10));
}

TEST(PreparedKernel, Fault11_BuffersThatAreMissingAreNamed) {
  ThreadPool pool({.threads = 1});
  const Kernel kernel = Kernel::load(prepared_artifact()).value();
  std::vector<float> x(4), y(4), u(4);
  void* const no_constant[] = {x.data(), nullptr, y.data(), u.data()};
  EXPECT_THAT(kernel.prepare(no_constant, pool).error().message, HasSubstr("'w'"));
  void* const no_buffer[] = {x.data(), x.data(), y.data(), nullptr};
  EXPECT_THAT(kernel.prepare(no_buffer, pool).error().message, HasSubstr("'u'"));
  EXPECT_THAT(kernel.run(no_buffer, pool).error().message, HasSubstr("'u'"));
  void* const too_few[] = {x.data(), x.data(), y.data()};
  EXPECT_EQ(kernel.prepare(too_few, pool).error().code, ErrorCode::Usage);
  EXPECT_EQ(kernel.run(too_few, pool).error().code, ErrorCode::Usage);
  void* const overlapping[] = {x.data(), nullptr, y.data(), y.data()};
  EXPECT_THAT(kernel.run(overlapping, pool).error().message, HasSubstr("'u'"));
}

TEST(Kernel, AFailingPhaseIsNamed) {
  ThreadPool pool({.threads = 2});
  const Kernel kernel = Kernel::load(failing_artifact()).value();
  std::vector<float> x = counted(4), y(4);
  void* const storage[] = {x.data(), y.data()};
  const Status status = kernel.run(storage, pool);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Internal);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("fail_in_3"), HasSubstr("with 7")));
}

TEST(Kernel, Fault13_HugeScratchIsOutOfMemoryBeforeAnyPageIsTouched) {
  ThreadPool pool({.threads = 1});
  std::vector<float> x = counted(4), y(4);
  void* const storage[] = {x.data(), y.data()};
  const std::vector<Buffer> given = {{x.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}};
  for (const int64_t bytes : {int64_t{1} << 50, most_memory_bytes}) {
    const Kernel kernel = Kernel::load(copy_artifact(bytes)).value();
    for (const Status& status : {kernel.run(storage, pool), kernel.call(given, pool)}) {
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::Environment);
      EXPECT_THAT(status.error().message, HasSubstr("out of memory"));
    }
  }
}

TEST(Kernel, ASymbolThatIsNotThereIsInvalid) {
  Artifact artifact = copy_artifact();
  artifact.info.phases[0].symbol = "no_such_phase";
  const auto kernel = Kernel::load(artifact);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::Invalid);
  EXPECT_THAT(kernel.error().message, HasSubstr("no_such_phase"));
}

TEST(Kernel, EmptyArraysNeedNoMemory) {
  ThreadPool pool({.threads = 2});
  Artifact artifact = copy_artifact();
  for (ArgumentInfo& argument : artifact.info.arguments) {
    argument.shape = {0, 4};
    argument.storage_elements = 0;
  }
  artifact.info.phases[0].tasks = 0;
  const Kernel kernel = Kernel::load(artifact).value();
  const std::vector<Buffer> given = {{nullptr, Float32, {0, 4}, {}},
                                     {nullptr, Float32, {0, 4}, {}}};
  EXPECT_TRUE(kernel.call(given, pool));
}

TEST(ArenaCache, GivesAlignedMemoryAgain) {
  ArenaCache cache;
  auto small = cache.take(100).value();
  auto large = cache.take(5 << 20).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small->data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large->data()) % 64, 0u);
  EXPECT_GE(small->bytes(), 100);
  const char* const address = large->data();
  cache.give_back(std::move(small));
  cache.give_back(std::move(large));
  EXPECT_EQ(cache.take(4 << 20).value()->data(), address);
}

TEST(ArenaCache, KeepsTheLargestWhenItIsFull) {
  ArenaCache cache;
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int i = 0; i < 8; ++i) arenas.push_back(cache.take(1000 * (i + 1)).value());
  const char* const largest = arenas.back()->data();
  for (auto& arena : arenas) cache.give_back(std::move(arena));
  EXPECT_EQ(cache.take(8000).value()->data(), largest);
}

}  // namespace
}  // namespace tw::runtime
