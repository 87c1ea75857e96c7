// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes completion scripts for shells from the verbs and their flags. Thread-safe.

#include <string>
#include <vector>

#include "tools/verb.h"

namespace tw::tools {

std::string bash_completion(const std::vector<Verb>& verbs);
std::string zsh_completion(const std::vector<Verb>& verbs);
std::string fish_completion(const std::vector<Verb>& verbs);

}  // namespace tw::tools
