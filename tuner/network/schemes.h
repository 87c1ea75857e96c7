// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schemes that a plan may choose from: which operators of a network are the same problem, and
// the layouts under which each problem is worth tuning.
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

/// Availability of a tensor's array to a concatenation: as a part of the array of its result, or as
/// that array itself.
enum class Home {
  Free,    ///< available
  Caller,  ///< available unless the tensor is row-major, because it is then an array of the
           ///< caller's, or of a loop's trips
  Taken,   ///< not available: it is a constant, or a part of an array already
};

/// Operators of a graph that are the same problem: they compute the same function and have
/// constants at the same inputs, so they share schemes, kernels and records.
struct OperatorGroup {
  dsl::Workload workload;  ///< without layouts, in the state of the caches of the network
  /// For each input, whether it is a constant, which is packed ahead of the calls in whatever
  /// layout its kernel wants.
  std::vector<bool> packed_ahead;
  bool moves_nothing = false;     ///< the operator is a reshape, whose result can be a view
  std::vector<size_t> operators;  ///< indices into Graph::operators
  /// For each input, then each output, of another rank than four: the shape (batch, channels,
  /// height, width, or with a depth before the height) to which the offered layouts apply.
  /// - A tensor of five or more dimensions has the shape of fewer dimensions, four or five, that a
  ///   reshape of the graph makes of it, or makes it of.
  /// - A signal [n, c, w] that a reshape gives one row has [n, c, 1, w].
  /// - A tensor of five dimensions that a convolution reads or writes has its own shape. So have
  ///   the tensors that other operators than reshapes and transposes join with it.
  /// Empty for all others.
  std::vector<std::vector<int64_t>> images = {};
  std::vector<size_t> transposed = {};  ///< graph::as_transpose(); empty for other operators
  std::optional<graph::Concatenation> concatenation = {};  ///< graph::as_concatenation()
  std::vector<Home> homes = {};  ///< of each piece of the concatenation, then of its result
};

/// The groups of a graph, ordered by their first operators. `state` is the state of the caches in
/// which the operators outside of loops are called, `in_loops` that of each loop's; empty: the
/// same.
std::vector<OperatorGroup> group_operators(const graph::Graph& graph,
                                           dsl::CacheState state = dsl::CacheState::Hot,
                                           const std::vector<dsl::CacheState>& in_loops = {});

/// A copy of a tensor of this type from one layout to another, which may be the same one.
struct LayoutCopy {
  graph::TensorType type;
  dsl::Layout from, to;
};

/// The layouts of the inputs and outputs of an operator, one for each input and output of its
/// compute. Layouts of inputs that are packed ahead are ignored.
struct LayoutChoice {
  std::vector<dsl::Layout> inputs, outputs;
  /// No kernel runs: the output is a view of the input's array, or of the array that has the inputs
  /// as its parts.
  bool moves_nothing = false;
  /// The copies that a concatenation needs although it has no kernel: of inputs that lie elsewhere
  /// to their places in the result, and of the result to an array of the caller's.
  std::vector<LayoutCopy> copies = {};
  /// The operator reduces one image, as a convolution or a pooling does, and its kernel converts on
  /// the way: it reads the image in another order of dimensions than it writes.
  bool converts = false;
};

/// The layouts to offer for an operator. The first choice has all tensors row-major.
/// - A tensor of four dimensions (batch, channels, height, width) is offered row-major, with
///   channels last, and, on processors, in blocks of as many channels as a vector of the machine
///   has f32 lanes, and of twice as many. Other tensors are row-major.
/// - A tensor that has an image (OperatorGroup::images) is offered the layouts of the image that
///   its reshape is a view under.
/// - An input of a reduction (the image of a convolution) and the output vary independently. The
///   other inputs have the layout of the output.
/// - Where both factors of a product are summed along their last dimensions, as queries and keys of
///   attention, either is also offered with its last two dimensions exchanged.
/// - Where data are the indices of elements in rows, as in products of sparse weights, all arrays
///   are also offered with their last two dimensions exchanged.
/// - Choices in `known` are added if they place some tensor differently from all of these.
/// - A reshape has only the choices under which it is a view. A transpose has all, and those under
///   which it is a view are marked.
/// - A concatenation moves nothing if each piece is contiguous in the result, at an offset at which
///   arrays may begin. If pieces have to be copied there, that is a choice beside the kernel's.
std::vector<LayoutChoice> offered_layouts(const OperatorGroup& group, const Machine& machine,
                                          const std::vector<LayoutChoice>& known = {});

/// The layouts of the fastest schedules that the database has for the operator, measured under any
/// layouts and on any device, and believed (db/trust.h). Fails as Store::query() does.
Result<std::vector<LayoutChoice>> known_layouts(db::Store& store, const OperatorGroup& group,
                                                const Target& target, int threads);

/// The layouts that a schedule (tw1 text) gives the tensors of the compute. Fails as
/// schedules::parse_schedule() does.
Result<LayoutChoice> layouts_of_schedule(const dsl::Compute& compute, std::string_view schedule);

/// True if both choices place the elements of all tensors alike. Inputs that are packed ahead do
/// not count.
bool is_same_choice(const OperatorGroup& group, const LayoutChoice& a, const LayoutChoice& b);

/// The workload of the group with these layouts asked for. Layouts of inputs that are packed ahead,
/// and of tensors without dimensions, stay free.
dsl::Workload with_choice(const OperatorGroup& group, const LayoutChoice& choice);

/// The copy of a tensor of this type from one layout to another, as a workload that asks for both
/// and for the state: `out[a, b] = in0[a, b]`. A tensor without dimensions has no layouts.
Result<dsl::Workload> transform_workload(const graph::TensorType& type, const dsl::Layout& from,
                                         const dsl::Layout& to,
                                         dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::tuner
