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

/// A compute whose names depend on its structure alone, so that two operators of different networks
/// that compute the same thing in the same way have one key:
/// - inputs are in0, in1, ... in the order in which stages read them, stages t0, t1, ...;
/// - outputs are out0, out1, ..., or `out` if there is one;
/// - axes are the letters of their dimensions;
/// - an index into a dimension of one element is the axis at that place, if that has one element.
struct Canonical {
  dsl::Compute compute;
  std::map<std::string, std::string> names;  ///< of inputs and outputs: former name -> new one
};
/// Requires: the compute is valid. Inputs that no stage reads are left out.
Canonical canonical(const dsl::Compute& compute);

/// An operator that computes `compute` from these tensors of a graph, one for each of its inputs
/// and outputs. Its workload is that of an operator by name (dsl::operators()) where `hint`, the
/// workload of an operator that was fused or rewritten, is one whose flags (bias, residual, relu)
/// can be set so that it declares this compute; else an expression in canonical form.
/// Inputs that are tensors in `constants` are declared as weights, others are not.
Result<Operator> make_operator(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const std::map<std::string, Constant>& constants,
                               const dsl::Workload* hint = nullptr);

/// One operator that computes what `operators`, in their order, compute together, with those of
/// their tensors as outputs that `outputs` names. Stages are inlined as inline_stages() does it.
/// Requires: tensors between them agree; each name is written once. Invalid where the joined
/// compute is not (it reads something that comes later, is too large).
Result<Operator> fuse(std::span<const Operator> operators, const std::vector<std::string>& outputs,
                      const std::map<std::string, Constant>& constants);

/// Replaces reads of a stage by the expression that the stage computes there, if the stage is
/// neither a reduction nor an output, and is read at one place, or at several places that end up in
/// one stage without a reduction, at the axes of that stage. Large expressions stay stages.
dsl::Compute inline_stages(const dsl::Compute& compute);

/// The compute of a reshape: the elements of the input in row-major order, in another shape.
/// Invalid unless both shapes have the same number of elements.
Result<dsl::Compute> reshape(DType dtype, const std::vector<int64_t>& from,
                             const std::vector<int64_t>& to);
/// True if the operator is a reshape as reshape() declares it. On row-major tensors it is a view.
bool is_reshape(const Operator& op);

/// The permutation of a transpose: dimension i of the input is dimension position[i] of the output.
/// A copy is the identity. nullopt for any other operator.
std::optional<std::vector<size_t>> as_transpose(const Operator& op);

/// The array with permuted dimensions: dimension i of the result is dimension order[i] of the
/// array.
dsl::Array permuted(const dsl::Array& array, const std::vector<size_t>& order);

/// Inputs of an operator, by their numbers, as they stand one after another along one dimension of
/// its only output. One may stand there several times.
struct Concatenation {
  size_t dimension = 0;
  std::vector<size_t> inputs;
  friend bool operator==(const Concatenation&, const Concatenation&) = default;
};
/// nullopt for what is no concatenation.
std::optional<Concatenation> as_concatenation(const Operator& op);
/// The compute of one. Requires: shapes that agree but for the dimension, at least one.
Result<dsl::Compute> concatenate(DType dtype, const std::vector<std::vector<int64_t>>& shapes,
                                 size_t dimension);

}  // namespace tw::graph
