// SPDX-License-Identifier: Apache-2.0
#include "bench/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "bench/observed.h"
#include "bench/peers/contender.h"
#include "bench/report.h"
#include "runtime/model.h"
#include "runtime/thread_pool.h"
#include "tools/reports/report.h"
#include "tuner/network/race.h"

namespace tw::bench {
namespace {

// Shortest time of a batch in ns. It is long enough for the resolution of the clock, and about as
// long as the operating system lets a process run before it gives the core to another process.
constexpr int64_t min_batch_ns = 4'000'000;

/// A whole network as a contender.
class ModelContender final : public Contender {
 public:
  ModelContender(runtime::Model model, tuner::ModelArrays& arrays, runtime::ThreadPool& pool)
      : model_(std::move(model)), arrays_(arrays), buffers_(arrays.buffers()), pool_(pool) {}

  Status run(int64_t) override { return model_.call(buffers_, pool_); }
  Result<dsl::Arrays> outputs() override {
    dsl::Arrays outputs;
    for (size_t i = 0; i < arrays_.arrays.size(); ++i)
      if (model_.arguments()[i].is_output)
        outputs.emplace(model_.arguments()[i].name, arrays_.arrays[i]);
    return outputs;
  }
  std::string description() const override { return model_.info().name; }

 private:
  runtime::Model model_;
  tuner::ModelArrays& arrays_;
  std::vector<runtime::Buffer> buffers_;
  runtime::ThreadPool& pool_;
};

/// Returns the largest difference between outputs and expected outputs. Each is relative to the
/// largest expected value of the output. Infinite if an output has a value that is not finite.
double difference(const dsl::Arrays& outputs, const dsl::Arrays& expected) {
  double worst = 0;
  for (const auto& [name, array] : expected) {
    double apart = 0, largest = 0;
    for (int64_t i = 0; i < array.size(); ++i) {
      const double got = outputs.at(name).get_float(i), wanted = array.get_float(i);
      if (!std::isfinite(got) || !std::isfinite(wanted))
        return std::numeric_limits<double>::infinity();
      apart = std::max(apart, std::abs(got - wanted));
      largest = std::max(largest, std::abs(wanted));
    }
    if (apart > 0) worst = std::max(worst, apart / largest);
  }
  return worst;
}

class AblationRun {
 public:
  AblationRun(const graph::Graph& graph, const Target& target, const AblationOptions& options,
              db::Store& store, const tuner::Environment& environment)
      : graph_(graph),
        target_(target),
        options_(options),
        store_(store),
        environment_(environment),
        pool_({.threads = options.tuning.threads}) {}

  Result<Ablation> run(const std::string& name, const tuner::OnProgress& on_progress) {
    ablation_.network = name;
    ablation_.threads = options_.tuning.threads;
    TW_RETURN_IF_ERROR(tune(on_progress));
    for (size_t i = 0; i < ablation_choices.size(); ++i) {
      ablation_.rows.emplace_back().choice = ablation_choices[i];
      if (const Status added = add_model(tuned_.choices[i], ablation_.rows.back()); !added) {
        if (interrupted()) return tl::unexpected(added.error());
        ablation_.rows.back().error = added.error().message;
      }
    }
    TW_RETURN_IF_ERROR(time());
    return std::move(ablation_);
  }

 private:
  bool interrupted() const { return environment_.interrupted(); }
  Status check_interrupt() const {
    if (!interrupted()) return {};
    return fail(ErrorCode::Interrupted, "[bench] interrupted; what was measured is stored");
  }

  Status tune(const tuner::OnProgress& on_progress) {
    tuner::NetworkOptions options;
    options.tuning = options_.tuning;
    options.plans = 1;
    options.choices = {ablation_choices.begin(), ablation_choices.end()};
    TW_TRY(tuned_,
           tuner::tune_network(graph_, target_, options, store_, environment_, on_progress));
    ablation_.operators = graph_.operators.size();
    ablation_.schemes = tuned_.kernels;
    ablation_.measured_schemes = tuned_.measured;
    ablation_.tuning = tuned_.rounds;
    return check_interrupt();
  }

