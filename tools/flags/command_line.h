// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses the arguments of the program into a verb and the values of its flags. A flag's value is
// taken from the command line, or else from TILEWRIGHT_<FLAG> in the environment, or else from the
// configuration file, or else it is the default.
//
// The configuration file is TOML. Each verb has a section, `[tune]` or `[db.query]`, whose keys are
// flags of the verb. Keys before the first section apply to every verb that has the flag. Not
// thread-safe.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"
#include "tools/verb.h"

namespace tw::tools {

struct CommandLine {
  const Verb* verb = nullptr;  ///< the verb to run; null if `help` is to be printed instead
  std::string help = {};
  bool version = false;
};

/// Parses `arguments`, which do not include the program's name, and sets the variables of the
/// flags. Every error is Usage and names the verb and the flag; for an unknown verb or flag it
/// names the most similar known one. The verbs must outlive the result.
Result<CommandLine> parse_command_line(const std::vector<Verb>& verbs,
                                       const std::vector<std::string>& arguments,
                                       const Surroundings& here);

/// The flags on the command line, such as "--op". The values of all others come from the
/// environment or from the configuration file.
std::set<std::string> typed_flags(const std::vector<std::string>& arguments);

/// The placeholder that help prints for a flag's value: "N=8", "PATH", "table|json". Empty for a
/// switch.
std::string value_hint(const Value& value);

/// Description of the program and its exit codes, for help and the manual.
inline constexpr std::string_view program_summary =
    "Finds fast kernels for tensor operators by search, and keeps them in a database.";
inline constexpr std::string_view exit_codes =
    "0 ok, 1 internal, 2 usage, 3 unsupported, 4 database, 5 invalid file, 6 no valid candidate, "
    "7 environment, 8 not compiled, 75 try later, 130 interrupted";

}  // namespace tw::tools
