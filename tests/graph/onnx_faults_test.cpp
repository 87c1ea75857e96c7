// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "graph/onnx/import.h"
#include "tests/graph/onnx_imports.h"
#include "tests/graph/onnx_models.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(OnnxImport, Fault58_AConditionThatIsDataAndBranchesOfOtherShapes) {
  ModelProto model = if_model(true);
  model.mutable_graph()->clear_initializer();
  add_input(model, "c", {}, TensorProto::BOOL);
  auto& then_branch = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  *then_branch.mutable_initializer(0) = floats("w", {2}, {4, 4});
  expect_unsupported(model,
                     "node 'choice' (If): its condition is not known at import, and its branches "
                     "give f32[2] and f32[1]; --constant NAME=VALUE gives");
  EXPECT_TRUE(imported(model, {.constants = {{"c", {1}}}}));
}

TEST(OnnxImport, Fault58_LoopsThatAreNotKnownAtImportAreUnsupported) {
  expect_unsupported(loop_model(0), "node 'loop' (Loop): results of all trips of a loop without");
  expect_unsupported(loop_model(4, false), "results of all trips of a loop without trips");
  ModelProto counted = loop_model(4);
  counted.mutable_graph()->mutable_initializer()->DeleteSubrange(0, 1);
  add_input(counted, "count", {}, TensorProto::INT64);
  expect_unsupported(counted, "node 'loop' (Loop): its input 'count' is not known at import");
  ModelProto conditional = loop_model(4);
  GraphProto& body =
      *conditional.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.mutable_node(4)->set_op_type("Less");
  body.mutable_node(4)->set_input(0, "x");
  body.mutable_node(4)->add_input("k");
  expect_unsupported(conditional, "its condition after a trip is not known at import to hold");
  ModelProto changing = scan_model();
  changing.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(5)
      ->mutable_g()
      ->mutable_node(1)
      ->set_op_type("Greater");
  expect_unsupported(changing, "a state of its loop is f32[2] before a trip and bool[2] after it");
}

// ---- 57: damage ---------------------------------------------------------------------------------

TEST(OnnxImport, Fault57_EveryPrefixOfAModelIsAnError) {
  const std::string bytes = if_model(true).SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto graph = parse_onnx(std::string_view(bytes).substr(0, size), "");
    EXPECT_FALSE(graph) << size;
  }
}

TEST(OnnxImport, Fault57_WhatIsNoModelIsInvalid) {
  expect_error(parse_onnx("", ""), ErrorCode::Invalid, "this is no model");
  expect_error(parse_onnx("hello, world", ""), ErrorCode::Invalid, "cannot be read");
  ModelProto model = identity_model();
  model.set_ir_version(99);
  expect_unsupported(model, "version 99 of the format");
}

TEST(OnnxImport, Fault57_AMessageOfTwoGigabytes) {
  // Field 7, the graph, claims 2^31 - 1 bytes that are missing.
  expect_error(parse_onnx("\x08\x08\x3a\xff\xff\xff\xff\x07", ""), ErrorCode::Invalid,
               "cannot be read");
}

TEST(OnnxImport, Fault57_AFieldOfAWrongWireTypeIsNotLost) {
  ModelProto model = identity_model();
  model.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->append("\x18\x01", 2);
  expect_invalid(model, "node 'same' (Identity): field 3 has a wrong type or value");
  model = constant_model(floats("w", {1}, {1}));
  model.mutable_graph()->mutable_initializer(0)->mutable_unknown_fields()->append("\x70\x07", 2);
  expect_invalid(model, "tensor 'w': field 14");
}

TEST(OnnxImport, Fault57_FieldsOfLaterSchemasAreSkipped) {
  ModelProto model = identity_model();
  model.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->append("\xb8\x01\x01", 3);
  EXPECT_TRUE(imported(model));
}

