// SPDX-License-Identifier: Apache-2.0
#include "tools/surroundings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/hash.h"
#include "base/text.h"
#include "tools/quote.h"

namespace tw::tools {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// $NAME/rest, or ~/otherwise/rest; relative values are ignored, as the XDG specification says.
std::string below(const char* name, const std::string& home, const std::string& otherwise) {
  const std::string value = variable(name);
  if (!value.empty() && value[0] == '/') return value;
  return home.empty() ? "" : home + "/" + otherwise;
}

std::string program_path(const char* argv0) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(argv0 ? argv0 : "tilewright") : path.string();
}

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

int terminal_columns(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void choose_directories(Surroundings& here) {
  std::string home = variable("HOME");
  if (home.empty() || home[0] != '/') home.clear();
  const std::string data = below("XDG_DATA_HOME", home, ".local/share");
  const std::string cache = below("XDG_CACHE_HOME", home, ".cache");
  const std::string config = below("XDG_CONFIG_HOME", home, ".config");
  const std::string temporary = fmt::format("/tmp/tilewright-{}", geteuid());
  here.database = data.empty() ? temporary + "/tilewright.db" : data + "/tilewright/tilewright.db";
  here.cache = cache.empty() ? temporary + "/cache" : cache + "/tilewright";
  if (!config.empty()) here.configuration = config + "/tilewright.toml";
  if (data.empty())
    here.fallback = fmt::format(
        "HOME is not set: the database lies in {} and may not outlive a "
        "restart; name one with --db or set HOME",
        temporary);
}

}  // namespace

std::string environment_name(std::string_view flag) {
  std::string name = "TILEWRIGHT_";
  for (const char c : flag)
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

bool is_in_environment(std::string_view flag) {
  return !variable(environment_name(flag).c_str()).empty();
}

Surroundings look_around(const char* argv0) {
  Surroundings here;
  here.program = program_path(argv0);
  // By its alias, or found on PATH: the full name is on PATH as well.
  const bool has_path = argv0 && std::strchr(argv0, '/');
  here.invoked_as = has_path ? shell_quoted(here.program) : "tilewright";
  here.version = TW_VERSION;
  choose_directories(here);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string toolkit = variable(name); !toolkit.empty())
      here.cuda_directories.push_back(toolkit + "/lib64");
  here.host = host_hash();
  here.session = random_session();
  here.clock = tuner::monotonic_clock();
  here.now_ms = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return int64_t{std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
  };
  here.output_is_terminal = isatty(STDOUT_FILENO) == 1;
  here.errors_are_terminal =
      isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb" && variable("CI").empty();
  here.color = here.output_is_terminal && variable("NO_COLOR").empty();
  here.columns = terminal_columns(STDERR_FILENO);
  if (here.output_is_terminal) here.output_columns = terminal_columns(STDOUT_FILENO);
  return here;
}

Status make_private_directory(const std::string& path) {
  std::error_code error;
  const auto parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (!error && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  if (error)
    return fail(ErrorCode::Environment,
                fmt::format("[directory] {} cannot be made ({}): name another", shell_quoted(path),
                            error.message()));
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return fail(ErrorCode::Environment,
                fmt::format("[directory] {} is no directory: name another", shell_quoted(path)));
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
    return fail(
        ErrorCode::Invalid,
        fmt::format("[directory] {} is another user's or writable by others: name another, or "
                    "chmod go-w it",
                    shell_quoted(path)));
  return {};
}

Status ensure_stack() {
  constexpr rlim_t needed = 1 << 20;
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return {};
  rlimit wanted = limit;
  wanted.rlim_cur = needed;
  // The soft limit may rise to the hard one; the hard one may be raised by root.
  if (wanted.rlim_max != RLIM_INFINITY) wanted.rlim_max = std::max(wanted.rlim_max, needed);
  if (setrlimit(RLIMIT_STACK, &wanted) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[start] the stack is limited to {} KiB, at least 1024 KiB are needed: "
                          "ulimit -s 8192",
                          static_cast<uint64_t>(limit.rlim_cur >> 10)));
}

}  // namespace tw::tools
