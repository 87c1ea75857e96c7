// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/onnx_case.h"

#include <fmt/format.h>
#include <onnx-ml.pb.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "graph/onnx/import.h"
#include "graph/onnx/tensor_reader.h"

namespace tw::graph {
namespace {

namespace fs = std::filesystem;
using ::onnx::ModelProto;
using ::onnx::TensorProto;
using onnx::TensorReader;

/// The tolerances are those of the suite; for f16 and bf16, two units in the last place. Besides, a
/// difference of 2^-22 of the largest element is allowed, because terms of sums may cancel: the
/// suite itself has 2e-7 where a transform in f64 has 3e-15.
constexpr double absolute_tolerance = 1e-7, tolerance_of_largest = 0x1p-22;
double relative_tolerance(DType type) {
  return type == BFloat16 ? 0x1p-6 : type == Float16 ? 0x1p-9 : 1e-3;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the tensors in the files STEM_0.pb, STEM_1.pb, ... of a data set. Fails with Unsupported
/// if a file has no tensor.
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

/// Returns the model with these values as constants in place of its inputs of at most one
/// dimension.
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

/// Returns the model with the shapes of the data set for its inputs. The model's own may be
/// symbolic.
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

/// Returns the arrays for the inputs of the graph.
Result<dsl::Arrays> input_arrays(const Graph& graph, const ModelProto& model,
                                 const std::vector<TensorProto>& inputs) {
  TensorReader reader({}, int64_t{1} << 30);
  dsl::Arrays arrays;
  for (const Port& port : graph.inputs)
    for (int i = 0; i < model.graph().input_size(); ++i)
      if (model.graph().input(i).name() == port.name) {
        TW_TRY(arrays[port.name], reader.read(inputs.at(static_cast<size_t>(i))));
      }
  return arrays;
}

Result<OnnxCase> read_data_set(const ModelProto& given, const fs::path& folder,
                               const fs::path& data) {
  TW_TRY(const std::vector<TensorProto> inputs, tensors_in(data, "input"));
  TW_TRY(const std::vector<TensorProto> outputs, tensors_in(data, "output"));
  const ModelProto model = with_shapes(given, inputs);
  OnnxCase found;
  auto read = parse_onnx(model.SerializeAsString(), folder.string());
  if (!read && read.error().code == ErrorCode::Unsupported) {
    auto again = parse_onnx(with_constants(model, inputs).SerializeAsString(), folder.string());
    found.has_constants = again.has_value();
    read = std::move(again);
  }
  if (!read) return tl::unexpected(read.error());
  found.graph = std::move(read->graph);
  TW_TRY(found.inputs, input_arrays(found.graph, model, inputs));
  if (outputs.size() != found.graph.outputs.size())
    return fail(ErrorCode::Unsupported, "outputs that are left out");
  TensorReader reader({}, int64_t{1} << 30);
  for (const TensorProto& output : outputs) {
    TW_TRY(dsl::Array array, reader.read(output));
    found.expected.push_back(std::move(array));
  }
  return found;
}

std::string difference_of(const dsl::Array& expected, const dsl::Array& given) {
  if (given.type != expected.type || given.shape != expected.shape)
    return fmt::format("{} instead of {}", TensorType{given.type, given.shape}.to_string(),
                       TensorType{expected.type, expected.shape}.to_string());
  double largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (const double a = std::fabs(expected.get_float(i)); std::isfinite(a))
      largest = std::max(largest, a);
  const double absolute =
      absolute_tolerance + (is_float(expected.type) ? tolerance_of_largest * largest : 0);
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double a = expected.get_float(i), b = given.get_float(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::fabs(a - b) <= absolute + relative_tolerance(expected.type) * std::fabs(a)) continue;
    return fmt::format("element {} is {} instead of {}", i, b, a);
  }
  return "";
}

}  // namespace

Result<std::vector<OnnxCase>> read_case(const fs::path& folder) {
  ModelProto given;
  if (!given.ParseFromString(bytes_of(folder / "model.onnx")))
    return fail(ErrorCode::Invalid, "model.onnx is no model");
  std::vector<OnnxCase> sets;
  for (int i = 0; fs::exists(folder / fmt::format("test_data_set_{}", i)); ++i) {
    TW_TRY(OnnxCase found,
           read_data_set(given, folder, folder / fmt::format("test_data_set_{}", i)));
    sets.push_back(std::move(found));
  }
  if (sets.empty())
    return fail(ErrorCode::Invalid, fmt::format("{} has no test_data_set_0", folder.string()));
  return sets;
}

std::string difference(const OnnxCase& given, const dsl::Arrays& results) {
  for (size_t i = 0; i < given.expected.size(); ++i) {
    const std::string why = difference_of(given.expected[i], results.at(given.graph.outputs[i]));
    if (!why.empty()) return fmt::format("output {}: {}", i, why);
  }
  return "";
}

std::string verdict_of(const Error& error) {
  // The import fails with Usage if a dimension of an input has no value. with_shapes() gives values
  // to dimensions of tensors only, so that this error remains for an input that is no tensor.
  const bool is_unsupported =
      error.code == ErrorCode::Unsupported || error.code == ErrorCode::Usage;
  std::string why = error.message;
  for (char& c : why)
    if (c == '\n') c = ' ';
  return fmt::format("{}: {}", is_unsupported ? "unsupported" : "wrong", why);
}

}  // namespace tw::graph
