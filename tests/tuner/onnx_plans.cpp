// SPDX-License-Identifier: Apache-2.0
// Runs cases of the ONNX backend test suite as networks. Each case is imported, rewritten by the
// passes, planned by predictions alone, built, called, and compared. onnx_plans_test.py runs this
// program.
//
//   onnx_plans FOLDER CASE...     prints a line for each case: its name and the verdict
//
// The verdict is `pass`, `unplanned: why`, `unbuilt: why`, `failed: why` or `wrong: why`.
// Predictions and kernels are shared by the cases of a run.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/passes.h"
#include "runtime/model.h"
#include "tests/graph/onnx_case.h"
#include "tests/tuner/tuning.h"
#include "tuner/network/network.h"
#include "tuner/network/prediction_cache.h"
#include "tuner/network/race.h"

namespace tw::tuner {
namespace {

constexpr double build_timeout_s = 60;

tl::unexpected<Error> marked(const char* mark, const Error& error) {
  return tl::unexpected(Error{error.code, std::string(mark) + ": " + error.message});
}

class Planner {
 public:
  static Result<std::unique_ptr<Planner>> make(const std::string& folder) {
    const Target target = host_target();
    const Environment environment = test_environment();
    TW_TRY(Builders builders, start_builders(target, environment, build_timeout_s));
    return std::unique_ptr<Planner>(new Planner(folder, target, environment, std::move(builders)));
  }

  /// Returns "pass" or "wrong: why". If a stage fails, returns an error whose message begins with
  /// the name of the verdict, such as "unbuilt: ".
  Result<std::string> run(const std::string& name) {
    auto sets = graph::read_case(folder_ / name);
    if (!sets) return marked("unread", sets.error());
    for (const graph::OnnxCase& set : *sets) {
      TW_TRY(const dsl::Arrays results, results_of(set));
      const std::string why = difference(set, results);
      if (!why.empty()) return "wrong: " + why;
    }
    return std::string("pass");
  }

 private:
  Planner(std::filesystem::path folder, Target target, Environment environment, Builders builders)
      : folder_(std::move(folder)),
        target_(std::move(target)),
        environment_(std::move(environment)),
        builders_(std::move(builders)),
        predict_(PredictionCache::open("", "").remembering(predict_for(target_, 1, {}))) {}

  Result<dsl::Arrays> results_of(const graph::OnnxCase& set) {
    auto passed = graph::apply_passes(set.graph);
    if (!passed) return marked("unplanned", passed.error());
    auto tuned = planned(passed->graph);
    if (!tuned) return marked("unplanned", tuned.error());
    auto model = built(passed->graph, *tuned);
    if (!model) return marked("unbuilt", model.error());
    auto results = called(passed->graph, *model, set.inputs);
    if (!results) return marked("failed", results.error());
    return results;
  }

  Result<TunedNetwork> planned(const graph::Graph& graph) {
    NetworkOptions options;
    options.tuning.effort = Effort::None;
    options.plans = 1;
    NetworkServices services;
    services.predict = predict_;
    return tune_network(graph, target_, options, store_, environment_, {}, services);
  }

  Result<runtime::Model> built(const graph::Graph& graph, const TunedNetwork& tuned) {
    TW_RETURN_IF_ERROR(check_assemblable(graph, target_));
    TW_TRY(const Script script, make_script(graph, tuned.plans.front()));
    TW_RETURN_IF_ERROR(build_kernels(script.kernels, target_, environment_, builders_, kernels_));
    TW_TRY(BuiltModel built,
           build_model(graph, tuned, 0, {"case", target_}, environment_, kernels_));
    return runtime::Model::load(std::move(built.file));
  }

  static Result<dsl::Arrays> called(const graph::Graph& graph, const runtime::Model& model,
                                    const dsl::Arrays& inputs) {
    TW_TRY(ModelArrays arrays, random_arrays(model, 1));
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      arrays.arrays[i] = inputs.at(graph.inputs[i].name);
    runtime::ThreadPool pool(runtime::PoolOptions{.threads = 1});
    TW_RETURN_IF_ERROR(model.call(arrays.buffers(), pool));
    dsl::Arrays results;
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      results[graph.outputs[i]] = std::move(arrays.arrays[graph.inputs.size() + i]);
    return results;
  }

  std::filesystem::path folder_;
  Target target_;
  Environment environment_;
  Builders builders_;
  Predict predict_;
  Folder place_;
  db::Store store_ = open_store(place_ / "none.db");
  BuiltKernels kernels_;
};

std::string in_one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace
}  // namespace tw::tuner

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: onnx_plans FOLDER CASE...\n", stderr);
    return 2;
  }
  auto planner = tw::tuner::Planner::make(argv[1]);
  if (!planner) {
    std::fprintf(stderr, "%s\n", planner.error().message.c_str());
    return 1;
  }
  for (int i = 2; i < argc; ++i) {
    const tw::Result<std::string> verdict = (*planner)->run(argv[i]);
    const std::string text = verdict ? *verdict : verdict.error().message;
    std::printf("%s %s\n", argv[i], tw::tuner::in_one_line(text).c_str());
    std::fflush(stdout);
  }
  return 0;
}
