// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions by which passes recognise operators from the way in which the stages of a compute read
// its inputs. Private to graph/passes. Pure functions.

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

/// A compute, and for each of its inputs the tensor of the graph that an operator binds to the
/// input.
struct Spelled {
  dsl::Compute compute;
  std::vector<std::string> inputs;
};
/// Returns the operator's compute in canonical form (canonical() in rewrite.h), with the tensors
/// that are bound to its inputs.
Spelled in_canonical_names(const Operator& op);

/// Returns the index in Compute::inputs of the input with the name `input`. Requires: there is one.
size_t input_number(const dsl::Compute& compute, const std::string& input);

bool has_reduction(const dsl::Compute& compute);

/// The largest number of inputs of a fused operator.
inline constexpr size_t most_fused_inputs = 8;
/// True if fusing `writer` and `reader` would make an operator of at most most_fused_inputs inputs.
/// Requires: `reader` reads one tensor that `writer` writes.
bool have_few_inputs(const Operator& writer, const Operator& reader);

/// Returns the stage of an operator that has one stage, one output and no reduction; nullptr for
/// other operators.
const dsl::Stage* only_stage(const Operator& op);

/// True if the operator is fast, has one stage and no reduction, and the stage reads every input at
/// its own axes in their order, where axes may be left out or replaced by literals. For example,
/// adding one number per channel to a tensor is elementwise. A transpose is not, and neither is a
/// slice that begins at an offset.
bool is_elementwise(const Operator& op);

/// True if an elementwise operator that reads the result of this operator may be fused into it as
/// an epilogue. That holds if the operator is fast, has one output and a reduction, and is not the
/// named operator `attention`.
bool takes_epilogue(const Operator& op);

/// True if the indices of the read are exactly these axes, in their order. The index 0 also stands
/// for an axis of extent 1.
bool is_pointwise(const dsl::Read& read, const std::vector<dsl::Axis>& axes);

/// Returns the number of reads of the tensor by the stage. nullopt if the tensor has another shape
/// than the stage, or if an index of a read is not the stage's axis at the same position.
std::optional<int> count_pointwise_reads(const dsl::Compute& compute, const dsl::Stage& stage,
                                         const std::string& tensor);

/// Returns the number of reads of a tensor of the graph by an operator of one stage: the sum of
/// count_pointwise_reads() over all inputs that are bound to the tensor. nullopt if the count of
/// one of these inputs is nullopt.
std::optional<int> count_pointwise_reads(const Operator& op, const std::string& tensor);

/// Returns the strides of a row-major array, in elements.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);

/// Returns the position in `axes` of the axis that the expression `index` consists of. nullopt if
/// `index` is not a single axis of this list, such as i + 1.
std::optional<size_t> axis_number(const std::vector<dsl::Axis>& axes, const dsl::Expr& index);

/// Returns the number of reads of `tensor` in the expression.
int count_reads(const dsl::Expr& expr, const std::string& tensor);

/// True if the expression consists of reads, literals and selects between them, so that it moves
/// elements and computes nothing.
bool is_choice(const dsl::Expr& expr);

/// Returns the number of reads of `tensor` in an expression that only moves elements (is_choice());
/// nullopt for other expressions.
std::optional<int> count_moved(const dsl::Expr& expr, const std::string& tensor);

/// True if a reduction of the compute reads each element of the input often: 8 times or more on
/// average. Converting the element from a 16-bit float each time then costs more than reading less
/// memory saves. False for the weights of a product of one row: each is read once, and the product
/// waits for memory.
bool reads_repeatedly(const dsl::Compute& compute, const dsl::Input& input);

/// For an expression i32(element) with an element of 8 bits, returns the read of the element;
/// nullptr for other expressions.
const dsl::Read* widened_byte(const dsl::Expr& expr);

