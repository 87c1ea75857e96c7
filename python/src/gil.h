// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scopes with and without the GIL.

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace tw::python {

/// Releases the GIL for a scope. Requires: the GIL.
///
/// A thread that reaches the end of the scope when the interpreter has begun to end waits for the
/// end of the process, as from Python 3.14 on. Before, Python unwinds its stack by pthread_exit(),
/// which destructors of C++ turn into std::terminate().
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

/// Takes the GIL for a scope of a thread that released it. Where the interpreter has begun to end
/// it waits for the end of the process, as WithoutGil does.
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