TEST(OnnxImport, Fault57_DataThatDoNotFillTheShape) {
  TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {2});
  expect_invalid(constant_model(tensor), "tensor 'w': it has no data, expected 2 elements");
  for (const size_t size : {1u, 7u, 9u, 12u}) {
    tensor.set_raw_data(std::string(size, 'x'));
    expect_invalid(constant_model(tensor),
                   fmt::format("tensor 'w': raw_data has {} bytes, expected 8", size));
  }
  expect_invalid(constant_model(floats("w", {2}, {1})), "float_data has 1 elements, expected 2");
  expect_invalid(constant_model(floats("w", {2}, {1, 2, 3})), "float_data has 3 elements");
}

TEST(OnnxImport, Fault57_DataInTwoFields) {
  TensorProto tensor = floats("w", {1}, {1});
  tensor.set_raw_data("abcd");
  expect_invalid(constant_model(tensor), "its elements are in float_data and in raw_data");
  tensor = floats("w", {1}, {1});
  tensor.add_int32_data(1);
  expect_invalid(constant_model(tensor), "its elements are in float_data and in int32_data");
}

TEST(OnnxImport, Fault57_DataInTheFieldOfAnotherType) {
  TensorProto tensor = floats("w", {1}, {1});
  tensor.set_data_type(TensorProto::INT64);
  expect_invalid(constant_model(tensor), "its elements are in float_data, expected int64_data");
}

TEST(OnnxImport, Fault57_NumbersOutsideOfTheirType) {
  TensorProto tensor = tensor_of("w", TensorProto::UINT8, {1});
  tensor.add_int32_data(256);
  expect_invalid(constant_model(tensor), "tensor 'w': 256 is no u8");
}

TEST(OnnxImport, Fault57_ShapesThatCannotBe) {
  expect_invalid(constant_model(tensor_of("w", TensorProto::FLOAT, {-1})), "a dimension is -1");
  const int64_t large = int64_t{1} << 40;
  expect_invalid(constant_model(tensor_of("w", TensorProto::FLOAT, {large, large})),
                 "more elements than can be counted");
  expect_invalid(constant_model(tensor_of("w", TensorProto::FLOAT, {large})), "it has no data");
  expect_unsupported(
      constant_model(tensor_of("w", TensorProto::FLOAT, std::vector<int64_t>(1000, 1))),
      "1000 dimensions");
}

TEST(OnnxImport, Fault57_AttributesOfTwoKinds) {
  ModelProto model = identity_model();
  NodeProto& node = *model.mutable_graph()->mutable_node(0);
  AttributeProto& attribute = add_attribute(node, "axis", AttributeProto::INT);
  attribute.set_i(1);
  attribute.set_f(1);
  expect_invalid(model, "node 'same' (Identity): its attribute 'axis' has a value of another kind");
  attribute.clear_i();
  expect_invalid(model, "its attribute 'axis' has a value of another kind");
  attribute.clear_f();
  add_attribute(node, "axis", AttributeProto::INT);
  expect_invalid(model, "its attribute 'axis' is given twice");
}

// ---- 58: what is not implemented ----------------------------------------------------------------

TEST(OnnxImport, Fault58_AllThatIsUnsupportedIsListedAtOnce) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  add_node(model, "Nonsense", {"x"}, {"a"}, "first");
  add_node(model, "Identity", {"a"}, {"b"}, "behind");
  add_node(model, "OtherNonsense", {"b"}, {"c"}, "second");
  add_node(model, "Identity", {"c"}, {"d"}, "third").set_domain("com.example");
  add_node(model, "Identity", {"s"}, {"e"}, "fourth");
  add_initializer(model, tensor_of("s", TensorProto::UINT64, {1}));
  add_output(model, "d");
  add_output(model, "e");
  const auto graph = imported(model);
  expect_error(graph, ErrorCode::Unsupported, "4 parts of the model are not implemented:\n");
  const std::string& message = graph.error().message;
  EXPECT_THAT(message, HasSubstr("\n  node 'first' (Nonsense): not implemented at opset 17\n"));
  EXPECT_THAT(message, HasSubstr("\n  node 'second' (OtherNonsense): not implemented"));
  EXPECT_THAT(message, HasSubstr("\n  node 'third' (Identity): the domain 'com.example'"));
  EXPECT_THAT(message, HasSubstr("\n  tensor 's': the element type uint64 is not implemented"));
  EXPECT_THAT(message, Not(HasSubstr("behind")));
}

