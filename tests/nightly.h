// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which tests and table rows run by day and which run under the variable TW_NIGHTLY, which
// `./tw test --nightly` sets. By day, a test over a long table takes a fixed share of the rows, and
// tests that only repeat others with more random cases are skipped. Under TW_NIGHTLY all rows and
// tests run.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tw {

inline bool is_nightly() { return std::getenv("TW_NIGHTLY") != nullptr; }

/// True for every `share`-th row, beginning with the first, and for all rows under TW_NIGHTLY.
inline bool is_due(size_t row, size_t share) { return is_nightly() || row % share == 0; }

/// Returns `nightly` under TW_NIGHTLY, else `usual`. Either is a number of cases or samples.
template <typename T>
T cases_of(T usual, T nightly) {
  return is_nightly() ? nightly : usual;
}

/// Returns the environment's TW_RANDOM_CASES, such as 2000 for a night, or `otherwise` if it is not
/// set.
inline int64_t cases_asked_for(int64_t otherwise) {
  const char* text = std::getenv("TW_RANDOM_CASES");
  return text ? parse_int(text).value() : otherwise;
}

/// Returns the rows for which is_due() is true.
template <typename T>
std::vector<T> due(std::vector<T> rows, size_t share) {
  std::vector<T> chosen;
  for (size_t i = 0; i < rows.size(); ++i)
    if (is_due(i, share)) chosen.push_back(std::move(rows[i]));
  return chosen;
}

}  // namespace tw

/// Skips the rest of the test in whose body it stands, unless TW_NIGHTLY is set.
#define TW_ONLY_NIGHTLY() \
  if (!tw::is_nightly()) GTEST_SKIP() << "runs in ./tw test --nightly"
