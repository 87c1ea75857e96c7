// SPDX-License-Identifier: Apache-2.0
#pragma once
// A verb of the program as plain data: its flags, where their values go, and what it does. Parsing,
// help, completion and the configuration file all follow from it (command_line.h), and none of them
// needs to know a verb.
//
//   Verb sum_verb() {
//     auto flags = std::make_shared<SumFlags>();
//     return {.name = "sum", .summary = "adds numbers",
//             .flags = {{"times", Whole{&flags->times, 1, 9}, "how often"}},
//             .run = [flags](const Surroundings& here) { return sum(*flags, here); }};
//   }
//
// Not thread-safe; a program has one set of verbs.

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"

namespace tw::tools {

// Types of flag values. Each states which texts are valid, and points to the variable that receives
// the value. The variable's value when the flag is declared is the default.
struct Switch {
  bool* value;
};
struct Text {
  std::string* value;
  bool may_be_empty = true;
};
struct Path {
  std::string* value;
};
struct Choice {
  std::string* value;
  std::vector<std::string> choices;
};
struct Whole {
  int64_t* value;
  int64_t least, most;
};
/// "90", "90s", "5m", "2h" or "500ms".
struct Seconds {
  double* value;
};
/// May be given several times.
struct Texts {
  std::vector<std::string>* values;
};
struct Paths {
  std::vector<std::string>* values;
};
using Value = std::variant<Switch, Text, Path, Choice, Whole, Seconds, Texts, Paths>;

struct Flag {
  std::string name;  ///< "budget" is --budget; for an operand what help calls it, "FILE"
  Value value;
  std::string help;
  std::vector<std::string> excludes = {};  ///< names of flags that contradict it
  bool required = false;                   ///< operands only
};

struct Verb {
  std::string name;
  std::string summary;
  std::vector<Flag> flags = {};
  std::vector<Flag> operands = {};
  std::vector<Verb> verbs = {};                              ///< instead of flags: `db info`
  std::function<Result<int>(const Surroundings&)> run = {};  ///< returns the exit code
  bool hidden = false;
  /// Takes all arguments as they stand, --help included.
  std::vector<std::string>* everything = nullptr;
};

/// The seconds of "5m" and the like; Usage otherwise.
Result<double> parse_seconds(std::string_view text);

}  // namespace tw::tools
