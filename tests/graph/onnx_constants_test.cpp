// SPDX-License-Identifier: Apache-2.0
// Tests of operators with values that are known at import, on the examples of their documentation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/graph/onnx_models.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Imports a model with one node of the operator, on constants. `change` sets attributes of the
/// node. Its output is `y`.
Result<Graph> computed(
    const std::string& op_type, const std::vector<TensorProto>& inputs,
    const std::function<void(NodeProto&)>& change = [](NodeProto&) {}) {
  ModelProto model = empty_model();
  NodeProto& node = add_node(model, op_type, {}, {"y"}, "node");
  for (const TensorProto& input : inputs) {
    node.add_input(input.name());
    add_initializer(model, input);
  }
  change(node);
  add_output(model, "y");
  return imported(model);
}

dsl::Array value_of(const Result<Graph>& graph, const std::string& output = "y") {
  if (!graph || !graph->constants.contains(output)) {
    ADD_FAILURE() << (graph ? "the output is no constant" : graph.error().message);
    return {};
  }
  return *graph->constants.at(output).array;
}

std::vector<double> elements(const dsl::Array& array) {
  std::vector<double> values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array.get_float(i));
  return values;
}

void set_integer(NodeProto& node, const std::string& name, int64_t value) {
  add_attribute(node, name, AttributeProto::INT).set_i(value);
}

TEST(OnnxConstants, ConstantsOfEachKind) {
  const auto constant = [](const std::function<void(NodeProto&)>& change) {
    return value_of(computed("Constant", {}, change));
  };
  const dsl::Array tensor = constant([](NodeProto& node) {
    *add_attribute(node, "value", AttributeProto::TENSOR).mutable_t() = floats("", {1, 2}, {1, 2});
  });
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(elements(tensor), ElementsAre(1, 2));
  const dsl::Array number = constant([](NodeProto& node) { set_integer(node, "value_int", -7); });
  EXPECT_THAT(number.shape, IsEmpty());
  EXPECT_THAT(elements(number), ElementsAre(-7));
  const dsl::Array numbers = constant([](NodeProto& node) {
    AttributeProto& list = add_attribute(node, "value_ints", AttributeProto::INTS);
    list.add_ints(3);
    list.add_ints(4);
  });
  EXPECT_EQ(numbers.type, Int64);
  EXPECT_THAT(elements(numbers), ElementsAre(3, 4));
  const dsl::Array fraction = constant(
      [](NodeProto& node) { add_attribute(node, "value_float", AttributeProto::FLOAT).set_f(.5); });
  EXPECT_EQ(fraction.type, Float32);
  EXPECT_THAT(elements(fraction), ElementsAre(0.5));
  const dsl::Array fractions = constant([](NodeProto& node) {
    add_attribute(node, "value_floats", AttributeProto::FLOATS).add_floats(0.25);
  });
  EXPECT_EQ(fractions.shape, (std::vector<int64_t>{1}));
}

TEST(OnnxConstants, AConstantHasOneValue) {
  EXPECT_THAT(computed("Constant", {}).error().message, HasSubstr("0 attributes"));
  const auto text = computed("Constant", {}, [](NodeProto& node) {
    add_attribute(node, "value_string", AttributeProto::STRING).set_s("a");
  });
  EXPECT_EQ(text.error().code, ErrorCode::Unsupported);
}

TEST(OnnxConstants, ConstantOfShapeHasAValueOfOneElement) {
  const auto filled = [](const TensorProto& value) {
    return computed("ConstantOfShape", {integers("n", {2}, {2, 1})}, [&](NodeProto& node) {
      *add_attribute(node, "value", AttributeProto::TENSOR).mutable_t() = value;
    });
  };
  EXPECT_THAT(elements(value_of(filled(integers("", {1}, {9})))), ElementsAre(9, 9));
  EXPECT_THAT(filled(integers("", {2}, {9, 9})).error().message, HasSubstr("2 elements"));
  EXPECT_THAT(value_of(computed("ConstantOfShape", {integers("n", {0}, {})})).shape, IsEmpty());
  EXPECT_EQ(computed("ConstantOfShape", {integers("n", {1}, {-1})}).error().code,
            ErrorCode::Invalid);
  EXPECT_EQ(computed("ConstantOfShape", {floats("n", {1}, {1})}).error().code, ErrorCode::Invalid);
}

