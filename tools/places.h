// SPDX-License-Identifier: Apache-2.0
#pragma once
// The places that a run uses: its database with the layers below it, the cache directory of
// compiled kernels, and the programs that build and measure. Not thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "tools/surroundings.h"
#include "tools/verb.h"
#include "tuner/workers/environment.h"

namespace tw::tools {

struct PlaceFlags {
  std::string database, cache;  ///< empty: the default paths of the surroundings
  std::string team;             ///< the team's layer: a database or a published layer; empty: none
  std::string team_key;         ///< public key of a published layer, or a file that has this key
  std::string shipped;          ///< the layer below the team's; empty: that of the surroundings
  std::string code_generator;
  bool no_sandbox = false;  ///< workers run without limits
};
/// The flags of verbs that start workers.
std::vector<Flag> worker_flags(PlaceFlags& flags);
/// A fact, to be printed with a result, that says that --no-sandbox was given. The list is empty if
/// workers ran with their limits.
std::vector<std::pair<std::string, std::string>> sandbox_facts(const PlaceFlags& flags);
Flag database_flag(PlaceFlags& flags);
std::vector<Flag> flags_of(PlaceFlags& flags);

std::string database_path(const PlaceFlags& flags, const Surroundings& here);
/// Prints a note to standard error if --db names a file that does not exist. Commands that find
/// their record in a layer call this, because the name may have been mistyped.
void note_if_missing(const PlaceFlags& flags, const Surroundings& here);
/// database_path() as a text for reports. An address that holds a password or is malformed is cut
/// to "postgresql://..." (db::shown_database()).
std::string shown_database(const PlaceFlags& flags, const Surroundings& here);
/// Opens the database without layers. If the default path is used and lies in a temporary
/// directory, a note on standard error says why.
Result<db::Store> open_database(const PlaceFlags& flags, const Surroundings& here,
                                db::OpenMode mode);
/// Opens the database as open_database() does, and below it the layers that the flags name. If it
/// is opened for reading and there is a layer, the database file may be missing.
Result<db::Store> open_layered(const PlaceFlags& flags, const Surroundings& here,
                               db::OpenMode mode);
/// Options for a store that answers one request. It waits for other processes at most
/// `most_waiting_ms` and prints nothing to standard error.
db::StoreOptions request_options(const Surroundings& here, int64_t most_waiting_ms);
/// Opens the database and its layers for reading. nullopt if there is neither a database file nor a
/// layer. It is an error if the file is damaged or is not a tuning database, or if the server has
/// no tables.
Result<std::optional<db::Store>> open_if_there(const PlaceFlags& flags, const Surroundings& here);

/// The environment for tune(), build_schedule() and measure_schedule(). `device` is the index of
/// the chosen target's device.
tuner::Environment tuning_environment(const PlaceFlags& flags, const Surroundings& here,
                                      int device = 0);

/// Creates the cache directory if it is missing. Environment if kernels cannot be stored there.
/// Call it before a long run, so that the run does not fail at its end.
Status check_cache(const PlaceFlags& flags, const Surroundings& here);
/// Creates a directory of the cache, private to the user. The message of an error names --cache.
Status make_cache_directory(const std::string& path);
/// Path of the cache directory.
std::string cache_directory(const PlaceFlags& flags, const Surroundings& here);

}  // namespace tw::tools
