// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tools of the passes that rewrite graphs: canonical names inside of computes, and the fusion of
// several operators into one. Pure functions; thread-safe.
//
//   // conv2d(x, w) -> c;  relu(c) -> y   becomes   conv2d(x, w) relu=1 -> y
//   TW_TRY(Operator fused, fuse(std::vector{conv, relu}, {"y"}));

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tw::graph {

/// A compute whose names depend on its structure alone. Two operators of different networks that
/// compute the same thing in the same way then have the same key in the database. The names are
/// - in0, in1, ... for inputs, in the order in which stages read them; t0, t1, ... for stages that
///   are not outputs;
/// - out0, out1, ... for outputs, or `out` if there is one output;
/// - the letters of the dimensions for axes, such as n, c, h, w; r0, r1, ... for reduced axes.
///
/// An index 0 into a dimension of extent 1 is replaced by the stage's axis at the same position, if
/// that axis has extent 1 too: in0[0, c] becomes in0[n, c].
struct Canonical {
  dsl::Compute compute;
  std::map<std::string, std::string> names;  ///< for inputs and outputs: former name -> new name
};
/// Returns the canonical form of a compute. Inputs that no stage reads are left out. Requires: the
/// compute is valid.
Canonical canonical(const dsl::Compute& compute);

/// Makes an operator that computes `compute`. `inputs` and `outputs` are tensors of a graph, one
/// for each input and output of the compute. Inputs are declared as weights if and only if their
/// tensors are in `constants`.
///
/// `hint` is the workload of the operator that was fused or rewritten, or nullptr. If it belongs to
/// a named operator of dsl::operators(), such as conv2d, and this named operator with some setting
/// of its flags (bias, residual, relu) declares `compute`, the result is the named operator with
/// these flags. Otherwise the workload is an expression in canonical form. The accuracy class is
/// that of `hint`, or Fast without a hint.
Result<Operator> make_operator(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const std::map<std::string, Constant>& constants,
                               const dsl::Workload* hint = nullptr);

/// Fuses operators, given in the order in which they run, into one operator whose outputs are the
/// tensors `outputs`. Stages are inlined as by inline_stages(). Requires: the operators agree on
/// the type of each tensor that one writes and another reads. Fails with Invalid if a tensor is
/// written twice, if no operator writes one of `outputs`, or if the joined compute is not valid,
/// because a stage reads a later stage or the compute is too large.
Result<Operator> fuse(std::span<const Operator> operators, const std::vector<std::string>& outputs,
                      const std::map<std::string, Constant>& constants);

/// Inlines stages: a read of a stage is replaced by the expression that the stage computes. A stage
/// that is a reduction or an output is not inlined. Any other stage is inlined if there is only one
/// read of it, or if, after inlining, all reads of it are in one stage without a reduction, at the
/// axes of that stage. Large expressions are not inlined.
dsl::Compute inline_stages(const dsl::Compute& compute);

/// Returns the compute of a reshape, which puts the elements of the input, in row-major order, into
/// another shape. Fails with Invalid unless both shapes have the same number of elements.
Result<dsl::Compute> reshape(DType dtype, const std::vector<int64_t>& from,
                             const std::vector<int64_t>& to);
/// True if the operator's compute is equal to one that reshape() makes. On row-major tensors a
/// reshape is a view.
bool is_reshape(const Operator& op);

/// Returns the permutation of a transpose: dimension i of the input is dimension position[i] of the
/// output. A copy has the identity. nullopt for any other operator.
std::optional<std::vector<size_t>> as_transpose(const Operator& op);

/// Returns the array with permuted dimensions: dimension i of the result is dimension order[i] of
/// `array`. With order {1, 0}, a matrix is transposed.
dsl::Array permuted(const dsl::Array& array, const std::vector<size_t>& order);

/// A concatenation along `dimension` of the operator's only output. `inputs` has the index in
/// Operator::inputs of each piece, in the order of the pieces. An input may occur several times.
struct Concatenation {
  size_t dimension = 0;
  std::vector<size_t> inputs;
  friend bool operator==(const Concatenation&, const Concatenation&) = default;
};
/// Returns the operator as a concatenation; nullopt for other operators.
std::optional<Concatenation> as_concatenation(const Operator& op);
/// Returns the compute of a concatenation. Requires: at least one shape; the shapes differ in
/// `dimension` only.
Result<dsl::Compute> concatenate(DType dtype, const std::vector<std::vector<int64_t>>& shapes,
                                 size_t dimension);

}  // namespace tw::graph