TEST(OnnxConstants, RangesOfIntegers) {
  const auto range = [](int64_t start, int64_t limit, int64_t delta) {
    return computed("Range", {integers("start", {}, {start}), integers("limit", {}, {limit}),
                              integers("delta", {}, {delta})});
  };
  EXPECT_THAT(elements(value_of(range(1, 8, 3))), ElementsAre(1, 4, 7));
  EXPECT_THAT(elements(value_of(range(1, 7, 3))), ElementsAre(1, 4));
  EXPECT_THAT(elements(value_of(range(10, 4, -2))), ElementsAre(10, 8, 6));
  EXPECT_THAT(elements(value_of(range(4, 10, -2))), IsEmpty());
  const int64_t top = INT64_MAX;
  EXPECT_EQ(value_of(range(top - 1, top, 2)).get_int(0), top - 1);
  EXPECT_EQ(range(1, 8, 0).error().code, ErrorCode::Invalid);
  EXPECT_EQ(range(INT64_MIN, top, 1).error().code, ErrorCode::Unsupported);
  EXPECT_EQ(range(0, INT64_MIN, -1).error().code, ErrorCode::Unsupported);
}

TEST(OnnxConstants, RangesOfFloats) {
  const auto range = [](float start, float limit, float delta) {
    return computed("Range", {floats("start", {}, {start}), floats("limit", {}, {limit}),
                              floats("delta", {}, {delta})});
  };
  EXPECT_THAT(elements(value_of(range(0, 1, 0.25))), ElementsAre(0, 0.25, 0.5, 0.75));
  EXPECT_EQ(range(0, 1, 0).error().code, ErrorCode::Unsupported);
  EXPECT_THAT(elements(value_of(range(0, 0, 0))), IsEmpty());
  const auto mixed = computed(
      "Range", {integers("start", {}, {0}), floats("limit", {}, {1}), integers("delta", {}, {1})});
  EXPECT_THAT(mixed.error().message, HasSubstr("no"));
}

TEST(OnnxConstants, PartsOfShapes) {
  const auto shape = [](std::optional<int64_t> start, std::optional<int64_t> end) {
    return elements(value_of(
        computed("Shape", {floats("x", {2, 3, 1}, {0, 0, 0, 0, 0, 0})}, [&](NodeProto& node) {
          if (start) set_integer(node, "start", *start);
          if (end) set_integer(node, "end", *end);
        })));
  };
  EXPECT_THAT(shape({}, {}), ElementsAre(2, 3, 1));
  EXPECT_THAT(shape(1, {}), ElementsAre(3, 1));
  EXPECT_THAT(shape(-1, {}), ElementsAre(1));
  EXPECT_THAT(shape({}, -1), ElementsAre(2, 3));
  EXPECT_THAT(shape(-9, 9), ElementsAre(2, 3, 1));
  EXPECT_THAT(shape(2, 1), IsEmpty());
  EXPECT_THAT(elements(value_of(computed("Size", {floats("x", {2, 1}, {0, 0})}))), ElementsAre(2));
}

