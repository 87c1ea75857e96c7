// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.h"

#include "python/src/text.h"

namespace tw::python {
namespace {

namespace py = pybind11;

py::object class_of(ErrorCode code) {
  const auto own = [](const char* name) {
    return py::object(py::module_::import("tilewright.errors").attr(name));
  };
  switch (code) {
    case ErrorCode::Internal:
      return own("InternalError");
    case ErrorCode::Usage:
      return own("UsageError");
    case ErrorCode::Unsupported:
      return own("UnsupportedError");
    case ErrorCode::Database:
      return own("DatabaseError");
    case ErrorCode::Invalid:
      return own("InvalidError");
    case ErrorCode::NoCandidate:
      return own("NoCandidateError");
    case ErrorCode::Environment:
      return own("MachineError");
    case ErrorCode::NotCompiled:
      return own("NotCompiledError");
    case ErrorCode::TryLater:
      return own("TryLaterError");
    case ErrorCode::Interrupted:
      return py::reinterpret_borrow<py::object>(PyExc_KeyboardInterrupt);
  }
  return own("InternalError");
}

}  // namespace

void raise(const Error& error) {
  const py::object message =
      py::module_::import("tilewright.errors").attr("in_arguments")(message_text(error.message));
  PyErr_SetObject(class_of(error.code).ptr(), message.ptr());
  throw py::error_already_set();
}

void warn(PyObject* category, std::string_view message) {
  if (PyErr_WarnFormat(category, 1, "%U", message_text(message).ptr()) != 0)
    throw py::error_already_set();
}

}  // namespace tw::python