TEST(OnnxImport, Fault58_NodesThatLackTheSameAreOneLine) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  for (int i = 0; i < 48; ++i) {
    add_node(model, "Nonsense", {"x"}, {fmt::format("y{}", i)}, fmt::format("n{}", i));
    add_output(model, fmt::format("y{}", i));
  }
  expect_unsupported(model,
                     "[onnx] 48 nodes (Nonsense): not implemented at opset 17; the first is 'n0'");
  add_node(model, "Other", {"x"}, {"z"}, "single");
  add_output(model, "z");
  expect_unsupported(model,
                     "49 parts of the model are not implemented:\n"
                     "  48 nodes (Nonsense): not implemented at opset 17; the first is 'n0'\n"
                     "  node 'single' (Other): not implemented at opset 17");
}

TEST(OnnxImport, Fault58_Opsets) {
  for (const int64_t opset : {5, 29, 1000})
    expect_unsupported(
        [&] {
          ModelProto model = identity_model();
          model.mutable_opset_import(0)->set_version(opset);
          return model;
        }(),
        fmt::format("opset {} is not implemented, expected 6 to 28", opset));
  ModelProto model = identity_model();
  model.clear_opset_import();
  expect_invalid(model, "node 'same' (Identity): the model imports no opset");
  model.add_opset_import()->set_version(-3);
  expect_invalid(model, "there is no opset -3");
  model.mutable_opset_import(0)->set_version(17);
  model.add_opset_import()->set_domain("ai.onnx");
  model.mutable_opset_import(1)->set_version(18);
  expect_invalid(model, "the opsets 17 and 18 are both imported");
}

TEST(OnnxImport, Fault58_TheDomainHasTwoNames) {
  ModelProto model = identity_model();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  EXPECT_TRUE(imported(model));
}

TEST(OnnxImport, Fault58_InputsOfOtherTypes) {
  ModelProto model = empty_model();
  add_input(model, "x", {3}, TensorProto::STRING);
  add_node(model, "Identity", {"x"}, {"y"});
  add_output(model, "y");
  expect_unsupported(model, "input 'x': the element type string is not implemented");
  auto& type = *model.mutable_graph()->mutable_input(0)->mutable_type();
  type.mutable_tensor_type()->set_elem_type(77);
  expect_invalid(model, "input 'x': 77 is no element type");
  type.mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  type.mutable_tensor_type()->clear_shape();
  expect_unsupported(model, "input 'x': its number of dimensions is not known");
  type.mutable_sequence_type();
  expect_unsupported(model, "input 'x': its type is not implemented");
}

TEST(OnnxImport, Fault58_SparseInitializers) {
  ModelProto model = identity_model();
  model.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("w");
  EXPECT_TRUE(imported(model));
  model.mutable_graph()->mutable_node(0)->set_input(0, "w");
  expect_unsupported(model, "tensor 'w': sparse tensors are not implemented");
}

TEST(OnnxImport, Fault58_AnOutputThatIsNotImplemented) {
  ModelProto model = empty_model(7);
  add_input(model, "x", {3});
  add_node(model, "Dropout", {"x"}, {"y", "mask"}, "drop");
  add_output(model, "mask");
  expect_unsupported(model, "node 'drop' (Dropout): its output 1 is not implemented");
}

// ---- 59: names and order --------------------------------------------------------------------

