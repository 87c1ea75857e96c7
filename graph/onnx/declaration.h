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
/// Returns the axes as expressions: the indices with which a stage over these axes reads a tensor
/// of as many dimensions.
std::vector<Expr> at(const std::vector<Axis>& axes);

/// Returns the product of the extents of the dimensions [first, last), or of all dimensions. The
/// result is at most 2^60, since no compute of a larger shape is valid.
int64_t extent_of(const Shape& shape, size_t first, size_t last);
int64_t extent_of(const Shape& shape);

/// Returns the position, in [0, rank), of the dimension `axis` of a tensor of `rank` dimensions. A
/// negative `axis` counts from the end: -1 is rank - 1. Fails with Invalid, naming the node, if
/// there is no such dimension.
Result<size_t> axis_of(const Node& node, int64_t axis, int64_t rank);
/// As axis_of(), for several axes. Also fails with Invalid if two of them are the same dimension.
Result<std::vector<size_t>> axes_of_list(const Node& node, const std::vector<int64_t>& axes,
                                         int64_t rank);
/// Returns the position, as axis_of() does, of the dimension that the node's attribute `axis`
/// gives, or of the dimension `otherwise` if the attribute is absent.
Result<size_t> axis_attribute(const Node& node, int64_t otherwise, int64_t rank);

/// Returns the shape that all these shapes broadcast to, by the rules of NumPy: [8, 1, 6] and [7,
/// 1] broadcast to [8, 7, 6]. Fails with Invalid if there is no such shape.
Result<Shape> broadcast(const Node& node, const std::vector<Shape>& shapes);
/// Reads a tensor of shape `shape` for the element at `indices` of a larger shape that it is
/// broadcast to. For the indices (i, j, k) of [8, 7, 6], a tensor of shape [7, 1] is read at [j,
/// 0].
Expr broadcast_read(const Tensor& tensor, const Shape& shape, const std::vector<Expr>& indices);

// ---- expressions ----------------------------------------------------------------------------

/// The literal `value` in the type of the expression `like`.
Expr number(const Expr& like, double value);
/// wide() converts a value to the type in which arithmetic on it is done, and wide_type() returns
/// this type: f32 for f16 and bf16, else the type itself.
Expr wide(const Expr& value);
DType wide_type(DType type);
/// x rounded towards zero.
Expr truncate(const Expr& x);
/// Returns 1 / (1 + exp(-x)). The result always has the same operations, because a database finds
/// the records of an operator by the text of its expressions.
Expr logistic(const Expr& x);
/// Returns x to the power `exponent`. For a negative x the result is NaN unless the exponent is a
/// whole number.
Expr power(const Expr& x, double exponent);
/// Returns the weights of cubic interpolation (Keys, 1981) for four consecutive elements. The
/// position to interpolate at lies `t`, in [0, 1), after the second element. `a` is the parameter
/// of Keys' kernel, usually -0.75 or -0.5.
std::vector<Expr> cubic_weights(const Expr& t, double a);
/// The conjunction of the conditions; true if there are none.
Expr all_of(const std::vector<Expr>& conditions);

/// Converts a value to the type in which sums of it are computed: i32 for bools, else wide_type().
Expr summable(const Expr& value);
/// Returns the stage "out" over `axes` that computes the reduction and has elements of `type`. If
/// the reduction is computed in another type, "out" converts the result of a stage "total".
Tensor reduced(const std::vector<Axis>& axes, const dsl::Reduction& reduction, DType type);

// ---- operators ------------------------------------------------------------------------------

/// A compute that is being declared: the inputs that it reads so far, and the tensors of the graph
/// that are bound to them.
class Declaration {
 public:
  explicit Declaration(Builder& builder) : builder_(builder) {}

  /// Returns the value as an input of the compute. Reading a value twice gives the same input.
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
/// `else_value`. Requires: both values have the same type.
Status add_choice(Builder& builder, const Value& condition, const Value& then_value,
                  const Value& else_value, const std::string& output);

/// Adds the named operator `op` of dsl::operators(), such as "conv2d", with these attributes and
/// the element type `type`. `inputs` are the values of the operator's inputs, in the order in which
/// the operator declares them. If the operator declares an input as weights and the value is no
/// constant, an expression with a plain input is added instead. A value of type `type` is converted
/// to f32 if the operator declares f32 for the input, as f16 and bf16 operators do for biases.
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

/// Returns inputs `first` and later of a node. Fails with Invalid if one of these is left out.
Result<std::vector<Value>> inputs_from(const Node& node, size_t first);
/// Checks that the inputs with these indices have the same element type. Inputs that the node
/// leaves out are ignored. Fails with Invalid if the types differ.
Status check_same_type(const Node& node, const std::vector<size_t>& inputs);
/// Fails with Unsupported unless `type` is a floating-point type.
Status check_float(const Node& node, DType type);

}  // namespace tw::graph::onnx
