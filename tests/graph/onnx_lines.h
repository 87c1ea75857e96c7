// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes of models for tests.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "graph/rewrite.h"
#include "tests/graph/onnx_node.h"

namespace tw::graph::onnx {

inline Numbers counted(int64_t size, double first = 0) {
  Numbers values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace tw::graph::onnx
