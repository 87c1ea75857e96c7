// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/node.h"
#include "graph/onnx/operators_constants.h"

namespace tw::graph::onnx {

const std::vector<Conversion>& conversions() {
  static const std::vector<Conversion> rows = {
      {"Constant", 1, 0, convert_constant, 0},
      {"ConstantOfShape", 9, 0, convert_constant_of_shape},
      {"Dropout", 7, 0, convert_dropout},
      {"Identity", 1, 0, convert_identity},
      {"Range", 11, 0, convert_range, 3},
      {"Shape", 1, 0, convert_shape},
      {"Size", 1, 0, convert_size},
  };
  return rows;
}

}  // namespace tw::graph::onnx
