// SPDX-License-Identifier: Apache-2.0
#include "runtime/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

using testing::HasSubstr;
using Number = int (*)();

std::string object_that_returns(int number) {
  return compile_c("int number(void) { return " + std::to_string(number) + "; }");
}

int number_of(const Library& library) {
  return reinterpret_cast<Number>(library.symbol("number").value())();
}

// No directory is named, so the library can only have been loaded from memory.
TEST(Library, Fault56_LoadsWithoutAnyDirectory) {
  const auto library =
      Library::load(object_that_returns(3), {.in_memory = true, .directories = {}});
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ(number_of(*library), 3);
}

TEST(Library, Fault56_FallsBackToTheFirstDirectoryThatWorksAndLeavesNothingThere) {
  const TemporaryDirectory directory;
  const auto library =
      Library::load(object_that_returns(4),
                    {.in_memory = false, .directories = {"/nonexistent", directory.path()}});
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ(number_of(*library), 4);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Library, Fault56_NoPlaceIsAnErrorThatNamesEach) {
  const auto library = Library::load(
      object_that_returns(4), {.in_memory = false, .directories = {"/nonexistent", "/proc"}});
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::Environment);
  EXPECT_THAT(library.error().message, HasSubstr("/nonexistent: No such file"));
  EXPECT_THAT(library.error().message, HasSubstr("/proc: "));
}

// The system's loader identifies objects by path, so different files must not get equal paths.
TEST(Library, DifferentObjectsStayDifferentWhileOthersComeAndGo) {
  std::vector<Library> kept;
  for (int i = 0; i < 6; ++i) {
    {
      const auto dropped = Library::load(object_that_returns(100 + i));
      ASSERT_TRUE(dropped);
    }
    kept.push_back(Library::load(object_that_returns(i)).value());
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(number_of(kept[static_cast<size_t>(i)]), i);
}

TEST(Library, MovesKeepTheObjectLoaded) {
  Library first = Library::load(object_that_returns(1)).value();
  Library second = std::move(first);
  first = Library::load(object_that_returns(2)).value();
  EXPECT_EQ(number_of(second), 1);
  second = std::move(first);
  EXPECT_EQ(number_of(second), 2);
}

int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Library, HoldsNoDescriptor) {
  const int64_t before = open_descriptors();
  const Library in_memory = Library::load(object_that_returns(1)).value();
  const Library in_directory = Library::load(object_that_returns(2), {.in_memory = false}).value();
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(number_of(in_memory), 1);
  EXPECT_EQ(number_of(in_directory), 2);
}

/// While it lives, the process can open at most `more` further descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    const int lowest = dup(STDIN_FILENO);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(lowest) + more;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

// With one descriptor, the object can be written to memory but the system's loader cannot open it.
TEST(Library, TooFewDescriptorsAreNoFaultOfTheObject) {
  const std::string object = object_that_returns(1);
  for (const rlim_t more : {0, 1}) {
    const auto library = [&] {
      const FewDescriptors few(more);
      return Library::load(object);
    }();
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ErrorCode::Environment);
    EXPECT_THAT(library.error().message, HasSubstr("memory: "));
    EXPECT_THAT(library.error().message, HasSubstr("Too many open files"));
    EXPECT_THAT(library.error().message, HasSubstr("free file descriptors"));
  }
  EXPECT_TRUE(Library::load(object));
}

TEST(Library, WhatIsNoObjectIsInvalid) {
  EXPECT_EQ(Library::load("").error().code, ErrorCode::Invalid);
  EXPECT_EQ(Library::load("hello").error().code, ErrorCode::Invalid);
  EXPECT_EQ(Library::load("\177ELF and nothing more").error().code, ErrorCode::Invalid);
}

TEST(Library, AnObjectThatImportsIsInvalid) {
  const auto library =
      Library::load(compile_c("int tw_no_such(void); int f(void) { return tw_no_such(); }"));
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::Invalid);
  EXPECT_THAT(library.error().message, HasSubstr("tw_no_such"));
}

TEST(Library, AMissingSymbolIsInvalid) {
  const auto library = Library::load(object_that_returns(1));
  EXPECT_THAT(library->symbol("other").error().message, HasSubstr("'other'"));
}

}  // namespace
}  // namespace tw::runtime
