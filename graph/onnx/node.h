// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Node is one node of an ONNX model in the form that conversions read: without protobuf, with the
// types of the inputs and the values of constants. Private to graph/onnx.
//
// A Conversion is a row of a table in operators.cpp or operators/constants.cpp. It has the name of
// an ONNX operator, the opsets for which it holds, and a function that adds the corresponding
// operators to the graph under construction.
//
//   Status convert_relu(const Node& node, Builder& builder) {
//     const Value x = node.input(0);
//     ...
//     return builder.add(compute, {x.name}, {node.outputs[0]});
//   }

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"
#include "graph/graph.h"

namespace tw::graph::onnx {

/// A tensor that a node reads. `constant` is its value if that is known at import (an initializer,
/// or a result computed from constants), else nullptr.
struct Value {
  std::string name;
  TensorType type;
  const Constant* constant = nullptr;

  int64_t rank() const { return static_cast<int64_t>(type.shape.size()); }
};

/// The value of an attribute. The variant has a type for each kind of attribute in the default
/// domain, except for graphs. A Constant holds a tensor.
using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>, Constant>;

struct Node {
  std::string name;     ///< for messages: the name of the node, or of its first output
  std::string op_type;  ///< "Conv"
  int64_t opset = 0;    ///< version of the default domain that the model imports
  std::vector<std::optional<Value>> inputs;  ///< nullopt: an optional input that is left out
  std::vector<std::string> outputs;          ///< names of tensors; empty: nothing reads the output
  std::map<std::string, AttributeValue> attributes;

  bool has_input(size_t index) const { return index < inputs.size() && inputs[index]; }
  /// Requires: has_input(index).
  const Value& input(size_t index) const { return *inputs[index]; }

  // Each of these functions returns an attribute by its name, or `otherwise` if the attribute is
  // absent. Fails with Invalid, naming node and attribute, if the attribute is of another kind.
  Result<int64_t> integer(std::string_view attribute, int64_t otherwise) const;
  Result<double> number(std::string_view attribute, double otherwise) const;
  Result<std::string> text(std::string_view attribute, const std::string& otherwise) const;
  Result<std::vector<int64_t>> integers(std::string_view attribute,
                                        const std::vector<int64_t>& otherwise) const;
  bool has(std::string_view attribute) const { return attributes.contains(std::string(attribute)); }

  /// constant_integers() and constant_numbers() return the elements of input `index`, such as the
  /// shape of a Reshape or the axes of a ReduceSum. Both fail with Unsupported if the input is not
  /// known at import, and with Invalid if it is left out. constant_integers() also fails with
  /// Invalid if the elements are floats.
  Result<std::vector<int64_t>> constant_integers(size_t index) const;
  Result<std::vector<double>> constant_numbers(size_t index) const;
  /// Returns an attribute that is a tensor; nullptr if it is absent. Fails with Invalid if the
  /// attribute is of another kind.
  Result<const Constant*> tensor(std::string_view attribute) const;

  /// fail() returns an error with this code and a message such as "[onnx] node 'conv1' (Conv):
  /// why". invalid() and unsupported() do so for the codes Invalid and Unsupported.
  tl::unexpected<Error> fail(ErrorCode code, const std::string& why) const;
  tl::unexpected<Error> invalid(const std::string& why) const;
  tl::unexpected<Error> unsupported(const std::string& why) const;
};

/// The graph that an import builds. Its tensors have the names of the model's tensors as far as
/// possible. An empty name for an output of a function below stands for a result that nothing
/// reads.
class Builder {
 public:
  virtual ~Builder() = default;
  /// Adds an operator that computes `compute`. `inputs` and `outputs` are names of tensors, one for
  /// each input and output of the compute. If all inputs are constants and the result is small, as
  /// in shape arithmetic, the result is computed at once and the outputs are constants.
  virtual Status add(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) = 0;
  /// As above, for a named operator of dsl::operators(), such as "conv2d" with its attributes.
  virtual Status add(const dsl::Workload& workload, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) = 0;
  /// Makes `output` a second name of `value` (Identity, Dropout at inference).
  virtual Status alias(const std::string& output, const std::string& value) = 0;
  virtual Status add_constant(const std::string& output, dsl::Array array) = 0;
  /// Adds a constant whose elements all equal the single element of `value`. Equal constants are
  /// stored once. Fails with Unsupported if such constants take too much memory. Requires: `shape`
  /// has no negative extents.
  virtual Status add_filled(const std::string& output, const std::vector<int64_t>& shape,
                            const dsl::Array& value) = 0;
  /// Returns a new name, similar to `stem`, that no tensor has yet: for a tensor between the
  /// operators of one node.
  virtual std::string fresh_name(const std::string& stem) = 0;
  /// Returns the tensor with this name, which must have been added. If it is a constant, the result
  /// has its elements.
  virtual Value value(const std::string& name) const = 0;

