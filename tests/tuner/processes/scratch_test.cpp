// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/scratch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace tw::tuner {
namespace {

namespace fs = std::filesystem;

class ScratchTest : public testing::Test {
 protected:
  ScratchTest() {
    std::string name = (fs::temp_directory_path() / "tw_scratch_XXXXXX").string();
    parent_ = ::mkdtemp(name.data());
  }
  ~ScratchTest() override {
    std::error_code ignored;
    fs::remove_all(parent_, ignored);
  }

  Scratch make() {
    auto made = Scratch::make({.parents = {parent_}});
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }

  /// Returns the path of a scratch directory with a file that a killed process has left behind.
  std::string killed_run() {
    int names[2];
    if (::pipe(names) != 0) throw std::runtime_error("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      const Scratch scratch = make();
      std::ofstream(scratch.path() + "/artifact") << "bytes";
      (void)!::write(names[1], scratch.path().data(), scratch.path().size());
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    char name[4096];
    const ssize_t length = ::read(names[0], name, sizeof name);
    ::close(names[0]);
    ::close(names[1]);
    return {name, static_cast<size_t>(std::max<ssize_t>(length, 0))};
  }

  std::string parent_;
};

TEST_F(ScratchTest, IsPrivateAndGoesWithTheValue) {
  std::string path;
  {
    Scratch first = make();
    Scratch moved = std::move(first);
    path = moved.path();
    std::ofstream(path + "/artifact") << "bytes";
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ScratchTest, Fault31_WhatAKilledRunLeftIsRemovedByTheNext) {
  const std::string left = killed_run();
  ASSERT_TRUE(fs::exists(left + "/artifact")) << left;
  const Scratch next = make();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(next.path()));
}

TEST_F(ScratchTest, Fault31_RunsThatLiveKeepTheirDirectories) {
  const Scratch first = make(), second = make();
  EXPECT_EQ(remove_abandoned(parent_), 0);
  EXPECT_TRUE(fs::exists(first.path()));
  EXPECT_TRUE(fs::exists(second.path()));
}

TEST_F(ScratchTest, Fault31_NothingElseIsRemoved) {
  // These stay: directories with other names, a link, a file, and a directory of another user.
  fs::create_directory(parent_ + "/tilewright-0");
  fs::create_directory(parent_ + "/precious");
  fs::create_directory_symlink(parent_ + "/precious", parent_ + "/tilewright-run-link");
  std::ofstream(parent_ + "/tilewright-run-file") << "x";
  size_t expected = 4;
  if (::geteuid() == 0) {
    fs::create_directory(parent_ + "/tilewright-run-theirs");
    ASSERT_EQ(::chown((parent_ + "/tilewright-run-theirs").c_str(), 12345, 0), 0);
    ++expected;
  }
  EXPECT_EQ(remove_abandoned(parent_), 0);
  const fs::directory_iterator entries(parent_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), static_cast<ptrdiff_t>(expected));
}

TEST_F(ScratchTest, Fault72_TheNextPlaceServesWhereOneDoesNot) {
  for (const std::string& bad : {parent_ + "/absent", std::string("/proc")}) {
    const auto made = Scratch::make({.parents = {bad, parent_}});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(made->path().starts_with(parent_));
  }
}

TEST_F(ScratchTest, Fault72_EveryPlaceThatDoesNotServeIsNamed) {
  const auto none = Scratch::make({.parents = {"/no/such/place", "/proc"}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Environment);
  for (const char* words : {"/no/such/place: No such file", "/proc: ", "set TMPDIR"})
    EXPECT_NE(none.error().message.find(words), std::string::npos) << none.error().message;
  const auto full = Scratch::make(
      {.parents = {parent_}, .least_free_bytes = std::numeric_limits<int64_t>::max()});
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("KiB are free"), std::string::npos) << full.error().message;
}

}  // namespace
}  // namespace tw::tuner