  /// Builds the model of a row and compares its outputs with those of the first model.
  Status add_model(const Result<tuner::PlannedNetwork>& planned, AblationRow& row) {
    TW_RETURN_IF_ERROR(planned);
    TW_TRY(tuner::BuiltModel built,
           tuner::build_model(graph_, tuned_, *planned,
                              {ablation_.network, target_, options_.tuning.threads}, environment_,
                              kernels_));
    TW_RETURN_IF_ERROR(check_interrupt());
    if (built.unverified > 0)
      return fail(ErrorCode::NoCandidate,
                  fmt::format("{} not measured within the budget: give more time (--budget)",
                              counted(static_cast<int64_t>(built.unverified), "kernel")));
    const graph::Plan& plan = planned->plan;
    for (const graph::Transform& transform : plan.transforms)
      row.transforms_ns += transform.cost_ns;
    row.transforms = plan.transforms.size();
    row.kernels_ns = plan.predicted_ns - row.transforms_ns;
    TW_TRY(runtime::Model model, runtime::Model::load(std::move(built.file)));
    if (arrays_.arrays.empty()) {
      TW_TRY(arrays_, tuner::random_arrays(model, options_.seed));
    }
    models_.push_back(std::make_unique<ModelContender>(std::move(model), arrays_, pool_));
    const Status agrees = check_outputs(row);
    if (!agrees) models_.pop_back();
    return agrees;
  }

  Status check_outputs(AblationRow& row) {
    TW_RETURN_IF_ERROR(models_.back()->run(0));
    TW_TRY(dsl::Arrays outputs, models_.back()->outputs());
    if (expected_.empty()) expected_ = outputs;
    row.apart = difference(outputs, expected_);
    if (row.apart <= options_.tolerance) return {};
    return fail(ErrorCode::Invalid,
                fmt::format("outputs differ by {:.1e} of the largest from those of the first row",
                            row.apart));
  }

  Status time() {
    std::vector<Contender*> contenders;
    for (const auto& model : models_) contenders.push_back(model.get());
    if (contenders.empty()) return {};
    Laps laps;
    TW_TRY(const Observed observed,
           observe(options_.tuning.threads, environment_.clock, [&](tuner::Watch& watch) -> Status {
             Rounds rounds = rounds_for(options_.rounds, options_.tuning.threads);
             rounds.min_batch_ns = min_batch_ns;
             rounds.watch = &watch;
             TW_TRY(laps, interleave_all(contenders, rounds, environment_.clock));
             return {};
           }));
    ablation_.disturbed = laps.rounds > 0 ? observed.disturbed : laps.disturbance;
    take_laps(laps, ablation_);
    return {};
  }

