// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the reports of --search. bench/README.md explains the fields. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/search/curves.h"
#include "tuner/search/replay.h"

namespace tw::bench {

nlohmann::json as_json(const std::vector<SearchRow>& rows);
std::string as_table(const std::vector<SearchRow>& rows, bool color);

/// Results of replaying recordings with several guides. A guide is a way to choose the order of the
/// trials (tuner::Guide). `replayed` has one element for each guide, in the order of `guides`.
struct Replays {
  std::vector<tuner::Recording> recordings;
  std::vector<uint64_t> seeds;
  std::vector<tuner::Guide> guides;
  std::vector<tuner::Replayed> replayed;
};
/// Number of trials that are replayed of each recording.
inline constexpr int64_t replayed_trials = 64;

nlohmann::json as_json(const Replays& replays);
std::string as_table(const Replays& replays, bool color);

}  // namespace tw::bench
