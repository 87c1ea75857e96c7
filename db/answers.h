// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lookups in addition to Store::best(). The answer for a key is the record that Store::best()
// returns. These functions return the evidence for an answer, answers for other devices, the
// targets that have answers, and records of the layers. A layer is a read-only database below this
// one, such as that of a team. Like a Store, these functions are not thread-safe.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "db/trust.h"

namespace tw::db {

/// Returns the answer for the key with its evidence: the sessions that timed it, the interval of
/// its latency, and records with a smaller latency that are not used. At most `limit` of the unused
/// records are returned; 0: all. nullopt if there is no answer.
Result<std::optional<Explanation>> explain(Store& store, const Key& key, int64_t limit = 0);
/// Returns records of devices of other models than that of the key's device. For each such device
/// it returns the best record that `accepts` accepts. At most `most` records of this database come
/// first, the highest efficiency first. Then follow, for each layer, at most `most` records in the
/// same order.
Result<std::vector<Record>> best_elsewhere(Store& store, const Key& key, int64_t most,
                                           const Accept& accepts = {});
/// Returns the targets for which the key has an answer, sorted by text. Ignores `key.target`.
Result<std::vector<std::string>> targets_of(Store& store, const Key& key);
/// Returns the best record of every group of comparable trials, sorted by hash.
Result<std::vector<Record>> best_records(Store& store);
/// Visits the records that match the filter in the layers below this database, the nearest layer
/// first, until `visit` returns false. Store::for_each() visits only this database.
void for_each_below(Store& store, const Filter& filter,
                    const std::function<bool(const Record&)>& visit);
/// Returns the name of the nearest layer that has the record; empty if this database has the
/// record, or if neither this database nor a layer has it.
Result<std::string> layer_of(Store& store, const Record& record);

/// Options of distilled().
struct DistilRules {
  int64_t codegen_abi = 0;  ///< only records of this version of the code generator are returned
  int64_t keep = 2;  ///< number of schedules to return for each combination (see distilled())
};

/// Returns the records that are worth shipping with a program. A combination is a workload, target,
/// number of threads, layouts, device model and microarchitecture. For each combination, the
/// records of the best `keep` schedules of a single device are returned. If a combination has
/// several devices, the device whose best schedule has the highest efficiency is chosen. The
/// records are sorted by operator and workload. Databases with equal records give equal results.
Result<std::vector<Record>> distilled(Store& store, const DistilRules& rules);

}  // namespace tw::db
