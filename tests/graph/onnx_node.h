// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts one node of an ONNX model and evaluates it with the interpreter.
//
//   OneNode node("Add", 13);
//   node.data({2}, {1, 2}).constant({2}, {3, 4});
//   EXPECT_THAT(node.values(), ElementsAre(4, 6));

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/graph_builder.h"
#include "graph/onnx/node.h"

namespace tw::graph::onnx {

using Numbers = std::vector<double>;
using Extents = std::vector<int64_t>;

inline dsl::Array array_of(DType type, const Extents& shape, const Numbers& values) {
  dsl::Array array = dsl::Array::make(type, shape).value();
  EXPECT_EQ(array.size(), std::ssize(values));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (is_float(type))
      array.set_float(at, values[i]);
    else
      array.set_int(at, static_cast<int64_t>(values[i]));
  }
  return array;
}

inline Numbers numbers_of(const dsl::Array& array) {
  Numbers values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array.get_float(i));
  return values;
}

inline void expect_near(const Numbers& found, const Numbers& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
}

/// A node, built up input by input.
class OneNode {
 public:
  OneNode(const OneNode&) = delete;  // values point into the builder
  OneNode(const std::string& op_type, int64_t opset) {
    node_.name = "node";
    node_.op_type = op_type;
    node_.opset = opset;
    node_.outputs = {"y"};
  }
  /// Makes a node of an operator of ONNX Runtime.
  explicit OneNode(const std::string& op_type) : OneNode(op_type, newest_opset) {
    is_contributed_ = true;
  }
  /// Adds an input that is given at each call.
  OneNode& data(const Extents& shape, const Numbers& values, DType type = Float32) {
    const std::string name = builder_.claim(fmt::format("x{}", node_.inputs.size()));
    builder_.add_input(name, {type, shape});
    arrays_[name] = array_of(type, shape, values);
    node_.inputs.emplace_back(builder_.value(name));
    return *this;
  }
  /// Adds an input that is known at import.
  OneNode& constant(const Extents& shape, const Numbers& values, DType type = Float32) {
    const std::string name = builder_.claim(fmt::format("w{}", node_.inputs.size()));
    builder_.add_initializer(name, array_of(type, shape, values));
    node_.inputs.emplace_back(builder_.value(name));
    return *this;
  }
  OneNode& integers(const Numbers& values) { return constant({std::ssize(values)}, values, Int64); }
  OneNode& no_input() {
    node_.inputs.emplace_back();
    return *this;
  }
  OneNode& set(const std::string& attribute, AttributeValue value) {
    node_.attributes[attribute] = std::move(value);
    return *this;
  }
  OneNode& outputs(const std::vector<std::string>& names) {
    node_.outputs = names;
    return *this;
  }

  Status convert() {
    for (const std::string& name : node_.outputs)
      if (!name.empty()) builder_.claim(name);
    const auto& rows = is_contributed_ ? contributed_conversions() : conversions();
    const Conversion* row = find_conversion(rows, node_.op_type, node_.opset);
    if (!row) return fail(ErrorCode::Unsupported, "no such operator");
    return row->convert(node_, builder_);
  }
  Graph graph() {
    const Status status = convert();
    EXPECT_TRUE(status) << status.error().message;
    if (!status) return {};
    std::vector<GraphBuilder::Output> outputs;
    for (const std::string& name : node_.outputs)
      if (!name.empty()) outputs.push_back({name, name});
    Result<Graph> graph = builder_.finish(outputs);
    EXPECT_TRUE(graph) << graph.error().message;
    return graph ? *graph : Graph{};
  }
  /// Converts and evaluates the node. Returns the outputs in their order.
  std::vector<dsl::Array> run() {
    const Graph made = graph();
    Result<dsl::Arrays> results = interpret(made, arrays_);
    EXPECT_TRUE(results) << results.error().message;
    std::vector<dsl::Array> arrays;
    if (!results) return arrays;
    for (const std::string& name : made.outputs)
      arrays.push_back(made.constants.contains(name) ? *made.constants.at(name).array
                                                     : results->at(name));
    return arrays;
  }
  Numbers values() {
    const std::vector<dsl::Array> arrays = run();
    return arrays.empty() ? Numbers{} : numbers_of(arrays[0]);
  }

  void expect_error(ErrorCode code, const std::string& what) {
    const Status status = convert();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_THAT(status.error().message, testing::HasSubstr(what));
  }

 private:
  bool is_contributed_ = false;
  GraphBuilder builder_;
  Node node_;
  dsl::Arrays arrays_;
};

/// Returns `size` numbers: first, first + 1, ...
inline Numbers counted(int64_t size, double first = 0) {
  Numbers values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace tw::graph::onnx
