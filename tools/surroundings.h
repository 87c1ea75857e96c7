// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inputs of the program from its process and system: environment variables, clocks, the host's
// name, a random session name, and the terminal. They are read once, when the program starts; all
// other code gets them as an argument. A plain value, which threads may share.

#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/workers/environment.h"

namespace tw::tools {

struct Surroundings {
  std::string program;                 ///< absolute path of this executable
  std::string invoked_as;              ///< the command that runs this program, quoted for a shell
  std::vector<std::string> arguments;  ///< as given, the verb first
  tuner::Environment environment;  ///< for tune() and similar functions; the worker is this program
  tuner::Places places;            ///< default places of files
  bool output_is_terminal = false;
  bool errors_are_terminal = false;
  bool color = false;      ///< output is a terminal, and NO_COLOR is not set
  int columns = 80;        ///< width of the terminal of standard error
  int output_columns = 0;  ///< width of the terminal of standard output; 0: no terminal
};

/// Reads the surroundings of this process. `argv0` is argv[0] of main().
Surroundings look_around(const char* argv0);

/// Returns the name of the environment variable of a flag: TILEWRIGHT_DRY_RUN for "dry-run".
std::string environment_name(std::string_view flag);
/// True if the environment variable of the flag is set and not empty.
bool is_in_environment(std::string_view flag);

/// True if the environment variable TILEWRIGHT_COST_MODEL is "analytic", which asks for the
/// analytic model alone (cost_model::AnalyticOnly). False if the variable is "pretrained", empty or
/// not set. Fails with Usage for any other value.
Result<bool> asks_for_the_analytic_model();

/// Raises the stack limit to the size that the program needs (1 MiB), because a program that
/// overflows its stack is killed without a message. Fails with Environment if the limit cannot be
/// raised. Call it when the program starts.
Status ensure_stack();

}  // namespace tw::tools
