// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers of a database beyond the best record of a key (Store::best()), and what they rest on. Not
// thread-safe, as the Store.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "db/trust.h"

namespace tw::db {

/// The answer to the key and what it rests on: sessions, interval, better-looking records that
/// are not used, of which it reads at most `limit`; 0: all.
Result<std::optional<Explanation>> explain(Store& store, const Key& key, int64_t limit = 0);
/// The best record of each device of another model than the key's, of every layer, at most `most`
/// of each, by efficiency.
Result<std::vector<Record>> best_elsewhere(Store& store, const Key& key, int64_t most,
                                           const Accept& accepts = {});
/// The targets that have an answer to the key, whose own target is ignored, sorted by text.
Result<std::vector<std::string>> targets_of(Store& store, const Key& key);
/// The best record of every group, by hash.
Result<std::vector<Record>> best_records(Store& store);
/// Visits the matching records of the layers below, the nearest layer first; Store::for_each() does
/// not.
void for_each_below(Store& store, const Filter& filter,
                    const std::function<bool(const Record&)>& visit);
/// The name of the layer that has the record; empty: this database, or none.
Result<std::string> layer_of(Store& store, const Record& record);

/// Options of distilled().
struct DistilRules {
  int64_t codegen_abi = 0;  ///< records of other code generators are left out
  int64_t keep = 2;         ///< best schedules to keep for each combination (distilled())
};

/// The records that are worth shipping with a program: the best schedules for each combination of
/// workload, target, number of threads, layouts, device model and microarchitecture, all from one
/// device: the one whose best schedule has the highest efficiency. Sorted by operator and
/// workload; equal for all databases with the same records.
Result<std::vector<Record>> distilled(Store& store, const DistilRules& rules);

}  // namespace tw::db
