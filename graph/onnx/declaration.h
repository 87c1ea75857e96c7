// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that conversions of ONNX nodes use to declare operators: the inputs of a compute for
// the tensors that a node reads, axes for dimensions, broadcasting, expressions, reshapes and
// transposes. Private to graph/onnx.
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
/// The axes as expressions, with which a tensor of as many dimensions is indexed.
std::vector<Expr> at(const std::vector<Axis>& axes);

/// The product of the extents of dimensions [first, last), limited to 2^60, since no compute of a
/// larger shape is valid.
int64_t extent_of(const Shape& shape, size_t first, size_t last);
int64_t extent_of(const Shape& shape);

/// The position in [0, rank) of the dimension `axis` of a tensor of `rank` dimensions. A negative
/// `axis` counts from the end: -1 is rank - 1. Invalid, naming the node, if there is no such
/// dimension.
Result<size_t> axis_of(const Node& node, int64_t axis, int64_t rank);
/// As axis_of(), for several axes. Also Invalid if two of them are the same dimension.
Result<std::vector<size_t>> axes_of_list(const Node& node, const std::vector<int64_t>& axes,
                                         int64_t rank);
/// The position, as by axis_of(), of the dimension that the node's attribute `axis` gives. If the
/// attribute is absent, `otherwise` takes its place.
Result<size_t> axis_attribute(const Node& node, int64_t otherwise, int64_t rank);

/// The shape that all these shapes broadcast to, by the rules of NumPy: [8, 1, 6] and [7, 1]
/// broadcast to [8, 7, 6]. Invalid if there is no such shape.
Result<Shape> broadcast(const Node& node, const std::vector<Shape>& shapes);
/// Reads a tensor of shape `shape` for the element at `indices` of a larger shape that it is
/// broadcast to. For the indices (i, j, k) of [8, 7, 6], a tensor of shape [7, 1] is read at [j,
/// 0].
Expr broadcast_read(const Tensor& tensor, const Shape& shape, const std::vector<Expr>& indices);

// ---- expressions ----------------------------------------------------------------------------

/// The literal `value` in the type of the expression `like`.
Expr number(const Expr& like, double value);
/// The value, converted to the type in which arithmetic is done: f16 and bf16 become f32, and other
/// types stay as they are.
Expr wide(const Expr& value);
DType wide_type(DType type);
/// x rounded towards zero.
Expr truncate(const Expr& x);
/// 1 / (1 + exp(-x)), always spelled with the same operations: a database finds the records of an
/// operator by the text of its expressions, and another spelling would miss them.
Expr logistic(const Expr& x);
/// x to the power `exponent`. For a negative x the result is NaN unless the exponent is a whole
/// number.
Expr power(const Expr& x, double exponent);
/// The weights of cubic interpolation (Keys, 1981) for four consecutive elements. The position to
/// interpolate at lies `t`, in [0, 1), after the second element. `a` is the parameter of Keys'
/// kernel, usually -0.75 or -0.5.
std::vector<Expr> cubic_weights(const Expr& t, double a);
/// The conjunction of the conditions; true if there are none.
Expr all_of(const std::vector<Expr>& conditions);

/// The value converted to a type in which sums are computed: i32 for bools, else as by wide().
Expr summable(const Expr& value);
/// The stage "out" over `axes` that computes the reduction with elements of `type`. If the
/// reduction is computed in another type, "out" converts the result of a stage "total".
Tensor reduced(const std::vector<Axis>& axes, const dsl::Reduction& reduction, DType type);

// ---- operators ------------------------------------------------------------------------------

/// A compute that is being declared: the inputs that it reads so far, and the tensors of the graph
/// that are bound to them.
class Declaration {
 public:
  explicit Declaration(Builder& builder) : builder_(builder) {}

  /// The value as an input of the compute. Reading a value twice gives the same input.
  Tensor read(const Value& value);
  /// Adds an operator with these stages to the graph. The result of stage i becomes the tensor
  /// outputs[i]. An empty name means that nothing outside of the operator reads the stage.
  Status add(const std::vector<Tensor>& stages, const std::vector<std::string>& outputs);
  Status add(const Tensor& stage, const std::string& output) {
    return add(std::vector<Tensor>{stage}, {output});
  }

 private:
  Builder& builder_;
  std::map<std::string, Tensor> inputs_;        ///< inputs of the compute, by the name of the value
  std::map<std::string, std::string> tensors_;  ///< name of the input -> name of the value
};

/// Adds the tensor `output`. It is `then_value` if the single bool of `condition` is true, else
/// `else_value`. Requires: both values have one type.
Status add_choice(Builder& builder, const Value& condition, const Value& then_value,
                  const Value& else_value, const std::string& output);

/// Adds one of the named operators of dsl::operators(), such as "conv2d", with its attributes and
/// element type. `inputs` are the values of its inputs, in the order in which it declares them. An
/// input that it declares as weights becomes a plain input if its value is no constant. A value of
/// type `type` is converted to f32 if the operator declares f32 for the input, as it does for
/// biases of f16 and bf16 operators.
Status add_named(Builder& builder, std::string_view op, const dsl::Attributes& attributes,
                 DType type, const std::vector<Value>& inputs, const std::string& output);

/// Adds the tensor `output`: `value` in the shape `shape`. Requires: both have as many elements.
Status add_reshape(Builder& builder, const Value& value, const Shape& shape,
                   const std::string& output);
/// As add_reshape(), but the new tensor gets a name that no other tensor has. Returns this tensor,
/// or `value` itself if it already has the shape.
Result<Value> reshaped(Builder& builder, const Value& value, const Shape& shape);
/// Adds the tensor `output`: the value with permuted dimensions, where dimension i of `output` is
/// dimension order[i] of the value. Constants are permuted at import, since weights may be too
/// large for the interpreter to fold.
Status add_transpose(Builder& builder, const Value& value, const std::vector<size_t>& order,
                     const std::string& output);
/// As add_transpose(), but gives the new tensor a fresh name and returns it. Returns `value` itself
/// if the order is the identity.
Result<Value> transposed(Builder& builder, const Value& value, const std::vector<size_t>& order);

/// Inputs `first` and later of a node. Invalid if one of these is left out.
Result<std::vector<Value>> inputs_from(const Node& node, size_t first);
/// Checks that the inputs with these numbers have one element type. Inputs that the node leaves out
/// are ignored. Invalid if the types differ.
Status check_same_type(const Node& node, const std::vector<size_t>& inputs);
/// Unsupported unless `type` is a floating-point type.
Status check_float(const Node& node, DType type);

}  // namespace tw::graph::onnx
