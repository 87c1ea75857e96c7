// SPDX-License-Identifier: Apache-2.0
#pragma once
// Error handling for the lessons. Functions of the library return errors as Result<T>, and the
// program decides what to do. The lessons print the message of the first error and end with its
// exit code.

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/result.h"

namespace tw::lessons {

[[noreturn]] inline void give_up(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(static_cast<int>(error.code));
}

/// Returns the value. On an error, prints its message and ends the program with its exit code.
template <typename T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}
inline void must(const Status& status) {
  if (!status) give_up(status.error());
}

}  // namespace tw::lessons
