// SPDX-License-Identifier: Apache-2.0
#include "tools/places.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "db/server_address.h"
#include "tools/flags/quote.h"
#include "tools/interrupts.h"
#include "tools/reports/report.h"
#include "tools/team_layer.h"

namespace tw::tools {

Flag database_flag(PlaceFlags& flags) {
  return {"db", Path{&flags.database},
          "tuning database, a file or postgresql://USER@HOST/DATABASE; default: "
          "~/.local/share/tilewright/tilewright.db"};
}

std::vector<Flag> worker_flags(PlaceFlags& flags) {
  return {{"code-generator", Path{&flags.code_generator}, "directory of libtw_halide.so"},
          {"no-sandbox", Switch{&flags.no_sandbox},
           "run workers without limits, where a driver does not work within them: candidates may "
           "then do what this user may"}};
}

std::vector<std::pair<std::string, std::string>> sandbox_facts(const PlaceFlags& flags) {
  if (!flags.no_sandbox) return {};
  return {{"sandbox", "off, by --no-sandbox: the workers had no limits"}};
}

std::vector<Flag> flags_of(PlaceFlags& flags) {
  std::vector<Flag> all = {
      database_flag(flags),
      {"team", Path{&flags.team},
       "a database below --db, which is only read; a file or an address, also of a published "
       "layer (NAME.layer.json)"},
      {"team-key", Path{&flags.team_key},
       "public key by which a published layer is signed, or a file that holds it"},
      {"shipped", Path{&flags.shipped},
       "the database below both; none: without; default: the one that came with the program"},
      {"cache", Path{&flags.cache}, "directory of compiled kernels; default: ~/.cache/tilewright"}};
  for (Flag& flag : worker_flags(flags)) all.push_back(std::move(flag));
  return all;
}

std::string database_path(const PlaceFlags& flags, const Surroundings& here) {
  return flags.database.empty() ? here.places.database : flags.database;
}

std::string shown_database(const PlaceFlags& flags, const Surroundings& here) {
  return db::shown_database(database_path(flags, here));
}

std::string cache_directory(const PlaceFlags& flags, const Surroundings& here) {
  return flags.cache.empty() ? here.places.cache : flags.cache;
}

namespace {

/// Returns a clock in ms, by which waits for a locked database measure their limit. After an
/// interrupt, the clock jumps ahead by the limit of a wait and then runs 200 times as fast. So the
/// present wait ends at once, and later waits last at most limit_ms / 200.
std::function<int64_t()> impatient_clock_ms(const Surroundings& here, int64_t limit_ms) {
  return [clock = here.environment.clock, limit_ms, since_ms = std::optional<int64_t>()]() mutable {
    const int64_t now_ms = clock() / 1'000'000;
    if (interrupts_so_far().load() == 0) return now_ms;
    if (!since_ms) since_ms = now_ms;
    return *since_ms + limit_ms + 200 * (now_ms - *since_ms);
  };
}

db::StoreOptions store_options(const Surroundings& here) {
  db::StoreOptions options;
  options.waiting.on_message = [](std::string_view text) { note(text); };
  options.waiting.now_ms = impatient_clock_ms(here, options.waiting.limit_ms);
  options.spool_directory = std::filesystem::path(here.places.database).parent_path();
  return options;
}

Result<std::vector<db::Layer>> layers_of(const PlaceFlags& flags, const Surroundings& here) {
  const std::string home = std::filesystem::path(here.places.database).parent_path();
  return layers_below({flags.team, flags.team_key, home + "/layers"},
                      flags.shipped.empty() ? here.places.shipped : flags.shipped,
                      store_options(here).waiting);
}

bool is_there(const std::string& path) {
  std::error_code error;
  return db::is_server(path) || std::filesystem::exists(path, error) || error;
}

Result<db::Store> open_above(const PlaceFlags& flags, const Surroundings& here, db::OpenMode mode,
                             std::vector<db::Layer> layers) {
  const std::string path = database_path(flags, here);
  db::StoreOptions options = store_options(here);
  options.below = std::move(layers);
  if (mode == db::OpenMode::ReadOnly && !options.below.empty() && !is_there(path))
    return db::Store::open_absent(path, std::move(options));
  if ((flags.database.empty() || db::is_server(path)) && !here.places.fallback.empty()) {
    note(here.places.fallback);
    TW_RETURN_IF_ERROR(tuner::make_private_directory(
        std::filesystem::path(here.places.database).parent_path(), "name a database with --db"));
  }
  options.create_directories = flags.database.empty();  // a path of --db may have a typo
  return db::Store::open(path, mode, std::move(options));
}

}  // namespace

bool is_database_there(const PlaceFlags& flags, const Surroundings& here) {
  return is_there(database_path(flags, here));
}

void note_if_missing(const PlaceFlags& flags, const Surroundings& here) {
  if (flags.database.empty() || is_database_there(flags, here)) return;
  note(fmt::format("{} does not exist, so it has no records", shell_quoted(flags.database)));
}

db::StoreOptions request_options(const Surroundings& here, int64_t most_waiting_ms) {
  db::StoreOptions options;
  options.waiting.limit_ms = most_waiting_ms;
  options.waiting.now_ms = impatient_clock_ms(here, most_waiting_ms);
  return options;
}

Result<db::Store> open_database(const PlaceFlags& flags, const Surroundings& here,
                                db::OpenMode mode) {
  return open_above(flags, here, mode, {});
}

Result<db::Store> open_layered(const PlaceFlags& flags, const Surroundings& here,
                               db::OpenMode mode) {
  TW_TRY(std::vector<db::Layer> layers, layers_of(flags, here));
  return open_above(flags, here, mode, std::move(layers));
}

Result<std::optional<db::Store>> open_if_there(const PlaceFlags& flags, const Surroundings& here) {
  TW_TRY(std::vector<db::Layer> layers, layers_of(flags, here));
  if (layers.empty() && !is_database_there(flags, here)) return std::optional<db::Store>();
  TW_TRY(db::Store store, open_above(flags, here, db::OpenMode::ReadOnly, std::move(layers)));
  return std::optional<db::Store>(std::move(store));
}

tuner::Environment tuning_environment(const PlaceFlags& flags, const Surroundings& here,
                                      int device) {
  tuner::Environment environment = here.environment;
  environment.device = device;
  environment.code_generator = flags.code_generator;
  environment.sandbox = !flags.no_sandbox;
  return environment;
}

Status make_cache_directory(const std::string& path) {
  return tuner::make_private_directory(path, "name another with --cache");
}

Status check_cache(const PlaceFlags& flags, const Surroundings& here) {
  if (flags.cache.empty() && !here.places.fallback.empty())
    TW_RETURN_IF_ERROR(
        make_cache_directory(std::filesystem::path(here.places.cache).parent_path()));
  const std::string directory = cache_directory(flags, here);
  TW_RETURN_IF_ERROR(make_cache_directory(directory));
  if (::access(directory.c_str(), W_OK) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[cache] kernels cannot be kept in {} ({}): name another with --cache",
                          shell_quoted(directory), std::strerror(errno)));
}

}  // namespace tw::tools
