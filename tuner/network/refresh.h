// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides if a refreshed network replaces the network in its file. A refresh plans a network again,
// without tuning, from the records that the database has at that time. The new network replaces the
// old one only if it is faster. Private to tune_model(). Not thread-safe.

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tuner/network/model_context.h"
#include "tuner/network/tune_model.h"

namespace tw::tuner {

/// The share of the old time by which a new network has to be faster than the network in the file
/// in order to replace it. The medians of two races of the same network differ by less.
inline constexpr double least_refresh_gain = 0.01;

/// Sets refresh.is_kept to false if the new network is faster by at least least_refresh_gain, and
/// to true otherwise.
void decide(Refresh& refresh);

/// Returns a copy of the model that has only the variant with this index.
runtime::ModelFile only_variant(const runtime::ModelFile& model, size_t variant);

/// Reads the model in the file; nullopt if there is no file. Fails with the errors of
/// runtime::read_model().
Result<std::optional<runtime::ModelFile>> former_model(const std::string& path);

/// Returns the sum of the planned times of all steps of all variants, in ns.
double planned_ns(const runtime::ModelFile& model);

/// Checks that the former network can be compared with the new one. Fails with Invalid if the
/// former network is for another target or another number of threads.
Status check_comparable(const runtime::ModelFile& former, const ModelContext& context);

/// Times each variant of tuned.file and the same variant of tuned.former by turns. If the kernels
/// cannot run on this machine, the sums of planned times are compared instead. The file is kept
/// even if the new network is faster in three cases, and Refresh::reason then says which: the
/// outputs of both networks differ, the user interrupts, or the new network is the same as the
/// former one. In the last case both times are those of the one network. Outputs are compared
/// because kernels that were only predicted were never verified. Fails with the errors of
/// load_all() and race(). Requires: tuned.former is set.
Result<Refresh> compare_with_former(const TunedModel& tuned, const ModelContext& context);

}  // namespace tw::tuner
