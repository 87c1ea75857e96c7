// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes, one file each: pure functions that keep what the outputs of a valid graph are, in
// time nearly linear in the number of operators. None recurses over a graph. The graph has no
// loops, except for drop_dead(). Private to graph/passes.cpp, graph/passes and the import.

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes.h"

namespace tw::graph {

/// Each operator is needed by an output, each constant is read or an output. Loops may be there,
/// and have nothing that is not needed either.
Result<Graph> drop_dead(const Graph& graph);

/// Products of a dequantized tensor and a dequantized constant are sums of integers, where their
/// scales belong to axes of the result and sums fit 32 bits.
Result<Graph> narrow_products(const Graph& graph);

/// No operator reads constants alone, but for those that have very large results or take very long.
Result<Graph> fold_constants(const Graph& graph, const PassOptions& options = {});

/// Sums that read t = i16(i32(q) - zero) read q where the target has dot products of 8 bits. The
/// zero point is subtracted from their result.
Result<Graph> narrow_factors(const Graph& graph, const PassOptions& options = {});

/// Tensors of 16-bit floats of which products read each element several times are f32 with the same
/// values, but for inputs and outputs of the graph and dot products of the target.
Result<Graph> widen_factors(const Graph& graph, const PassOptions& options = {});

/// No operator copies a tensor unchanged, but for outputs of the graph that are no operator's own;
/// no reshape reads a reshape, no transpose a transpose.
Result<Graph> remove_copies(const Graph& graph);

/// Elementwise operators on the reshaped result of a reduction, or of another elementwise operator,
/// run before the reshape.
Result<Graph> sink_reshapes(const Graph& graph);

/// Equal constants are one; so are operators of one key that read the same tensors.
Result<Graph> share_common(const Graph& graph);

/// No convolution or max pooling by name is the reader of a padding that it could do itself.
Result<Graph> fuse_padding(const Graph& graph);

/// No product with constant weights is followed by a scale or shift by channel alone.
Result<Graph> fold_scale(const Graph& graph);

/// softmax(q k^T c) v, for a number c > 0, is one operator, `attention`.
Result<Graph> name_attention(const Graph& graph);

/// Elementwise operators of one shape whose results only one other such operator needs are one. An
/// operator that directly reads and narrows a reduction's result is left to fuse_epilogues().
Result<Graph> fuse_elementwise(const Graph& graph);

/// Elementwise operators that alone read the result of an operator with a reduction are part of it.
Result<Graph> fuse_epilogues(const Graph& graph);

/// Elementwise operators that only an operator with reductions reads are part of it, where that
/// repeats no work.
Result<Graph> fuse_prologues(const Graph& graph);

/// Convolutions of 1 x 1 that read one tensor and stand side by side in a concatenation are one.
Result<Graph> merge_siblings(const Graph& graph);

/// Products with constant weights read only the blocks that are not zero, where no column of blocks
/// keeps more than half.
Result<Graph> compress_blocks(const Graph& graph);

/// Products of f32 read floats of the type PassOptions::precision where the target gains by that.
Result<Graph> round_factors(const Graph& graph, const PassOptions& options);

/// A concatenation that contains all tensors of an earlier one, side by side, reads its result.
Result<Graph> nest_concatenations(const Graph& graph);

}  // namespace tw::graph
