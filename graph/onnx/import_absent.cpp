// SPDX-License-Identifier: Apache-2.0
// Stands in for import.cpp where the schema of ONNX was not found when the build was configured.

#include "graph/onnx/import.h"

namespace tw::graph {
namespace {

tl::unexpected<Error> absent() {
  return fail(ErrorCode::Environment,
              "[onnx] this build cannot read ONNX models: install the Python package onnx==1.23.2 "
              "into .venv, configure and build again");
}

}  // namespace

Result<OnnxModel> read_onnx(const std::string&, const OnnxOptions&) { return absent(); }

Result<OnnxModel> parse_onnx(std::string_view, const std::string&, const OnnxOptions&) {
  return absent();
}

}  // namespace tw::graph
