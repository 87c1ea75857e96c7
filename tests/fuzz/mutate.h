// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mutations of inputs: of bytes, of numbers in texts, and of the words of a format. The functions
// depend only on their arguments and on the random numbers that they draw.

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace tw::fuzz {

/// Mutants are at most this long.
inline constexpr size_t most_input_bytes = 64 << 10;

/// Returns the input with one to four changes: bits are flipped; bytes are replaced; a range is
/// deleted, doubled, or copied from `other`; a number is replaced by an awkward one; a word is
/// inserted; or the end is cut off.
std::string mutated_bytes(std::string input, const std::string& other,
                          const std::vector<std::string_view>& words, Random& random);

}  // namespace tw::fuzz
