// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the schemes from which a plan may choose. Operators of a network that are the same problem
// form a group. For each group, the layouts that are worth tuning are listed.
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

/// Says if a concatenation that runs no kernel can use the array of a tensor in place. The tensor
/// is an input or the result of the concatenation. The array of an input would become a part of the
/// result's array; the array of the result would have the inputs as parts. An array that cannot be
/// used in place is copied.
enum class Home {
  Free,  ///< available
  /// The tensor belongs to the caller, or enters or leaves the body of a loop. Its row-major array
  /// cannot be used, because the caller or the loop determines where that array lies. In any other
  /// layout, the tensor has an array of its own, which can be used.
  Caller,
  Taken,  ///< cannot be used: the tensor is a constant, or already a part of another array
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
  /// The images of the tensors, for each input and then for each output. An image is a shape to
  /// which layouts such as NHWC apply: (batch, channels, height, width), or with a depth before the
  /// height. A tensor of four dimensions is its own image, and its element of this vector is
  /// ignored. A tensor of another rank has an empty image, except in three cases:
  /// - If the graph reshapes a tensor to or from a tensor of four or five dimensions, and the first
  ///   tensor has more dimensions, its image is the shape of the second. For example, [n, g, c, h,
  ///   w] has the image [n, g * c, h, w].
  /// - A signal [n, c, w] that the graph reshapes to or from an image of one row has the image [n,
  ///   c, 1, w]. If the other tensor has more than four dimensions, such as [n, g, c / g, 1, w], it
  ///   has the same image.
  /// - The image of a tensor of five dimensions is its own shape if a convolution reads or writes
  ///   the tensor. The same holds for five-dimensional tensors that are connected with such a
  ///   tensor by poolings, sums or other operators, except reshapes and transposes.
  std::vector<std::vector<int64_t>> images = {};
  /// The permutation of a transpose: dimension i of the input is dimension transposed[i] of the
  /// output (graph::as_transpose()). Empty for all other operators.
  std::vector<size_t> transposed = {};
  std::optional<graph::Concatenation> concatenation = {};  ///< graph::as_concatenation()
  std::vector<Home> homes = {};  ///< for each input of the concatenation, then for its result
};

/// Groups the operators of a graph that are the same problem. Groups are ordered by their first
/// operators. `state` is the state of the caches in which operators outside of loops run.
/// `in_loops` has the state of the caches in each loop; if it is empty, operators in loops run in
/// `state` too.
std::vector<OperatorGroup> group_operators(const graph::Graph& graph,
                                           dsl::CacheState state = dsl::CacheState::Hot,
                                           const std::vector<dsl::CacheState>& in_loops = {});

/// A copy of a tensor of this type from layout `from` to layout `to`. The two layouts may be equal.
struct LayoutCopy {
  graph::TensorType type;
  dsl::Layout from, to;
};

/// The layouts of an operator: one for each input and each output of its compute. The layout of an
/// input that is packed ahead is ignored.
struct LayoutChoice {
  std::vector<dsl::Layout> inputs, outputs;
  /// True if the operator runs no kernel: the output is a view of the input's array, or an array of
  /// which the inputs are parts.
  bool moves_nothing = false;
  /// The copies that a concatenation needs if it runs no kernel. An input that cannot be used in
  /// place (Home) is copied to its place in the result. A result that the caller or a loop keeps is
  /// copied to its array there.
  std::vector<LayoutCopy> copies = {};
  /// True if the operator reduces an image, as a convolution or pooling does, and its kernel also
  /// converts layouts. Such a kernel reads the image in another order of dimensions than it writes,
  /// for example NCHW to NHWC.
  bool converts = false;
};

/// Returns the choices of layouts to offer for an operator. In the first choice all tensors are
/// row-major.
/// - A tensor of four dimensions (batch, channels, height, width) is offered row-major and with
///   channels last. On processors it is also offered in blocks of channels: with as many channels
///   as a vector of the machine has f32 lanes, and with twice as many. With 16 lanes these are
///   NCHW, NHWC, NCHW16c and NCHW32c. Other tensors are row-major.
/// - A tensor with an image (OperatorGroup::images) is offered the layouts of the image for which
///   the reshape between tensor and image is a view.
/// - The layout of the output and the layout of the image that a reduction (such as a convolution)
///   reads vary independently. All other inputs have the layout of the output. If this makes too
///   many choices, all inputs have the layout of the output.
/// - If both factors of a product are summed along their last dimensions, as queries and keys of
///   attention are, each of the two factors is also offered with its last two dimensions exchanged.
/// - If rows of an input are read at positions that come from another tensor, as in `in0[i,
///   in1[j]]` in products of sparse weights, all arrays are also offered with their last two
///   dimensions exchanged.
/// - A choice in `known` is added if it places some tensor differently from each choice above; at
///   most four of them.
/// - A reshape has only the choices for which it is a view. A transpose has all choices; those for
///   which it is a view have `moves_nothing`.
/// - A concatenation moves nothing if each input is contiguous in the result, at an offset at which
///   arrays may begin. If some input has to be copied to its place there, the concatenation has two
///   choices for these layouts: one with its kernel, one with copies.
std::vector<LayoutChoice> offered_layouts(const OperatorGroup& group, const Machine& machine,
                                          const std::vector<LayoutChoice>& known = {});

/// Returns the layouts of the fastest schedules that the database has for the operator. They come
/// from trusted records (db/trust.h) of any device, whatever layouts the workload of the record
/// asks for. Fails with the errors of Store::query().
Result<std::vector<LayoutChoice>> known_layouts(db::Store& store, const OperatorGroup& group,
                                                const Target& target, int threads);

/// Returns the layouts that a schedule (tw1 text) chooses for the inputs and outputs of the
/// compute. Fails with the errors of schedules::parse_schedule().
Result<LayoutChoice> layouts_of_schedule(const dsl::Compute& compute, std::string_view schedule);

/// True if both choices place the elements of each tensor in the same order. Inputs that are packed
/// ahead are ignored.
bool is_same_choice(const OperatorGroup& group, const LayoutChoice& a, const LayoutChoice& b);

/// Returns the workload of the group with the layouts of `choice`. The layouts of inputs that are
/// packed ahead, and of tensors without dimensions, stay free.
dsl::Workload with_choice(const OperatorGroup& group, const LayoutChoice& choice);

/// Returns the workload of a copy of a tensor of this type from layout `from` to layout `to`:
/// `out[a, b] = in0[a, b]`. The workload asks for both layouts and for the state of the caches. The
/// copy of a tensor without dimensions asks for no layouts.
Result<dsl::Workload> transform_workload(const graph::TensorType& type, const dsl::Layout& from,
                                         const dsl::Layout& to,
                                         dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::tuner
