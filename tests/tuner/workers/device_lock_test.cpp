// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/device_lock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

class DeviceLocks : public testing::Test {
 protected:
  DeviceLock lock(std::string_view device = "cuda") {
    return DeviceLock::open(folder_.path(), device).value();
  }
  Folder folder_;
  int64_t now_ = 0;
  const Clock passing_ = [this] { return now_ += 1000; };
};

TEST_F(DeviceLocks, OneAtATimeAndEachDeviceByItself) {
  DeviceLock one = lock(), other = lock(), elsewhere = lock("opencl");
  auto turn = one.take(passing_, {0});
  ASSERT_TRUE(turn);
  const auto refused = other.take(passing_, {now_ + 3000});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::TryLater);
  EXPECT_NE(refused.error().message.find("another tuner"), std::string::npos);
  EXPECT_TRUE(elsewhere.take(passing_, {0}));

  turn->reset();
  EXPECT_TRUE(other.take(passing_, {0}));  // the turn that it returns ends at once
  EXPECT_TRUE(one.take(passing_, {0}));
}

TEST_F(DeviceLocks, WhoWaitsIsNext) {
  DeviceLock ours = lock(), theirs = lock();
  auto turn = ours.take(passing_, {0});
  ASSERT_TRUE(turn);
  std::atomic<bool> waits = false;
  std::mutex writing;  // held while writing, since sanitizers do not know file locks
  std::vector<std::string> order;
  const auto write = [&](const char* who) {
    const std::lock_guard lock(writing);
    order.emplace_back(who);
  };
  std::thread waiting([&] {
    // The clock is read only by a caller that has to wait.
    const auto theirs_now = theirs.take([&] { return waits = true, int64_t{0}; }, {1});
    write("theirs");
  });
  while (!waits) std::this_thread::yield();
  turn->reset();
  const auto again = ours.take([] { return int64_t{0}; }, {1});
  write("ours");
  waiting.join();
  EXPECT_EQ(order, (std::vector<std::string>{"theirs", "ours"}));
}

TEST_F(DeviceLocks, AWaitMayBeCancelled) {
  DeviceLock one = lock(), other = lock();
  const auto turn = one.take(passing_, {0});
  ASSERT_TRUE(turn);
  int64_t looks = 0;
  const auto refused =
      other.take([] { return int64_t{0}; }, {1, stop_at([&looks] { return ++looks; }, 3)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Interrupted);
}

TEST(DeviceLockName, IsThatOfTheBackEndAndTheDevice) {
  const auto name = [](const char* target, int index) {
    return device_lock_name(codegen::backend_of(parse_target(target).value()), index);
  };
  EXPECT_EQ(name("cuda:sm_90a", 0), "cuda");
  EXPECT_EQ(name("cuda:sm_80", 2), "cuda-2");
  EXPECT_EQ(name("opencl", 1), "opencl-1");
}

TEST_F(DeviceLocks, Fault29_FilesOfOthersAreNotFollowed) {
  const std::string path = folder_ / "tilewright-cuda.lock";
  std::filesystem::create_symlink(folder_ / "victim", path);
  const auto opened = DeviceLock::open(folder_.path(), "cuda");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::Environment);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "victim"));
}

}  // namespace
}  // namespace tw::tuner
