// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scopes that hold or release the GIL.

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace tw::python {

/// Releases the GIL for a scope. Requires: the thread holds the GIL.
///
/// If the interpreter is shutting down when a thread reaches the end of the scope, the thread waits
/// until the process ends. Python 3.14 and newer do the same. Older versions of Python call
/// pthread_exit(), which unwinds the stack; in a C++ destructor that would call std::terminate().
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* state_;
};

/// Acquires the GIL for a scope, in a thread that does not hold it. If the interpreter is shutting
/// down, the thread waits until the process ends, for the reason that WithoutGil gives.
class WithGil {
 public:
  WithGil() {
    try {
      state_ = PyGILState_Ensure();
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_ = PyGILState_UNLOCKED;
};

}  // namespace tw::python
