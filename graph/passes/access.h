// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access patterns of operators, by which passes recognise them: how stages read their inputs.
// Private to graph/passes. Pure functions.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/compute.h"
#include "graph/graph.h"

namespace tw::graph {

/// True if passes may change the roundings of the operator.
inline bool is_fast(const Operator& op) { return op.workload.accuracy == dsl::Accuracy::Fast; }

/// A compute, and the tensors of the graph for its inputs.
struct Spelled {
  dsl::Compute compute;
  std::vector<std::string> inputs;
};
/// The operator's compute in canonical form, with its tensors.
Spelled in_canonical_names(const Operator& op);

/// The number of an input of the compute. Requires: there is an input of this name.
size_t input_number(const dsl::Compute& compute, const std::string& input);

bool has_reduction(const dsl::Compute& compute);

/// Most inputs of a kernel that fusion makes.
inline constexpr size_t most_fused_inputs = 8;
/// True if the fusion of both operators has at most most_fused_inputs inputs. Requires: `reader`
/// reads one tensor that `writer` writes.
bool have_few_inputs(const Operator& writer, const Operator& reader);

/// The only stage of an operator with one output and no reduction; nullptr for others.
const dsl::Stage* only_stage(const Operator& op);

/// True if the operator is fast, has one stage and no reduction, and the stage reads every input at
/// its own axes in their order, some of them left out or replaced by literals. The sum of a tensor
/// and of one number for each channel is elementwise. A transpose is not, and neither is a slice
/// that begins at an offset.
bool is_elementwise(const Operator& op);

/// True if an elementwise operator may become part of this one, behind its reduction.
bool takes_epilogue(const Operator& op);

/// True if the read has the axes as its indices, in their order.
bool is_pointwise(const dsl::Read& read, const std::vector<dsl::Axis>& axes);

/// Number of reads of the tensor by the stage. nullopt if the tensor has another shape than the
/// stage, or if a read is not at the stage's axes in their order.
std::optional<int> count_pointwise_reads(const dsl::Compute& compute, const dsl::Stage& stage,
                                         const std::string& tensor);

/// Number of such reads of a tensor of the graph by an operator of one stage, over all inputs that
/// are bound to the tensor. nullopt as above.
std::optional<int> count_pointwise_reads(const Operator& op, const std::string& tensor);

/// The strides of a row-major array, in elements.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);

/// The number of the axis that the index is; nullopt for any other index.
std::optional<size_t> axis_number(const std::vector<dsl::Axis>& axes, const dsl::Expr& index);

/// The number of reads of the tensor in the expression.
int count_reads(const dsl::Expr& expr, const std::string& tensor);

/// True if the expression only chooses between reads and literals.
bool is_choice(const dsl::Expr& expr);

/// The number of reads of the tensor in an expression that only chooses between reads and literals;
/// nullopt for other expressions.
std::optional<int> count_moved(const dsl::Expr& expr, const std::string& tensor);

/// True if a reduction of the operator reads elements of the input so often, on average, that it
/// loses more by converting them from floats of 16 bits than it gains by the smaller memory. A
/// product of one row reads each weight once, and waits for memory.
bool reads_repeatedly(const dsl::Compute& compute, const dsl::Input& input);

/// The element of 8 bits in i32(element); nullptr for other expressions.
const dsl::Read* widened_byte(const dsl::Expr& expr);

/// i32(q) - zero, or i32(q), for an element q of 8 bits.
struct OffsetByte {
  dsl::Expr number;       ///< i32(q)
  dsl::Expr zero;         ///< undefined: 0
  const dsl::Read* byte;  ///< q; points into `number`
};
/// nullopt for other expressions.
std::optional<OffsetByte> as_offset_byte(const dsl::Expr& expr);

/// True if the operator is a reshape or a transpose.
bool is_move(const Operator& op);
/// The compute of a reshape or a transpose, for elements of another type. Requires: is_move(op).
dsl::Compute move_of_type(const Operator& op, DType type);

/// True if a sum of terms of at most this magnitude stays within 32 bits.
bool fits_32_bits(const dsl::Stage& sum, double largest_term);

/// The read of a factor, which may be widened, and padded by zeros; nullptr for other factors.
const dsl::Read* factor_read(const dsl::Expr& factor);

/// The factors of a sum of products, as factor_read() finds them. nullopt for other stages, and for
/// scans.
std::optional<std::pair<const dsl::Read*, const dsl::Read*>> factors_of(const dsl::Stage& stage);

/// The factors of a sum of products of which one is a constant of the graph and the other is not.
struct WeightedSum {
  struct Factor {
    const dsl::Read* read;
    size_t input;  ///< its number
  };
  Factor data, weights;
};
/// `tensors`: of the graph, for the inputs of the compute. nullopt for other stages, and where a
/// factor is no input of the operator.
std::optional<WeightedSum> weighted_sum(const dsl::Compute& compute,
                                        const std::vector<std::string>& tensors,
                                        const dsl::Stage& stage,
                                        const std::map<std::string, Constant>& constants);

/// True if kernels compute the sum by dot products, where the target has them for the types of both
/// factors: lanes lie along an axis of the weights alone, and each of them sums neighbours along
/// the longest reduction.
bool has_dot_products(const dsl::Stage& stage, const WeightedSum& sum);

/// The read of the tensor in the expression; nullptr where there is none or several.
const dsl::Read* only_read(const dsl::Expr& expr, const std::string& tensor);

/// The input of the compute that is bound to a tensor of the graph which the operator reads.
/// nullopt where it is bound to several.
std::optional<std::string> input_for(const Operator& op, const std::string& tensor);

/// axis + offset
struct Shifted {
  std::string axis;
  int64_t offset = 0;
};
std::optional<Shifted> as_shifted(const dsl::Expr& expr);

/// Values of an axis, from `low` to below `high`.
struct Range {
  int64_t low = 0, high = 0;
};
using Ranges = std::map<std::string, Range>;
/// The box where a conjunction of comparisons of axes with numbers holds, within these axes.
/// nullopt for other conditions.
std::optional<Ranges> box_of(const dsl::Expr& condition, const std::vector<dsl::Axis>& axes);

/// A tensor written between borders of one value.
struct Padding {
  std::vector<int64_t> before, after;  ///< elements added to each dimension, 0 or more
  dsl::Expr value;                     ///< a literal
};
std::optional<Padding> as_padding(const Operator& op);

}  // namespace tw::graph
