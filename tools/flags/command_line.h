// SPDX-License-Identifier: Apache-2.0
#pragma once
// From arguments to a verb with its flags filled in. A value comes from the command line, else from
// TILEWRIGHT_<FLAG> in the environment, else from the configuration file, else it is the default.
//
// The configuration file is TOML: a section a verb, `[tune]` or `[db.query]`, with its flags as
// keys; keys before the first section are for every verb that has the flag. Not thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"
#include "tools/verb.h"

namespace tw::tools {

struct CommandLine {
  const Verb* verb = nullptr;  ///< to run; null where `help` is asked for
  std::string help = {};
  bool version = false;
};

/// `arguments` without the program's name. Every error is Usage, names the verb and the flag, and
/// the nearest flag or verb where one is unknown. The verbs must outlive the result.
Result<CommandLine> parse_command_line(const std::vector<Verb>& verbs,
                                       const std::vector<std::string>& arguments,
                                       const Surroundings& here);

/// The placeholder of a flag's value in help: "N=8", "PATH", "table|json"; empty for a switch.
std::string value_hint(const Value& value);

/// Description of the program and its exit codes, for help and the manual.
inline constexpr std::string_view program_summary =
    "Finds fast kernels for tensor operators by search, and keeps them in a database.";
inline constexpr std::string_view exit_codes =
    "0 ok, 1 internal, 2 usage, 3 unsupported, 4 database, 5 invalid file, 6 no valid candidate, "
    "7 environment, 8 not compiled, 75 try later, 130 interrupted";

}  // namespace tw::tools
