// SPDX-License-Identifier: Apache-2.0
#pragma once
// The limits that a worker puts on itself before it runs a candidate, and how its faults become
// data.
//
// A candidate is a function of its buffers. It needs no new process, no socket and no file, so
// asking the kernel for one ends the worker with a `resource` fault; memory is bounded; files can
// be written below one directory or nowhere. A wild access ends it with the signal and, when the
// address lies in a guarded buffer's guard, as out of bounds. The worker says what happened in its
// exit code and one line on its standard error, both of which classify() reads on the parent's
// side.
//
//   TW_RETURN_IF_ERROR(enter_worker());
//   TW_RETURN_IF_ERROR(report_faults());
//   TW_TRY(Restrictions done, restrict_self({.scratch_dir = dir}));
//   ... from here on foreign code may run; each further thread starts with a SignalStack.
//
// Threads that ran before restrict_self() are bound by seccomp and not by Landlock, so foreign code
// runs on threads that start afterwards. workers/driver.h says when the drivers of devices start.
// Limits that the system lacks (an old Linux without Landlock, another architecture) are listed and
// not fatal.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "tuner/processes/process.h"

namespace tw::tuner {

/// Says if a worker limits itself. The arguments of one that does not begin with `unconfined_role`.
enum class Confined { No, Yes };
inline constexpr std::string_view unconfined_role = "unconfined";

struct ProcessLimits {
  int64_t address_space_bytes = int64_t{16} << 30;  ///< 0: unlimited, as CUDA needs it
  int64_t file_bytes = int64_t{256} << 20;          ///< of any one file, memfds included
  int open_files = 64;
  /// For workers that run compilers, and for drivers that do; never for candidates alone.
  bool may_start_programs = false;
  /// The process runs a GPU's driver. It may write to devices of GPUs and to the names of its own
  /// threads, and may have local (AF_UNIX) sockets. Calls that start processes or change modes and
  /// owners of files or limits are refused instead of fatal, as drivers try them and go on without.
  bool runs_drivers = false;
  std::string scratch_dir = {};  ///< the only place where files can be written; empty: nowhere
};

struct Restrictions {
  int landlock_abi = 0;  ///< 0: the kernel has none
  bool seccomp = false;
  std::vector<std::string> missing;  ///< what could not be had, for the record
};

/// Irrevocable, and for threads started later too. Requires that no other thread runs yet: Landlock
/// binds the calling thread and its children. Fails when a limit is refused or scratch_dir is no
/// directory.
Result<Restrictions> restrict_self(const ProcessLimits& limits);

/// Turns SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGXFSZ and running out of memory in
/// `new` into a report and an exit, with a SignalStack for the calling thread that is never
/// released.
Status report_faults();

/// A second stack on which the calling thread's faults are handled; without one, a stack overflow
/// on a thread is reported as a bare SIGSEGV. Create and destroy it on that thread.
class SignalStack {
 public:
  SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack();

 private:
  std::unique_ptr<char[]> memory_;
};

enum class FaultKind {
  Crash,        ///< a signal, an abort, an exit
  OutOfBounds,  ///< an access inside a guard
  StackOverflow,
  InputWritten,  ///< a write to memory made read-only
  Resource,      ///< memory, files, processes, sockets
  Lost,          ///< killed by the system, or lost with its device; the candidate may be the cause
  /// Ended by a signal from outside (SIGTERM, SIGINT, SIGHUP), or by a fault of this program. The
  /// candidate is not the cause.
  Ended,
};

struct Fault {
  FaultKind kind = FaultKind::Crash;
  std::string detail;  ///< one line
};

/// The status of a trial that ends with such a fault; stack overflows are Oob.
db::TrialStatus status_of(FaultKind kind);

/// The fault that the end of a worker stands for. A SIGKILL from elsewhere mostly means that the
/// system ran out of memory.
Fault classify(const Died& died);

/// Ends this worker with a fault that the parent's classify() gives back.
[[noreturn]] void exit_with(FaultKind kind, std::string_view detail);

}  // namespace tw::tuner
