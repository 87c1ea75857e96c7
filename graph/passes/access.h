// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions by which passes recognise operators: how the stages of a compute read its inputs.
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

/// A compute, and for each of its inputs the tensor of the graph that is bound to it.
struct Spelled {
  dsl::Compute compute;
  std::vector<std::string> inputs;
};
/// The operator's compute in canonical form (canonical() in rewrite.h), with the tensors that are
/// bound to its inputs.
Spelled in_canonical_names(const Operator& op);

/// The index of an input in Compute::inputs. Requires: there is an input of this name.
size_t input_number(const dsl::Compute& compute, const std::string& input);

bool has_reduction(const dsl::Compute& compute);

/// The largest number of inputs of a fused operator.
inline constexpr size_t most_fused_inputs = 8;
/// True if the fusion of both operators would have at most most_fused_inputs inputs. Requires:
/// `reader` reads one tensor that `writer` writes.
bool have_few_inputs(const Operator& writer, const Operator& reader);

/// The only stage of an operator with one stage, one output and no reduction; nullptr for other
/// operators.
const dsl::Stage* only_stage(const Operator& op);

/// True if the operator is fast, has one stage and no reduction, and the stage reads every input at
/// its own axes in their order, where axes may be left out or replaced by literals. For example,
/// adding one number per channel to a tensor is elementwise. A transpose is not, and neither is a
/// slice that begins at an offset.
bool is_elementwise(const Operator& op);

/// True if an elementwise operator that reads this operator's result may be fused into it as the
/// epilogue of its reduction.
bool takes_epilogue(const Operator& op);

/// True if the indices of the read are exactly these axes, in their order.
bool is_pointwise(const dsl::Read& read, const std::vector<dsl::Axis>& axes);

/// Number of reads of the tensor by the stage. nullopt if the tensor has another shape than the
/// stage, or if a read is not at the stage's axes in their order.
std::optional<int> count_pointwise_reads(const dsl::Compute& compute, const dsl::Stage& stage,
                                         const std::string& tensor);

/// Number of reads of a tensor of the graph by an operator of one stage: the sum of
/// count_pointwise_reads() over all inputs that are bound to the tensor; nullopt if it is nullopt
/// for one of them.
std::optional<int> count_pointwise_reads(const Operator& op, const std::string& tensor);

/// The strides of a row-major array, in elements.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);

/// The position in `axes` of the axis that the index consists of; nullopt if the index is anything
/// else than one of these axes.
std::optional<size_t> axis_number(const std::vector<dsl::Axis>& axes, const dsl::Expr& index);

/// The number of reads of the tensor in the expression.
int count_reads(const dsl::Expr& expr, const std::string& tensor);

/// True if the expression consists of reads, literals and selects between them, so that it moves
/// elements and computes nothing.
bool is_choice(const dsl::Expr& expr);

/// The number of reads of the tensor in an expression for which is_choice() is true; nullopt for
/// other expressions.
std::optional<int> count_moved(const dsl::Expr& expr, const std::string& tensor);

/// True if a reduction of the compute reads each element of the input so often, on average, that
/// converting it from a 16-bit float each time costs more than reading less memory saves. False for
/// the weights of a product of one row: they are read once each, and the product waits for memory.
bool reads_repeatedly(const dsl::Compute& compute, const dsl::Input& input);

/// The read of an 8-bit element that i32(element) converts; nullptr for other expressions.
const dsl::Read* widened_byte(const dsl::Expr& expr);

/// i32(q) - zero, or i32(q), for an element q of 8 bits.
struct OffsetByte {
  dsl::Expr number;       ///< i32(q)
  dsl::Expr zero;         ///< undefined if nothing is subtracted
  const dsl::Read* byte;  ///< q; points into `number`
};
/// The parts of an expression of this form; nullopt for other expressions.
std::optional<OffsetByte> as_offset_byte(const dsl::Expr& expr);

/// True if the operator is a reshape or a transpose.
bool is_move(const Operator& op);
/// The compute of the same reshape or transpose for elements of type `type`. Requires: is_move(op).
dsl::Compute move_of_type(const Operator& op, DType type);

/// True if the sum, whose terms have at most this magnitude, stays within 32 bits.
bool fits_32_bits(const dsl::Stage& sum, double largest_term);

/// The read in a factor that is a read, converted to a wider type or not, and padded by zeros or
/// not; nullptr for other factors.
const dsl::Read* factor_read(const dsl::Expr& factor);

/// The reads of the two factors of a sum of products, each as factor_read() finds it. nullopt for
/// other stages, and for scans.
std::optional<std::pair<const dsl::Read*, const dsl::Read*>> factors_of(const dsl::Stage& stage);

/// The factors of a sum of products whose `weights` are a constant of the graph and whose `data` is
/// not.
struct WeightedSum {
  struct Factor {
    const dsl::Read* read;
    size_t input;  ///< index in Compute::inputs of the input that `read` reads
  };
  Factor data, weights;
};
/// The stage as a WeightedSum. `tensors` are the tensors of the graph for the inputs of the
/// compute. nullopt if the stage is no such sum, and if a factor is not an input of the compute.
std::optional<WeightedSum> weighted_sum(const dsl::Compute& compute,
                                        const std::vector<std::string>& tensors,
                                        const dsl::Stage& stage,
                                        const std::map<std::string, Constant>& constants);

/// True if kernels compute the sum by dot-product instructions on targets that have these for the
/// types of both factors. Vector lanes then lie along an axis that only the weights have, and each
/// lane sums adjacent elements along the longest reduction axis.
bool has_dot_products(const dsl::Stage& stage, const WeightedSum& sum);

/// The read of the tensor in the expression; nullptr if the expression reads the tensor never or
/// several times.
const dsl::Read* only_read(const dsl::Expr& expr, const std::string& tensor);

/// The name of the compute's input that is bound to this tensor of the graph; nullopt if several
/// inputs are bound to the tensor. Requires: the operator reads the tensor.
std::optional<std::string> input_for(const Operator& op, const std::string& tensor);

/// An index of the form axis + offset.
struct Shifted {
  std::string axis;
  int64_t offset = 0;
};
/// The axis and the offset of the index; nullopt for other expressions.
std::optional<Shifted> as_shifted(const dsl::Expr& expr);

/// Values of an axis, from `low` to below `high`.
struct Range {
  int64_t low = 0, high = 0;
};
using Ranges = std::map<std::string, Range>;
/// The range of each axis within which the condition holds, for a conjunction of comparisons of
/// axes with numbers. nullopt for other conditions.
std::optional<Ranges> box_of(const dsl::Expr& condition, const std::vector<dsl::Axis>& axes);

/// A padding: a tensor with borders of one value around it.
struct Padding {
  std::vector<int64_t> before, after;  ///< elements added to each dimension, 0 or more
  dsl::Expr value;                     ///< a literal
};
/// The operator as a padding; nullopt for other operators.
std::optional<Padding> as_padding(const Operator& op);

}  // namespace tw::graph
