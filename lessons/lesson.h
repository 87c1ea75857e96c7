// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every lesson needs and no lesson teaches: the edge where an error becomes a message and an
// exit code. Functions of the library return Result<T> and never end the process; a program's
// main() decides.

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/result.h"

namespace tw::lessons {

[[noreturn]] inline void give_up(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(static_cast<int>(error.code));
}

/// The value, or the end of the program with the error's message and exit code.
template <typename T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}
inline void must(const Status& status) {
  if (!status) give_up(status.error());
}

}  // namespace tw::lessons
