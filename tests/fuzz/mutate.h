// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mutations of inputs that know bytes, numbers in texts and a format's words. Pure functions of
// their arguments and of the random numbers that they take.

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace tw::fuzz {

/// Mutants are at most this long.
inline constexpr size_t most_input_bytes = 64 << 10;

/// The input with one to four changes: bits flipped, bytes replaced, a range deleted, doubled or
/// taken from `other`, a number replaced by an awkward one, a word inserted, the end cut off.
std::string mutated_bytes(std::string input, const std::string& other,
                          const std::vector<std::string_view>& words, Random& random);

}  // namespace tw::fuzz
