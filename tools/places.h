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
  std::string database, cache;  ///< empty: the default paths (Surroundings::places)
  /// The team's layer: a database or a published layer (NAME.layer.json); empty: none.
  std::string team;
  std::string team_key;  ///< public key of a published layer, or a file that has this key
  /// Path of the layer below the team's; empty: the one in Surroundings; "none": no layer.
  std::string shipped;
  std::string code_generator;
  bool no_sandbox = false;  ///< workers run without limits
};
/// Returns the flags of verbs that start workers.
std::vector<Flag> worker_flags(PlaceFlags& flags);
/// Returns a fact to print with a result: that the workers ran without limits (--no-sandbox). The
/// list is empty if they ran with limits.
std::vector<std::pair<std::string, std::string>> sandbox_facts(const PlaceFlags& flags);
Flag database_flag(PlaceFlags& flags);
std::vector<Flag> flags_of(PlaceFlags& flags);

std::string database_path(const PlaceFlags& flags, const Surroundings& here);
/// True if the database is on a server, or its file exists or cannot be examined.
bool is_database_there(const PlaceFlags& flags, const Surroundings& here);
/// Prints a note to standard error if --db names a file that does not exist, because the name may
/// have been mistyped. Without the note, a record found in a layer would hide the mistake.
void note_if_missing(const PlaceFlags& flags, const Surroundings& here);
/// Returns database_path() as a text for reports. An address that contains a password or is
/// malformed is shown as "postgresql://..." (db::shown_database()).
std::string shown_database(const PlaceFlags& flags, const Surroundings& here);
/// Opens the database without layers. If HOME is not set, default paths lie in a temporary
/// directory. A note on standard error says so if the database lies there, or if it is on a server:
/// the files of records that wait for the server are kept beside the default database.
Result<db::Store> open_database(const PlaceFlags& flags, const Surroundings& here,
                                db::OpenMode mode);
/// Opens the database as open_database() does, and below it the layers that the flags name. The
/// database file may be missing if `mode` is ReadOnly and there is a layer.
Result<db::Store> open_layered(const PlaceFlags& flags, const Surroundings& here,
                               db::OpenMode mode);
/// Returns options for a store that answers one request. The store waits for other processes at
/// most `most_waiting_ms` and prints nothing to standard error.
db::StoreOptions request_options(const Surroundings& here, int64_t most_waiting_ms);
/// Opens the database and its layers for reading. Returns nullopt if there is neither a database
/// file nor a layer. Fails if the file is damaged or is not a tuning database, or if the server has
/// no tables.
Result<std::optional<db::Store>> open_if_there(const PlaceFlags& flags, const Surroundings& here);

/// Returns the environment for tune(), build_schedule() and measure_schedule(). `device` is
/// ChosenTarget::device, the index of a GPU among those of its driver.
tuner::Environment tuning_environment(const PlaceFlags& flags, const Surroundings& here,
                                      int device = 0);

/// Creates the cache directory if it is missing. Fails with Environment if kernels cannot be stored
/// there, and with Invalid if the directory belongs to another user or others may write to it. Call
/// it before a long run, so that the run does not fail at its end.
Status check_cache(const PlaceFlags& flags, const Surroundings& here);
/// Creates a directory of the cache that only the user can access. The message of an error suggests
/// --cache.
Status make_cache_directory(const std::string& path);
/// Returns the path of the cache directory.
std::string cache_directory(const PlaceFlags& flags, const Surroundings& here);

}  // namespace tw::tools
