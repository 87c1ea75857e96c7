// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Python calls on arrays: a kernel or a network, and the number of threads that it was tuned
// for.

namespace tw::python {

template <typename Callable>
struct CallableOf {
  Callable callable;
  int threads = 0;  ///< of a call that does not say; 0: all
};

}  // namespace tw::python
