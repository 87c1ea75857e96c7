// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes, one file each: pure functions that keep the values of the outputs of a valid graph,
// up to rounding (passes.h). Their time is nearly linear in the number of operators, and no pass
// recurses over a graph. Only drop_dead() accepts graphs with loops. Private to graph/passes.cpp,
// graph/passes and the import.

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes.h"

namespace tw::graph {

/// Removes operators and parts of loops that no output needs. Removes constants that nothing reads
/// and that are not outputs.
Result<Graph> drop_dead(const Graph& graph);

/// Computes the product of a dequantized tensor and a dequantized constant as a sum of integers,
/// which is dequantized afterwards. Conditions: the scales vary along axes of the result only, and
/// the sum fits 32 bits.
Result<Graph> narrow_products(const Graph& graph);

/// Replaces operators that read only constants by the constants that they compute. Operators with
/// very large results and operators that take very long are left in the graph.
Result<Graph> fold_constants(const Graph& graph, const PassOptions& options = {});

/// If the target has dot products of 8 bits, lets sums that read t = i16(i32(q) - zero) read the
/// 8-bit tensor q instead. The contribution of the zero point is subtracted from the sum.
Result<Graph> narrow_factors(const Graph& graph, const PassOptions& options = {});

/// Stores tensors of 16-bit floats as f32 with the same values if products read each of their
/// elements several times. Inputs and outputs of the graph keep their types. So do factors for
/// which the target has dot products.
Result<Graph> widen_factors(const Graph& graph, const PassOptions& options = {});

/// Removes operators that copy a tensor unchanged. A copy that is an output of the graph stays if
/// the copied tensor is an input, a constant or another output of the graph. Joins a reshape of a
/// reshape into one reshape, and a transpose of a transpose into one transpose.
Result<Graph> remove_copies(const Graph& graph);

/// If a reshape reads the result of a reduction or of an elementwise operator, moves the
/// elementwise operators that follow the reshape to before it.
Result<Graph> sink_reshapes(const Graph& graph);

/// Merges equal constants. Merges operators that have equal workload keys and read the same
/// tensors, except that an operator stays if it writes an output of the graph.
Result<Graph> share_common(const Graph& graph);

/// Fuses a padding into the convolution or max pooling that reads its result. Condition: the reader
/// is a named operator, such as conv2d, whose attributes can express the padding.
Result<Graph> fuse_padding(const Graph& graph);

/// If a scale or shift by channel follows a product with constant weights, folds it into the
/// weights and the bias of the product.
Result<Graph> fold_scale(const Graph& graph);

/// Replaces the operators of softmax(q k^T c) v, for a number c > 0, by one operator `attention`.
Result<Graph> name_attention(const Graph& graph);

/// Fuses an elementwise operator into the only reader of its result, if this reader is also
/// elementwise and has the same shape. An operator that reads the result of a reduction and
/// converts it to a narrower type is left to fuse_epilogues().
Result<Graph> fuse_elementwise(const Graph& graph);

/// Fuses an elementwise operator into the operator with a reduction whose result it reads, if
/// nothing else reads this result.
Result<Graph> fuse_epilogues(const Graph& graph);

/// Fuses an elementwise operator into the operator with reductions that reads its result.
/// Conditions: nothing else reads the result, and no work is repeated by the fusion.
Result<Graph> fuse_prologues(const Graph& graph);

/// Merges 1 x 1 convolutions into a single convolution if they read the same tensor and are
/// adjacent inputs of one concatenation.
Result<Graph> merge_siblings(const Graph& graph);

/// Lets products with constant weights read only the blocks of weights that are not all zero, if
/// that leaves at most half of the multiplications. A block has 1 x 16 or 4 x 4 weights.
Result<Graph> compress_blocks(const Graph& graph);

/// Rounds factors of f32 products to the type PassOptions::precision. If dot products of the target
/// compute the product, both factors are rounded. Of other products only the weights are rounded,
/// and only if reading the weights from memory takes most of the time.
Result<Graph> round_factors(const Graph& graph, const PassOptions& options);

/// If adjacent inputs of a concatenation are exactly the inputs of an earlier concatenation, the
/// later concatenation reads the result of the earlier one in their place.
Result<Graph> nest_concatenations(const Graph& graph);

}  // namespace tw::graph
