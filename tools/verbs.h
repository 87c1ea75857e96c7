// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verbs of the program, each defined in a file of its own; main.cpp lists them. Each call
// returns a new verb whose flags have their defaults.

#include <vector>

#include "tools/verb.h"

namespace tw::tools {

Verb tune_verb();
Verb worker_verb();
Verb list_verb();
Verb show_verb();
Verb explain_verb();
Verb run_verb();
Verb compile_verb();
Verb replay_verb();
Verb bench_verb();
Verb db_verb();
Verb doctor_verb();
Verb version_verb();
/// Returns the verb `completion`. `all` returns the verbs for which completion scripts are made.
Verb completion_verb(std::function<std::vector<Verb>()> all);
/// Returns the verb `manual`. `all` returns the verbs that the manual describes.
Verb manual_verb(std::function<std::vector<Verb>()> all);

}  // namespace tw::tools