  const graph::Graph& graph_;
  const Target& target_;
  const AblationOptions& options_;
  db::Store& store_;
  const tuner::Environment& environment_;
  runtime::ThreadPool pool_;
  tuner::TunedNetwork tuned_;
  /// Shared by all models, because the addresses of pages influence the times.
  tuner::ModelArrays arrays_;
  dsl::Arrays expected_;  ///< outputs of the first row
  tuner::BuiltKernels kernels_;
  std::vector<std::unique_ptr<ModelContender>> models_;  ///< one for each row without an error
  Ablation ablation_;
};

/// Returns the speed of `faster` divided by that of `slower`: the median over the rounds of the
/// ratio of their times.
Median speed_over(const std::vector<double>& slower, const std::vector<double>& faster) {
  std::vector<double> ratios;
  for (size_t i = 0; i < slower.size(); ++i) ratios.push_back(slower[i] / faster[i]);
  return median_of(std::move(ratios));
}

/// Returns the title of a row. Rows that are in the paper's table have the paper's titles.
std::string_view title_of(graph::Choice choice) {
  switch (choice) {
    case graph::Choice::RowMajor:
      return "row-major kernels";
    case graph::Choice::Blocked:
      return "blocked kernels";
    case graph::Choice::Uniform:
      return "transforms eliminated";
    case graph::Choice::LocalBest:
      return "local best";
    case graph::Choice::Global:
      return "global search";
  }
  return "";
}

nlohmann::json as_json(const AblationRow& row) {
  nlohmann::json json = {{"name", graph::to_string(row.choice)}};
  if (!row.error.empty()) {
    json["error"] = row.error;
    return json;
  }
  json.update({{"measured_us", us(row.call_ns.value)},
               {"measured_low_us", us(row.call_ns.low)},
               {"measured_high_us", us(row.call_ns.high)},
               {"speed", row.speed.value},
               {"speed_low", row.speed.low},
               {"speed_high", row.speed.high},
               {"predicted_us", us(row.predicted_ns())},
               {"transforms", row.transforms},
               {"transforms_us", us(row.transforms_ns)},
               {"difference", row.apart}});
  return json;
}

nlohmann::json as_json(const Ablation& ablation) {
  nlohmann::json rows = nlohmann::json::array(), tuning = nlohmann::json::array();
  for (const AblationRow& row : ablation.rows) rows.push_back(as_json(row));
  for (const tuner::NetworkRound& round : ablation.tuning)
    tuning.push_back(
        {{"kernels", round.tasks}, {"contenders", round.contenders}, {"seconds", round.seconds}});
  nlohmann::json json = {{"network", ablation.network},
                         {"threads", ablation.threads},
                         {"operators", ablation.operators},
                         {"schemes", ablation.schemes},
                         {"measured_schemes", ablation.measured_schemes},
                         {"rounds", ablation.rounds},
                         {"disturbed", ablation.disturbed},
                         {"tuning", tuning},
                         {"rows", rows}};
  const auto add = [&](const char* name, const Median& ratio) {
    if (ratio.value > 0)
      json[name] = {{"ratio", ratio.value}, {"low", ratio.low}, {"high", ratio.high}};
  };
  add("global_to_uniform", ablation.global_to_uniform);
  add("global_to_local_best", ablation.global_to_local_best);
  return json;
}

/// Returns the line about the speed of the global plan relative to another plan; empty if this
/// speed is unknown.
std::string global_line(const Median& ratio, graph::Choice other) {
  if (ratio.value <= 0) return "";
  return fmt::format("global search is {:.3f} ({:.3f}-{:.3f}) times as fast as {}\n", ratio.value,
                     ratio.low, ratio.high, title_of(other));
}

std::vector<std::string> cells_of(const AblationRow& row) {
  if (!row.error.empty())
    return {std::string(title_of(row.choice)), "not timed", "", "", "", "", "", ""};
  const auto ms = [](double ns) { return fmt::format("{:.3f}", ns / 1e6); };
  return {std::string(title_of(row.choice)),
          ms(row.call_ns.value),
          ms(row.call_ns.low) + "-" + ms(row.call_ns.high),
          fmt::format("{:.3f}", row.speed.value),
          ms(row.predicted_ns()),
          std::to_string(row.transforms),
          ms(row.transforms_ns),
          fmt::format("{:.0e}", row.apart)};
}

std::string table_of(const Ablation& ablation) {
  tools::Table table;
  table.header = {"plan",         "ms",         "interval",    "speed",
                  "predicted ms", "transforms", "ms of these", "difference"};
  std::string errors;
  for (const AblationRow& row : ablation.rows) {
    table.rows.push_back(cells_of(row));
    if (!row.error.empty()) errors += fmt::format("{}: {}\n", title_of(row.choice), row.error);
  }
  std::string text =
      fmt::format("{}, {}, {}\n", ablation.network, counted(ablation.threads, "thread"),
                  counted(ablation.rounds, "round"));
  text += tools::as_text(table) + errors;
  text += global_line(ablation.global_to_uniform, graph::Choice::Uniform);
  text += global_line(ablation.global_to_local_best, graph::Choice::LocalBest);
  if (!ablation.disturbed.empty()) text += disturbed_line("the timing", ablation.disturbed);
  return text;
}

}  // namespace

Result<Ablation> measure_ablation(const std::string& name, const graph::Graph& graph,
                                  const Target& target, const AblationOptions& options,
                                  db::Store& store, const tuner::Environment& environment,
                                  const tuner::OnProgress& on_progress) {
  return AblationRun(graph, target, options, store, environment).run(name, on_progress);
}

void take_laps(const Laps& laps, Ablation& ablation) {
  ablation.rounds = laps.rounds;
  size_t model = 0;
  std::map<graph::Choice, const std::vector<double>*> timed;
  for (AblationRow& row : ablation.rows) {
    if (!row.error.empty()) continue;
    const std::vector<double>& ns = laps.ns[model++];
    row.call_ns = median_of(ns);
    row.speed = speed_over(laps.ns.front(), ns);
    timed[row.choice] = &ns;
  }
  if (!timed.contains(graph::Choice::Global)) return;
  const std::vector<double>& global = *timed.at(graph::Choice::Global);
  if (timed.contains(graph::Choice::Uniform))
    ablation.global_to_uniform = speed_over(*timed.at(graph::Choice::Uniform), global);
  if (timed.contains(graph::Choice::LocalBest))
    ablation.global_to_local_best = speed_over(*timed.at(graph::Choice::LocalBest), global);
}

nlohmann::json as_json(const std::vector<Ablation>& ablations) {
  nlohmann::json json = {{"schema_version", results_schema_version},
                         {"suite", "ablation"},
                         {"networks", nlohmann::json::array()}};
  for (const Ablation& ablation : ablations) json["networks"].push_back(as_json(ablation));
  return json;
}

std::string as_table(const std::vector<Ablation>& ablations) {
  std::string text;
  for (const Ablation& ablation : ablations) {
    if (!text.empty()) text += "\n";
    text += table_of(ablation);
  }
  return text;
}

}  // namespace tw::bench
