// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides if a refreshed network replaces the network in its file. A refresh plans a network again
// from the records that are known by now, without tuning. The new network replaces the old one only
// if it is faster. Private to tune_model(). Not thread-safe.

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

/// Sets refresh.is_kept: false if the new network is faster by at least least_refresh_gain,
/// otherwise true.
void decide(Refresh& refresh);

/// A model that has only this variant of the given model.
runtime::ModelFile only_variant(const runtime::ModelFile& model, size_t variant);

/// Reads the model in the file; nullopt if there is no file. Errors as runtime::read_model().
Result<std::optional<runtime::ModelFile>> former_model(const std::string& path);

/// The sum of the planned times of all steps of all variants, in ns.
double planned_ns(const runtime::ModelFile& model);

/// Checks that the former network can be compared with the new one. Invalid if the former network
/// is for another target or another number of threads.
Status check_comparable(const runtime::ModelFile& former, const ModelContext& context);

/// Times each variant of tuned.file and the same variant of tuned.former by turns. If the kernels
/// cannot run on this machine, the planned times are compared instead. Even if the new network is
/// faster, the file is kept, with a reason, if the outputs of both networks differ or the user
/// interrupts. Outputs are compared because kernels that were only predicted were never verified.
/// If the new network is the same as the former one, the file is kept, with a reason, and both
/// times are those of the one network. Requires: tuned.former is set.
Result<Refresh> compare_with_former(const TunedModel& tuned, const ModelContext& context);

}  // namespace tw::tuner
