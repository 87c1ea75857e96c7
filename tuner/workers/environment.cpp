// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/environment.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/hash.h"
#include "base/own_files.h"

namespace tw::tuner {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Returns the path in the environment variable `name`. If it is unset or relative, returns
/// `home`/`otherwise`, as the XDG specification says; empty if there is no home either.
std::string xdg_directory(const char* name, const std::string& home, const std::string& otherwise) {
  const std::string value = variable(name);
  if (!value.empty() && value[0] == '/') return value;
  return home.empty() ? "" : home + "/" + otherwise;
}

std::string this_program() { return own_files().program.value_or("tilewright").string(); }

std::string random_session() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
    bits = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) ^
           (static_cast<uint64_t>(getpid()) << 48);
  return fmt::format("{:016x}", bits);
}

std::string host_hash() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return short_hash(name);
}

}  // namespace

Environment default_environment() {
  Environment environment;
  environment.worker = {this_program(), "worker"};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string toolkit = variable(name); !toolkit.empty())
      environment.cuda_directories.push_back(toolkit + "/lib64");
  environment.clock = monotonic_clock();
  environment.now_ms = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return int64_t{std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
  };
  environment.host = host_hash();
  environment.session = random_session();
  environment.program_version = TW_VERSION;
  return environment;
}

std::string shipped_database(const std::string& program) {
  std::error_code error;
  const auto prefix = std::filesystem::path(program).parent_path().parent_path();
  const auto path = prefix / "share" / "tilewright" / "shipped.db";
  return std::filesystem::is_regular_file(path, error) ? path.string() : "";
}

Places default_places() {
  std::string home = variable("HOME");
  if (home.empty() || home[0] != '/') home.clear();
  const std::string data = xdg_directory("XDG_DATA_HOME", home, ".local/share");
  const std::string cache = xdg_directory("XDG_CACHE_HOME", home, ".cache");
  const std::string configuration = xdg_directory("XDG_CONFIG_HOME", home, ".config");
  const std::string temporary = fmt::format("/tmp/tilewright-{}", geteuid());
  Places places;
  places.database =
      data.empty() ? temporary + "/tilewright.db" : data + "/tilewright/tilewright.db";
  places.cache = cache.empty() ? temporary + "/cache" : cache + "/tilewright";
  places.shipped = shipped_database(this_program());
  if (!configuration.empty()) places.configuration = configuration + "/tilewright.toml";
  if (data.empty())
    places.fallback = fmt::format(
        "HOME is not set: the database lies in {} and may not outlive a "
        "restart; name one with --db or set HOME",
        temporary);
  return places;
}

Status make_private_directory(const std::string& path, std::string_view remedy) {
  std::error_code error;
  const auto parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (!error && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  if (error)
    return fail(ErrorCode::Environment, fmt::format("[directory] {} cannot be made ({}): {}", path,
                                                    error.message(), remedy));
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return fail(ErrorCode::Environment,
                fmt::format("[directory] {} is no directory: {}", path, remedy));
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
    return fail(
        ErrorCode::Invalid,
        fmt::format("[directory] {} is another user's or writable by others: {}, or chmod go-w it",
                    path, remedy));
  return {};
}

}  // namespace tw::tuner
