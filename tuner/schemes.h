// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ways to run each operator of a network that a plan may choose from: which operators are one
// problem, and in which layouts each of these problems is worth tuning.
//
//   for (const OperatorGroup& group : group_operators(graph))
//     for (const LayoutChoice& choice : offered_layouts(group, machine, known))
//       ... with_choice(group, choice)      // what is tuned and built
//
// Pure functions; thread-safe.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "dsl/layout.h"
#include "dsl/workload.h"
#include "graph/graph.h"
#include "graph/rewrite.h"

namespace tw::tuner {

/// Whether the array of a tensor can be a part of a concatenation's, or have such parts.
enum class Home {
  Free,
  Caller,  ///< not if it is row-major: then it is an array of the caller's
  Taken,   ///< no: it is a part of another array, or stands in this one a second time
};

/// Operators of a graph that are one problem: they compute the same and read constants at the same
/// inputs, so they share schemes, kernels and records.
struct OperatorGroup {
  dsl::Workload workload;          ///< without layouts, in the state of the network
  std::vector<bool> packed_ahead;  ///< of each input: a constant, which is packed for its kernel
  bool moves_nothing = false;      ///< a reshape, which is another name of an array
  std::vector<size_t> operators;   ///< indices into Graph::operators
  /// Of each input, then of each output: the four dimensions (batch, channels, two of space) that a
  /// reshape makes of its five or more; empty where there is no such reshape.
  std::vector<std::vector<int64_t>> images = {};
  std::vector<size_t> transposed = {};  ///< graph::as_transpose(); empty for other operators
  std::optional<graph::Concatenation> concatenation = {};  ///< graph::as_concatenation()
  std::vector<Home> homes = {};  ///< of each piece of the concatenation, then of its result
};

/// The state of the caches in which operators of the graph are called, one inference after another:
/// that of the smallest level of which all constants and as many activations as are needed at a
/// time fill no more than half; Hot where that is L2 of one core, and on GPUs.
dsl::CacheState state_of(const graph::Graph& graph, const Machine& machine);

/// In the order of the first operator of each, as called in that state.
std::vector<OperatorGroup> group_operators(const graph::Graph& graph,
                                           dsl::CacheState state = dsl::CacheState::Hot);

/// A copy of a tensor of this type from one layout to another, which may be the same one.
struct LayoutCopy {
  graph::TensorType type;
  dsl::Layout from, to;
};

/// Layouts of the inputs and outputs of an operator, one for each of its compute. Those of inputs
/// that are packed ahead mean nothing.
struct LayoutChoice {
  std::vector<dsl::Layout> inputs, outputs;
  /// No kernel is run: the output is another name of the input's array, or of the array that the
  /// inputs are parts of.
  bool moves_nothing = false;
  /// Copies all the same: of inputs of a concatenation that lie elsewhere to their places in it,
  /// and of its result to an array of the caller's.
  std::vector<LayoutCopy> copies = {};
};

/// What to offer for an operator, row-major throughout first. A tensor of four dimensions (batch,
/// channels, two of space) may be row-major, have its channels last, or, on a processor, have
/// blocks of as many channels as a vector of the machine has f32 lanes, or of twice as many. So may
/// a tensor of more dimensions that a reshape connects with one of four, where the reshape then
/// moves nothing. What a reduction reads (the image of a convolution) is chosen apart from the
/// output; the other inputs follow the output. Choices in `known` are added where they place some
/// tensor otherwise.
///
/// A reshape has the choices of its input under which it moves nothing, and no others. A transpose
/// has all, those among them that move nothing marked. So has a concatenation: it moves nothing
/// where each piece lies in the result as a tensor of its own, from an offset on at which arrays
/// may begin. Where pieces have to be copied to their places, that is a choice beside the kernel's.
std::vector<LayoutChoice> offered_layouts(const OperatorGroup& group, const Machine& machine,
                                          const std::vector<LayoutChoice>& known = {});

/// The layouts of the best schedules that the database has for the operator, under whatever layouts
/// and on whatever device they were measured. Fails as Store::query() does.
Result<std::vector<LayoutChoice>> known_layouts(db::Store& store, const OperatorGroup& group,
                                                const Target& target, int threads);

/// The layouts that a schedule (tw1 text) gives the tensors of the compute. Fails as
/// schedules::parse_schedule() does.
Result<LayoutChoice> layouts_of_schedule(const dsl::Compute& compute, std::string_view schedule);

/// Whether both choices place the elements of all tensors alike that are not packed ahead.
bool is_same_choice(const OperatorGroup& group, const LayoutChoice& a, const LayoutChoice& b);

/// The workload that asks for these layouts. Inputs that are packed ahead, and single numbers, stay
/// free.
dsl::Workload with_choice(const OperatorGroup& group, const LayoutChoice& choice);

/// The copy of a tensor of this type from one layout to another, as a workload that asks for both
/// and for the state: `out[a, b] = in0[a, b]`. A tensor without dimensions has no layouts.
Result<dsl::Workload> transform_workload(const graph::TensorType& type, const dsl::Layout& from,
                                         const dsl::Layout& to,
                                         dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::tuner
