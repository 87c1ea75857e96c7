// SPDX-License-Identifier: Apache-2.0
#pragma once
// Long runs of the library, such as tune(), which Ctrl-C can end. A run has a thread of its own.
// The Python thread that started the run waits for its end, handles Python's signals, and calls the
// user's function with each Progress. The run waits while the user's function is called.

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "db/demand.h"
#include "db/store.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "tuner/targets.h"
#include "tuner/tune.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/notes.h"

namespace tw::python {

using OnProgressOrNone = pybind11::typing::Optional<
    pybind11::typing::Callable<pybind11::object(const tuner::Progress&)>>;

/// The right to run, which only one run of a process has at a time. Make and destroy the object
/// while holding the GIL. A child of fork() does not inherit the right, because the run's thread
/// does not exist there.
class RunTurn {
 public:
  /// Raises TryLaterError if the process has another run.
  RunTurn();
  RunTurn(const RunTurn&) = delete;
  RunTurn& operator=(const RunTurn&) = delete;
  ~RunTurn();
};

/// One run. Call its methods while holding the GIL.
class WatchedRun {
 public:
  /// `on_progress` is the user's function or None. Raises TryLaterError if the process has another
  /// run, because only one may run at a time.
  explicit WatchedRun(pybind11::object on_progress);

  /// Makes the environment with which the run calls the library. In it, workers are processes of
  /// the package's program, the device is that of `target`, interrupts are the Ctrl-C presses that
  /// this run counts, and notes are collected until result_of() turns them into warnings.
  tuner::Environment environment(const tuner::ChosenTarget& target);

  /// Makes the callback that the run gets for its progress. The run's thread calls the callback,
  /// which passes the progress to the waiting Python thread, and returns once that thread has
  /// called the user's function. The callback must not be called after result_of() has returned.
  tuner::OnProgress listener() {
    return [this](const tuner::Progress& progress) { tell(progress); };
  }

  /// Runs `work()` on the run's thread and returns its value. Notes become RuntimeWarnings. The
  /// first Ctrl-C is counted in the environment, so that the work can end early and return the best
  /// result so far. After a second Ctrl-C, this raises KeyboardInterrupt whatever the work returns.
  /// If the user's function or a signal handler raised an exception, this raises it again; if the
  /// work returns an error, this raises the exception for the error. Requires: `work` returns a
  /// Result and touches no object of Python.
  template <typename Work>
  auto result_of(const Work& work) {
    std::optional<decltype(work())> result;
    wait_for([&] { result.emplace(work()); });
    auto value = value_of(std::move(*result));
    warn_of_notes();
    return value;
  }

 private:
  /// Runs `work` on a new thread, handles signals and progress until it ends, and raises the same
  /// exceptions as result_of(), except those for errors that the work returns.
  void wait_for(const std::function<void()>& work);
  void warn_of_notes() const;
  void tell(const tuner::Progress& progress);
  void hear(const tuner::Progress* progress);
  void interrupt();

  RunTurn turn_;
  pybind11::object on_progress_;
  tuner::Notes notes_;
  std::atomic<int> interrupts_ = 0, later_interrupts_ = 0;
  /// Exception of the user's function or of a signal handler, which ends the run.
  std::exception_ptr error_;

  std::mutex mutex_;  // guards the two members below
  std::condition_variable changed_;
  /// The progress for which the user's function is to be called next; null if there is none.
  const tuner::Progress* told_ = nullptr;
  bool is_done_ = false;
};

/// Stores the demands of a run, that is the lists of kernels that `tune --demand` can tune later.
/// Does nothing if the store is read-only. If a demand cannot be stored, a note is added. Does not
/// need the GIL.
void leave_demands(db::Store& store, const std::vector<db::Demand>& demands, tuner::Notes& notes);

/// Returns the effort of this name: none, quick, normal or full. Raises UsageError for any other
/// name.
tuner::Effort effort_of(const std::string& name);

/// Returns the target that a text names, such as "host" or "cuda:sm_90a". The program's --target
/// accepts the same texts. Raises the exception for an error of tuner::chosen_target().
tuner::ChosenTarget chosen_target_of(const std::string& text);

}  // namespace tw::python
