// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>

#include "tests/sanitizers.h"
#include "tests/tuner/planted.h"

namespace {
std::atomic<int64_t> wall_clock_jump_s{0};
std::atomic<int> wall_clock_reads{0};
}  // namespace

// Replaces the function of the C library, so that a test can make the wall clock jump for all code
// of this program.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME) {
    ++wall_clock_reads;
    now->tv_sec += wall_clock_jump_s;
  }
  return result;
}

namespace tw::tuner {
namespace {

bool no_such_process(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

TEST(Process, AnswersManyMessages) {
  Process worker = planted({"free"});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(text(ask(worker, "echo hello")), "reply: hello");
  EXPECT_TRUE(worker.running());
}

TEST(Process, CarriesMessagesLargerThanTheSocket) {
  Process worker = planted({"free"});
  const std::string large(5 << 20, 'm');
  const Outcome outcome = ask(worker, "echo " + large);
  ASSERT_TRUE(std::holds_alternative<Reply>(outcome));
  EXPECT_TRUE(std::get<Reply>(outcome).bytes == large);
}

TEST(Process, MessagesQueueUpAndAreAnsweredInOrder) {
  Process worker = planted({"free"});
  for (const char* message : {"echo 1", "echo 2", "echo 3"}) ASSERT_TRUE(worker.send(message));
  for (const char* reply : {"reply: 1", "reply: 2", "reply: 3"})
    EXPECT_EQ(text(worker.receive({monotonic_clock()() + patience_ns})), reply);
}

TEST(Process, HasAGroupOfItsOwnAndNoForeignDescriptors) {
  Process worker = planted({"free"});
  EXPECT_EQ(text(ask(worker, "group")), "reply: " + std::to_string(worker.pid()));
  // The descriptor is inheritable on purpose. The worker must not get it.
  const int leaky = ::open("/dev/null", O_RDONLY);
  Process other = planted({"free"});
  EXPECT_EQ(text(ask(other, "echo x")), "reply: x");
  const std::filesystem::directory_iterator open("/proc/" + std::to_string(other.pid()) + "/fd");
  EXPECT_EQ(std::distance(begin(open), end(open)), 4);
  ::close(leaky);
}

TEST(Process, WorksWhereStandardDescriptorsAreClosed) {
  const int saved = ::fcntl(0, F_DUPFD_CLOEXEC, 50);
  ::close(0);
  Process worker = planted({"free"});
  EXPECT_EQ(text(ask(worker, "echo x")), "reply: x");
  worker.kill();
  if (saved >= 0) {
    ::dup2(saved, 0);
    ::close(saved);
  }
}

TEST(Process, UnknownProgramIsNamed) {
  const auto started = Process::start({.argv = {"/no/such/worker"}}, monotonic_clock());
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::Environment);
  EXPECT_NE(started.error().message.find("/no/such/worker"), std::string::npos);
}

TEST(Process, ProgramThatIsNoWorkerDies) {
  auto started = Process::start({.argv = {"/bin/false"}}, monotonic_clock());
  ASSERT_TRUE(started);
  const Outcome outcome = started->receive({monotonic_clock()() + patience_ns});
  ASSERT_TRUE(std::holds_alternative<Died>(outcome)) << text(outcome);
  EXPECT_EQ(std::get<Died>(outcome).exit_code, 1);
}

TEST(Process, DestructionLeavesNoZombie) {
  pid_t pid;
  {
    Process worker = planted({"free"});
    pid = worker.pid();
    Process moved = std::move(worker);
    EXPECT_FALSE(worker.running());
    EXPECT_EQ(moved.pid(), pid);
  }
  EXPECT_TRUE(no_such_process(pid));
}

TEST(Process, WorkerStartedByHandSaysSo) {
  // Descriptor 3 of the worker is closed, as when a person runs the worker from a shell.
  auto started = Process::start(
      {.argv = {"/bin/sh", "-c", "exec 3>&- \"$0\" free", TW_PLANTED_WORKER}}, monotonic_clock());
  ASSERT_TRUE(started);
  const Outcome outcome = started->receive({monotonic_clock()() + patience_ns});
  EXPECT_NE(text(outcome).find("exit 1"), std::string::npos) << text(outcome);
  EXPECT_NE(text(outcome).find("started by the tuner only"), std::string::npos) << text(outcome);
}

/// Calls `cause` and expects that a process ends within 60 s, although nothing asks this process to
/// end. `outcome` is a reply with its PID.
void expect_ends(const Outcome& outcome, const std::function<void()>& cause) {
  ASSERT_TRUE(std::holds_alternative<Reply>(outcome)) << text(outcome);
  const int process =
      static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(std::get<Reply>(outcome).bytes), 0));
  ASSERT_GE(process, 0);
  cause();
  pollfd ended = {process, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 60'000), 1);
  ::close(process);
}

TEST(Process, Fault32_WorkersDieWithTheirParent) {
  Process parent = planted({"free"});
  expect_ends(ask(parent, "nest"), [&] { parent.kill(); });
}

TEST(Process, Fault32_WhatAWorkerLeavesBehindDiesWithIt) {
  Process worker = planted({"free"});
  expect_ends(ask(worker, "leave_child"), [&] {
    const Outcome outcome = worker.receive({monotonic_clock()() + patience_ns});
    ASSERT_TRUE(std::holds_alternative<Died>(outcome)) << text(outcome);
    EXPECT_EQ(std::get<Died>(outcome).exit_code, 0);
  });
}

TEST(Process, Fault35_EndlessLoopIsKilledAtTheDeadline) {
  Process worker = planted({"confined"});
  const pid_t pid = worker.pid();
  const Clock clock = monotonic_clock();
  const int64_t start = clock();
  EXPECT_EQ(text(ask(worker, "loop", 200 * millisecond_ns)), "timed out");
  const int64_t elapsed = clock() - start;
  EXPECT_GE(elapsed, 200 * millisecond_ns);
  EXPECT_LE(elapsed, (200 + 10 * 100) * millisecond_ns);
  EXPECT_TRUE(no_such_process(pid));
  expect_replaceable(worker);
}

TEST(Process, Fault35_StoppedWorkerIsKilledAtTheDeadline) {
  Process worker = planted({"confined"});
  const pid_t pid = worker.pid();
  EXPECT_EQ(text(ask(worker, "stop", 200 * millisecond_ns)), "timed out");
  EXPECT_TRUE(no_such_process(pid));
  expect_replaceable(worker);
}

TEST(Process, Fault40_GigabyteOfOutputIsBounded) {
  Process worker = planted({"confined"});
  EXPECT_EQ(text(ask(worker, "print_1gb")), "reply: done");
  // Output that was printed before the first reply is drained while the next reply is awaited.
  EXPECT_EQ(text(ask(worker, "echo more")), "reply: more");
  EXPECT_LE(worker.tail().size(), 8192u);
  EXPECT_TRUE(worker.tail().ends_with("last words\n"));
}

TEST(Process, Fault40_EndlessOutputDoesNotDelayTheDeadline) {
  Process worker = planted({"confined"});
  EXPECT_EQ(text(ask(worker, "print_forever", 200 * millisecond_ns)), "timed out");
  expect_replaceable(worker);
}

TEST(Process, Fault40_ClosedConnectionReplacesTheWorker) {
  Process worker = planted({"confined"});
  const Outcome outcome = ask(worker, "close_all");
  EXPECT_TRUE(std::holds_alternative<Garbled>(outcome)) << text(outcome);
  expect_replaceable(worker);
}

TEST(Process, Fault40_CorruptRepliesReplaceTheWorker) {
  Process worker = planted({"confined"});
  for (const char* deed : {"garbage", "huge_frame", "bad_checksum"}) {
    const Outcome outcome = ask(worker, deed);
    EXPECT_TRUE(std::holds_alternative<Garbled>(outcome)) << deed << ": " << text(outcome);
    expect_replaceable(worker);
  }
}

TEST(Process, Fault46_WallClockJumpsChangeNoDeadline) {
  Process worker = planted({"free"});
  wall_clock_reads = 0;
  for (const int64_t jump_s : {86400, -86400}) {
    wall_clock_jump_s = jump_s;
    EXPECT_EQ(text(ask(worker, "echo still here")), "reply: still here");
  }
  const Clock clock = monotonic_clock();
  const int64_t start = clock();
  EXPECT_EQ(text(ask(worker, "loop", 100 * millisecond_ns)), "timed out");
  EXPECT_GE(clock() - start, 100 * millisecond_ns);
  wall_clock_jump_s = 0;
  EXPECT_EQ(wall_clock_reads, 0);
  // Checks that the jump itself works. Otherwise the test would show nothing.
  wall_clock_jump_s = 86400;
  const time_t jumped = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  wall_clock_jump_s = 0;
  EXPECT_GE(jumped, ::time(nullptr) + 80000);
}

TEST(Process, DeadlinesAreOnTheClockThatWasPassedIn) {
  int64_t now = 0;
  Process worker = planted({"free"}, [&now] { return now; });
  ASSERT_TRUE(worker.send("echo x"));
  EXPECT_EQ(text(worker.receive({patience_ns})), "reply: x");
  now = 2 * patience_ns;  // after any deadline, though hardly any time has passed
  ASSERT_TRUE(worker.send("loop"));
  EXPECT_EQ(text(worker.receive({patience_ns})), "timed out");
}

TEST(Process, AWaitMayBeCancelledBeforeItsDeadline) {
  int64_t now = 0;
  Process worker = planted({"free"}, [&now] { return now; });
  ASSERT_TRUE(worker.send("loop"));
  int64_t looks = 0;
  const StopToken third_look = stop_at([&looks] { return ++looks; }, 3);
  EXPECT_EQ(text(worker.receive({patience_ns, third_look})), "cancelled");
  EXPECT_FALSE(worker.running());
  ASSERT_TRUE(worker.restart());
  ASSERT_TRUE(worker.send("echo x"));
  EXPECT_EQ(text(worker.receive({patience_ns, StopToken()})), "reply: x");
}

TEST(Process, Fault93_WhoWaitsIsTold) {
  Process worker = planted({"free"});
  ASSERT_TRUE(worker.send("loop"));
  int told = 0;
  std::atomic<int> interrupts = 0;
  const auto tell = [&] {
    if (++told == 3) ++interrupts;
  };
  EXPECT_EQ(text(worker.receive({INT64_MAX, stop_on_interrupt(&interrupts), tell})), "cancelled");
  EXPECT_EQ(told, 3);
}

TEST(Process, Fault71_NoDescriptorLeftIsAnErrorThatSaysSo) {
  if (has_shadow_memory) GTEST_SKIP() << "UBSan asks of each object by a pipe whether it is there";
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto started = Process::start({.argv = {TW_PLANTED_WORKER, "free"}}, monotonic_clock());
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::Environment);
  EXPECT_NE(started.error().message.find("open files"), std::string::npos)
      << started.error().message;
}

TEST(Process, Fault71_ThirtyTwoDescriptorsAreEnough) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 32;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    Process worker = planted({"confined"});
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(worker.restart());  // old descriptors are closed
    EXPECT_EQ(text(ask(worker, "echo x")), "reply: x");
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace tw::tuner
