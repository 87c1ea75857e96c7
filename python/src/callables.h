// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel or network that Python calls on arrays, with the number of threads for which it was
// tuned.

namespace tw::python {

template <typename Callable>
struct CallableOf {
  Callable callable;
  int threads = 0;  ///< number of threads of calls that do not give one; 0: all
};

}  // namespace tw::python
