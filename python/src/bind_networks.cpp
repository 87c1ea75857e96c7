// SPDX-License-Identifier: Apache-2.0
// Binds tuner/network/: tuning of whole networks.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dsl/workload.h"
#include "graph/graph.h"
#include "python/src/bindings.h"
#include "python/src/callables.h"
#include "python/src/errors.h"
#include "python/src/runs.h"
#include "python/src/stores.h"
#include "runtime/model.h"
#include "tuner/network/prediction_cache.h"
#include "tuner/network/tune_model.h"
#include "tuner/targets.h"
#include "tuner/workers/notes.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using tuner::ModelOptions;
using tuner::TunedModel;

using PyVariants = std::vector<std::pair<tuner::Dimensions, graph::Graph>>;

tuner::NetworkSource network_source(const std::string& name, const PyVariants& variants) {
  tuner::NetworkSource source{name, {}};
  for (const auto& [dimensions, graph] : variants) source.variants.push_back({dimensions, graph});
  return source;
}

std::optional<DType> precision_of(const std::string& name) {
  if (name == "f32") return std::nullopt;
  if (name == "bf16") return BFloat16;
  raise({ErrorCode::Usage, "[tune] precision '" + name + "': expected f32 or bf16"});
}

/// Makes the options of tune_model() from Python's arguments. With the effort "none" nothing is
/// measured.
ModelOptions model_options(const tuner::TuneOptions& tuning, const std::string& accuracy,
                           const std::string& precision, const std::string& output, bool refresh) {
  ModelOptions options;
  options.tuning = tuning;
  options.accuracy = value_of(dsl::parse_accuracy(accuracy));
  options.precision = precision_of(precision);
  options.path = output;
  options.refresh = refresh;
  return options;
}

/// Fails with Unsupported if this machine cannot run kernels for the target. The tuned network is
/// loaded at the end, so it has to run here.
Status check_loadable(const tuner::ChosenTarget& chosen) {
  if (chosen.runs_here()) return {};
  return fail(ErrorCode::Unsupported,
              "[tune] a network for " + chosen.target.to_string() +
                  " cannot be loaded here, as this machine lacks " + tuner::missing_text(chosen) +
                  ": `tilewright tune --model FILE --target ... --effort none` makes its file");
}

/// Returns the path of the file in which the tuner keeps its predictions. If the directory cannot
/// be made, adds a note and returns an empty path.
std::string predictions_in_cache(const Target& target, int threads, tuner::Notes& notes) {
  const std::string cache = tuner::default_places().cache;
  const Status made = tuner::make_private_directory(cache, "name another by XDG_CACHE_HOME");
  if (!made) {
    tuner::note(&notes, tuner::NoteKind::CacheUnwritten, made.error().message);
    return "";
  }
  return tuner::predictions_file(cache, target, threads);
}

/// Loads the model that a run has made. If the run wrote a file, the model is opened from it, so
/// that its constants are mapped and not copied.
Result<runtime::Model> loaded(TunedModel tuned, const tuner::ChosenTarget& chosen) {
  runtime::ModelOptions options;
  if (chosen.target.is_gpu()) {
    TW_TRY(options.device, tuner::open_device(chosen));
  }
  if (!tuned.path.empty()) return runtime::Model::open(tuned.path, options);
  return runtime::Model::load(std::move(tuned.file), options);
}

/// The fields former_ns, latency_ns, is_measured, is_kept and reason of tuner::Refresh.
using PyRefresh = std::tuple<double, double, bool, bool, std::string>;
std::optional<PyRefresh> refresh_of(const TunedModel& tuned) {
  if (!tuned.refresh) return std::nullopt;
  const tuner::Refresh& refresh = *tuned.refresh;
  return PyRefresh{refresh.former_ns, refresh.latency_ns, refresh.is_measured, refresh.is_kept,
                   refresh.reason};
}

using LoadedNetwork = std::pair<CallableOf<runtime::Model>, std::optional<PyRefresh>>;

LoadedNetwork tune_network(const tuner::NetworkSource& source, const SharedStore& shared,
                           const std::string& target, ModelOptions options,
                           const py::object& on_progress) {
  WatchedRun run(on_progress);
  const tuner::ChosenTarget chosen = chosen_target_of(target);
  value_of(tuner::check_measurable(chosen, options.tuning));
  value_of(check_loadable(chosen));
  if (chosen.target.is_gpu()) options.tuning.threads = 1;
  const tuner::Environment environment = run.environment(chosen);
  options.predictions =
      predictions_in_cache(chosen.target, options.tuning.threads, *environment.notes);
  options.listen = [&run](const tuner::ModelRun&) { return run.listener(); };
  const int threads = options.tuning.threads;
  using Made = std::pair<runtime::Model, std::optional<PyRefresh>>;
  Made made = run.result_of([&]() -> Result<Made> {
    TW_TRY(db::Store store, shared.open_another());
    TW_TRY(TunedModel tuned, tuner::tune_model(source, chosen.target, options, store, environment));
    leave_demands(store, tuned.demands, *environment.notes);
    for (const tuner::ModelRun& variant : tuned.runs)
      if (variant.tuned.unstored) return tl::unexpected<Error>(*variant.tuned.unstored);
    const std::optional<PyRefresh> refresh = refresh_of(tuned);
    TW_TRY(runtime::Model model, loaded(std::move(tuned), chosen));
    return Made{std::move(model), refresh};
  });
  return {{std::move(made.first), threads}, std::move(made.second)};
}

}  // namespace

void bind_networks(py::module_& m) {
  // This function is internal. tilewright.onnx.Network calls it, checks its arguments, and has the
  // documentation.
  m.def(
      "_tune_network",
      [](const std::string& name, const PyVariants& variants, const py::object& db,
         const std::string& target, double budget, int64_t trials, const std::string& effort,
         uint64_t seed, int threads, const std::string& accuracy, const std::string& precision,
         const std::string& output, bool refresh, const OnProgressOrNone& on_progress) {
        tuner::TuneOptions tuning;
        tuning.budget_s = budget;
        tuning.trials = trials;
        tuning.effort = effort_of(effort);
        tuning.seed = seed;
        tuning.threads = threads;
        return tune_network(network_source(name, variants), db.cast<const SharedStore&>(), target,
                            model_options(tuning, accuracy, precision, output, refresh),
                            on_progress);
      },
      "name"_a, "variants"_a, "db"_a, py::kw_only(), "target"_a, "budget"_a, "trials"_a = 0,
      "effort"_a = "none", "seed"_a = 1, "threads"_a = 1, "accuracy"_a = "fast",
      "precision"_a = "f32", "output"_a = "", "refresh"_a = false, "on_progress"_a = py::none());
}

}  // namespace tw::python
