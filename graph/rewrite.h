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
/// - in0, in1, ... for inputs, in the order in which stages read them; t0, t1, ... for stages;
/// - out0, out1, ... for outputs, or `out` if there is one output;
/// - the letters of the dimensions for axes, such as n, c, h, w; r0, r1, ... for reduced axes.
///
/// An index into a dimension of extent 1 is replaced by the stage's axis at the same position, if
/// that axis has extent 1 too.
struct Canonical {
  dsl::Compute compute;
  std::map<std::string, std::string> names;  ///< of inputs and outputs: former name -> new one
};
/// The canonical form of a compute, without inputs that no stage reads. Requires: the compute is
/// valid.
Canonical canonical(const dsl::Compute& compute);

/// Makes an operator that computes `compute`. `inputs` and `outputs` are tensors of a graph, one
/// for each input and output of the compute. Inputs are declared as weights if and only if their
/// tensors are in `constants`.
///
/// `hint` is the workload of the operator that was fused or rewritten, or nullptr. If it is a named
/// operator of dsl::operators(), such as conv2d, and declares this compute with some setting of its
/// flags (bias, residual, relu), the result is this named operator. Otherwise the workload is an
/// expression in canonical form.
Result<Operator> make_operator(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const std::map<std::string, Constant>& constants,
                               const dsl::Workload* hint = nullptr);

/// Fuses operators, given in the order in which they run, into one operator whose outputs are the
/// tensors `outputs`. Stages are inlined as by inline_stages(). Requires: the operators agree on
/// the type of each tensor that one writes and another reads; no tensor is written twice. Invalid
/// if the joined compute is not valid, because a stage reads a later stage or the compute is too
/// large.
Result<Operator> fuse(std::span<const Operator> operators, const std::vector<std::string>& outputs,
                      const std::map<std::string, Constant>& constants);

/// Inlines stages: a read of a stage is replaced by the expression that the stage computes. A stage
/// that is a reduction or an output is not inlined. Any other stage is inlined if there is only one
/// read of it, or if all reads of it are in one stage without a reduction, at the axes of that
/// stage. Large expressions are not inlined.
dsl::Compute inline_stages(const dsl::Compute& compute);

/// The compute of a reshape: the elements of the input, in row-major order, in another shape.
/// Invalid unless both shapes have the same number of elements.
Result<dsl::Compute> reshape(DType dtype, const std::vector<int64_t>& from,
                             const std::vector<int64_t>& to);
/// True if the operator's compute is one that reshape() makes. On row-major tensors a reshape is a
/// view.
bool is_reshape(const Operator& op);

/// If the operator is a transpose, its permutation: dimension i of the input is dimension
/// position[i] of the output. If the operator is a copy, the identity. nullopt for any other
/// operator.
std::optional<std::vector<size_t>> as_transpose(const Operator& op);

/// The array with permuted dimensions: dimension i of the result is dimension order[i] of `array`.
/// With order {1, 0}, a matrix is transposed.
dsl::Array permuted(const dsl::Array& array, const std::vector<size_t>& order);

/// A concatenation along `dimension` of the operator's only output. `inputs` are the numbers of the
/// operator's inputs in the order in which they follow one another. An input may occur several
/// times.
struct Concatenation {
  size_t dimension = 0;
  std::vector<size_t> inputs;
  friend bool operator==(const Concatenation&, const Concatenation&) = default;
};
/// The operator as a concatenation; nullopt if it is none.
std::optional<Concatenation> as_concatenation(const Operator& op);
/// The compute of a concatenation. Requires: at least one shape; shapes that differ in `dimension`
/// only.
Result<dsl::Compute> concatenate(DType dtype, const std::vector<std::vector<int64_t>>& shapes,
                                 size_t dimension);

}  // namespace tw::graph
