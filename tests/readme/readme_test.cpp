// SPDX-License-Identifier: Apache-2.0
// Tests that the sample of docs/api.md compiles, runs, and computes the result that the page
// promises.

#include <gtest/gtest.h>

#include <atomic>

#include "tests/readme/sample.h"
#include "tests/tuner/tuning.h"

namespace tw::readme {
namespace {

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(64 * 32, 0.0f);
  for (size_t m = 0; m < 64; ++m)
    for (size_t k = 0; k < 128; ++k)
      for (size_t n = 0; n < 32; ++n) c[m * 32 + n] += a[m * 128 + k] * b[k * 32 + n];
  return c;
}

/// Returns small whole numbers. Sums of their products are exact in any order.
std::vector<float> numbers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7 % 13) - 6.0f;
  return values;
}

class Readme : public testing::Test {
 protected:
  void SetUp() override {
    if (!tuner::can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path());  // the sample uses relative file names
  }
  void TearDown() override {
    if (!before_.empty()) std::filesystem::current_path(before_);
  }

 private:
  tuner::Folder folder_;
  std::filesystem::path before_;
};

TEST_F(Readme, TheSampleTunesAProductAndRunsIt) {
  std::vector<float> a = numbers(64 * 128), b = numbers(128 * 32), c(64 * 32, 0.0f);
  // The sample has a budget of a minute. The test interrupts it after a few trials.
  std::atomic<int> interrupts = 0;
  tuner::Environment environment = tuner::test_environment();
  environment.interrupts = &interrupts;
  const tuner::OnProgress on_progress = [&](const tuner::Progress& progress) {
    if (progress.best_ns > 0) interrupts = 1;
  };
  runtime::ThreadPool pool;
  const Status done = sample(environment, on_progress, a.data(), b.data(), c.data(), pool);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(c, product(a, b));
}

}  // namespace
}  // namespace tw::readme
