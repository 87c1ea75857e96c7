// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "graph/onnx/graph_builder.h"
#include "graph/onnx/names.h"
#include "graph/onnx/node_order.h"
#include "graph/onnx/wire.h"

namespace tw::graph::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

dsl::Compute compute_of(const std::string& text) { return dsl::parse_compute(text).value(); }

dsl::Array integers_of(const std::vector<int64_t>& values) {
  dsl::Array array = dsl::Array::make(Int64, {std::ssize(values)}).value();
  for (size_t i = 0; i < values.size(); ++i) array.set_int(static_cast<int64_t>(i), values[i]);
  return array;
}

const std::string twice = "input a: i64[2]\nb: i64[i=2] = a[i] * 2";

TEST(GraphBuilder, ComputesWhatIsKnown) {
  GraphBuilder builder;
  builder.add_initializer("a", integers_of({3, 4}));
  ASSERT_TRUE(builder.add(compute_of(twice), {"a"}, {"b"}));
  ASSERT_TRUE(builder.add(compute_of(twice), {"b"}, {"c"}));
  const Value value = builder.value("c");
  ASSERT_NE(value.constant, nullptr);
  EXPECT_EQ(value.constant->array->get_int(1), 16);
  const Graph graph = builder.finish({{"c", "c"}}).value();
  EXPECT_THAT(graph.operators, IsEmpty());
  EXPECT_EQ(graph.constants.size(), 1u);
}

TEST(GraphBuilder, LeavesWhatIsLargeToThePasses) {
  GraphBuilder builder;
  builder.add_initializer("a", integers_of({3, 4}));
  const std::string large = "input a: i64[2]\nb: i64[i=1048577] = a[i % 2]";
  ASSERT_TRUE(builder.add(compute_of(large), {"a"}, {"b"}));
  const std::string slow = "input a: i64[2]\nb: i64[i=2] = sum(r=100000000) a[i] * a[r % 2]";
  ASSERT_TRUE(builder.add(compute_of(slow), {"a"}, {"c"}));
  EXPECT_EQ(builder.value("b").constant, nullptr);
  EXPECT_EQ(builder.value("c").constant, nullptr);
  EXPECT_EQ(builder.finish({{"b", "b"}, {"c", "c"}}).value().operators.size(), 2u);
}

TEST(GraphBuilder, AliasesAreResolvedAndOutputsKeepTheirNames) {
  GraphBuilder builder;
  builder.add_input("x", {Int64, {2}});
  ASSERT_TRUE(builder.add(compute_of(twice), {"x"}, {"t"}));
  ASSERT_TRUE(builder.alias("y", "t"));
  ASSERT_TRUE(builder.alias("z", "y"));
  EXPECT_EQ(builder.value("z").name, "t");
  ASSERT_TRUE(builder.add(compute_of(twice), {"z"}, {"u"}));
  const Graph graph = builder.finish({{"y", "y"}, {"u", "u"}}).value();
  EXPECT_THAT(graph.outputs, ElementsAre("y", "u"));
  ASSERT_EQ(graph.operators.size(), 2u);
  EXPECT_THAT(graph.operators[1].inputs, ElementsAre("y"));
}

TEST(GraphBuilder, DropsWhatNoOutputNeeds) {
  GraphBuilder builder;
  builder.add_input("x", {Int64, {2}});
  builder.add_initializer("a", integers_of({3, 4}));
  ASSERT_TRUE(builder.add(compute_of(twice), {"x"}, {"y"}));
  ASSERT_TRUE(builder.add(compute_of(twice), {"y"}, {"dead"}));
  ASSERT_TRUE(builder.add(compute_of(twice), {"dead"}, {""}));
  const Graph graph = builder.finish({{"y", "y"}}).value();
  EXPECT_EQ(graph.operators.size(), 1u);
  EXPECT_TRUE(graph.constants.empty());
}

TEST(GraphBuilder, WrongTypesAndWeightsAreErrors) {
  GraphBuilder builder;
  builder.add_input("x", {Float32, {2}});
  const auto wrong = builder.add(compute_of(twice), {"x"}, {"y"});
  EXPECT_EQ(wrong.error().code, ErrorCode::Invalid);
  EXPECT_THAT(wrong.error().message, HasSubstr("'x' is f32[2], expected i64[2]"));
  dsl::Compute weighted = compute_of("input a: f32[2]\nb: f32[i=2] = a[i]");
  weighted.inputs[0].constant = true;
  EXPECT_EQ(builder.add(weighted, {"x"}, {"y"}).error().code, ErrorCode::Unsupported);
}