TEST(OnnxConstants, RowsOfATable) {
  const TensorProto table = floats("t", {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto gather = [&](const TensorProto& indices, int64_t axis) {
    return computed("Gather", {table, indices},
                    [&](NodeProto& node) { set_integer(node, "axis", axis); });
  };
  const dsl::Array rows = value_of(gather(integers("i", {1, 2}, {2, -3}), 0));
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_THAT(elements(rows), ElementsAre(5, 6, 1, 2));
  const dsl::Array column = value_of(gather(integers("i", {}, {1}), -1));
  EXPECT_EQ(column.shape, (std::vector<int64_t>{3}));
  EXPECT_THAT(elements(column), ElementsAre(2, 4, 6));
  EXPECT_THAT(gather(integers("i", {1}, {3}), 0).error().message,
              HasSubstr("the index 3 of 3 elements"));
  EXPECT_EQ(gather(integers("i", {1}, {0}), 2).error().code, ErrorCode::Invalid);
  EXPECT_EQ(gather(floats("i", {1}, {0}), 0).error().code, ErrorCode::Invalid);
}

TEST(OnnxConstants, Fault61_ATableWithoutElementsIsGatheredAtOnce) {
  const int64_t many = int64_t{1} << 40;
  const auto graph = computed("Gather", {floats("t", {many, 0}, {}), integers("i", {0}, {})},
                              [](NodeProto& node) { set_integer(node, "axis", 1); });
  EXPECT_EQ(value_of(graph).shape, (std::vector<int64_t>{many, 0}));
}

TEST(OnnxConstants, IndicesThatAreNotZero) {
  const dsl::Array indices = value_of(computed("NonZero", {floats("x", {2, 2}, {1, 0, 1, 1})}));
  EXPECT_EQ(indices.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_THAT(elements(indices), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_EQ(value_of(computed("NonZero", {floats("x", {2}, {0, 0})})).shape,
            (std::vector<int64_t>{1, 0}));
}

TEST(OnnxConstants, Fault58_NonZeroOfTheInputIsUnsupported) {
  ModelProto model = empty_model();
  add_input(model, "x", {2});
  add_node(model, "NonZero", {"x"}, {"y"}, "node");
  add_output(model, "y");
  EXPECT_THAT(imported(model).error().message,
              HasSubstr("not implemented where its inputs are not known at import"));
}

TEST(OnnxConstants, DropoutIsThatOfInference) {
  ModelProto model = empty_model(13);
  add_input(model, "x", {2});
  NodeProto& node = add_node(model, "Dropout", {"x"}, {"y", "mask"}, "drop");
  add_output(model, "y");
  add_output(model, "mask");
  const dsl::Array mask = value_of(imported(model), "mask");
  EXPECT_EQ(mask.type, Bool);
  EXPECT_THAT(elements(mask), ElementsAre(1, 1));
  node.add_input("");
  node.add_input("training");
  TensorProto training = tensor_of("training", TensorProto::BOOL, {});
  training.add_int32_data(1);
  add_initializer(model, training);
  EXPECT_THAT(imported(model).error().message, HasSubstr("training is not implemented"));
}

TEST(OnnxConstants, GathersAndScattersOfConstantsAreComputed) {
  const TensorProto data = floats("d", {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto on_axis = [](int64_t axis, const std::string& reduction = "") {
    return [=](NodeProto& node) {
      set_integer(node, "axis", axis);
      if (!reduction.empty())
        add_attribute(node, "reduction", AttributeProto::STRING).set_s(reduction);
    };
  };
  EXPECT_THAT(elements(value_of(
                  computed("GatherElements", {data, integers("i", {2, 1}, {2, -3})}, on_axis(1)))),
              ElementsAre(3, 4));
  EXPECT_THAT(elements(value_of(computed("GatherND", {data, integers("i", {2, 1}, {1, 0})}))),
              ElementsAre(4, 5, 6, 1, 2, 3));
  const std::vector<TensorProto> elements_of = {data, integers("i", {1, 2}, {1, 1}),
                                                floats("u", {1, 2}, {10, 20})};
  EXPECT_THAT(elements(value_of(computed("ScatterElements", elements_of, on_axis(1)))),
              ElementsAre(1, 20, 3, 4, 5, 6));
  EXPECT_THAT(elements(value_of(computed("ScatterElements", elements_of, on_axis(1, "add")))),
              ElementsAre(1, 32, 3, 4, 5, 6));
  EXPECT_THAT(elements(value_of(computed("ScatterElements", elements_of, on_axis(1, "max")))),
              ElementsAre(1, 20, 3, 4, 5, 6));
  const std::vector<TensorProto> slices = {data, integers("i", {2, 1}, {1, 1}),
                                           floats("u", {2, 3}, {7, 8, 9, 1, 1, 1})};
  EXPECT_THAT(elements(value_of(computed("ScatterND", slices))), ElementsAre(1, 2, 3, 1, 1, 1));
  EXPECT_THAT(elements(value_of(
                  computed("ScatterND", slices,
                           [](NodeProto& node) {
                             add_attribute(node, "reduction", AttributeProto::STRING).set_s("mul");
                           }))),
              ElementsAre(1, 2, 3, 28, 40, 54));
  for (const char* op : {"GatherElements", "ScatterElements"})
    EXPECT_THAT(computed(op, {data, integers("i", {1, 2}, {3, 0}), floats("u", {1, 2}, {10, 20})},
                         on_axis(1))
                    .error()
                    .message,
                HasSubstr("the index 3 of 3 elements"));
}

// The interpreter would compare each of 2^20 elements with 2^19 updates, which would take too long.
TEST(OnnxConstants, AScatterOfManyElementsIsComputed) {
  constexpr int64_t n = 1 << 20;
  std::vector<int64_t> indices(n);
  for (int64_t i = 0; i < n; ++i) indices[static_cast<size_t>(i)] = n - 1 - i;
  const std::vector<float> ones(n, 1), zeros(n, 0);
  const dsl::Array result = value_of(computed(
      "ScatterElements",
      {floats("d", {n}, zeros), integers("i", {n / 2}, {indices.begin(), indices.begin() + n / 2}),
       floats("u", {n / 2}, {ones.begin(), ones.begin() + n / 2})}));
  EXPECT_EQ(result.get_float(0), 0);
  EXPECT_EQ(result.get_float(n / 2), 1);
}

}  // namespace
}  // namespace tw::graph
