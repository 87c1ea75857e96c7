// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/refresh.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/text.h"
#include "tuner/network/difference.h"
#include "tuner/network/race.h"
#include "tuner/network/whole_networks.h"

namespace tw::tuner {
namespace {

// The largest difference between outputs of two networks at which they count as the same function,
// relative to the largest element of an output. Another order of rounding in f32 causes a far
// smaller difference, and a wrong kernel causes a far larger one.
constexpr double most_refresh_difference = 1e-2;

// Shortest time of a race in seconds. In less time a slow network would be called only once, and a
// single call would decide.
constexpr double least_race_s = 1;

/// Compares one variant of the networks: adds its times to `refresh`, and sets the reason if the
/// outputs differ. `networks` has the former network, and then the new network unless both are the
/// same.
Status compare_variant(const std::vector<const runtime::ModelFile*>& networks, size_t variant,
                       const ModelContext& context, runtime::ThreadPool& pool, Refresh& refresh) {
  std::vector<runtime::ModelFile> files;
  for (const runtime::ModelFile* network : networks)
    files.push_back(only_variant(*network, variant));
  TW_TRY(const PlacedModels placed, load_all(std::move(files), context));
  std::vector<std::vector<dsl::Array>> outputs;
  for (const runtime::Model& model : placed.models) {
    TW_TRY(outputs.emplace_back(), random_outputs(model, context.options.tuning.seed, pool));
  }
  if (largest_difference(outputs.front(), outputs.back()) > most_refresh_difference)
    refresh.reason = "the outputs of the new network differ";
  RaceOptions options = race_options(context);
  options.budget_s = std::max(options.budget_s, least_race_s);
  TW_TRY(const std::vector<double> times, race(placed.models, context.environment.clock, options));
  refresh.former_ns += times.front();
  refresh.latency_ns += times.back();
  return {};
}

}  // namespace

void decide(Refresh& refresh) {
  refresh.is_kept = refresh.latency_ns > (1 - least_refresh_gain) * refresh.former_ns;
}

runtime::ModelFile only_variant(const runtime::ModelFile& model, size_t variant) {
  runtime::ModelFile only = model;
  only.variants = {model.variants[variant]};
  return only;
}

Result<std::optional<runtime::ModelFile>> former_model(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<runtime::ModelFile>();
  TW_TRY(runtime::ModelFile model, runtime::read_model(path));
  return std::optional(std::move(model));
}

double planned_ns(const runtime::ModelFile& model) {
  double sum = 0;
  for (const runtime::ModelVariant& variant : model.variants)
    for (const runtime::ModelStep& step : variant.steps) sum += step.predicted_ns;
  return sum;
}

Status check_comparable(const runtime::ModelFile& former, const ModelContext& context) {
  const std::string& path = context.options.path;
  if (former.threads != context.threads())
    return fail(ErrorCode::Invalid, fmt::format("[refresh] '{}' is for {}: give --threads {}", path,
                                                counted(former.threads, "thread"), former.threads));
  if (former.target != context.target.to_string())
    return fail(ErrorCode::Invalid,
                fmt::format("[refresh] '{}' is for {}, not for {}: give --target, or name another "
                            "file by --output",
                            path, former.target, context.target.to_string()));
  return {};
}

Result<Refresh> compare_with_former(const TunedModel& tuned, const ModelContext& context) {
  Refresh refresh{planned_ns(*tuned.former), planned_ns(tuned.file)};
  const bool is_same = *tuned.former == tuned.file;
  if (context.options.runs_here) {
    refresh = {.is_measured = true};
    std::vector<const runtime::ModelFile*> networks = {&*tuned.former};
    if (!is_same) networks.push_back(&tuned.file);
    runtime::ThreadPool pool({.threads = context.threads()});
    for (size_t variant = 0; variant < tuned.runs.size(); ++variant) {
      if (context.environment.interrupted()) {
        refresh.reason = "interrupted";
        break;
      }
      TW_RETURN_IF_ERROR(compare_variant(networks, variant, context, pool, refresh));
    }
  }
  if (is_same) refresh.reason = "it is the same network";
  decide(refresh);
  refresh.is_kept = refresh.is_kept || !refresh.reason.empty();
  return refresh;
}

}  // namespace tw::tuner
