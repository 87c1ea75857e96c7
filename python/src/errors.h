// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors of the library as Python exceptions. Each ErrorCode has a class in tilewright/errors.py,
// whose message is the error's with arguments in place of flags, and whose `code` is the exit code
// of the program; an interrupt is Python's KeyboardInterrupt.

#include <pybind11/pybind11.h>

#include <type_traits>
#include <utility>

#include "base/result.h"

namespace tw::python {

/// Throws the exception of the error's code. Requires: the GIL.
[[noreturn]] void raise(const Error& error);

/// The value, or the exception of its error. Requires: the GIL.
template <typename T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

}  // namespace tw::python
