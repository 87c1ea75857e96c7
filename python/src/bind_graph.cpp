// SPDX-License-Identifier: Apache-2.0
// Binds graph/: networks that are read from ONNX models.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/import.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "runtime/artifact.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using graph::Graph;
using graph::OnnxModel;
using runtime::ArgumentInfo;
using DimensionValues = std::map<std::string, int64_t>;
using ConstantValues = std::map<std::string, std::vector<double>>;

ArgumentInfo array_of(const std::string& name, const graph::TensorType& type, bool is_output) {
  ArgumentInfo info;
  info.name = name;
  info.dtype = type.dtype;
  info.shape = type.shape;
  info.is_output = is_output;
  return info;
}

std::vector<ArgumentInfo> graph_inputs(const Graph& graph) {
  std::vector<ArgumentInfo> inputs;
  for (const graph::Port& input : graph.inputs)
    inputs.push_back(array_of(input.name, input.type, false));
  return inputs;
}

std::vector<ArgumentInfo> graph_outputs(const Graph& graph) {
  const auto types = graph::tensor_types(graph);
  std::vector<ArgumentInfo> outputs;
  for (const std::string& name : graph.outputs)
    outputs.push_back(array_of(name, types.at(name), true));
  return outputs;
}

std::vector<std::string> workloads_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (const graph::Operator& node : graph.operators) texts.push_back(node.workload.text());
  return texts;
}

/// Returns the graph of an imported model. The warnings of the import become Python warnings.
Graph graph_of(Result<OnnxModel> model) {
  OnnxModel imported = value_of(std::move(model));
  for (const std::string& warning : imported.warnings) warn(PyExc_UserWarning, "[onnx] " + warning);
  return std::move(imported.graph);
}

Graph read_onnx(const std::filesystem::path& path, const DimensionValues& dimensions,
                const ConstantValues& constants) {
  return graph_of([&] {
    const WithoutGil released;
    return graph::read_onnx(path, {.dimensions = dimensions, .constants = constants});
  }());
}

Graph parse_onnx(const py::bytes& model, const DimensionValues& dimensions,
                 const ConstantValues& constants) {
  const std::string_view bytes = model;
  return graph_of([&] {
    const WithoutGil released;
    return graph::parse_onnx(bytes, "", {.dimensions = dimensions, .constants = constants});
  }());
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<Graph>(m, "Graph", "A network as operators between named tensors.")
      .def_property_readonly("inputs", &graph_inputs)
      .def_property_readonly("outputs", &graph_outputs)
      .def_property_readonly("workloads", &workloads_of,
                             "what each operator computes, in the order in which they run")
      .def("__str__", [](const Graph& graph) { return graph::to_text(graph); })
      .def("__repr__", [](const Graph& graph) {
        return fmt::format("<Graph of {} operators>", graph.operators.size());
      });
  m.def(
      "read_onnx", &read_onnx, "path"_a, "dimensions"_a = DimensionValues{},
      "constants"_a = ConstantValues{},
      "Reads an ONNX file. `dimensions` has values of symbolic dimensions, and `constants` values "
      "of inputs that become constants. "
      "tilewright.onnx.load() makes a network of it that can be tuned.");
  m.def("parse_onnx", &parse_onnx, "model"_a, "dimensions"_a = DimensionValues{},
        "constants"_a = ConstantValues{},
        "As read_onnx(), for the bytes of a model without external data.");
  m.def("onnx_operators", &graph::onnx_operators,
        "The operators of ONNX that are implemented, sorted.");
}

}  // namespace tw::python
