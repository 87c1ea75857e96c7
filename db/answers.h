// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lookups beyond the best record for a key (Store::best()): the evidence for an answer, answers of
// other devices, targets and layers. Like the Store, not thread-safe.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "db/trust.h"

namespace tw::db {

/// The answer for the key with its evidence: sessions, interval, and the records with a smaller
/// latency that are not used. It reads at most `limit` of these records; 0: all. nullopt if there
/// is no answer.
Result<std::optional<Explanation>> explain(Store& store, const Key& key, int64_t limit = 0);
/// The best record of each device whose model is not that of the key: at most `most` records of
/// this database, sorted by efficiency, then at most `most` of each layer.
Result<std::vector<Record>> best_elsewhere(Store& store, const Key& key, int64_t most,
                                           const Accept& accepts = {});
/// The targets for which the key has an answer, sorted by text. The target in `key` is ignored.
Result<std::vector<std::string>> targets_of(Store& store, const Key& key);
/// The best record of every group, sorted by hash.
Result<std::vector<Record>> best_records(Store& store);
/// Visits the matching records of the layers below this database, the nearest layer first, until
/// `visit` returns false. Store::for_each() visits only this database.
void for_each_below(Store& store, const Filter& filter,
                    const std::function<bool(const Record&)>& visit);
/// The name of the layer that has the record; empty if this database has the record, and if no
/// layer has it.
Result<std::string> layer_of(Store& store, const Record& record);

/// Options of distilled().
struct DistilRules {
  int64_t codegen_abi = 0;  ///< only records of this version of the code generator are returned
  int64_t keep = 2;         ///< best schedules to keep for each combination (distilled())
};

/// The records that are worth shipping with a program. For each combination of workload, target,
/// number of threads, layouts, device model and microarchitecture it returns the best `keep`
/// schedules, all as measured on one device: that whose best schedule has the highest efficiency.
/// Sorted by operator and workload. Databases with the same records give the same result.
Result<std::vector<Record>> distilled(Store& store, const DistilRules& rules);

}  // namespace tw::db
