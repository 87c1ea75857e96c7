// SPDX-License-Identifier: Apache-2.0
#pragma once
// One node of an ONNX model as the functions that declare its operator see it: without protobuf,
// with the types of its inputs known and constants at hand. Private to graph/onnx.
//
// A conversion is a row of the table in operators.cpp: the operator's name and a function that adds
// operators to the graph that is being built.
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

/// A tensor that a node reads. `constant` is its value where it is known at import: an initializer,
/// or what was computed from such.
struct Value {
  std::string name;
  TensorType type;
  const Constant* constant = nullptr;

  int64_t rank() const { return static_cast<int64_t>(type.shape.size()); }
};

/// Kinds of attributes that operators of the default domain have, graphs aside.
using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>, Constant>;

struct Node {
  std::string name;     ///< for messages: the node's name, or that of its first output
  std::string op_type;  ///< "Conv"
  int64_t opset = 0;    ///< version of the default domain that the model imports
  std::vector<std::optional<Value>> inputs;  ///< nullopt: an optional input that is left out
  std::vector<std::string> outputs;          ///< names of tensors; empty: nothing reads it
  std::map<std::string, AttributeValue> attributes;

  bool has_input(size_t index) const { return index < inputs.size() && inputs[index]; }
  /// Requires: has_input(index).
  const Value& input(size_t index) const { return *inputs[index]; }

  // Attributes by name, or the default where they are absent. Invalid, naming node and attribute,
  // where one is of another kind.
  Result<int64_t> integer(std::string_view attribute, int64_t otherwise) const;
  Result<double> number(std::string_view attribute, double otherwise) const;
  Result<std::string> text(std::string_view attribute, const std::string& otherwise) const;
  Result<std::vector<int64_t>> integers(std::string_view attribute,
                                        const std::vector<int64_t>& otherwise) const;
  bool has(std::string_view attribute) const { return attributes.contains(std::string(attribute)); }

  /// The elements of an input that has to be known at import (the shape of a Reshape, the axes of a
  /// ReduceSum), as integers. Unsupported where it is no constant.
  Result<std::vector<int64_t>> constant_integers(size_t index) const;
  Result<std::vector<double>> constant_numbers(size_t index) const;
  /// An attribute that is a tensor, or nullptr where it is absent.
  Result<const Constant*> tensor(std::string_view attribute) const;

  /// "[onnx] node 'conv1' (Conv): why", with the code.
  tl::unexpected<Error> fail(ErrorCode code, const std::string& why) const;
  tl::unexpected<Error> invalid(const std::string& why) const;
  tl::unexpected<Error> unsupported(const std::string& why) const;
};

/// The graph that is being built. Names of its tensors are made from those of the model. An output
/// whose name is empty is dropped.
class Builder {
 public:
  virtual ~Builder() = default;
  /// Adds an operator that computes `compute` from the values of these names, one for each of its
  /// inputs, as tensors of the names in `outputs`. Where all inputs are constants and the result is
  /// small (shape arithmetic), it is computed at once and the outputs are constants.
  virtual Status add(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) = 0;
  /// The same for an operator by name, as "conv2d" with its attributes.
  virtual Status add(const dsl::Workload& workload, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) = 0;
  /// `output` is another name of `value` (Identity, Dropout at inference).
  virtual Status alias(const std::string& output, const std::string& value) = 0;
  virtual Status add_constant(const std::string& output, dsl::Array array) = 0;
  /// A constant whose elements are all the one of `value`. Equal ones are stored once. Requires: a
  /// shape without negative extents.
  virtual Status add_filled(const std::string& output, const std::vector<int64_t>& shape,
                            const dsl::Array& value) = 0;
  /// A name that no tensor has yet, for what one node needs several operators for.
  virtual std::string fresh_name(const std::string& stem) = 0;
  /// A tensor that was added, with its constant where it is one.
  virtual Value value(const std::string& name) const = 0;

  // Loops. Operators that are added between begin_loop() and end_loop() are the body of a loop.
  // They may read any tensor from outside of it, which is the same in every trip.
  //
  //   TW_RETURN_IF_ERROR(builder.begin_loop("rnn", steps));
  //   const std::string x = builder.add_slice("xs", false), h = builder.add_state("h0");
  //   ... add() operators that read x and h and write "h1"
  //   TW_RETURN_IF_ERROR(builder.set_next(h, "h1", "hn"));
  //   TW_RETURN_IF_ERROR(builder.add_stack("h1", "ys", false));
  //   builder.end_loop();

  /// Unsupported within a loop. Requires: trips >= 1.
  virtual Status begin_loop(const std::string& name, int64_t trips) = 0;
  /// The slice of `whole` along its first dimension that a trip reads, in the order of the trips or
  /// backward. Requires: a first dimension of as many elements as there are trips.
  virtual std::string add_slice(const std::string& whole, bool is_backward) = 0;
  /// A value that is `first` before the first trip, and what set_next() says before each later one.
  virtual std::string add_state(const std::string& first) = 0;
  /// `next`, of the type of the state, is the state after a trip, `last` that after the last one;
  /// nobody wants the latter where the name is empty.
  virtual Status set_next(const std::string& state, const std::string& next,
                          const std::string& last) = 0;
  /// `whole` has the tensor of all trips along its first dimension. Dropped if the name is empty.
  virtual Status add_stack(const std::string& tensor, const std::string& whole,
                           bool is_backward) = 0;
  virtual void end_loop() = 0;
};

using Convert = Status (*)(const Node& node, Builder& builder);

struct Conversion {
  std::string_view op_type;
  int64_t since, until;  ///< opsets that it holds for, both inclusive; until 0: the newest
  Convert convert;
  size_t least_inputs = 1;  ///< the conversion is called for nodes that have at least these inputs
};

/// Sorted by op_type, then by opset. The rows stand in operators.cpp; the functions in files by
/// family.
const std::vector<Conversion>& conversions();
/// Conversions of operators of ONNX Runtime's domain, likewise sorted; each holds from opset 1 on.
inline constexpr std::string_view contributed_domain = "com.microsoft";
const std::vector<Conversion>& contributed_conversions();
/// Operators that are computed at import, and tried first, where all inputs of a node are
/// constants: those in which data are indices (Gather, NonZero). In operators/constants.cpp.
const std::vector<Conversion>& constant_conversions();
/// The row for an operator at an opset, or nullptr.
const Conversion* find_conversion(const std::vector<Conversion>& rows, std::string_view op_type,
                                  int64_t opset);

/// The opsets of the default domain that are implemented, both inclusive.
inline constexpr int64_t oldest_opset = 6, newest_opset = 28;

/// The type that holds elements of an ONNX type, by the number that TensorProto.DataType has for
/// it; f64 is read as f32. Unsupported, naming the type, for one that we do not have; Invalid for a
/// number that names none.
Result<DType> element_type(int64_t number);

}  // namespace tw::graph::onnx