/// The parts of an expression i32(q) - zero, or i32(q), for an element q of 8 bits.
struct OffsetByte {
  dsl::Expr number;       ///< i32(q)
  dsl::Expr zero;         ///< undefined if nothing is subtracted
  const dsl::Read* byte;  ///< q; points into `number`
};
/// Returns the expression as an OffsetByte; nullopt for expressions of another form.
std::optional<OffsetByte> as_offset_byte(const dsl::Expr& expr);

/// True if the operator is a reshape or a transpose.
bool is_move(const Operator& op);
/// Returns the compute of the operator's reshape or transpose, with elements of type `type`.
/// Requires: is_move(op).
dsl::Compute move_of_type(const Operator& op, DType type);

/// True if the sum that the stage computes cannot exceed the largest i32, provided that no term has
/// a magnitude above `largest_term`.
bool fits_32_bits(const dsl::Stage& sum, double largest_term);

/// Returns the read in a factor of a product. The factor is a read x[i], a conversion of a factor
/// to a wider type such as f32(x[i]), or a factor with a padding of zeros such as select(inside,
/// x[i], 0). nullptr for other factors.
const dsl::Read* factor_read(const dsl::Expr& factor);

/// For a stage that is a sum of products of two factors, returns the reads in the first and in the
/// second factor, as factor_read() finds them. nullopt for other stages, and for scans.
std::optional<std::pair<const dsl::Read*, const dsl::Read*>> factors_of(const dsl::Stage& stage);

/// The factors of a sum of products: `weights` is a constant of the graph, `data` is not.
struct WeightedSum {
  struct Factor {
    const dsl::Read* read;
    size_t input;  ///< index in Compute::inputs of the input that `read` reads
  };
  Factor data, weights;
};
/// Returns the stage as a WeightedSum. `tensors` has the tensor of the graph for each input of the
/// compute. nullopt if the stage is no sum of products, if not exactly one of the factors is a
/// constant, or if a factor is not an input of the compute.
std::optional<WeightedSum> weighted_sum(const dsl::Compute& compute,
                                        const std::vector<std::string>& tensors,
                                        const dsl::Stage& stage,
                                        const std::map<std::string, Constant>& constants);

/// True if kernels compute the sum by dot-product instructions, provided that the target has such
/// instructions for the types of both factors. Vector lanes then lie along an axis that only the
/// weights have, and each lane sums adjacent elements along the longest reduction axis, whose
/// extent must be even and at least 4.
bool has_dot_products(const dsl::Stage& stage, const WeightedSum& sum);

/// Returns the only read of `tensor` in the expression; nullptr if there is no read of the tensor,
/// or several.
const dsl::Read* only_read(const dsl::Expr& expr, const std::string& tensor);

/// Returns the name of the compute's input to which the operator binds this tensor of the graph;
/// nullopt if it binds the tensor to several inputs. Requires: the operator reads the tensor.
std::optional<std::string> input_for(const Operator& op, const std::string& tensor);

/// An index of the form axis + offset, where `axis` is the name of an axis.
struct Shifted {
  std::string axis;
  int64_t offset = 0;
};
/// Returns the axis and the offset of an index such as h - 1; nullopt for indices of another form.
std::optional<Shifted> as_shifted(const dsl::Expr& expr);

/// Values of an axis, from `low` to below `high`.
struct Range {
  int64_t low = 0, high = 0;
};
using Ranges = std::map<std::string, Range>;
/// For a conjunction of comparisons of axes with numbers, returns the range of each axis within
/// which the condition holds. For axes h and w of extent 12, the condition 2 <= h && h < 10 gives
/// [2, 10) for h and [0, 12) for w. nullopt for other conditions.
std::optional<Ranges> box_of(const dsl::Expr& condition, const std::vector<dsl::Axis>& axes);

/// A padding: the operator adds elements of one value before and after a tensor in each dimension.
struct Padding {
  std::vector<int64_t> before, after;  ///< elements added to each dimension, 0 or more
  dsl::Expr value;                     ///< a literal
};
/// Returns the operator as a padding; nullopt if it is no padding.
std::optional<Padding> as_padding(const Operator& op);

}  // namespace tw::graph
