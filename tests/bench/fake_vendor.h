// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the fakes of NVIDIA's libraries: their work runs on the processor, on a stream
// of the fake driver (tests/runtime/fake_cuda.h), and tests can make them fail or be wrong.

#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "tests/runtime/fake_cuda.h"

namespace tw::bench {

/// `fake_vendor()` of each library. Not thread-safe.
struct FakeVendor {
  double microseconds = 100;  ///< time of a call
  double error = 0;           ///< added to the first element of each result
  int live = 0;               ///< handles and descriptors
};
using FakeVendorControl = FakeVendor*();

/// Requires: the process has opened the driver.
inline void submit(void* stream, double microseconds, std::function<void()> work) {
  static const auto put = reinterpret_cast<runtime::FakeCudaSubmit*>(
      dlsym(dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), "fake_cuda_submit"));
  put(stream, microseconds, std::move(work));
}

}  // namespace tw::bench
