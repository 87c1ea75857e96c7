// SPDX-License-Identifier: Apache-2.0
// One case of the ONNX backend test suite: imports a model, evaluates it by the interpreter on the
// inputs of its data sets, and compares the outputs. onnx_backend_test.py runs it for each case.
//
//   onnx_backend DIRECTORY     a folder with model.onnx and test_data_set_*/{input,output}_*.pb
//
// Prints one line, `pass`, `pass with constants`, `unsupported: why`, or `wrong: why`.
//
// Cases give shapes, axes and limits as inputs of the graph, which have to be known at import here.
// Where a model is unsupported otherwise, inputs of at most one dimension are made constants.

#include <fmt/format.h>
#include <onnx-ml.pb.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/import.h"
#include "graph/onnx/tensor_reader.h"

namespace tw::graph {
namespace {

namespace fs = std::filesystem;
using ::onnx::ModelProto;
using ::onnx::TensorProto;
using onnx::TensorReader;

/// The tolerances of the suite; of reduced floats, two units in the last place.
constexpr double absolute_tolerance = 1e-7;
double relative_tolerance(DType type) {
  return type == BFloat16 ? 0x1p-6 : type == Float16 ? 0x1p-9 : 1e-3;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The tensors in the files input_0.pb, input_1.pb, ... of a data set. Unsupported where one is no
/// tensor.
Result<std::vector<TensorProto>> tensors_in(const fs::path& folder, const std::string& stem) {
  std::vector<TensorProto> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", stem, i);
    if (!fs::exists(path)) return tensors;
    TensorProto tensor;
    if (!tensor.ParseFromString(bytes_of(path)) || tensor.data_type() == TensorProto::UNDEFINED)
      return fail(ErrorCode::Unsupported, path.filename().string() + " is no tensor");
    tensors.push_back(std::move(tensor));
  }
}

/// The model with inputs of at most one dimension as constants of these values.
ModelProto with_constants(ModelProto model, const std::vector<TensorProto>& inputs) {
  auto& graph = *model.mutable_graph();
  const auto given = graph.input();
  graph.clear_input();
  for (int i = 0; i < given.size(); ++i) {
    const bool is_constant =
        i < static_cast<int>(inputs.size()) && inputs[static_cast<size_t>(i)].dims_size() <= 1;
    if (!is_constant) {
      *graph.add_input() = given[i];
      continue;
    }
    TensorProto& constant = *graph.add_initializer();
    constant = inputs[static_cast<size_t>(i)];
    constant.set_name(given[i].name());
  }
  return model;
}

/// The model with the shapes of its inputs as the data set has them, in place of symbolic ones.
ModelProto with_shapes(ModelProto model, const std::vector<TensorProto>& inputs) {
  auto& graph = *model.mutable_graph();
  for (int i = 0; i < graph.input_size() && i < static_cast<int>(inputs.size()); ++i) {
    auto& type = *graph.mutable_input(i)->mutable_type();
    if (!type.has_tensor_type()) continue;
    auto& shape = *type.mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (const int64_t extent : inputs[static_cast<size_t>(i)].dims())
      shape.add_dim()->set_dim_value(extent);
  }
  return model;
}

/// Why the arrays differ, or nothing.
std::string difference(const dsl::Array& expected, const dsl::Array& given) {
  if (given.type != expected.type || given.shape != expected.shape)
    return fmt::format("{} instead of {}", TensorType{given.type, given.shape}.to_string(),
                       TensorType{expected.type, expected.shape}.to_string());
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double a = expected.get_float(i), b = given.get_float(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::fabs(a - b) <= absolute_tolerance + relative_tolerance(expected.type) * std::fabs(a))
      continue;
    return fmt::format("element {} is {} instead of {}", i, b, a);
  }
  return "";
}

Result<dsl::Arrays> evaluate(const Graph& graph, const ModelProto& model,
                             const std::vector<TensorProto>& inputs) {
  TensorReader reader("", int64_t{1} << 30);
  dsl::Arrays arrays;
  for (const Port& port : graph.inputs)
    for (int i = 0; i < model.graph().input_size(); ++i)
      if (model.graph().input(i).name() == port.name) {
        TW_TRY(arrays[port.name], reader.read(inputs.at(static_cast<size_t>(i))));
      }
  TW_TRY(dsl::Arrays results, interpret(graph, arrays));
  for (const std::string& output : graph.outputs)
    if (graph.constants.contains(output)) results[output] = *graph.constants.at(output).array;
  for (const std::string& output : graph.outputs)
    if (arrays.contains(output)) results[output] = arrays.at(output);
  return results;
}

/// What differs from the outputs that the data set expects, or nothing.
Result<std::string> compare(const Graph& graph, const dsl::Arrays& results, const fs::path& set) {
  TW_TRY(const std::vector<TensorProto> expected, tensors_in(set, "output"));
  if (expected.size() != graph.outputs.size())
    return fail(ErrorCode::Unsupported, "outputs that are left out");
  TensorReader reader("", int64_t{1} << 30);
  for (size_t i = 0; i < expected.size(); ++i) {
    TW_TRY(const dsl::Array array, reader.read(expected[i]));
    const std::string why = difference(array, results.at(graph.outputs[i]));
    if (!why.empty()) return fmt::format("output {}: {}", i, why);
  }
  return std::string();
}

Result<std::string> run_case(const fs::path& folder) {
  ModelProto given;
  if (!given.ParseFromString(bytes_of(folder / "model.onnx")))
    return fail(ErrorCode::Invalid, "model.onnx is no model");
  std::string verdict = "pass";
  for (int set = 0; fs::exists(folder / fmt::format("test_data_set_{}", set)); ++set) {
    const fs::path data = folder / fmt::format("test_data_set_{}", set);
    TW_TRY(const std::vector<TensorProto> inputs, tensors_in(data, "input"));
    const ModelProto model = with_shapes(given, inputs);
    auto graph = parse_onnx(model.SerializeAsString(), folder.string());
    if (!graph && graph.error().code == ErrorCode::Unsupported) {
      auto again = parse_onnx(with_constants(model, inputs).SerializeAsString(), folder.string());
      if (again) verdict = "pass with constants";
      graph = std::move(again);
    }
    if (!graph) return tl::unexpected(graph.error());
    TW_TRY(const dsl::Arrays results, evaluate(*graph, model, inputs));
    TW_TRY(const std::string why, compare(*graph, results, data));
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
  if (verdict) {
    std::puts(verdict->c_str());
    return 0;
  }
  // Usage: a dimension without a value, which remains where an input is no tensor.
  const tw::ErrorCode code = verdict.error().code;
  const bool is_unsupported = code == tw::ErrorCode::Unsupported || code == tw::ErrorCode::Usage;
  std::string why = verdict.error().message;
  for (char& c : why)
    if (c == '\n') c = ' ';
  std::printf("%s: %s\n", is_unsupported ? "unsupported" : "wrong", why.c_str());
  return 0;
}
