// SPDX-License-Identifier: Apache-2.0
// Fuzz target for ONNX models, which must be imported or refused. Mutations know the wire format of
// protobuf.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/fuzz/promises.h"
#include "tests/fuzz/target.h"
#include "tests/graph/onnx_models.h"

namespace tw::fuzz {
namespace {

using namespace graph;

// ---- models to begin with -----------------------------------------------------------------------

ModelProto convolution_model() {
  ModelProto model = empty_model();
  add_input(model, "x", {1, 2, 5, 5});
  add_initializer(model, floats("w", {2, 2, 3, 3}, std::vector<float>(36, 0.5f)));
  add_initializer(model, floats("b", {2}, {1, -1}));
  NodeProto& conv = add_node(model, "Conv", {"x", "w", "b"}, {"c"}, "conv");
  AttributeProto& pads = add_attribute(conv, "pads", AttributeProto::INTS);
  for (int i = 0; i < 4; ++i) pads.add_ints(1);
  add_node(model, "Relu", {"c"}, {"r"});
  add_node(model, "Add", {"r", "x"}, {"s"});
  add_node(model, "MaxPool", {"s"}, {"p"});
  AttributeProto& kernel =
      add_attribute(*model.mutable_graph()->mutable_node(3), "kernel_shape", AttributeProto::INTS);
  kernel.add_ints(2);
  kernel.add_ints(2);
  add_node(model, "Flatten", {"p"}, {"y"});
  add_output(model, "y");
  return model;
}

/// Returns a model with arithmetic on shapes: x is reshaped to a shape that is computed from the
/// shape of x. NonZero and Range give tensors whose shapes depend on values.
ModelProto shape_model() {
  ModelProto model = empty_model();
  add_input(model, "x", {2, 3, 4});
  add_node(model, "Shape", {"x"}, {"s"});
  add_node(model, "Gather", {"s", "first"}, {"g"});
  add_node(model, "Concat", {"g", "rest"}, {"t"});
  add_attribute(*model.mutable_graph()->mutable_node(2), "axis", AttributeProto::INT).set_i(0);
  add_node(model, "Reshape", {"x", "t"}, {"r"});
  add_node(model, "ConstantOfShape", {"t2"}, {"z"});
  add_node(model, "NonZero", {"z"}, {"n"});
  add_node(model, "Range", {"zero", "five", "one"}, {"q"});
  add_node(model, "MatMul", {"r", "w"}, {"m"});
  add_node(model, "Softmax", {"m"}, {"y"});
  add_initializer(model, integers("first", {1}, {0}));
  add_initializer(model, integers("rest", {1}, {-1}));
  add_initializer(model, integers("t2", {2}, {3, 2}));
  add_initializer(model, integers("zero", {}, {0}));
  add_initializer(model, integers("five", {}, {5}));
  add_initializer(model, integers("one", {}, {1}));
  add_initializer(model, floats("w", {12, 2}, std::vector<float>(24, 1)));
  for (const std::string output : {"y", "n", "q"}) add_output(model, output);
  return model;
}

/// Returns a model that calls a function with an attribute in a branch.
ModelProto nested_model() {
  ModelProto model = empty_model();
  FunctionProto& function = *model.add_functions();
  function.set_domain("local");
  function.set_name("fill");
  function.add_opset_import()->set_version(17);
  function.add_input("shape");
  function.add_output("out");
  add_attribute(add_node(function, "ConstantOfShape", {"shape"}, {"out"}), "value",
                AttributeProto::TENSOR)
      .set_ref_attr_name("number");
  add_node(function, "fill", {"shape"}, {"again"}).set_domain("local");
  TensorProto condition = tensor_of("c", TensorProto::BOOL, {});
  condition.set_raw_data("\1");
  add_initializer(model, condition);
  add_initializer(model, integers("n", {1}, {3}));
  NodeProto& choice = add_node(model, "If", {"c"}, {"y"});
  for (const std::string name : {"then_branch", "else_branch"}) {
    GraphProto& branch = *add_attribute(choice, name, AttributeProto::GRAPH).mutable_g();
    NodeProto& call = add_node(branch, "fill", {"n"}, {"v"});
    call.set_domain("local");
    *add_attribute(call, "number", AttributeProto::TENSOR).mutable_t() = floats("", {1}, {2});
    add_output(branch, "v");
  }
  add_output(model, "y");
  return model;
}

std::vector<std::string> onnx_seeds() {
  std::vector<std::string> models;
  for (const ModelProto& model :
       {identity_model(), convolution_model(), shape_model(), nested_model()})
    models.push_back(model.SerializeAsString());
  return models;
}

// ---- mutations ----------------------------------------------------------------------------------

struct WireField {
  uint64_t tag = 0;
  std::string value;  ///< as on the wire, but without the length
  bool has_length() const { return (tag & 7) == 2; }
};

bool take_number(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::string number_on_wire(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// Returns the fields of a message; none if the bytes are no message.
std::vector<WireField> fields_of(std::string_view bytes) {
  std::vector<WireField> fields;
  while (!bytes.empty()) {
    WireField field;
    if (!take_number(bytes, field.tag) || field.tag >> 3 == 0) return {};
    const std::string_view begin = bytes;
    uint64_t size = 0;
    switch (field.tag & 7) {
      case 0:
        if (!take_number(bytes, size)) return {};
        field.value = begin.substr(0, begin.size() - bytes.size());
        break;
      case 1:
      case 5:
        size = (field.tag & 7) == 1 ? 8 : 4;
        [[fallthrough]];
      case 2:
        if (field.has_length() && !take_number(bytes, size)) return {};
        if (size > bytes.size()) return {};
        field.value = bytes.substr(0, size);
        bytes.remove_prefix(size);
        break;
      default:
        return {};
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string on_wire(const std::vector<WireField>& fields) {
  std::string bytes;
  for (const WireField& field : fields) {
    bytes += number_on_wire(field.tag);
    if (field.has_length()) bytes += number_on_wire(field.value.size());
    bytes += field.value;
  }
  return bytes;
}

std::string random_value(const WireField& field, Random& random) {
  static const std::vector<uint64_t> numbers = {0,
                                                1,
                                                2,
                                                3,
                                                7,
                                                127,
                                                65536,
                                                1u << 24,
                                                0x7fffffff,
                                                uint64_t{1} << 40,
                                                uint64_t{1} << 60,
                                                INT64_MAX,
                                                uint64_t{1} << 63,
                                                UINT64_MAX,
                                                UINT64_MAX - 1};
  if ((field.tag & 7) == 0) return number_on_wire(random.pick(numbers));
  std::string value = field.value;
  for (char& c : value)
    if (random.chance(0.3)) c = static_cast<char>(random.below(256));
  return value;
}

/// Changes a field of the message or of a message inside of it. The field is deleted, doubled or
/// swapped, gets another number, type or value, or is replaced by one of `other`.
std::string with_changed_field(std::string_view bytes, const std::vector<WireField>& other,
                               Random& random) {
  std::vector<WireField> fields = fields_of(bytes);
  if (fields.empty()) return std::string(bytes);
  const auto any = [&](const std::vector<WireField>& of) {
    return static_cast<size_t>(random.below(std::ssize(of)));
  };
  const size_t i = any(fields);
  WireField& field = fields[i];
  if (field.has_length() && !fields_of(field.value).empty() && random.chance(0.85)) {
    field.value = with_changed_field(field.value, other, random);
    return on_wire(fields);
  }
  switch (random.below(8)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(i), WireField(field));
      break;
    case 2:
      std::swap(field, fields[any(fields)]);
      break;
    case 3:
      field.tag = (field.tag & 7) | static_cast<uint64_t>(1 + random.below(26)) << 3;
      break;
    case 4:
      field.tag = (field.tag & ~uint64_t{7}) | static_cast<uint64_t>(random.below(6));
      break;
    case 5:
      field = other[any(other)];
      break;
    case 6:
      field.value = fields[any(fields)].value;
      break;
    default:
      field.value = random_value(field, random);
  }
  return on_wire(fields);
}

std::string with_flipped_bits(std::string bytes, Random& random) {
  for (int64_t i = 1 + random.below(4); i > 0; --i)
    bytes[static_cast<size_t>(random.below(std::ssize(bytes)))] ^=
        static_cast<char>(1 << random.below(8));
  return bytes;
}

/// Appends all fields of a message and of the messages inside of it.
void collect_fields(std::string_view bytes, std::vector<WireField>& all) {
  for (const WireField& field : fields_of(bytes)) {
    all.push_back(field);
    if (field.has_length()) collect_fields(field.value, all);
  }
}

std::string mutated_model(const std::string& input, const std::string& other, Random& random) {
  if (input.empty()) return other;
  const double kind = random.unit();
  if (kind < 0.1) return input.substr(0, static_cast<size_t>(random.below(std::ssize(input))));
  if (kind < 0.3) return with_flipped_bits(input, random);
  std::vector<WireField> fields;
  collect_fields(other, fields);
  std::string bytes = input;
  if (fields.empty()) return with_flipped_bits(bytes, random);
  for (int64_t i = 1 + random.below(3); i > 0; --i)
    bytes = with_changed_field(bytes, fields, random);
  return bytes;
}

bool onnx_accepts(std::string_view input) {
  const auto imported = parse_onnx(input, "");
  if (imported) {
    TW_CHECK(validate(imported->graph), "a graph that was imported must be valid");
    return true;
  }
  const Error& error = imported.error();
  check_error(error);
  TW_CHECK(error.code == ErrorCode::Invalid || error.code == ErrorCode::Unsupported ||
           error.code == ErrorCode::Usage);
  TW_CHECK(error.message.starts_with("[onnx] "));
  return false;
}

}  // namespace

const Target onnx_target = {.name = "onnx",
                            .summary = "ONNX models",
                            .seeds = onnx_seeds,
                            .accepts = onnx_accepts,
                            .words = {"Conv", "Reshape", "Loop", "If", "Tile", "Expand", "Range",
                                      "ConstantOfShape", "local", "ai.onnx"},
                            .mutated = mutated_model};

}  // namespace tw::fuzz
