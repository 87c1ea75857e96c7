// SPDX-License-Identifier: Apache-2.0
// Tests that a run which ended early is resumed from its database.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "db/maintenance.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

/// A tuning run in a process of its own, which prints the number of its trials after each report.
class Child {
 public:
  Child(const std::string& database, int trials) {
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::vector<std::string> words = {TW_TUNING_WORKER, "tune", database, small,
                                      std::to_string(trials)};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, TW_TUNING_WORKER, &actions, nullptr, argv.data(), environ) != 0)
      throw std::runtime_error("cannot start " TW_TUNING_WORKER);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    lines_ = fdopen(out[0], "r");
  }
  Child(const Child&) = delete;
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    fclose(lines_);
  }

  /// Waits until the run has reported `trials` trials. Returns false if it ends before.
  bool reports(int trials) {
    char line[64];
    while (fgets(line, sizeof line, lines_) != nullptr)
      if (atoi(line) >= trials) return true;
    return false;
  }
  void kill_and_wait() {
    kill(pid_, SIGKILL);
    // The run's workers hold the other end of the pipe. Reading to its end waits until they have
    // ended too.
    char rest[64];
    while (fgets(rest, sizeof rest, lines_) != nullptr) {
    }
  }

 private:
  pid_t pid_ = -1;
  FILE* lines_ = nullptr;
};

class Resume : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
    setenv("TMPDIR", folder_.path().c_str(),
           1);  // the test's folder then also contains what a killed run leaves behind
  }

  void TearDown() override { unsetenv("TMPDIR"); }

  Result<Tuned> resume(int64_t trials, uint64_t seed = 1) {
    auto store = open_store(folder_ / "t.db");
    return tune(workload_of(small), host_target(), {.trials = trials, .seed = seed, .batch = 4},
                store, test_environment(), {});
  }
  std::vector<db::Record> records() {
    auto store = open_store(folder_ / "t.db");
    auto found = store.query({});
    EXPECT_TRUE(found);
    return std::move(*found);
  }
  /// Expects one record of each schedule. A run with a limit of trials does not time its winner a
  /// second time.
  void expect_each_schedule_once() {
    std::set<std::string> schedules;
    const auto all = records();
    for (const db::Record& record : all) schedules.insert(record.schedule);
    EXPECT_EQ(all.size(), schedules.size());
  }

  Folder folder_;
};

TEST_F(Resume, Fault33_NothingIsMeasuredTwiceAndTheBestIsKept) {
  const auto first = resume(8);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = resume(8, 2);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->progress.known_trials, 8);
  EXPECT_EQ(records().size(), 2u * 8);
  expect_each_schedule_once();
  auto store = open_store(folder_ / "t.db");
  const auto best = best_known(store, workload_of(small), host_target(), 1);
  ASSERT_TRUE(best && *best);
  EXPECT_EQ((*best)->hash, second->best.hash);
}

TEST_F(Resume, Fault33_AKilledRunIsTakenUpWhereItWas) {
  size_t known = 0;
  for (const int killed_at : {5, 9, 6}) {
    Child child(folder_ / "t.db", 60);
    ASSERT_TRUE(child.reports(killed_at));
    child.kill_and_wait();
    const size_t now = records().size();
    // A batch has four trials, so at most four reported trials are lost.
    EXPECT_GE(now, known + static_cast<size_t>(killed_at) - 4);
    known = now;
  }
  auto store = open_store(folder_ / "t.db");
  const auto report = db::verify(store);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->ok());
  const auto resumed = resume(4);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(static_cast<size_t>(resumed->progress.known_trials), known);
  expect_each_schedule_once();
}

TEST_F(Resume, Fault32_WorkersDieWithTheirParent) {
  Child child(folder_ / "t.db", 60);
  ASSERT_TRUE(child.reports(1));
  child.kill_and_wait();
  // The command line of each worker contains a path in the test's folder, either that of the
  // artifacts or that of the program. No process with such a path may be left.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    bool alive = false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      const std::string words((std::istreambuf_iterator<char>(file)), {});
      if (words.find(folder_.path() + "/tilewright-") != std::string::npos) alive = true;
    }
    if (!alive) return;
    usleep(10'000);
  }
  FAIL() << "a worker outlives its parent";
}

}  // namespace
}  // namespace tw::tuner
