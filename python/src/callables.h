// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel or network that Python calls on arrays, with the number of threads that its calls use.

namespace tw::python {

template <typename Callable>
struct CallableOf {
  Callable callable;
  int threads = 0;  ///< used for calls without a number of threads; 0: all threads
};

}  // namespace tw::python
