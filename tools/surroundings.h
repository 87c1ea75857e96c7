// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the program takes from the world around it, read once at its start: environment, clocks, the
// host's name, a random session name, the terminal. Everything else gets it passed in.
// A plain value, thread-safe to share.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/clock.h"

namespace tw::tools {

struct Surroundings {
  std::string program;                 ///< absolute path of this executable
  std::string invoked_as;              ///< what a person types to run it again, quoted for a shell
  std::vector<std::string> arguments;  ///< as given, the verb first
  std::string version;
  std::string database;       ///< $XDG_DATA_HOME/tilewright/tilewright.db
  std::string cache;          ///< $XDG_CACHE_HOME/tilewright: compiled kernels
  std::string configuration;  ///< $XDG_CONFIG_HOME/tilewright.toml; empty where there is no home
  std::string fallback;       ///< why the defaults lie in a temporary directory; empty: they do not
  std::vector<std::string> cuda_directories;  ///< lib64 of $CUDA_HOME and of $CUDA_PATH
  std::string host;                           ///< a short hash of the host's name
  std::string session;                        ///< names this run in records
  tuner::Clock clock;
  std::function<int64_t()> now_ms;
  bool output_is_terminal = false;
  bool errors_are_terminal = false;
  bool color = false;      ///< a terminal, and NO_COLOR is not set
  int columns = 80;        ///< of the terminal that errors go to
  int output_columns = 0;  ///< of the terminal that output goes to; 0: it is none
};

/// `argv0` as main() got it.
Surroundings look_around(const char* argv0);

/// TILEWRIGHT_<NAME> is set: "dry-run" asks for TILEWRIGHT_DRY_RUN.
std::string environment_name(std::string_view flag);
bool is_in_environment(std::string_view flag);

/// Makes the directory, with its parents, private to the user. Environment when it cannot, Invalid
/// when it is another user's: kernels in it would be run.
Status make_private_directory(const std::string& path);

/// The kernel of a small stack kills programs without a word: raises the limit to what is needed,
/// or says so (Environment). Call it first of all.
Status ensure_stack();

}  // namespace tw::tools
