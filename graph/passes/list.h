// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes, one file each: pure functions that keep the values of the outputs of a valid graph,
// up to rounding (passes.h). Their time is nearly linear in the number of operators, and none
// recurses over a graph. Only drop_dead() accepts graphs with loops. Private to graph/passes.cpp,
// graph/passes and the import.

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes.h"

namespace tw::graph {

/// Removes operators and parts of loops that no output needs, and constants that are neither read
/// nor outputs.
Result<Graph> drop_dead(const Graph& graph);

/// Computes products of a dequantized tensor and a dequantized constant as sums of integers, if the
/// scales vary along axes of the result only and the sums fit 32 bits.
Result<Graph> narrow_products(const Graph& graph);

/// Replaces operators that read constants alone by constants, except for operators with very large
/// results and operators that take very long.
Result<Graph> fold_constants(const Graph& graph, const PassOptions& options = {});

/// Lets sums that read t = i16(i32(q) - zero) read q instead, if the target has dot products of 8
/// bits. The contribution of the zero point is subtracted from the sum.
Result<Graph> narrow_factors(const Graph& graph, const PassOptions& options = {});

/// Stores tensors of 16-bit floats as f32 with the same values, if products read each element
/// several times. Inputs and outputs of the graph keep their types, and so do factors for which the
/// target has dot products.
Result<Graph> widen_factors(const Graph& graph, const PassOptions& options = {});

/// Removes operators that copy a tensor unchanged, except where an output of the graph needs a copy
/// because no operator of its own writes it. Joins a reshape of a reshape, and a transpose of a
/// transpose.
Result<Graph> remove_copies(const Graph& graph);

/// Moves elementwise operators from behind a reshape to before it, if the reshape reads the result
/// of a reduction or of another elementwise operator.
Result<Graph> sink_reshapes(const Graph& graph);

/// Merges equal constants, and operators that have equal workload keys and read the same tensors.
Result<Graph> share_common(const Graph& graph);

/// Fuses a padding into the convolution or max pooling by name that reads it, if that operator can
/// pad its input in this way.
Result<Graph> fuse_padding(const Graph& graph);

/// Folds a scale or shift by channel that follows a product with constant weights into the weights
/// and the bias.
Result<Graph> fold_scale(const Graph& graph);

/// Replaces softmax(q k^T c) v, for a number c > 0, by one operator `attention`.
Result<Graph> name_attention(const Graph& graph);

/// Fuses an elementwise operator into the only reader of its result, if that is elementwise and has
/// the same shape. An operator that directly reads and narrows the result of a reduction is left to
/// fuse_epilogues().
Result<Graph> fuse_elementwise(const Graph& graph);

/// Fuses an elementwise operator into an operator with a reduction, if it is the only reader of the
/// reduction's result.
Result<Graph> fuse_epilogues(const Graph& graph);

/// Fuses an elementwise operator into an operator with reductions that is the only reader of its
/// result, if no work is repeated by this.
Result<Graph> fuse_prologues(const Graph& graph);

/// Merges 1 x 1 convolutions that read the same tensor and are adjacent inputs of one concatenation
/// into a single convolution.
Result<Graph> merge_siblings(const Graph& graph);

/// Lets products with constant weights read only the blocks of weights that are not zero, if at
/// most half of the blocks of each column are not zero.
Result<Graph> compress_blocks(const Graph& graph);

/// Rounds the factors of f32 products to the type PassOptions::precision if the target gains by it.
Result<Graph> round_factors(const Graph& graph, const PassOptions& options);

/// If adjacent inputs of a concatenation are exactly the inputs of an earlier concatenation,
/// replaces them by the result of the earlier one.
Result<Graph> nest_concatenations(const Graph& graph);

}  // namespace tw::graph
