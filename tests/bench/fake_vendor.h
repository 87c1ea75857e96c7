// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the fakes of NVIDIA's libraries. Their work runs on the processor, on a stream
// of the fake driver (tests/runtime/fake_cuda.h). Tests can make them fail or give wrong results.

#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "tests/runtime/fake_cuda.h"

namespace tw::bench {

/// The settings of a fake. `fake_vendor()` of each library returns them. Not thread-safe.
struct FakeVendor {
  double microseconds = 100;  ///< time of a call
  double error = 0;           ///< added to the first element of each result
  int live = 0;               ///< number of handles and descriptors that are open
};
using FakeVendorControl = FakeVendor*();

/// Puts work on a stream of the fake driver. Requires: the process has opened the driver.
inline void submit(void* stream, double microseconds, std::function<void()> work) {
  static const auto put = reinterpret_cast<runtime::FakeCudaSubmit*>(
      dlsym(dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), "fake_cuda_submit"));
  put(stream, microseconds, std::move(work));
}

}  // namespace tw::bench
