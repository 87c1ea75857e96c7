// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.h"

namespace tw::python {
namespace {

const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::Internal:
      return "InternalError";
    case ErrorCode::Usage:
      return "UsageError";
    case ErrorCode::Unsupported:
      return "UnsupportedError";
    case ErrorCode::Database:
      return "DatabaseError";
    case ErrorCode::Invalid:
      return "InvalidError";
    case ErrorCode::NoCandidate:
      return "NoCandidateError";
    case ErrorCode::Environment:
      return "MachineError";
    case ErrorCode::NotCompiled:
      return "NotCompiledError";
    case ErrorCode::TryLater:
      return "TryLaterError";
    case ErrorCode::Interrupted:
      return "InterruptedTuning";
  }
  return "InternalError";
}

}  // namespace

void raise(const Error& error) {
  const pybind11::object type =
      pybind11::module_::import("tilewright.errors").attr(class_of(error.code));
  PyErr_SetString(type.ptr(), error.message.c_str());
  throw pybind11::error_already_set();
}

}  // namespace tw::python
