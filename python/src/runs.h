// SPDX-License-Identifier: Apache-2.0
#pragma once
// Long runs of the library that an interrupt from the keyboard can end. The run has a thread of its
// own. The thread that started the run waits for it, handles Python's signals, and calls the user's
// function with each Progress; the run waits while the function is called.

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

/// One run. All methods except listener() require the GIL.
class WatchedRun {
 public:
  /// `on_progress` is the user's function or None. Raises TryLaterError if another run is under
  /// way, as a process has one run at a time.
  explicit WatchedRun(pybind11::object on_progress);

  /// The environment for the library's functions. Its workers are processes of the package's
  /// program, its interrupts are those of this run, its device is that of `target`, and its notes
  /// are kept for result_of().
  tuner::Environment environment(const tuner::ChosenTarget& target);

  /// The callback for the run's progress. The run's thread calls it; it passes the progress to the
  /// waiting thread and returns once that thread has called the user's function. It must not be
  /// called after result_of() has returned.
  tuner::OnProgress listener() {
    return [this](const tuner::Progress& progress) { tell(progress); };
  }

  /// Runs `work()` and returns its value. Notes become RuntimeWarnings. The first interrupt from
  /// the keyboard is counted in the environment, so that the work can finish early; after a second
  /// one, KeyboardInterrupt is raised whatever the work returns. Raises the exception that the
  /// user's function or a signal handler raised, or else the exception for the work's error.
  /// Requires: `work` returns a Result and touches no object of Python.
  template <typename Work>
  auto result_of(const Work& work) {
    std::optional<decltype(work())> result;
    wait_for([&] { result.emplace(work()); });
    auto value = value_of(std::move(*result));
    warn_of_notes();
    return value;
  }

 private:
  /// Runs `work` on a thread and waits for its end.
  void wait_for(const std::function<void()>& work);
  void warn_of_notes() const;
  void tell(const tuner::Progress& progress);
  void hear(const tuner::Progress* progress);
  void interrupt();

  std::unique_lock<std::mutex> alone_;
  pybind11::object on_progress_;
  tuner::Notes notes_;
  std::atomic<int> interrupts_ = 0, later_interrupts_ = 0;
  std::exception_ptr error_;  ///< from the user's function or a signal handler; ends the run

  std::mutex mutex_;  // guards the two members below
  std::condition_variable changed_;
  /// Progress for which the user's function was not called yet.
  const tuner::Progress* told_ = nullptr;
  bool is_done_ = false;
};

/// Stores the demands of a run, which `tune --demand` can work off, unless the store is read-only.
/// A demand that cannot be stored becomes a note. Without the GIL.
void leave_demands(db::Store& store, const std::vector<db::Demand>& demands, tuner::Notes& notes);

/// The effort of this name. Raises UsageError for an unknown name.
tuner::Effort effort_of(const std::string& name);

/// The target that a text names, in the form of the program's --target. Raises the error of
/// tuner::chosen_target().
tuner::ChosenTarget chosen_target_of(const std::string& text);

}  // namespace tw::python
