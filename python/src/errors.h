// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns errors of the library into Python exceptions. tilewright/errors.py has a class for each
// ErrorCode; ErrorCode::Interrupted becomes Python's KeyboardInterrupt. The exception has the
// message of the error, but flags of the program are replaced by names of arguments. The attribute
// `code` of the exception is the exit code of the program for this error.

#include <pybind11/pybind11.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace tw::python {

/// Raises the exception for the error. Requires: the thread holds the GIL.
[[noreturn]] void raise(const Error& error);

/// Issues a warning of the category, such as PyExc_RuntimeWarning. Throws if Python's warning
/// filters turn it into an exception. Requires: the thread holds the GIL.
void warn(PyObject* category, std::string_view message);

/// Returns the value of `result`, or raises the exception for its error. Requires: the thread holds
/// the GIL.
template <typename T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

}  // namespace tw::python
