// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strings of the library as Python's str. The name of a file may have any bytes, so neither a path
// nor a message with a path is always UTF-8, which pybind11's conversion requires.

#include <pybind11/pybind11.h>

#include <string_view>

namespace tw::python {

/// Returns a str for people to read. Bytes that are not UTF-8 become escapes such as \xff.
inline pybind11::str message_text(std::string_view text) {
  const auto size = static_cast<Py_ssize_t>(text.size());
  PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), size, "backslashreplace");
  if (!decoded) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(decoded);
}

/// Returns the str for a path. os.fsencode() converts it back to the same bytes.
inline pybind11::str path_text(std::string_view path) {
  const auto size = static_cast<Py_ssize_t>(path.size());
  PyObject* const decoded = PyUnicode_DecodeFSDefaultAndSize(path.data(), size);
  if (!decoded) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(decoded);
}

}  // namespace tw::python
