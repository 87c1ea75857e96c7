// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels and networks as Python calls them on arrays, with the number of threads that they were
// tuned for.

namespace tw::python {

template <typename Callable>
struct CallableOf {
  Callable callable;
  int threads = 0;  ///< number of threads of calls that do not give one; 0: all
};

}  // namespace tw::python
