// SPDX-License-Identifier: Apache-2.0
#pragma once
// Worker processes: long-lived programs that run code which may crash, hang or misbehave, behind
// deadlines that the parent keeps.
//
// A worker is started by posix_spawn, never by fork alone: XGBoost and OpenMP do not survive a
// fork. It speaks frames (frame.h) on descriptor 3, its standard input is empty, and what it prints
// goes to a pipe of which the parent keeps the tail. It has a process group of its own, so that
// Ctrl-C reaches the parent only and killing it takes its children along.
//
//   TW_TRY(Process worker, Process::start({.argv = {program, "worker"}}, monotonic_clock()));
//   TW_RETURN_IF_ERROR(worker.send(request));
//   Outcome outcome = worker.receive({clock() + timeout_ns});
//   if (!worker.running()) TW_RETURN_IF_ERROR(worker.restart());
//
// The worker's main() begins with enter_worker(). A Process belongs to one thread, and that thread
// must outlive the worker: Linux sends a worker's parent-death signal when the *thread* that
// started it ends.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tuner/processes/clock.h"
#include "tuner/processes/deadline.h"
#include "tuner/processes/frame.h"

namespace tw::tuner {

/// The worker's end of the connection.
inline constexpr int worker_fd = 3;

struct ProcessOptions {
  std::vector<std::string> argv = {};         ///< argv[0] is a path; PATH is not searched
  std::vector<std::string> environment = {};  ///< "NAME=value"; empty: the parent's
  size_t tail_bytes = 8192;                   ///< how much of its latest output is kept
};

struct Reply {
  std::string bytes;
};
/// The deadline passed; the worker was killed.
struct TimedOut {
  std::string tail;
};
/// The deadline was cancelled before it passed; the worker was killed.
struct Cancelled {
  std::string tail;
};
/// It ended by itself or was killed by somebody else. classify() in sandbox.h reads it.
struct Died {
  int exit_code = -1;     ///< -1: ended by a signal, or unknown
  int signal = 0;         ///< 0: exited, or unknown
  std::string tail = {};  ///< the end of what it printed
};
/// It closed or corrupted its connection; it was killed.
struct Garbled {
  std::string message;
  std::string tail;
};
using Outcome = std::variant<Reply, TimedOut, Cancelled, Died, Garbled>;

class Process {
 public:
  /// An Environment error when the program cannot be started.
  static Result<Process> start(ProcessOptions options, Clock clock);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills the worker and its group, and leaves no zombie.
  ~Process();

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  /// The latest output, at most tail_bytes of it.
  const std::string& tail() const { return tail_; }

  /// Queues a message and returns at once; receive() writes what the connection could not take yet.
  /// An error: the message is too large, or the worker is not running.
  Status send(std::string_view message);

  /// Waits until a reply, the worker's end, or the deadline on the clock given to start(), which is
  /// looked at several times a second. After anything but a Reply the worker is gone: restart() it.
  /// Requires running().
  Outcome receive(const Deadline& deadline);

  /// Kills what runs and starts the same program anew.
  Status restart();

  /// SIGKILL to the whole group, then reaps. Does nothing if not running.
  void kill();

 private:
  Process(ProcessOptions options, Clock clock);
  Status spawn();
  void flush();
  void read_channel();
  void drain_output();
  void wait_for_events(int64_t timeout_ns);
  bool exited_within(int64_t timeout_ns) const;
  Died reap();
  Outcome garbled(std::string message);
  Outcome lost_channel(const Deadline& deadline);
  void forget();

  ProcessOptions options_;
  Clock clock_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  int channel_ = -1;
  int output_ = -1;
  std::string outgoing_;
  FrameReader reader_;
  std::string tail_;
};

/// First thing in a worker's main(): it dies with its parent, at once if the parent is already
/// gone. An Environment error when the program was not started by a Process.
Status enter_worker();

}  // namespace tw::tuner
