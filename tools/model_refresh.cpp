// SPDX-License-Identifier: Apache-2.0
#include "tools/model_refresh.h"

#include <filesystem>

namespace tw::tools {

Result<std::optional<runtime::ModelFile>> former_model(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<runtime::ModelFile>();
  TW_TRY(runtime::ModelFile model, runtime::read_model(path));
  return std::optional(std::move(model));
}

void decide(Refresh& refresh) {
  refresh.is_kept = refresh.latency_ns > (1 - least_refresh_gain) * refresh.former_ns;
}

runtime::ModelFile only_variant(const runtime::ModelFile& model, size_t variant) {
  runtime::ModelFile only = model;
  only.variants = {model.variants[variant]};
  return only;
}

double planned_ns(const runtime::ModelFile& model) {
  double sum = 0;
  for (const runtime::ModelVariant& variant : model.variants)
    for (const runtime::ModelStep& step : variant.steps) sum += step.predicted_ns;
  return sum;
}

}  // namespace tw::tools
