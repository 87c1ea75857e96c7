// SPDX-License-Identifier: Apache-2.0
// tilewright db serve: shows a database in a browser, without changing it.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "tools/flags/db_flags.h"
#include "tools/flags/quote.h"
#include "tools/flags/workload_flags.h"
#include "tools/interrupts.h"
#include "tools/outputs.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/web/access.h"
#include "tools/web/server.h"
#include "tools/web/site.h"

namespace tw::tools {
namespace {

// Limits of one request: the time for reading the database, and the time for waiting until other
// processes release it.
constexpr int64_t most_reading_ms = 5'000;
constexpr int64_t most_waiting_ms = 2'000;
constexpr size_t least_token_characters = 16;

struct ServeFlags {
  PlaceFlags place;
  std::string file;  ///< the operand FILE, a database; empty: that of --db
  std::string host = "127.0.0.1";
  int64_t port = 0;
  std::string token_file;
  std::vector<std::string> names;
};

constexpr std::string_view how_to_make =
    "(umask 077; openssl rand -hex 32 > token), then --token-file token";

bool is_token_character(char c) {
  return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z') ||
         std::string_view("-._~").find(c) != std::string_view::npos;
}

/// Reads the token from a file. A token has at least 16 characters: letters, digits and "-._~",
/// which need no escaping in an address. Fails with Usage for other text. Prints a note if users
/// other than the owner can read the file.
Result<std::string> read_token(const std::string& path) {
  TW_TRY(const std::string text, read_text(path, "serve", "a token"));
  const std::string token(trim(text));
  if (token.size() < least_token_characters || !std::ranges::all_of(token, is_token_character))
    return fail(ErrorCode::Usage,
                fmt::format("[serve] {}: a token of at least {} letters, digits and -._~ was "
                            "expected; make one: {}",
                            shell_quoted(path), least_token_characters, how_to_make));
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0)
    note(fmt::format("the token in {} can be read by others: chmod go-r it", shell_quoted(path)));
  return token;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string();
}

Result<web::AccessRules> rules_of(const ServeFlags& f) {
  web::AccessRules rules;
  if (!f.token_file.empty()) {
    TW_TRY(rules.token, read_token(f.token_file));
  }
  if (rules.token.empty() && !web::is_loopback(f.host))
    return fail(ErrorCode::Usage,
                fmt::format("[serve] --host {}: others could read the database, so a token is "
                            "needed; make one: {}",
                            shell_quoted(f.host), how_to_make));
  rules.names = f.names;
  rules.names.push_back(f.host);
  rules.names.push_back(host_name());
  return rules;
}

/// Returns a function that opens a store for one request.
web::OverviewCache::Open opener(const std::string& path, const Surroundings& here) {
  return [path, here] {
    db::StoreOptions options = request_options(here, most_waiting_ms);
    options.read_limit_ms = most_reading_ms;
    return db::Store::open(path, db::OpenMode::ReadOnly, std::move(options));
  };
}

std::string shown_address(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos && host.front() != '[';
  return is_v6 ? fmt::format("http://[{}]:{}/", host, port)
               : fmt::format("http://{}:{}/", host, port);
}

Status say_where(const ServeFlags& f, const web::AccessRules& rules, int port) {
  const std::string address = shown_address(f.host, port);
  TW_RETURN_IF_ERROR(print(address + "\n"));
  if (!rules.token.empty())
    note(fmt::format("open {}?token=TOKEN once, with the token of {}", address,
                     shell_quoted(f.token_file)));
  note("Ctrl-C ends it");
  return {};
}

web::SiteOptions site_of(const PlaceFlags& place, web::AccessRules rules,
                         const Surroundings& here) {
  Surroundings reader = here;
  reader.invoked_as = "tilewright";  // people who read the page find the program on their own PATH
  return {.open = opener(database_path(place, here), here),
          .rules = std::move(rules),
          .name = shown_database(place, here),
          .replay_line = [=](const std::string& hash) { return replay_line(place, reader, hash); },
          .clock_ns = here.environment.clock};
}

Result<int> serve(const ServeFlags& f, const Surroundings& here) {
  PlaceFlags place = f.place;
  if (!f.file.empty()) place.database = f.file;
  TW_TRY(web::AccessRules rules, rules_of(f));
  TW_RETURN_IF_ERROR(open_database(place, here, db::OpenMode::ReadOnly));
  TW_TRY(web::Server server, web::Server::listen(f.host, static_cast<int>(f.port)));
  rules.cookie = fmt::format("tilewright_{}", server.port());
  const std::atomic<int>& interrupts = watch_interrupts();
  TW_RETURN_IF_ERROR(say_where(f, rules, server.port()));
  web::Site site(site_of(place, std::move(rules), here));
  TW_RETURN_IF_ERROR(server.run([&](const web::Request& request) { return site.answer(request); },
                                stop_on_interrupt(&interrupts)));
  return static_cast<int>(ErrorCode::Interrupted);
}

}  // namespace

Verb db_serve_verb() {
  auto f = std::make_shared<ServeFlags>();
  return {.name = "serve",
          .summary = "a read-only web view of a database",
          .flags = {database_flag(f->place),
                    {"host", Text{&f->host},
                     "address to listen at; others than this machine's own "
                     "take a token"},
                    {"port", Whole{&f->port, 0, 65'535}, "0: a free one, which is printed"},
                    {"token-file", Path{&f->token_file}, "file with the token that readers need"},
                    {"name", Texts{&f->names},
                     "by which browsers may call the server besides its host name; may be "
                     "repeated"}},
          .operands = {{"FILE", Path{&f->file}, "database; default: that of --db", {}, false}},
          .run = [f](const Surroundings& here) { return serve(*f, here); }};
}

}  // namespace tw::tools
