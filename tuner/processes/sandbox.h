// SPDX-License-Identifier: Apache-2.0
#pragma once
// Limits what a worker may do before it runs a candidate (a kernel on trial), and describes the
// fault that ended a worker as data.
//
// A candidate is a function of its buffers and needs no new process, socket or file. A system call
// that asks for one of these ends the worker with a `resource` fault. Memory is limited. Files can
// be written only below ProcessLimits::scratch_dir, or nowhere if that is empty. An invalid memory
// access ends the worker. The fault is out of bounds if the address lies in the guard of a guarded
// buffer, otherwise a crash with the name of the signal. The worker reports a fault by its exit
// code and a line on its standard error, and the parent reads both by classify().
//
//   TW_RETURN_IF_ERROR(enter_worker());
//   TW_RETURN_IF_ERROR(report_faults());
//   TW_TRY(Restrictions done, restrict_self({.scratch_dir = dir}));
//   ... from here on foreign code may run.
//
// Seccomp also limits threads that ran before restrict_self(), but Landlock does not. So foreign
// code must run on threads that start afterwards. workers/driver.h says when the drivers of devices
// start. Limits that the system lacks (an old Linux without Landlock, another architecture) are
// listed in Restrictions::missing and are not fatal.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "tuner/processes/process.h"

namespace tw::tuner {

/// Yes if a worker limits itself. The arguments of a worker that does not limit itself begin with
/// `unconfined_role`.
enum class Confined { No, Yes };
inline constexpr std::string_view unconfined_role = "unconfined";

struct ProcessLimits {
  int64_t address_space_bytes = int64_t{16} << 30;  ///< 0: unlimited, as CUDA needs it
  int64_t file_bytes = int64_t{256} << 20;          ///< size of any one file, memfds included
  int open_files = 64;
  /// True if the process runs compilers, or a driver that runs compilers. False if it runs only
  /// candidates.
  bool may_start_programs = false;
  /// True if the process runs a GPU's driver. It may then write to the devices of GPUs and to the
  /// names of its own threads, and may open local (AF_UNIX) sockets. System calls that start
  /// processes, or that change modes or owners of files or limits, fail instead of ending the
  /// process, because drivers try them and go on without.
  bool runs_drivers = false;
  std::string scratch_dir = {};  ///< the only place where files can be written; empty: nowhere
};

struct Restrictions {
  int landlock_abi = 0;  ///< version of Landlock; 0: the kernel has none
  bool seccomp = false;
  std::vector<std::string> missing;  ///< limits that the system lacks, as text for records
};

/// Applies the limits to this thread and to all threads that start later; the limits cannot be
/// lifted. Requires: no other thread runs yet, because Landlock limits only the calling thread and
/// the threads that it starts. Fails with Environment if a limit is refused or scratch_dir is no
/// directory.
Result<Restrictions> restrict_self(const ProcessLimits& limits);

/// Installs handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGXFSZ and a failed
/// `new`. They report the fault and exit. Gives the calling thread a SignalStack that is never
/// released.
Status report_faults();

/// A second stack of the calling thread, on which the thread's faults are handled. The threads of a
/// ThreadPool have none: a stack overflow of such a thread is reported as a plain SIGSEGV. Create
/// and destroy this value on the same thread.
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
  OutOfBounds,  ///< an access to a guard region
  StackOverflow,
  InputWritten,  ///< a write to memory that was made read-only
  Resource,      ///< a limit of memory, files, processes or sockets
  Lost,          ///< killed by the system, or the device failed; the candidate may be the cause
  /// Ended by a signal from outside (SIGTERM, SIGINT, SIGHUP), or by a fault of this program. The
  /// candidate is not the cause.
  Ended,
};

struct Fault {
  FaultKind kind = FaultKind::Crash;
  std::string detail;  ///< one line
};

/// Returns the status of a trial that ended with a fault of this kind. A stack overflow has the
/// status Oob.
db::TrialStatus status_of(FaultKind kind);

/// Returns the fault that ended a worker. A SIGKILL from outside is taken as FaultKind::Lost, since
/// it usually means that the system ran out of memory.
Fault classify(const Died& died);

/// Ends this worker with a fault, which classify() returns in the parent.
[[noreturn]] void exit_with(FaultKind kind, std::string_view detail);

}  // namespace tw::tuner
