// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device can do right now: peak multiply-adds, by a small kernel of fixed text and the
// device's clock.

#include "base/result.h"
#include "runtime/device.h"

namespace tw::tuner {

/// GFLOP/s of f32, two operations a multiply-add, all multiprocessors together.
Result<double> measure_f32_peak(runtime::Device& device);

}  // namespace tw::tuner
