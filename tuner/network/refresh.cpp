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

// The largest difference between two networks that compute the same function, relative to the
// largest element of an output. Another order of rounding in f32 causes a far smaller difference,
// and a wrong kernel a far larger one.
constexpr double most_refresh_difference = 1e-2;

/// Times one variant, and adds the times to `refresh`.
Status compare_variant(const TunedModel& tuned, size_t variant, const ModelContext& context,
                       runtime::ThreadPool& pool, Refresh& refresh) {
  TW_TRY(
      const PlacedModels placed,
      load_all({only_variant(*tuned.former, variant), only_variant(tuned.file, variant)}, context));
  std::vector<std::vector<dsl::Array>> outputs;
  for (const runtime::Model& model : placed.models) {
    TW_TRY(outputs.emplace_back(), random_outputs(model, context.options.tuning.seed, pool));
  }
  if (largest_difference(outputs[0], outputs[1]) > most_refresh_difference)
    refresh.reason = "the outputs of the new network differ";
  TW_TRY(const std::vector<double> times,
         race(placed.models, context.environment.clock, race_options(context)));
  refresh.former_ns += times[0];
  refresh.latency_ns += times[1];
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
  if (context.options.runs_here) {
    refresh = {.is_measured = true};
    runtime::ThreadPool pool({.threads = context.threads()});
    for (size_t variant = 0; variant < tuned.runs.size(); ++variant) {
      if (context.environment.interrupted()) {
        refresh.reason = "interrupted";
        break;
      }
      TW_RETURN_IF_ERROR(compare_variant(tuned, variant, context, pool, refresh));
    }
  }
  decide(refresh);
  refresh.is_kept = refresh.is_kept || !refresh.reason.empty();
  return refresh;
}

}  // namespace tw::tuner
