// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of the library that take long and that an interrupt from the keyboard ends. The run has a
// thread of its own. The thread that began it waits: it asks Python for signals, and calls the
// user's function with each Progress while the run waits for that function.

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

#include "base/result.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "tuner/targets.h"
#include "tuner/tune.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/notes.h"

namespace tw::python {

using OnProgressOrNone = pybind11::typing::Optional<
    pybind11::typing::Callable<pybind11::object(const tuner::Progress&)>>;

/// One run. Requires of all but listener(): the GIL.
class WatchedRun {
 public:
  /// `on_progress` may be None. Raises TryLaterError where a run is under way: one at a time in a
  /// process.
  explicit WatchedRun(pybind11::object on_progress);

  /// The environment of the package, whose worker is its program. Its interrupts are those of this
  /// run, its device is the chosen one, and its notes are kept for result_of().
  tuner::Environment environment(const tuner::ChosenTarget& target);

  /// Tells the calling thread, and returns once that has called the user's function. For the thread
  /// of the run. It must not be called after result_of() returned.
  tuner::OnProgress listener() {
    return [this](const tuner::Progress& progress) { tell(progress); };
  }

  /// Runs `work()`, which returns a Result and touches no object of Python, and returns its value.
  /// Notes become RuntimeWarnings. The first interrupt from the keyboard counts in the environment;
  /// after a second one KeyboardInterrupt is raised, whatever the work returns. Raises the
  /// exception that the user's function or the handler of another signal raised, else that of the
  /// work's error.
  template <typename Work>
  auto result_of(const Work& work) {
    std::optional<decltype(work())> result;
    wait_for([&] { result.emplace(work()); });
    return value_of(std::move(*result));
  }

 private:
  /// Runs `work` on a thread and waits for its end.
  void wait_for(const std::function<void()>& work);
  void tell(const tuner::Progress& progress);
  void hear(const tuner::Progress* progress);
  void interrupt();

  std::unique_lock<std::mutex> alone_;
  pybind11::object on_progress_;
  tuner::Notes notes_;
  std::atomic<int> interrupts_ = 0, later_interrupts_ = 0;
  std::exception_ptr error_;  ///< of the user's function or a handler; ends the run

  std::mutex mutex_;  // guards the two members below
  std::condition_variable changed_;
  const tuner::Progress* told_ = nullptr;  ///< that the user's function has not been called with
  bool is_done_ = false;
};

/// Raises UsageError for another name.
tuner::Effort effort_of(const std::string& name);

/// The target that a text names, as the program's --target takes it. Raises the error of
/// tuner::chosen_target().
tuner::ChosenTarget chosen_target_of(const std::string& text);

}  // namespace tw::python