  // Loops. Operators that are added between begin_loop() and end_loop() are the body of a loop.
  // They may also read any tensor from outside of the loop; it has the same value in every trip.
  //
  //   TW_RETURN_IF_ERROR(builder.begin_loop("rnn", steps));
  //   const std::string x = builder.add_slice("xs", false), h = builder.add_state("h0");
  //   ... add() operators that read x and h and write "h1"
  //   TW_RETURN_IF_ERROR(builder.set_next(h, "h1", "hn"));
  //   TW_RETURN_IF_ERROR(builder.add_stack("h1", "ys", false));
  //   builder.end_loop();

  /// Begins a loop. Fails with Unsupported inside of another loop. Requires: trips >= 1.
  virtual Status begin_loop(const std::string& name, int64_t trips) = 0;
  /// Adds a tensor of the body and returns its name. In trip t its value is whole[t], or
  /// whole[trips - 1 - t] if `is_backward`. Requires: the first dimension of `whole` has as many
  /// elements as the loop has trips.
  virtual std::string add_slice(const std::string& whole, bool is_backward) = 0;
  /// Adds a state, a tensor of the body, and returns its name. In the first trip its value is
  /// `first`. In each later trip it is the value of `next` in the trip before; see set_next().
  virtual std::string add_state(const std::string& first) = 0;
  /// Makes the tensor `next` of the body the value of a state after each trip. `last` becomes the
  /// name of the value after the last trip, outside of the loop; empty if nothing reads that value.
  /// Fails with Unsupported if `next` has another type than the state.
  virtual Status set_next(const std::string& state, const std::string& next,
                          const std::string& last) = 0;
  /// Adds the tensor `whole` outside of the loop, which collects the values of `tensor` in all
  /// trips. whole[t] is the value of trip t or, if `is_backward`, the value of trip trips - 1 - t.
  /// Does nothing if the name `whole` is empty.
  virtual Status add_stack(const std::string& tensor, const std::string& whole,
                           bool is_backward) = 0;
  virtual void end_loop() = 0;
};

using Convert = Status (*)(const Node& node, Builder& builder);

struct Conversion {
  std::string_view op_type;
  /// First and last opset of this conversion; if `until` is 0, the last one is the newest opset.
  int64_t since, until;
  Convert convert;
  /// Inputs 0 to least_inputs - 1 must be present; they are checked before the call.
  size_t least_inputs = 1;
};

/// Returns the conversions of the default domain, sorted by op_type, then by opset. The table is in
/// operators.cpp. The functions are in the folder operators/, in one file for each family of
/// operators.
const std::vector<Conversion>& conversions();
/// The domain of ONNX Runtime's own operators, and the conversions of this domain. The conversions
/// are sorted by op_type, and each is valid from opset 1 on.
inline constexpr std::string_view contributed_domain = "com.microsoft";
const std::vector<Conversion>& contributed_conversions();
/// Conversions that compute the results of a node at import. They are tried first if all inputs of
/// the node are constants. They exist for operators that use data as indices (GatherND, ScatterND)
/// and for NonZero. The table is in operators/constants.cpp.
const std::vector<Conversion>& constant_conversions();
/// Returns the row for this operator at this opset; nullptr if there is none.
const Conversion* find_conversion(const std::vector<Conversion>& rows, std::string_view op_type,
                                  int64_t opset);

/// The opsets of the default domain that are implemented, both inclusive.
inline constexpr int64_t oldest_opset = 6, newest_opset = 28;

/// Returns the element type that has the value `number` in ONNX's TensorProto.DataType. Fails with
/// Unsupported, naming the type, if ONNX has this type and this project does not, and with Invalid
/// if ONNX has no such type.
Result<DType> element_type(int64_t number);

}  // namespace tw::graph::onnx
