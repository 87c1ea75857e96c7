// SPDX-License-Identifier: Apache-2.0
#include "tools/surroundings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/own_files.h"
#include "base/text.h"
#include "tools/flags/quote.h"

namespace tw::tools {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string program_path(const char* argv0) {
  return own_files().program.value_or(argv0 ? argv0 : "tilewright").string();
}

int terminal_columns(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

Result<bool> asks_for_the_analytic_model() {
  const std::string value = variable("TILEWRIGHT_COST_MODEL");
  if (value.empty() || value == "pretrained") return false;
  if (value == "analytic") return true;
  return fail(
      ErrorCode::Usage,
      fmt::format("[cost model] TILEWRIGHT_COST_MODEL={}: use analytic or pretrained", value));
}

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
  // If the shell found the program on PATH, perhaps by its other name `tune`, then `tilewright` is
  // on PATH too.
  const bool has_path = argv0 && std::strchr(argv0, '/');
  here.invoked_as = has_path ? shell_quoted(here.program) : "tilewright";
  here.environment = tuner::default_environment();
  here.environment.worker = {here.program, "worker"};
  here.places = tuner::default_places();
  here.output_is_terminal = isatty(STDOUT_FILENO) == 1;
  here.errors_are_terminal =
      isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb" && variable("CI").empty();
  here.color = here.output_is_terminal && variable("NO_COLOR").empty();
  here.columns = terminal_columns(STDERR_FILENO);
  if (here.output_is_terminal) here.output_columns = terminal_columns(STDOUT_FILENO);
  return here;
}

Status ensure_stack() {
  constexpr rlim_t needed = 1 << 20;
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return {};
  rlimit wanted = limit;
  wanted.rlim_cur = needed;
  // Every user may raise the soft limit up to the hard limit. Only root may raise the hard limit.
  if (wanted.rlim_max != RLIM_INFINITY) wanted.rlim_max = std::max(wanted.rlim_max, needed);
  if (setrlimit(RLIMIT_STACK, &wanted) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[start] the stack is limited to {} KiB, at least 1024 KiB are needed: "
                          "ulimit -s 8192",
                          static_cast<uint64_t>(limit.rlim_cur >> 10)));
}

}  // namespace tw::tools
