// SPDX-License-Identifier: Apache-2.0
// Binds tuner/: tuning of one workload.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <pybind11/typing.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/target.h"
#include "base/text.h"
#include "base/time_text.h"
#include "codegen/inspect.h"
#include "dsl/workload.h"
#include "python/src/bindings.h"
#include "python/src/callables.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/runs.h"
#include "python/src/stores.h"
#include "python/src/text.h"
#include "runtime/artifact.h"
#include "runtime/kernel.h"
#include "tuner/demand.h"
#include "tuner/tune.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/notes.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using tuner::Progress;
using tuner::Tuned;

Tuned tuned(const tuner::TaskSpec& task, const py::object& database, const std::string& target,
            const tuner::TuneOptions& options, const py::object& on_progress) {
  WatchedRun run(on_progress);
  const tuner::ChosenTarget chosen = chosen_target_of(target);
  value_of(tuner::check_measurable(chosen, options));
  const SharedStore& shared = database.cast<const SharedStore&>();
  const tuner::Environment environment = run.environment(chosen);
  return run.result_of([&]() -> Result<Tuned> {
    // The run has a connection of its own, because the user's callback and other threads may use
    // the caller's store during the run.
    TW_TRY(db::Store store, shared.open_another());
    TW_TRY(std::vector<Result<Tuned>> results,
           tuner::tune_all({task}, chosen.target, options, store, environment, run.listener()));
    if (const auto demand = tuner::demand_left(task.workload, chosen.target, options.threads,
                                               results[0], environment.now_ms()))
      leave_demands(store, {*demand}, *environment.notes);
    if (results[0] && results[0]->unstored) return tl::unexpected<Error>(*results[0]->unstored);
    return std::move(results[0]);
  });
}

CallableOf<runtime::Kernel> kernel_of(const Tuned& tuned) {
  return {value_of(runtime::Kernel::load(tuned.artifact)), static_cast<int>(tuned.best.threads)};
}

std::string assembly_of(const Tuned& tuned) {
  const Target target = value_of(parse_target(tuned.artifact.info.target));
  if (target.is_gpu())
    raise({ErrorCode::Unsupported, fmt::format("[assembly] expected a kernel of a processor, not "
                                               "one of {}",
                                               target.to_string())});
  Result<std::string> text = [&] {
    const WithoutGil released;
    return codegen::disassemble(tuned.artifact.object, target);
  }();
  return value_of(std::move(text));
}

py::str saved_in(const Tuned& tuned, const std::filesystem::path& cache) {
  const runtime::KernelInfo& info = tuned.artifact.info;
  value_of(tuner::make_private_directory(cache));
  const std::filesystem::path path =
      cache / runtime::artifact_name(info.workload, info.schedule, info.target, info.codegen_abi);
  value_of(runtime::write_artifact(path, tuned.artifact));
  return path_text(path.native());
}

}  // namespace

void bind_tuner(py::module_& m) {
  py::class_<Progress>(m, "Progress", "The state of a run, which tune() passes to on_progress.")
      .def_readonly("name", &Progress::name)
      .def_readonly("elapsed_s", &Progress::elapsed_s)
      .def_readonly("budget_s", &Progress::budget_s)
      .def_readonly("trials", &Progress::trials, "numbers of trials by status")
      .def_readonly("known_trials", &Progress::known_trials)
      .def_readonly("best_ns", &Progress::best_ns, "0: none yet")
      .def_readonly("untuned_ns", &Progress::untuned_ns,
                    "latency of the default schedule; 0: not measured")
      .def_readonly("given_ns", &Progress::given_ns,
                    "latency of the argument `schedule` of tune(); 0: not measured")
      .def_readonly("flops", &Progress::flops)
      .def_readonly("bytes", &Progress::bytes, "bytes that every kernel reads and writes at least")
      .def_readonly("peak_gflops", &Progress::peak_gflops)
      .def_readonly("model", &Progress::model)
      .def_readonly("finishing", &Progress::finishing,
                    "what is done after the last candidate; empty until then")
      .def_readonly("next_gain", &Progress::next_gain,
                    "share, 0 to 1, by which the next minute is expected to shorten the latency; "
                    "None: unknown");

  py::class_<Tuned>(m, "Tuned", "What tune() found.")
      .def_readonly("best", &Tuned::best)
      .def_readonly("progress", &Tuned::progress)
      .def_readonly("failures", &Tuned::failures, "numbers of rejected candidates by reason")
      .def_property_readonly("ended",
                             [](const Tuned& t) { return std::string(tuner::to_string(t.ended)); })
      .def_property_readonly("schedule", [](const Tuned& t) { return t.best.schedule; })
      .def_property_readonly("latency_ns", [](const Tuned& t) { return t.best.latency_ns; })
      .def("kernel", &kernel_of, "The kernel, loaded.")
      .def("assembly", &assembly_of, "The kernel's instructions, as objdump prints them.")
      .def(
          "save",
          [](const Tuned& t, const std::filesystem::path& path) {
            value_of(runtime::write_artifact(path, t.artifact));
          },
          "path"_a, "Writes the kernel to a file that Kernel.load() and the C interface load.")
      .def("save_in", &saved_in, "cache"_a,
           "Writes the kernel into a folder, which is made if it is missing, under the name by "
           "which a Session looks for it. Returns the path of the file.")
      .def("__repr__", [](const Tuned& t) {
        return fmt::format("<Tuned {}: {}, {}>", t.best.op, time_text(t.best.latency_ns),
                           tuner::to_string(t.ended));
      });

  // This function is internal. tilewright.tune() calls it, opens the database if it is given as a
  // path, and has the documentation.
  m.def(
      "_tune",
      [](const dsl::Workload& workload, const py::object& db, const std::string& target,
         double budget, int64_t trials, const std::string& effort, const std::string& search,
         uint64_t seed, int threads, double timeout, const std::string& schedule,
         const OnProgressOrNone& on_progress) {
        tuner::TuneOptions options;
        options.budget_s = budget;
        options.trials = trials;
        options.effort = effort_of(effort);
        options.search = search;
        options.seed = seed;
        options.threads = threads;
        options.timeout_s = timeout;
        return tuned({.workload = workload, .schedule = schedule, .insists = !schedule.empty()}, db,
                     target, options, on_progress);
      },
      "workload"_a, "db"_a, py::kw_only(), "target"_a = "host", "budget"_a = 60.0, "trials"_a = 0,
      "effort"_a = "normal", "search"_a = "evolution", "seed"_a = 1, "threads"_a = 1,
      "timeout"_a = 10.0, "schedule"_a = "", "on_progress"_a = py::none());
  m.def("default_database", [] { return path_text(tuner::default_places().database); });
}

}  // namespace tw::python
