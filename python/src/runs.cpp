// SPDX-License-Identifier: Apache-2.0
#include "python/src/runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace tw::python {
namespace {

namespace py = pybind11;

// The time between two checks for Python's signals.
constexpr std::chrono::milliseconds patience(50);

// The process that has a run; 0 if there is none. A child of fork() gets a copy of this variable.
// The copy has the id of the parent, so it shows that the child has no run. The GIL guards the
// variable.
pid_t process_with_run = 0;

/// Returns default_environment() with the programs of this package as worker and code generator.
/// The paths come from tilewright/paths.py, because these programs are not in the directory of the
/// Python interpreter.
tuner::Environment environment_of_package() {
  const py::module_ paths = py::module_::import("tilewright.paths");
  tuner::Environment environment = tuner::default_environment();
  environment.worker = {paths.attr("program")().cast<std::string>(), "worker"};
  environment.code_generator = paths.attr("code_generator")().cast<std::string>();
  return environment;
}

}  // namespace

RunTurn::RunTurn() {
  if (process_with_run == getpid())
    raise({ErrorCode::TryLater, "[tune] tune() is running already: one at a time in a process"});
  process_with_run = getpid();
}

RunTurn::~RunTurn() { process_with_run = 0; }

WatchedRun::WatchedRun(py::object on_progress) : on_progress_(std::move(on_progress)) {}

tuner::Environment WatchedRun::environment(const tuner::ChosenTarget& target) {
  tuner::Environment environment = environment_of_package();
  environment.device = target.device;
  environment.interrupts = &interrupts_;
  environment.later_interrupts = &later_interrupts_;
  environment.notes = &notes_;
  return environment;
}

void WatchedRun::wait_for(const std::function<void()>& work) {
  {
    const WithoutGil released;
    std::exception_ptr thrown;
    std::thread thread([&] {
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      is_done_ = true;
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    while (!is_done_) {
      changed_.wait_for(lock, patience, [&] { return is_done_ || told_ != nullptr; });
      const tuner::Progress* told = told_;
      lock.unlock();
      hear(told);
      lock.lock();
      if (told) told_ = nullptr;
      changed_.notify_all();
    }
    lock.unlock();
    thread.join();
    if (thrown) std::rethrow_exception(thrown);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (later_interrupts_.load() > 0) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
}

/// Issues a warning for each note except ClosingEarly. That note says what a second Ctrl-C would
/// do, but the run is over.
void WatchedRun::warn_of_notes() const {
  for (const tuner::Note& note : notes_.all())
    if (note.kind != tuner::NoteKind::ClosingEarly)
      warn(PyExc_RuntimeWarning, tuner::line_of(note));
}

void WatchedRun::tell(const tuner::Progress& progress) {
  std::unique_lock lock(mutex_);
  told_ = &progress;
  changed_.notify_all();
  changed_.wait(lock, [&] { return told_ == nullptr; });
}

/// Handles Python's signals, and calls the user's function if `progress` is not null.
void WatchedRun::hear(const tuner::Progress* progress) {
  const WithGil held;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (progress && !on_progress_.is_none() && !error_) on_progress_(*progress);
  } catch (py::error_already_set& error) {
    // A KeyboardInterrupt is no error, because the run ends early and returns its best result so
    // far.
    if (!error.matches(PyExc_KeyboardInterrupt)) error_ = std::current_exception();
    interrupt();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();  // the interpreter has begun to end (gil.h)
  } catch (...) {
    error_ = std::current_exception();
    interrupt();
  }
}

void WatchedRun::interrupt() {
  const bool is_first = interrupts_.fetch_add(1) == 0;
  // After the first interrupt a run still completes its result, and a later interrupt stops this
  // work (Environment::later_interrupts). If the run is to end with an error, nobody needs the
  // result, so the first interrupt already counts as a later one.
  if (!is_first || error_) later_interrupts_.fetch_add(2);
}

void leave_demands(db::Store& store, const std::vector<db::Demand>& demands, tuner::Notes& notes) {
  if (!store.may_write()) return;
  for (const db::Demand& demand : demands)
    if (const Status kept = db::keep_demand(store, demand); !kept)
      tuner::note(&notes, tuner::NoteKind::DemandUnkept, kept.error().message);
}

tuner::Effort effort_of(const std::string& name) {
  if (name == "none") return tuner::Effort::None;
  if (name == "quick") return tuner::Effort::Quick;
  if (name == "normal") return tuner::Effort::Normal;
  if (name == "full") return tuner::Effort::Full;
  raise({ErrorCode::Usage,
         fmt::format("[tune] effort '{}': expected none, quick, normal or full", name)});
}

tuner::ChosenTarget chosen_target_of(const std::string& text) {
  Result<tuner::ChosenTarget> chosen = [&] {
    const WithoutGil released;
    return tuner::chosen_target(text, tuner::default_environment());
  }();
  return value_of(std::move(chosen));
}

}  // namespace tw::python
