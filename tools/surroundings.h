// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the program takes from the world around it, read once at its start: environment, clocks, the
// host's name, a random session name, the terminal. Everything else gets it passed in.
// A plain value, thread-safe to share.

#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/environment.h"

namespace tw::tools {

struct Surroundings {
  std::string program;                 ///< absolute path of this executable
  std::string invoked_as;              ///< what a person types to run it again, quoted for a shell
  std::vector<std::string> arguments;  ///< as given, the verb first
  tuner::Environment environment;      ///< of tune() and its like, whose worker is this program
  tuner::Places places;                ///< default places of files
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
