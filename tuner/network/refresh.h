// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides if a network that was planned again replaces the network in its file. It does so only if
// it is faster. Private to tune_model(). Not thread-safe.

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tuner/network/model_context.h"
#include "tuner/network/tune_model.h"

namespace tw::tuner {

/// The share by which a new network has to be faster than the one in the file in order to replace
/// it. Medians of two runs of the same network differ by less.
inline constexpr double least_refresh_gain = 0.01;

/// Sets `is_kept` by comparing the two times.
void decide(Refresh& refresh);

/// A model that has only this variant of the given model.
runtime::ModelFile only_variant(const runtime::ModelFile& model, size_t variant);

/// The model in the file; nullopt if there is no file. Errors as runtime::read_model().
Result<std::optional<runtime::ModelFile>> former_model(const std::string& path);

/// The sum of the planned times of all steps of all variants, in ns.
double planned_ns(const runtime::ModelFile& model);

/// True if the file holds these variants. They are compared by the texts of their graphs, which
/// name constants by their hashes.
bool holds(const runtime::ModelFile& file, const std::vector<ModelRun>& runs);

/// Invalid if the former network is for another target or another number of threads.
Status check_comparable(const runtime::ModelFile& former, const ModelContext& context);

/// Times each variant of tuned.file beside the same variant of tuned.former. The outputs of both
/// must agree, because kernels that were only predicted were never verified. If the kernels cannot
/// run here, the planned times are compared.
Result<Refresh> compare_with_former(const TunedModel& tuned, const ModelContext& context);

}  // namespace tw::tuner
