// SPDX-License-Identifier: Apache-2.0
#pragma once
// Helpers with which conversions of ONNX nodes declare operators: tensors of a node as inputs of a
// compute, axes for their dimensions, broadcasting, expressions, reshapes and transposes. Private
// to graph/onnx.
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

/// An axis a dimension: stem0, stem1, ...
std::vector<Axis> axes_of(const Shape& shape, const std::string& stem = "i");
/// The indices that name the element at these axes.
std::vector<Expr> at(const std::vector<Axis>& axes);

/// The product of extents from `first` to `last`, the latter excluded, and at most 2^60: where it
/// is larger, no compute of such a shape is valid.
int64_t extent_of(const Shape& shape, size_t first, size_t last);
int64_t extent_of(const Shape& shape);

/// An attribute or element that names an axis, as a position in [0, rank): negative ones count from
/// the end. Invalid where there is no such axis.
Result<size_t> axis_of(const Node& node, int64_t axis, int64_t rank);
/// The same for several distinct axes.
Result<std::vector<size_t>> axes_of_list(const Node& node, const std::vector<int64_t>& axes,
                                         int64_t rank);
/// The attribute `axis`, or `otherwise`.
Result<size_t> axis_attribute(const Node& node, int64_t otherwise, int64_t rank);

/// The shape that all of these broadcast to, dimensions aligned at the last one. Invalid where they
/// do not.
Result<Shape> broadcast(const Node& node, const std::vector<Shape>& shapes);
/// The element of a tensor of `shape` at the indices of a tensor that it broadcasts to.
Expr broadcast_read(const Tensor& tensor, const Shape& shape, const std::vector<Expr>& indices);

// ---- expressions ----------------------------------------------------------------------------

/// A number of the type of `like`.
Expr number(const Expr& like, double value);
/// The value in the type that it is computed in: f16 and bf16 in f32, others as they are.
Expr wide(const Expr& value);
DType wide_type(DType type);
/// Without its fraction: towards zero.
Expr truncate(const Expr& x);
/// 1 / (1 + exp(-x)), in the operations under which records of networks know it.
Expr logistic(const Expr& x);
/// log(1 + exp(x)), without overflow.
Expr softplus(const Expr& x);
/// x to a power that is known, for x of any sign where the power is whole.
Expr power(const Expr& x, double exponent);
/// Weights of the cubic convolution of Keys (1981) for the four elements around a place that lies
/// `t` behind the second one; `a` is -0.75 or -0.5.
std::vector<Expr> cubic_weights(const Expr& t, double a);
/// All of them; true where there is none.
Expr all_of(const std::vector<Expr>& conditions);

/// The value in a type that sums have: wide(), and bools as i32.
Expr summable(const Expr& value);
/// The stage "out" that is the reduction, rounded to `type` where it is computed in another one.
Tensor reduced(const std::vector<Axis>& axes, const dsl::Reduction& reduction, DType type);

// ---- operators ------------------------------------------------------------------------------

/// The inputs that a compute reads so far, and the tensors of the graph that they stand for.
class Declaration {
 public:
  explicit Declaration(Builder& builder) : builder_(builder) {}

  /// A value as an input of the compute; one value is one input, however often it is read.
  Tensor read(const Value& value);
  /// Adds the operator of these stages, of which each is a tensor of the graph. Where a name is
  /// empty, nobody wants the stage.
  Status add(const std::vector<Tensor>& stages, const std::vector<std::string>& outputs);
  Status add(const Tensor& stage, const std::string& output) {
    return add(std::vector<Tensor>{stage}, {output});
  }

 private:
  Builder& builder_;
  std::map<std::string, Tensor> inputs_;        ///< by the value's name
  std::map<std::string, std::string> tensors_;  ///< name of the input -> that of the value
};

/// Adds `output`, the first value where the single bool of `condition` holds and else the second.
/// Requires: values of one type.
Status add_choice(Builder& builder, const Value& condition, const Value& then_value,
                  const Value& else_value, const std::string& output);

/// Adds an operator by name, dsl::operators(), that reads these values as the inputs that it
/// declares, in their order, except that weights which are no constants are declared as inputs. A
/// value of `type` is converted where the operator declares f32 (biases of f16 and bf16).
Status add_named(Builder& builder, std::string_view op, const dsl::Attributes& attributes,
                 DType type, const std::vector<Value>& inputs, const std::string& output);

/// Adds `output`, the elements of the value in row-major order under another shape of equal size.
Status add_reshape(Builder& builder, const Value& value, const Shape& shape,
                   const std::string& output);
/// The same under a name of its own; the value itself where it has that shape.
Result<Value> reshaped(Builder& builder, const Value& value, const Shape& shape);
/// Adds `output`, the value with permuted dimensions: dimension i of it is dimension order[i] of
/// the value. Constants are permuted at once, as weights may be too large for the interpreter to
/// fold.
Status add_transpose(Builder& builder, const Value& value, const std::vector<size_t>& order,
                     const std::string& output);
/// The same under a name of its own; the value itself where nothing moves.
Result<Value> transposed(Builder& builder, const Value& value, const std::vector<size_t>& order);

/// The inputs of a node from `first` on. Invalid where one is left out.
Result<std::vector<Value>> inputs_from(const Node& node, size_t first);
/// Invalid unless these inputs, where the node has them, have one type.
Status check_same_type(const Node& node, const std::vector<size_t>& inputs);
/// Unsupported unless the type is a float.
Status check_float(const Node& node, DType type);

}  // namespace tw::graph::onnx