TEST(GraphBuilder, Fault61_OutputsOf2To44Elements) {
  GraphBuilder builder;
  builder.add_input("x", {Int64, {2}});
  const std::string bomb = "input a: i64[2]\nb: i64[i=17592186044416] = a[i % 2]";
  const auto added = builder.add(compute_of(bomb), {"x"}, {"y"});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::Unsupported);
}

TEST(GraphBuilder, ClaimedNamesAreDistinct) {
  GraphBuilder builder;
  EXPECT_EQ(builder.claim("a"), "a");
  EXPECT_EQ(builder.claim("a_1"), "a_1");
  EXPECT_EQ(builder.claim("a"), "a_2");
  EXPECT_EQ(builder.fresh_name("a"), "a_3");
  EXPECT_EQ(builder.claim(""), "_");
}

TEST(OnnxNames, AreValidAndShort) {
  EXPECT_EQ(tensor_name("conv1/w:0"), "conv1/w_0");
  EXPECT_EQ(tensor_name("a b\tc\x7f\xc3\xa4"), "a_b_c___");
  EXPECT_EQ(tensor_name(std::string(1000, 'x')).size(), 200u);
  EXPECT_EQ(printable("a\nb\xff"), "a?b?");
  EXPECT_EQ(printable(std::string(1000, 'x')), std::string(100, 'x') + "...");
  EXPECT_EQ(without_prefix("[onnx] why"), "why");
  EXPECT_EQ(without_prefix("why"), "why");
}

TEST(NodeOrder, KeepsTheOrderWhereItCan) {
  const std::vector<NodeNames> nodes = {
      {{"c"}, {"d"}}, {{"x"}, {"b"}}, {{"x"}, {"dead"}}, {{"b", "b"}, {"c"}}, {{"y"}, {"e"}}};
  EXPECT_THAT(order_nodes(nodes, {"d", "e"}).nodes, ElementsAre(1, 3, 0, 4));
  EXPECT_THAT(order_nodes(nodes, {"b"}).nodes, ElementsAre(1));
  EXPECT_THAT(order_nodes(nodes, {"x"}).nodes, IsEmpty());
}

TEST(NodeOrder, Fault59_FindsANodeOnACycle) {
  const std::vector<NodeNames> nodes = {
      {{"b"}, {"out"}}, {{"x"}, {"a"}}, {{"a", "c"}, {"b"}}, {{"b"}, {"c"}}, {{"e"}, {"e"}}};
  const NodeOrder order = order_nodes(nodes, {"out"});
  ASSERT_TRUE(order.on_cycle);
  EXPECT_TRUE(*order.on_cycle == 2 || *order.on_cycle == 3);
  EXPECT_FALSE(order_nodes(nodes, {"a"}).on_cycle);
}

TEST(NodeOrder, Fault79_ADiamondOf30Levels) {
  // At each level, two nodes read the result of the level before, and a third joins them.
  std::vector<std::string> names(91);
  for (size_t i = 0; i < names.size(); ++i) names[i] = "t" + std::to_string(i);
  std::vector<NodeNames> nodes;
  for (size_t i = 0; i + 3 < names.size(); i += 3) {
    nodes.push_back({{names[i]}, {names[i + 1]}});
    nodes.push_back({{names[i]}, {names[i + 2]}});
    nodes.push_back({{names[i + 1], names[i + 2]}, {names[i + 3]}});
  }
  EXPECT_EQ(order_nodes(nodes, {names.back()}).nodes.size(), 90u);
}

TEST(UnreadFields, Fault57_KnownFieldsAreErrors) {
  const FieldSet fields = {1, 20};
  EXPECT_TRUE(check_unread("", fields, "it"));
  EXPECT_TRUE(check_unread(std::string_view("\x12\x02zz", 4), fields, "it"));  // field 2, bytes
  EXPECT_FALSE(check_unread(std::string_view("\x08\x01", 2), fields, "it"));   // field 1, a number
  EXPECT_FALSE(check_unread(std::string_view("\xa5\x01zzzz", 6), fields, "it"));  // field 20
  EXPECT_FALSE(check_unread(std::string_view("\x12\x7fz", 3), fields, "it"));     // cut off
  EXPECT_FALSE(check_unread(std::string_view("\x13", 1), fields, "it"));          // a group
}

}  // namespace
}  // namespace tw::graph::onnx
