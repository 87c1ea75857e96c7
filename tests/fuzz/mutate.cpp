// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tw::fuzz {
namespace {

const std::vector<std::string_view> awkward_numbers = {"0",
                                                       "1",
                                                       "-1",
                                                       "2",
                                                       "3",
                                                       "7",
                                                       "64",
                                                       "65536",
                                                       "2147483647",
                                                       "1048576",
                                                       "4294967296",
                                                       "9223372036854775807",
                                                       "-9223372036854775808",
                                                       "18446744073709551616",
                                                       "1e308",
                                                       "1e400",
                                                       "1e-320",
                                                       "-0.0",
                                                       "0.5",
                                                       "nan",
                                                       "null"};

size_t position(size_t size, Random& random) {
  return static_cast<size_t>(random.below(static_cast<int64_t>(size) + 1));
}

/// Returns {begin, length} of a range, which mostly has few bytes.
std::pair<size_t, size_t> range(size_t size, Random& random) {
  const size_t begin = position(size, random);
  const int64_t most = random.chance(0.7) ? 16 : 4096;
  return {begin, std::min(size - begin, static_cast<size_t>(1 + random.below(most)))};
}

void change_byte(std::string& bytes, Random& random) {
  if (bytes.empty()) return;
  char& byte = bytes[static_cast<size_t>(random.below(std::ssize(bytes)))];
  byte = random.chance(0.5) ? static_cast<char>(byte ^ 1 << random.below(8))
                            : static_cast<char>(random.below(256));
}

/// Replaces the first run of digits behind a random place by an awkward number.
void change_number(std::string& text, Random& random) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(position(text.size(), random));
  const auto begin = std::find_if(from, text.end(), is_digit);
  const auto end = std::find_if_not(begin, text.end(), is_digit);
  if (begin != end) text.replace(begin, end, random.pick(awkward_numbers));
}

void change(std::string& input, const std::string& other,
            const std::vector<std::string_view>& words, Random& random) {
  const auto [at, count] = range(input.size(), random);
  switch (random.below(9)) {
    case 0:
    case 1:
      return change_byte(input, random);
    case 2:
      input.erase(at, count);
      return;
    case 3:
      input.insert(position(input.size(), random), input.substr(at, count));
      return;
    case 4:
    case 5: {
      const auto [from, length] = range(other.size(), random);
      input.replace(at, random.chance(0.5) ? count : 0, other.substr(from, length));
      return;
    }
    case 6:
      return change_number(input, random);
    case 7:
      if (!words.empty()) input.replace(at, random.chance(0.5) ? count : 0, random.pick(words));
      return;
    default:
      if (random.chance(0.2)) input.resize(at);
  }
}

}  // namespace

std::string mutated_bytes(std::string input, const std::string& other,
                          const std::vector<std::string_view>& words, Random& random) {
  for (int64_t changes = 1 + random.below(4); changes > 0; --changes)
    change(input, other, words, random);
  if (input.size() > most_input_bytes) input.resize(most_input_bytes);
  return input;
}

}  // namespace tw::fuzz
