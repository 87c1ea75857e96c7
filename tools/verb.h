// SPDX-License-Identifier: Apache-2.0
#pragma once
// A verb of the program as plain data: its flags, the variables that receive their values, and the
// function that it runs. Parsing, help, completion and the configuration file are derived from this
// data (command_line.h) and have no code for single verbs.
//
//   Verb sum_verb() {
//     auto flags = std::make_shared<SumFlags>();
//     return {.name = "sum", .summary = "adds numbers",
//             .flags = {{"times", Whole{&flags->times, 1, 9}, "how often"}},
//             .run = [flags](const Surroundings& here) { return sum(*flags, here); }};
//   }
//
// Not thread-safe.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"

namespace tw::tools {

// Types of flag values. Each type states which texts are valid, and points to the variable that
// receives the value. The value of the variable when the flag is declared is the default of the
// flag.

/// True or false: a flag that is given without a value is true.
struct Switch {
  Switch(bool* value) : set([value](bool on) { *value = on; }) {}  // NOLINT: as the other types
  /// Makes a switch that sets the variable to `chosen`. If the user turns the switch off
  /// (--name=false) and the variable has the value `chosen`, the variable gets its default again.
  template <typename T>
  Switch(T* value, T chosen)
      : set([value, chosen, other = *value](bool on) {
          if (on)
            *value = chosen;
          else if (*value == chosen)
            *value = other;
        }) {}

  std::function<void(bool on)> set;
};
/// A text that is not empty.
struct Text {
  std::string* value;
};
struct Path {
  std::string* value;
};
/// One of several names. The variable receives the name itself (first constructor) or the value
/// that belongs to the name (second constructor).
struct Choice {
  Choice(std::string* value, std::vector<std::string> names)
      : choices(std::move(names)), choose([value](const std::string& name) { *value = name; }) {}
  template <typename T>
  Choice(T* value, const std::vector<std::pair<std::string, T>>& named)
      : choose([value, named](const std::string& name) {
          *value = std::ranges::find(named, name, &std::pair<std::string, T>::first)->second;
        }) {
    for (const auto& [name, meant] : named) choices.push_back(name);
  }

  std::vector<std::string> choices;
  /// Sets the variable by a name. Requires: `name` is one of `choices`.
  std::function<void(const std::string& name)> choose;
};
struct Whole {
  int64_t* value;
  int64_t least, most;
};
/// A duration, such as "90", "90s", "5m", "2h" or "500ms".
struct Seconds {
  double* value;
};
/// A list of texts that are not empty: each occurrence of the flag adds one.
struct Texts {
  std::vector<std::string>* values;
};
struct Paths {
  std::vector<std::string>* values;
};
using Value = std::variant<Switch, Text, Path, Choice, Whole, Seconds, Texts, Paths>;

struct Flag {
  std::string name;  ///< "budget" for --budget; for an operand its name in help, "FILE"
  Value value;
  std::string help;
  std::vector<std::string> excludes = {};  ///< names of flags that contradict this flag
  bool required = false;  ///< true: the operand has to be given; used for operands only
};

struct Verb {
  std::string name;
  std::string summary;
  std::vector<Flag> flags = {};
  std::vector<Flag> operands = {};
  /// Nested verbs: `db info` is a verb below `db`. A verb that has nested verbs has no flags.
  std::vector<Verb> verbs = {};
  std::function<Result<int>(const Surroundings&)> run = {};  ///< returns the exit code
  bool hidden = false;
  /// If this pointer is not null, no argument of the verb is parsed: the vector receives all
  /// arguments after the verb, --help included.
  std::vector<std::string>* everything = nullptr;
};

/// Format of the output of a verb.
enum class Format { Table, Json, Csv };

/// Parses a duration in the syntax of the flag type Seconds and returns seconds: "5m" gives 300.
/// Fails with Usage for other text, for durations that are not positive, and for more than 1e7
/// seconds.
Result<double> parse_seconds(std::string_view text);

}  // namespace tw::tools
