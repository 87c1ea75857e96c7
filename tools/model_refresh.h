// SPDX-License-Identifier: Apache-2.0
#pragma once
// `tune --model --refresh`: a network that was planned again takes the place of the one in its file
// only where it is faster. Values and free functions; not thread-safe.

#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/model_file.h"

namespace tw::tools {

/// The comparison of a network that was planned again with the one that its file holds.
struct Refresh {
  double former_ns = 0;      ///< of a call of the network in the file
  double latency_ns = 0;     ///< of a call of the new one
  bool is_measured = false;  ///< both were timed as wholes, by turns; else they are plans' times
  bool is_kept = false;      ///< the file stays as it is
  std::string reason = {};   ///< why the file is kept; empty: the times say it
};

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

}  // namespace tw::tools
