// SPDX-License-Identifier: Apache-2.0
#pragma once
// A network that was planned again takes the place of the one in its file only where it is faster.
// Private to tune_model(). Not thread-safe.

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tuner/network/model_context.h"
#include "tuner/network/tune_model.h"

namespace tw::tuner {

/// The share by which a network has to be faster than the one in the file to take its place.
/// Medians of two runs of one network differ by less.
inline constexpr double least_refresh_gain = 0.01;

/// Sets is_kept by the times.
void decide(Refresh& refresh);

/// A variant of a model as a model of its own.
runtime::ModelFile only_variant(const runtime::ModelFile& model, size_t variant);

/// The network in the file; nullopt where there is no file. Errors as runtime::read_model().
Result<std::optional<runtime::ModelFile>> former_model(const std::string& path);

/// The sum of the times that the plans of all variants give their steps, in ns.
double planned_ns(const runtime::ModelFile& model);

/// True if the file holds these variants. The text of a graph names its constants by their hashes.
bool holds(const runtime::ModelFile& file, const std::vector<ModelRun>& runs);

/// Invalid where the former network is for another number of threads or another target.
Status check_comparable(const runtime::ModelFile& former, const ModelContext& context);

/// Times each variant of tuned.file beside that of tuned.former, whose outputs have to agree:
/// kernels that were only predicted were never verified. Where the kernels do not run here the
/// times of the plans are compared.
Result<Refresh> compare_with_former(const TunedModel& tuned, const ModelContext& context);

}  // namespace tw::tuner
