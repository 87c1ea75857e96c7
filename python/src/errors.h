// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns errors of the library into Python exceptions. Each ErrorCode has a class in
// tilewright/errors.py, and an interrupt is Python's KeyboardInterrupt. The exception's message is
// that of the error, with names of arguments in place of flags; its `code` is the exit code that
// the program has for the error.

#include <pybind11/pybind11.h>

#include <type_traits>
#include <utility>

#include "base/result.h"

namespace tw::python {

/// Raises the exception for the error's code. Requires: the GIL.
[[noreturn]] void raise(const Error& error);

/// Returns the value, or raises the exception for the error. Requires: the GIL.
template <typename T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

}  // namespace tw::python
