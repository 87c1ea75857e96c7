// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses the arguments of the program into a verb and the values of its flags. The sources of a
// flag's value, in order of precedence, are the command line, the environment variable
// TILEWRIGHT_<FLAG>, the configuration file and the default.
//
// The configuration file is TOML. Each verb has a section, such as `[tune]` or `[db.query]`. The
// keys of the section are flags of the verb. Keys before the first section apply to every verb that
// has the flag, unless the section of the verb sets the flag too. Not thread-safe.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"
#include "tools/verb.h"

namespace tw::tools {

struct CommandLine {
  /// The verb to run; null if `help` or the version is to be printed instead.
  const Verb* verb = nullptr;
  std::string help = {};
  bool version = false;
};

/// Parses `arguments`, which do not include the program's name, and sets the variables of the
/// flags. Every error is Usage and names the verb and the flag. For an unknown verb or flag, the
/// message suggests the most similar name. The verbs must outlive the result.
Result<CommandLine> parse_command_line(const std::vector<Verb>& verbs,
                                       const std::vector<std::string>& arguments,
                                       const Surroundings& here);

/// Returns the flags that are on the command line, such as "--op", without their values. A flag
/// that is not among them has its value from the environment, from the configuration file or by
/// default.
std::set<std::string> typed_flags(const std::vector<std::string>& arguments);

/// Returns the placeholder that help prints for a flag's value: "N=8" (with the default), "PATH",
/// "table|json". Empty for a switch.
std::string value_hint(const Value& value);

/// The description of the program and the list of its exit codes, for help and the manual.
inline constexpr std::string_view program_summary =
    "Finds fast kernels for tensor operators by search, and keeps them in a database.";
inline constexpr std::string_view exit_codes =
    "0 ok, 1 internal, 2 usage, 3 unsupported, 4 database, 5 invalid file, 6 no valid candidate, "
    "7 environment, 8 not compiled, 75 try later, 130 interrupted";

}  // namespace tw::tools
