// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that reach the f32 peak of a device, because they consist of independent chains of
// multiply-adds. Their text is fixed. Free functions; thread-safe.

#include "runtime/device.h"

namespace tw::codegen {

/// A kernel `peak(float* seed)`, and how to launch it. *seed must be 1.
struct PeakKernel {
  runtime::DeviceCode code;
  int threads = 0;  ///< threads of a block
  int blocks_per_multiprocessor = 0;
  double flops_per_thread = 0;  ///< a multiply-add counts as two
};

PeakKernel cuda_peak_kernel();
PeakKernel opencl_peak_kernel();

}  // namespace tw::codegen