TEST(OnnxImport, Fault59_CyclesNameANodeOnThem) {
  ModelProto model = empty_model();
  add_node(model, "Identity", {"c"}, {"a"}, "one");
  add_node(model, "Identity", {"a"}, {"b"}, "two");
  add_node(model, "Identity", {"b"}, {"a2"}, "behind");
  add_node(model, "Identity", {"b"}, {"c"}, "three");
  add_output(model, "a2");
  const auto graph = imported(model);
  expect_error(graph, ErrorCode::Invalid, "(Identity): it needs its own output");
  EXPECT_THAT(graph.error().message, Not(HasSubstr("behind")));
  ModelProto itself = identity_model();
  itself.mutable_graph()->mutable_node(0)->set_input(0, "y");
  expect_invalid(itself, "node 'same' (Identity): it needs its own output");
}

TEST(OnnxImport, Fault59_NamesThatAreGivenTwice) {
  ModelProto model = identity_model();
  add_node(model, "Identity", {"x"}, {"y"}, "again");
  expect_invalid(model, "node 'again' (Identity): 'y' is given twice");
  model = identity_model();
  model.mutable_graph()->mutable_node(0)->set_output(0, "x");
  expect_invalid(model, "node 'same' (Identity): 'x' is given twice");
  model = identity_model();
  add_input(model, "x", {1});
  expect_invalid(model, "the input 'x' is given twice");
  model = identity_model();
  add_output(model, "y");
  expect_invalid(model, "the output 'y' is given twice");
  model = constant_model(floats("w", {1}, {1}));
  add_initializer(model, floats("w", {1}, {1}));
  expect_invalid(model, "the initializer 'w' is given twice");
}

TEST(OnnxImport, Fault59_OutputsThatAreDeclaredOtherwise) {
  const auto warnings = [](const ModelProto& model) {
    const auto read = parse_onnx(model.SerializeAsString(), "");
    return read ? read->warnings : std::vector<std::string>{"[error] " + read.error().message};
  };
  EXPECT_THAT(
      warnings(model_with_output({1, 2, 4})),
      ElementsAre("the output 'y' is declared as f32[1, 2, 4], but its nodes give f32[1, 2, "
                  "3]"));
  EXPECT_THAT(warnings(model_with_output({-1, 6})), ElementsAre(HasSubstr("as f32[batch, 6]")));
  EXPECT_THAT(warnings(model_with_output({1, 2, 3})), IsEmpty());
  expect_invalid(model_with_output({1, 2, 3}, TensorProto::INT64),
                 "declared as i64[1, 2, 3], but its nodes give f32[1, 2, 3]");
  ModelProto shapeless = model_with_output({}, TensorProto::FLOAT16);
  expect_invalid(shapeless, "declared as f16, but its nodes give f32[1, 2, 3]");
}

TEST(OnnxImport, Fault59_NamesThatNothingGives) {
  ModelProto model = identity_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "z");
  expect_invalid(model, "node 'same' (Identity): it reads 'z', which nothing gives");
  model = identity_model();
  add_output(model, "z");
  expect_invalid(model, "no node gives the output 'z'");
  model = identity_model();
  model.mutable_graph()->clear_output();
  expect_invalid(model, "has no outputs");
  model = identity_model();
  model.mutable_graph()->mutable_node(0)->clear_input();
  expect_invalid(model, "node 'same' (Identity): input 0 is left out");
}

TEST(OnnxImport, Fault59_AFunctionThatCallsItself) {
  ModelProto model = identity_model();
  FunctionProto& function = add_function(model, "f", {"a"}, {"b"});
  add_node(function, "f", {"a"}, {"b"}, "inner").set_domain("local");
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f");
  expect_invalid(model, "functions and branches nest more than 64 levels");
}

TEST(OnnxImport, Fault59_FunctionsThatNest3000Deep) {
  ModelProto model = identity_model();
  const int depth = 3000;
  for (int i = 0; i < depth; ++i) {
    FunctionProto& function = add_function(model, fmt::format("f{}", i), {"a"}, {"b"});
    NodeProto& inner = add_node(function, "Identity", {"a"}, {"b"});
    if (i + 1 == depth) continue;
    inner.set_op_type(fmt::format("f{}", i + 1));
    inner.set_domain("local");
  }
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f0");
  expect_invalid(model, "nest more than 64 levels");
  call.set_op_type(fmt::format("f{}", depth - 60));
  EXPECT_TRUE(imported(model));
}

