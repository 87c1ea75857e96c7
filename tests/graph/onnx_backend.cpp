// SPDX-License-Identifier: Apache-2.0
// Runs one case of the ONNX backend test suite: imports a model, evaluates it with the interpreter
// on the inputs of its data sets, and compares the outputs. onnx_backend_test.py runs it for each
// case.
//
//   onnx_backend DIRECTORY     a folder with model.onnx and test_data_set_*/{input,output}_*.pb
//
// Prints one line: `pass`, `pass with constants`, `unsupported: why`, or `wrong: why`.

#include <cstdio>
#include <string>
#include <vector>

#include "tests/graph/onnx_case.h"

namespace tw::graph {
namespace {

Result<std::string> run_case(const std::string& folder) {
  TW_TRY(const std::vector<OnnxCase> sets, read_case(folder));
  std::string verdict = "pass";
  for (const OnnxCase& set : sets) {
    if (set.has_constants) verdict = "pass with constants";
    TW_TRY(dsl::Arrays results, interpret(set.graph, set.inputs));
    for (const std::string& output : set.graph.outputs) {
      if (const auto constant = set.graph.constants.find(output);
          constant != set.graph.constants.end())
        results[output] = *constant->second.array;
      if (const auto input = set.inputs.find(output); input != set.inputs.end())
        results[output] = input->second;
    }
    const std::string why = difference(set, results);
    if (!why.empty()) return "wrong: " + why;
  }
  return verdict;
}

}  // namespace
}  // namespace tw::graph

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: onnx_backend DIRECTORY\n", stderr);
    return 2;
  }
  const tw::Result<std::string> verdict = tw::graph::run_case(argv[1]);
  std::puts(verdict ? verdict->c_str() : tw::graph::verdict_of(verdict.error()).c_str());
  return 0;
}
