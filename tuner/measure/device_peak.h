// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the rate of multiply-adds that a device reaches at this moment, by a small fixed kernel
// and the device's clock.

#include "base/result.h"
#include "runtime/device.h"

namespace tw::tuner {

/// Returns the f32 rate of all multiprocessors together in GFLOP/s; a multiply-add counts as two
/// operations.
Result<double> measure_f32_peak(runtime::Device& device);

}  // namespace tw::tuner