TEST(OnnxImport, Fault59_FunctionsThatStandForTooManyNodes) {
  ModelProto model = identity_model();
  for (int i = 0; i < 40; ++i) {  // each calls the next one twice
    FunctionProto& function = add_function(model, fmt::format("f{}", i), {"a"}, {"c"});
    const std::string next = i == 39 ? "Identity" : fmt::format("f{}", i + 1);
    for (const auto& [from, to] : {std::pair{"a", "b"}, std::pair{"b", "c"}})
      add_node(function, next, {from}, {to}).set_domain(i == 39 ? "" : "local");
  }
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f0");
  expect_unsupported(model, "more than 100000 nodes");
}

/// Returns the tag and the length of a protobuf field with `size` bytes.
std::string field_header(int number, size_t size) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  for (; size >= 0x80; size >>= 7) bytes += static_cast<char>(size | 0x80);
  return bytes + static_cast<char>(size);
}

TEST(OnnxImport, Fault59_ALargeBranchOfAFunctionThatIsCalledOften) {
  ModelProto model = identity_model();
  model.mutable_graph()->clear_node();
  FunctionProto& function = add_function(model, "f", {"a"}, {"b"});
  add_node(function, "Identity", {"a"}, {"b"});
  NodeProto& choice = add_node(function, "If", {"a"}, {"unused"});
  GraphProto& branch = *add_attribute(choice, "then_branch", AttributeProto::GRAPH).mutable_g();
  for (int i = 0; i < 10'000; ++i) add_node(branch, "Identity", {"a"}, {fmt::format("t{}", i)});
  std::string last = "x";
  for (int i = 0; i < 1'000; ++i) {
    const std::string next = i == 999 ? "y" : fmt::format("t{}", i);
    add_node(model, "f", {last}, {next}).set_domain("local");
    last = next;
  }
  expect_unsupported(model, "or 5000000 names");
}

TEST(OnnxImport, Fault59_BranchesThatNest10000Deep) {
  // The bytes are a graph (field 7) with a node (1) with an attribute (5) with a graph (6) with a
  // node, and so on.
  std::vector<std::string> headers;
  size_t size = 0;
  for (int i = 0; i < 10'000; ++i)
    for (const int number : {6, 5, 1}) {
      headers.push_back(field_header(number, size));
      size += headers.back().size();
    }
  headers.push_back(field_header(7, size));
  std::string bytes = "\x08\x08";
  for (auto header = headers.rbegin(); header != headers.rend(); ++header) bytes += *header;
  expect_error(parse_onnx(bytes, ""), ErrorCode::Invalid, "nests messages more than 100 deep");
}

TEST(OnnxImport, Fault59_FunctionsWithWrongNames) {
  ModelProto model = identity_model();
  FunctionProto& function = add_function(model, "f", {"a", "a"}, {"b"});
  expect_invalid(model, "function 'f': 'a' is given twice");
  function.mutable_input()->RemoveLast();
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f");
  expect_invalid(model, "'b'");
  call.add_input("x");
  expect_invalid(model, "more inputs or outputs than that has");
  *model.add_functions() = function;
  expect_invalid(model, "the function 'f' is given twice");
}

TEST(OnnxImport, Fault79_AChainOf10000Nodes) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  std::string last = "x";
  for (int i = 0; i < 10'000; ++i) {
    const std::string next = fmt::format("t{}", i);
    add_node(model, "Identity", {last}, {next});
    last = next;
  }
  add_output(model, last);
  EXPECT_EQ(graph_of(model).operators.size(), 1u);
}

// ---- 61: bombs ----------------------------------------------------------------------------------

TEST(OnnxImport, Fault61_ConstantsOf2To60Elements) {
  for (const int64_t extent : {int64_t{1} << 60, int64_t{1} << 30, INT64_MAX}) {
    ModelProto model = constant_model(integers("n", {2}, {extent, 4}));
    model.mutable_graph()->clear_output();
    add_node(model, "ConstantOfShape", {"n"}, {"y"}, "bomb");
    add_output(model, "y");
    expect_unsupported(model, "node 'bomb' (ConstantOfShape): its result f32[");
  }
}

TEST(OnnxImport, Fault61_RangesOf2To60Elements) {
  ModelProto model = empty_model();
  add_initializer(model, integers("start", {}, {0}));
  add_initializer(model, integers("limit", {}, {int64_t{1} << 60}));
  add_initializer(model, integers("delta", {}, {1}));
  add_node(model, "Range", {"start", "limit", "delta"}, {"y"}, "bomb");
  add_output(model, "y");
  expect_unsupported(model, "node 'bomb' (Range): its result i64[1152921504606846976]");
}

TEST(OnnxImport, Fault61_LoopsOf2To60Trips) {
  for (const int64_t trips : {int64_t{1} << 31, int64_t{1} << 60, INT64_MAX})
    expect_unsupported(
        loop_model(trips),
        fmt::format("node 'loop' (Loop): its result i64[{}] would be made at import", trips));
}

TEST(OnnxImport, Fault61_TripsAreNotCountedUnlessTheBodyReadsTheirNumber) {
  ModelProto model = loop_model(int64_t{1} << 31);
  GraphProto& body = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.mutable_node(3)->set_input(0, "k");
  const Graph graph = graph_of(model);
  ASSERT_EQ(graph.loops.size(), 1u);
  EXPECT_EQ(graph.loops[0].trips, int64_t{1} << 31);
  EXPECT_TRUE(graph.loops[0].slices.empty());
  // A while loop has the largest possible trip count and a condition that depends on data.
  model.mutable_graph()->mutable_initializer(0)->set_int64_data(0, INT64_MAX);
  body.mutable_node(4)->set_op_type("Less");
  body.mutable_node(4)->set_input(0, "s_in");
  body.mutable_node(4)->add_input("k");
  expect_unsupported(model, "its condition after a trip is not known at import to hold");
}

TEST(OnnxImport, Fault61_ManyConstantsOfAllowedSizes) {
  expect_error(imported(two_filled_tensors(1), {.most_bytes = int64_t{100} << 20}),
               ErrorCode::Unsupported, "tensors of equal elements take at most");
}

TEST(OnnxImport, Fault61_ConstantsThatAreMadeOfOthers) {
  ModelProto model = constant_model(integers("start", {}, {0}));
  add_initializer(model, integers("delta", {}, {1}));
  for (int i = 0; i < 5; ++i) {
    add_initializer(model, integers(fmt::format("limit{}", i), {}, {(int64_t{1} << 23) - i}));
    add_node(model, "Range", {"start", fmt::format("limit{}", i), "delta"},
             {fmt::format("y{}", i)});
    add_output(model, fmt::format("y{}", i));
  }
  expect_unsupported(model, "constants that are made at import take more than");
}

TEST(OnnxImport, Fault61_ConstantsLargerThanTheLimit) {
  const ModelProto model = constant_model(floats("w", {3}, {1, 2, 3}));
  EXPECT_TRUE(imported(model, {.most_bytes = 12}));
  expect_error(imported(model, {.most_bytes = 11}), ErrorCode::Unsupported, "most_bytes");
}

TEST(OnnxImport, Fault61_RowsWithoutColumns) {
  ModelProto model = empty_model();
  add_input(model, "x", {int64_t{1} << 40, int64_t{1} << 40, 0});
  add_node(model, "Flatten", {"x"}, {"y"}, "flat");
  add_output(model, "y");
  expect_unsupported(model, "node 'flat' (Flatten): the extents of 'x' are too large");
}

TEST(OnnxImport, Fault61_InputsOf2To60Elements) {
  ModelProto model = identity_model();
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(int64_t{1} << 60);
  expect_unsupported(model, "input 'x': it is too large");
}

}  // namespace
}  // namespace tw::graph
