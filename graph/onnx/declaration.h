// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions with which conversions of ONNX nodes declare operators: inputs of a compute for tensors
// of a node, axes for dimensions, broadcasting, expressions, reshapes and transposes. Private to
// graph/onnx.
//
//   Status convert_relu(const Node& node, Builder& builder) {
//     Declaration declaration(builder);
//     const Tensor x = declaration.read(node.input(0));
//     const std::vector<Axis> axes = axes_of(node.input(0).type.shape);
//     const Expr value = x.read_at(at(axes));
//     return declaration.add({compute("out", axes, max(value, Expr(0)))}, node.outputs);
//   }

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"
#include "dsl/workload.h"
#include "graph/onnx/node.h"

namespace tw::graph::onnx {

using dsl::Axis;
using dsl::Expr;
using dsl::Tensor;
using Shape = std::vector<int64_t>;

// ---- axes and indices -----------------------------------------------------------------------

/// One axis for each dimension, named stem0, stem1, ...
std::vector<Axis> axes_of(const Shape& shape, const std::string& stem = "i");
/// The axes as the indices of a read.
std::vector<Expr> at(const std::vector<Axis>& axes);

/// The product of the extents of dimensions [first, last), limited to 2^60, since no compute of a
/// larger shape is valid.
int64_t extent_of(const Shape& shape, size_t first, size_t last);
int64_t extent_of(const Shape& shape);

/// The position in [0, rank) of the axis that an attribute or an element of an input gives; a
/// negative `axis` counts from the end. Invalid if there is no such axis.
Result<size_t> axis_of(const Node& node, int64_t axis, int64_t rank);
/// As axis_of(), for several axes. Invalid unless they are distinct.
Result<std::vector<size_t>> axes_of_list(const Node& node, const std::vector<int64_t>& axes,
                                         int64_t rank);
/// The position of the axis that the attribute `axis` gives; `otherwise` is its value if it is
/// absent.
Result<size_t> axis_attribute(const Node& node, int64_t otherwise, int64_t rank);

/// The shape that all these shapes broadcast to, with dimensions aligned at the last. Invalid if
/// there is none.
Result<Shape> broadcast(const Node& node, const std::vector<Shape>& shapes);
/// Reads a tensor of `shape` at the indices of an element of the shape that it is broadcast to.
Expr broadcast_read(const Tensor& tensor, const Shape& shape, const std::vector<Expr>& indices);

// ---- expressions ----------------------------------------------------------------------------

/// A literal of the type of `like`.
Expr number(const Expr& like, double value);
/// The value, converted to the type in which arithmetic is done: f16 and bf16 to f32; other types
/// stay.
Expr wide(const Expr& value);
DType wide_type(DType type);
/// x rounded towards zero.
Expr truncate(const Expr& x);
/// 1 / (1 + exp(-x)), always spelled with the same operations, since the records of networks in
/// databases are found by this spelling.
Expr logistic(const Expr& x);
/// log(1 + exp(x)), without overflow.
Expr softplus(const Expr& x);
/// x to the power `exponent`, which is a known number. A whole exponent permits x of any sign.
Expr power(const Expr& x, double exponent);
/// The weights of cubic interpolation (Keys, 1981) for the four elements around a position that
/// lies `t` after the second element; `a` is -0.75 or -0.5.
std::vector<Expr> cubic_weights(const Expr& t, double a);
/// The conjunction of the conditions; true if there are none.
Expr all_of(const std::vector<Expr>& conditions);

/// The value in a type in which it can be summed: wide(), and i32 for bools.
Expr summable(const Expr& value);
/// The stage "out" over `axes` that computes the reduction, rounded to `type` if the reduction is
/// computed in another type.
Tensor reduced(const std::vector<Axis>& axes, const dsl::Reduction& reduction, DType type);

// ---- operators ------------------------------------------------------------------------------

/// A compute that is being declared: the inputs that it reads so far, and the tensors of the graph
/// that are bound to them.
class Declaration {
 public:
  explicit Declaration(Builder& builder) : builder_(builder) {}

  /// The value as an input of the compute. Reading a value twice gives the same input.
  Tensor read(const Value& value);
  /// Adds an operator with these stages to the graph. Stage i becomes the tensor outputs[i]; an
  /// empty name means that nothing reads the stage.
  Status add(const std::vector<Tensor>& stages, const std::vector<std::string>& outputs);
  Status add(const Tensor& stage, const std::string& output) {
    return add(std::vector<Tensor>{stage}, {output});
  }

 private:
  Builder& builder_;
  std::map<std::string, Tensor> inputs_;        ///< inputs of the compute, by the name of the value
  std::map<std::string, std::string> tensors_;  ///< name of the input -> name of the value
};

/// Adds `output`, which is `then_value` if the single bool of `condition` is true and `else_value`
/// otherwise. Requires: both values have one type.
Status add_choice(Builder& builder, const Value& condition, const Value& then_value,
                  const Value& else_value, const std::string& output);

/// Adds an operator by name (dsl::operators()) whose inputs, in their order, are these values.
/// Weights that are no constants are declared as plain inputs. A value of `type` is converted to
/// f32 if the operator declares f32 for it, as for biases of f16 and bf16 operators.
Status add_named(Builder& builder, std::string_view op, const dsl::Attributes& attributes,
                 DType type, const std::vector<Value>& inputs, const std::string& output);

/// Adds `output`, the value reshaped to `shape`, which has as many elements.
Status add_reshape(Builder& builder, const Value& value, const Shape& shape,
                   const std::string& output);
/// The reshaped value, as a tensor with a fresh name; `value` itself if it has the shape already.
Result<Value> reshaped(Builder& builder, const Value& value, const Shape& shape);
/// Adds `output`, the value with permuted dimensions: dimension i of `output` is dimension order[i]
/// of the value. Constants are permuted at import, since weights may be too large for the
/// interpreter to fold.
Status add_transpose(Builder& builder, const Value& value, const std::vector<size_t>& order,
                     const std::string& output);
/// The transposed value, as a tensor with a fresh name; `value` itself if the order is the
/// identity.
Result<Value> transposed(Builder& builder, const Value& value, const std::vector<size_t>& order);

/// The inputs of a node from number `first` on. Invalid if one of these is left out.
Result<std::vector<Value>> inputs_from(const Node& node, size_t first);
/// Invalid unless those of these inputs that the node has are of one type.
Status check_same_type(const Node& node, const std::vector<size_t>& inputs);
/// Unsupported unless `type` is a floating-point type.
Status check_float(const Node& node, DType type);

}  // namespace tw::graph::onnx
