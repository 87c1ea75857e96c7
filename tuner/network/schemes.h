// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the schemes from which a plan may choose: groups the operators of a network that are the
// same problem, and lists the layouts with which each problem is worth tuning.
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

/// Says if the array of a tensor can be used by a concatenation without a copy, as a part of the
/// array of the result or as that array itself.
enum class Home {
  Free,  ///< available
  /// Can be used unless the tensor is row-major, since it is then an array of the caller or of a
  /// loop's trips.
  Caller,
  Taken,  ///< cannot be used: it is a constant, or already a part of an array
};

/// Operators of a graph that are the same problem. They compute the same function and have
/// constants at the same inputs, so they share schemes, kernels and records.
struct OperatorGroup {
  dsl::Workload workload;  ///< without layouts, for the network's state of the caches
  /// For each input, true if it is a constant. Constants are packed before any call, in the layout
  /// that the kernel asks for.
  std::vector<bool> packed_ahead;
  bool moves_nothing = false;     ///< true for a reshape, whose result can be a view
  std::vector<size_t> operators;  ///< indices into Graph::operators
  /// Shapes to which the offered layouts apply, for each input and then each output whose rank is
  /// not four. A shape is (batch, channels, height, width), or has a depth before the height.
  /// - A tensor of five or more dimensions has the shape of four or five dimensions to or from
  ///   which the graph reshapes it.
  /// - A signal [n, c, w] that the graph reshapes to one row has [n, c, 1, w].
  /// - A tensor of five dimensions that a convolution reads or writes has its own shape, and so
  ///   have the tensors that operators other than reshapes and transposes connect with it.
  /// Empty for all other tensors.
  std::vector<std::vector<int64_t>> images = {};
  /// As graph::as_transpose(); empty if the operator is no transpose.
  std::vector<size_t> transposed = {};
  std::optional<graph::Concatenation> concatenation = {};  ///< graph::as_concatenation()
  std::vector<Home> homes = {};  ///< for each piece of the concatenation, then for its result
};

/// The groups of a graph, ordered by their first operators. `state` is the state of the caches in
/// which operators outside of loops run, and `in_loops` has the state for each loop; if it is
/// empty, `state` holds for loops too.
std::vector<OperatorGroup> group_operators(const graph::Graph& graph,
                                           dsl::CacheState state = dsl::CacheState::Hot,
                                           const std::vector<dsl::CacheState>& in_loops = {});

/// A copy of a tensor of this type from one layout to another, which may be the same one.
struct LayoutCopy {
  graph::TensorType type;
  dsl::Layout from, to;
};

/// The layouts of an operator: one for each input and each output of its compute. Layouts of inputs
/// that are packed ahead are ignored.
struct LayoutChoice {
  std::vector<dsl::Layout> inputs, outputs;
  /// True if no kernel runs: the output is a view of the input's array, or an array that has the
  /// inputs as its parts.
  bool moves_nothing = false;
  /// The copies that a concatenation without a kernel needs: of inputs that are stored elsewhere to
  /// their places in the result, and of the result to an array of the caller.
  std::vector<LayoutCopy> copies = {};
  /// True if the operator reduces an image, as a convolution or pooling does, and its kernel also
  /// converts layouts: it reads the image in another order of dimensions than it writes.
  bool converts = false;
};

/// The layouts to offer for an operator. The first choice has all tensors row-major.
/// - A tensor of four dimensions (batch, channels, height, width) is offered row-major and with
///   channels last. On processors it is also offered in blocks of channels, with as many channels
///   as a vector of the machine has f32 lanes, and with twice as many. Other tensors are row-major.
/// - A tensor that has an image (OperatorGroup::images) is offered those layouts of the image for
///   which its reshape is a view.
/// - The image that a reduction such as a convolution reads and the output vary independently. The
///   other inputs have the layout of the output.
/// - If both factors of a product are summed along their last dimensions, as queries and keys of
///   attention are, each of them is also offered with its last two dimensions exchanged.
/// - If an input has the indices of elements in rows, as in products of sparse weights, all arrays
///   are also offered with their last two dimensions exchanged.
/// - Choices in `known` are added if they place some tensor differently from all of the above.
/// - A reshape has only the choices for which it is a view. A transpose has all choices, and those
///   for which it is a view are marked.
/// - A concatenation moves nothing if each piece is contiguous in the result, at an offset at which
///   arrays may begin. If pieces have to be copied there, these copies are a choice in addition to
///   the concatenation's kernel.
std::vector<LayoutChoice> offered_layouts(const OperatorGroup& group, const Machine& machine,
                                          const std::vector<LayoutChoice>& known = {});

/// The layouts of the operator's fastest schedules in the database, measured with any layouts on
/// any device, if the records are trusted (db/trust.h). Errors as Store::query().
Result<std::vector<LayoutChoice>> known_layouts(db::Store& store, const OperatorGroup& group,
                                                const Target& target, int threads);

/// The layouts that a schedule, given as tw1 text, gives the tensors of the compute. Errors as
/// schedules::parse_schedule().
Result<LayoutChoice> layouts_of_schedule(const dsl::Compute& compute, std::string_view schedule);

/// True if both choices place the elements of each tensor in the same order. Inputs that are packed
/// ahead are ignored.
bool is_same_choice(const OperatorGroup& group, const LayoutChoice& a, const LayoutChoice& b);

/// The workload of the group, asking for these layouts. The layouts of inputs that are packed
/// ahead, and of tensors without dimensions, stay free.
dsl::Workload with_choice(const OperatorGroup& group, const LayoutChoice& choice);

/// The workload of a copy of a tensor of this type from one layout to another: `out[a, b] = in0[a,
/// b]`. It asks for both layouts and for the state of the caches. A tensor without dimensions has
/// no layouts.
Result<dsl::Workload> transform_workload(const graph::TensorType& type, const dsl::Layout& from,
                                         const dsl::Layout& to,
                                         dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::tuner
