// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places of a run: its database with the layers below it, the directory of compiled kernels, and
// the programs that build and measure. Not thread-safe.

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
  std::string database, cache;  ///< empty: those of the surroundings
  std::string team;             ///< a database below, or a published layer; empty: none
  std::string team_key;         ///< public key of a published layer, or a file that holds it
  std::string shipped;          ///< the one below that; empty: that of the surroundings
  std::string code_generator;
  bool no_sandbox = false;  ///< workers run without limits
};
Flag no_sandbox_flag(PlaceFlags& flags);
/// The row that names --no-sandbox in a result; no row where workers had their limits.
std::vector<std::pair<std::string, std::string>> sandbox_facts(const PlaceFlags& flags);
Flag database_flag(PlaceFlags& flags);
std::vector<Flag> flags_of(PlaceFlags& flags);

std::string database_path(const PlaceFlags& flags, const Surroundings& here);
/// The same for reports: an address with a password is shown without it.
std::string shown_database(const PlaceFlags& flags, const Surroundings& here);
/// Says on standard error what a person should know about a default path.
Result<db::Store> open_database(const PlaceFlags& flags, const Surroundings& here,
                                db::OpenMode mode);
/// open_database() above the layers of the flags. For reading, the database file may be missing if
/// there is a layer.
Result<db::Store> open_layered(const PlaceFlags& flags, const Surroundings& here,
                               db::OpenMode mode);
/// Options for stores that answer one request each: they wait for another process only so long, and
/// say nothing on standard error.
db::StoreOptions request_options(const Surroundings& here, int64_t most_waiting_ms);
/// Opens the database and its layers for reading. nullopt if there is neither a database file nor a
/// layer. Damaged or foreign files, and servers without tables, are errors.
Result<std::optional<db::Store>> open_if_there(const PlaceFlags& flags, const Surroundings& here);

/// The environment for tune(), build_schedule() and measure_schedule(). `device` is the index of
/// the chosen target's device.
tuner::Environment tuning_environment(const PlaceFlags& flags, const Surroundings& here,
                                      int device = 0);

/// Creates the cache directory if it is missing. Environment if kernels cannot be stored in it.
/// Call it before the work, so that the error does not come after it.
Status check_cache(const PlaceFlags& flags, const Surroundings& here);
/// Path of the cache directory.
std::string cache_directory(const PlaceFlags& flags, const Surroundings& here);

}  // namespace tw::tools
