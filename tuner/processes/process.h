// SPDX-License-Identifier: Apache-2.0
#pragma once
// Worker processes: long-lived programs that run code which may crash, hang or misbehave. The
// parent sets a deadline for each reply.
//
// A worker is started by posix_spawn, never by fork alone, because XGBoost and OpenMP do not
// survive a fork. It exchanges frames (frame.h) on descriptor 3, its standard input is empty, and
// its output goes to a pipe. The parent keeps the last part of the output. A worker has its own
// process group, so that Ctrl-C reaches only the parent, and killing the worker also kills its
// children.
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

/// Descriptor of the worker's end of the connection.
inline constexpr int worker_fd = 3;

struct ProcessOptions {
  std::vector<std::string> argv = {};  ///< argv[0] is a path; PATH is not searched
  /// "NAME=value" each; empty: the parent's environment.
  std::vector<std::string> environment = {};
  size_t tail_bytes = 8192;  ///< number of bytes of the worker's latest output that are kept
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
/// The worker ended by itself or was killed by another process. classify() (sandbox.h) tells the
/// reason.
struct Died {
  int exit_code = -1;     ///< -1: a signal ended the worker, it could not be ended, or is_unknown
  int signal = 0;         ///< 0: the worker exited, it could not be ended, or is_unknown
  std::string tail = {};  ///< the last part of the worker's output
  /// True if this process could not ask how the worker ended, because it ignores SIGCHLD or reaps
  /// its children elsewhere.
  bool is_unknown = false;
};
/// The worker closed the connection or sent bytes that are no frame, and was killed.
struct Garbled {
  std::string message;
  std::string tail;
};
using Outcome = std::variant<Reply, TimedOut, Cancelled, Died, Garbled>;

class Process {
 public:
  /// Starts the program. Fails with Environment if it cannot be started.
  static Result<Process> start(ProcessOptions options, Clock clock);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills the worker and its process group, and reaps the worker.
  ~Process();

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  /// The worker's latest output, at most tail_bytes of it.
  const std::string& tail() const { return tail_; }

  /// Queues a message and returns at once. If the connection does not accept all of it now,
  /// receive() writes the rest. Fails if the message is too large or the worker is not running.
  Status send(std::string_view message);

  /// Waits until a reply arrives, the worker ends, or the deadline passes or is cancelled. The
  /// deadline is a time on the clock that was given to start(). Unless the outcome is a Reply, the
  /// worker is gone afterwards; restart() starts it again. Requires: running().
  Outcome receive(const Deadline& deadline);

  /// Kills the worker if it runs, and starts the same program again.
  Status restart();

  /// Sends SIGKILL to the whole process group and reaps the worker. Does nothing if it is not
  /// running.
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

/// Makes the system kill this worker when its parent ends. Call this function first in a worker's
/// main(). Fails with Environment if the parent has ended already, or if the program was not
/// started by a Process; the worker must then exit.
Status enter_worker();

}  // namespace tw::tuner
