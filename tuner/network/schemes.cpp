// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "codegen/abi.h"
#include "db/answers.h"
#include "graph/plan.h"
#include "graph/renaming.h"
#include "graph/rewrite.h"
#include "graph/storage.h"
#include "runtime/arena.h"
#include "runtime/model_file.h"
#include "schedules/nest.h"
#include "schedules/schedule.h"

namespace tw::tuner {
namespace {

using Shape = std::vector<int64_t>;

// Largest number of choices of layouts for an operator, and largest number of further choices from
// records. Each choice is a kernel to predict, and neighbouring operators would agree only on few
// layouts of a tensor anyway.
constexpr size_t most_choices = 36, most_known_choices = 4;
constexpr int64_t most_records = 32;
constexpr int64_t least_block = 4;

/// A family of layouts: 0 is row-major, 1 has channels last (NHWC), and x > 1 has blocks of x
/// channels (NCHW[x]c).
using Order = int64_t;
constexpr Order row_major = 0, channels_last = 1;

/// The shape of a tensor and its image. The image is a shape to which orders apply: (batch,
/// channels, height, width), or with a depth before the height. It is the tensor's own shape, or
/// the shape to which the tensor is reshaped. The image is empty if neither of these is an image.
struct Imaged {
  Shape shape, image;
  /// Bytes of an element in vector registers: at least 4, since narrower types are computed in 4
  /// bytes.
  int lane_bytes = 4;
};

/// Returns the layout of an image in an order; row-major if the image has fewer channels than a
/// block.
dsl::Layout image_layout(Order order, const Shape& image) {
  const auto rank = static_cast<int>(image.size());
  if (order == row_major || (order > channels_last && image[1] < order))
    return dsl::Layout::row_major(rank);
  const std::string letters = dsl::default_letters(rank);
  const std::string text = order == channels_last ? fmt::format("A{}B", letters.substr(2))
                                                  : fmt::format("{}{}b", letters, order);
  return dsl::Layout::parse(text, letters).value();
}

/// Returns the orders besides row-major that may make kernels faster on the machine. GPUs are
/// offered no blocks of channels, because channels last already makes the channels contiguous.
std::vector<Order> candidate_orders(int64_t channels, int lane_bytes, const Machine& machine) {
  if (machine.gpu) return {channels_last};
  const Order lanes = std::max(machine.core.vector_bytes / lane_bytes, 1);
  const auto most = static_cast<uint64_t>(std::max<int64_t>(channels, 1));
  const Order fewer = std::min(static_cast<Order>(std::bit_floor(most)), lanes);
  return {channels_last, fewer, 2 * lanes};
}

/// Returns the layout of a tensor in an order; row-major if the tensor has no image.
dsl::Layout layout_in(Order order, const Imaged& tensor) {
  const dsl::Layout row_major_one = dsl::Layout::row_major(static_cast<int>(tensor.shape.size()));
  if (tensor.image.empty()) return row_major_one;
  return graph::through_reshape(tensor.image, image_layout(order, tensor.image), tensor.shape)
      .value_or(row_major_one);
}

/// Returns the orders offered for a tensor, row-major first. If several orders place the elements
/// alike, only the first of them is offered.
std::vector<Order> orders_of(const Imaged& tensor, const Machine& machine) {
  std::vector<Order> orders = {row_major};
  if (tensor.image.empty()) return orders;
  for (const Order order : candidate_orders(tensor.image[1], tensor.lane_bytes, machine)) {
    if (order != channels_last && (order < least_block || order > tensor.image[1])) continue;
    const dsl::Layout layout = layout_in(order, tensor);
    const auto is_known = [&](Order other) {
      return graph::is_same_storage(tensor.shape, layout, layout_in(other, tensor));
    };
    if (std::ranges::none_of(orders, is_known)) orders.push_back(order);
  }
  return orders;
}

std::set<std::string> tensors_read(const dsl::Stage& stage) {
  std::set<std::string> tensors;
  dsl::for_each(stage.body, [&](const dsl::Expr& node) {
    if (const auto* read = node.as<dsl::Read>()) tensors.insert(read->tensor);
  });
  return tensors;
}

/// Returns the tensors that a reduction reads, either itself or through the stages before it.
std::set<std::string> feeding_reductions(const dsl::Compute& compute) {
  std::set<std::string> feeding;
  for (auto stage = compute.stages.rbegin(); stage != compute.stages.rend(); ++stage)
    if (stage->combine != dsl::Combine::None || feeding.contains(stage->name))
      feeding.merge(tensors_read(*stage));
  return feeding;
}

/// True if shape `a` broadcasts to shape `b` of the same rank: each extent of `a` equals that of
/// `b` or is 1.
bool is_broadcast_of(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](int64_t x, int64_t y) { return x == y || x == 1; });
}

Imaged imaged(const Shape& shape, DType type, const Shape& image) {
  return {shape, shape.size() == 4 ? shape : image, std::max(size_bytes(type), 4)};
}

/// input_imaged() returns the shape and image of an input of the group's operators, output_imaged()
/// those of an output.
Imaged input_imaged(const OperatorGroup& group, size_t index) {
  const dsl::Input& input = group.workload.compute.inputs[index];
  return imaged(input.shape, input.type, group.images.empty() ? Shape() : group.images[index]);
}
Imaged output_imaged(const OperatorGroup& group, size_t index) {
  const dsl::Compute& compute = group.workload.compute;
  const std::string& name = compute.outputs[index];
  return imaged(compute.shape_of(name), compute.type_of(name),
                group.images.empty() ? Shape() : group.images[compute.inputs.size() + index]);
}

/// Enumerates the choices of layouts of an operator. An input is independent if a reduction reads
/// it, or if its shape does not broadcast to that of the output. Each independent input has an
/// order of its own; the outputs and all other inputs share one order, that of the leader.
class Offers {
 public:
  Offers(const OperatorGroup& group, const Machine& machine)
      : group_(group), compute_(group.workload.compute), machine_(machine) {
    find_leader();
    find_independent();
  }

  std::vector<LayoutChoice> all() const {
    std::vector<LayoutChoice> choices;
    std::vector<Order> chosen(independent_.size(), row_major);
    for (const Order order : orders_of(leader_, machine_)) add(order, chosen, 0, choices);
    return choices;
  }

 private:
  /// Sets the leader: the first output that has an image, or else the first output. The orders of
  /// the leader are those of all outputs.
  void find_leader() {
    leader_ = output_imaged(group_, 0);
    for (size_t i = 1; i < compute_.outputs.size(); ++i)
      if (leader_.image.empty()) leader_ = output_imaged(group_, i);
  }

  void find_independent() {
    const std::set<std::string> feeding = feeding_reductions(compute_);
    size_t choices = orders_of(leader_, machine_).size();
    for (size_t i = 0; i < compute_.inputs.size(); ++i) {
      const dsl::Input& input = compute_.inputs[i];
      if (group_.packed_ahead[i]) continue;
      if (!feeding.contains(input.name) && is_broadcast_of(input.shape, leader_.shape)) continue;
      independent_.push_back(i);
      reduces_independent_ |= feeding.contains(input.name);
      choices *= orders_of(input_imaged(group_, i), machine_).size();
    }
    if (choices > most_choices) independent_.clear();
  }

  void add(Order order, std::vector<Order>& chosen, size_t next,
           std::vector<LayoutChoice>& choices) const {
    if (next == independent_.size()) {
      choices.push_back(choice(order, chosen));
      return;
    }
    for (const Order own : orders_of(input_imaged(group_, independent_[next]), machine_)) {
      chosen[next] = own;
      add(order, chosen, next + 1, choices);
    }
  }

  LayoutChoice choice(Order order, const std::vector<Order>& chosen) const {
    LayoutChoice layouts;
    for (size_t i = 0; i < compute_.inputs.size(); ++i)
      layouts.inputs.push_back(layout_in(order, following(input_imaged(group_, i))));
    for (size_t i = 0; i < independent_.size(); ++i)
      layouts.inputs[independent_[i]] = layout_in(chosen[i], input_imaged(group_, independent_[i]));
    for (size_t i = 0; i < compute_.outputs.size(); ++i)
      layouts.outputs.push_back(layout_in(order, following(output_imaged(group_, i))));
    layouts.converts =
        reduces_independent_ && independent_.size() == 1 && are_different(order, chosen[0]);
    return layouts;
  }

  /// True if the kernel converts layouts, i.e. the leader and the only independent input have
  /// layouts of different orders. False if `order` and `own` place the elements of one of the two
  /// tensors alike, because then a single order describes both tensors.
  bool are_different(Order order, Order own) const {
    const auto place_alike = [&](const Imaged& tensor) {
      return graph::is_same_storage(tensor.shape, layout_in(order, tensor), layout_in(own, tensor));
    };
    return !place_alike(leader_) && !place_alike(input_imaged(group_, independent_[0]));
  }

  /// Returns the leader if the tensor has its shape, so that the layouts of both agree; otherwise
  /// the tensor.
  const Imaged& following(const Imaged& tensor) const {
    return tensor.shape == leader_.shape ? leader_ : tensor;
  }

  const OperatorGroup& group_;
  const dsl::Compute& compute_;
  const Machine& machine_;
  Imaged leader_;
  std::vector<size_t> independent_;   ///< indices of the inputs with an order of their own
  bool reduces_independent_ = false;  ///< true if a reduction reads an independent input
};

/// Returns the two inputs of a sum of products, such as q[i, d] * k[j, d], if the summed axis is
/// the last index of both. Neighbouring results then read elements of both inputs that are a row
/// apart. Empty if there is no such sum.
std::set<std::string> factors_summed_along_rows(const dsl::Compute& compute) {
  std::set<std::string> found;
  for (const dsl::Stage& stage : compute.stages) {
    const dsl::Binary* product = stage.body.as<dsl::Binary>();
    if (stage.combine != dsl::Combine::Sum || !product || product->op != dsl::BinaryOp::Mul)
      continue;
    const dsl::Read* factors[] = {product->a.as<dsl::Read>(), product->b.as<dsl::Read>()};
    const bool are_rows = std::ranges::all_of(factors, [&](const dsl::Read* factor) {
      if (!factor || factor->indices.size() < 2 || !compute.find_input(factor->tensor))
        return false;
      const dsl::Var* last = factor->indices.back().as<dsl::Var>();
      return last && std::ranges::any_of(stage.reduction, [&](const dsl::Axis& axis) {
               return axis.name == last->name;
             });
    });
    if (are_rows) found.insert({factors[0]->tensor, factors[1]->tensor});
  }
  return found;
}

LayoutChoice row_major_choice(const dsl::Compute& compute) {
  LayoutChoice choice;
  for (const dsl::Input& input : compute.inputs)
    choice.inputs.push_back(dsl::Layout::row_major(static_cast<int>(input.shape.size())));
  for (const std::string& name : compute.outputs)
    choice.outputs.push_back(
        dsl::Layout::row_major(static_cast<int>(compute.shape_of(name).size())));
  return choice;
}

/// Returns the layout with the last two dimensions exchanged.
dsl::Layout exchanged_layout(size_t rank) {
  const std::string letters = dsl::default_letters(static_cast<int>(rank));
  std::string exchanged = letters;
  std::swap(exchanged[rank - 1], exchanged[rank - 2]);
  return dsl::Layout::parse(exchanged, letters).value();
}

/// Adds the choice if it places some tensor differently from each choice in `choices`.
void add_new(const OperatorGroup& group, const LayoutChoice& choice,
             std::vector<LayoutChoice>& choices) {
  const auto is_same = [&](const LayoutChoice& other) {
    return is_same_choice(group, choice, other);
  };
  if (std::ranges::none_of(choices, is_same)) choices.push_back(choice);
}

/// Adds a choice for each input that factors_summed_along_rows() returns and that is not packed
/// ahead. In this choice the input has its last two dimensions exchanged, and all other tensors are
/// row-major.
void add_transposed_factors(const OperatorGroup& group, std::vector<LayoutChoice>& choices) {
  const dsl::Compute& compute = group.workload.compute;
  const std::set<std::string> factors = factors_summed_along_rows(compute);
  for (size_t i = 0; i < compute.inputs.size(); ++i) {
    if (group.packed_ahead[i] || !factors.contains(compute.inputs[i].name)) continue;
    choices.push_back(row_major_choice(compute));
    choices.back().inputs[i] = exchanged_layout(compute.inputs[i].shape.size());
  }
}

/// True if rows of the input are read at positions that come from another tensor, as in `in0[i,
/// in1[j]]` in products of sparse weights.
bool gathers_in_rows(const dsl::Compute& compute, const std::string& input) {
  bool found = false;
  for (const dsl::Stage& stage : compute.stages)
    schedules::for_each_read(stage.body, [&](const dsl::Read& read) {
      if (read.tensor != input || read.indices.size() < 2) return;
      dsl::for_each(read.indices.back(),
                    [&](const dsl::Expr& e) { found |= e.as<dsl::Read>() != nullptr; });
    });
  return found;
}

/// Adds a choice in which all tensors with at least two dimensions have their last two dimensions
/// exchanged, if the compute gathers elements within rows (gathers_in_rows()). Vectors along the
/// rows of the result then read neighbouring elements, whatever the indices are.
void add_transposed_gathers(const OperatorGroup& group, std::vector<LayoutChoice>& choices) {
  const dsl::Compute& compute = group.workload.compute;
  bool gathers = false;
  for (size_t i = 0; i < compute.inputs.size(); ++i)
    gathers |= !group.packed_ahead[i] && gathers_in_rows(compute, compute.inputs[i].name);
  if (!gathers) return;
  LayoutChoice choice = row_major_choice(compute);
  for (size_t i = 0; i < compute.inputs.size(); ++i)
    if (const size_t rank = compute.inputs[i].shape.size(); rank >= 2 && !group.packed_ahead[i])
      choice.inputs[i] = exchanged_layout(rank);
  for (size_t i = 0; i < compute.outputs.size(); ++i)
    if (const size_t rank = compute.shape_of(compute.outputs[i]).size(); rank >= 2)
      choice.outputs[i] = exchanged_layout(rank);
  add_new(group, choice, choices);
}

/// Returns the layout in which the output is a view of the input's array, which has the layout
/// `layout`; nullopt if there is none. Requires: the operator is a reshape or a transpose.
std::optional<dsl::Layout> renamed(const OperatorGroup& group, const dsl::Layout& layout) {
  const dsl::Compute& compute = group.workload.compute;
  if (group.moves_nothing)
    return graph::through_reshape(compute.inputs[0].shape, layout,
                                  compute.shape_of(compute.outputs[0]));
  return graph::through_transpose(layout, group.transposed);
}

/// Returns the pairs of offered layouts of input and output with which a reshape or transpose is a
/// view.
std::vector<LayoutChoice> renaming_choices(const OperatorGroup& group, const Machine& machine) {
  const Imaged in = input_imaged(group, 0), out = output_imaged(group, 0);
  std::vector<LayoutChoice> choices;
  for (const Order order : orders_of(in, machine)) {
    const dsl::Layout layout = layout_in(order, in);
    const std::optional<dsl::Layout> result = renamed(group, layout);
    if (!result) continue;
    for (const Order other : orders_of(out, machine))
      if (graph::is_same_storage(out.shape, *result, layout_in(other, out)))
        choices.push_back({{layout}, {layout_in(other, out)}, true});
  }
  return choices;
}

/// Sets `moves_nothing` in the choices with which the operator is a view, and adds such choices
/// that are missing.
void add_renaming_choices(const OperatorGroup& group, const Machine& machine,
                          std::vector<LayoutChoice>& choices) {
  for (LayoutChoice& renaming : renaming_choices(group, machine)) {
    const auto same = std::ranges::find_if(choices, [&](const LayoutChoice& choice) {
      return is_same_choice(group, choice, renaming);
    });
    if (same == choices.end())
      choices.push_back(std::move(renaming));
    else
      same->moves_nothing = true;
  }
}

/// An input of the concatenation, and the range of the result that it fills.
struct Piece {
  size_t input = 0;
  int64_t begin = 0, end = 0;  ///< positions along the concatenated dimension
};
std::vector<Piece> pieces_of(const OperatorGroup& group) {
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (const size_t input : group.concatenation->inputs) {
    const Shape& shape = group.workload.compute.inputs[input].shape;
    const int64_t end = begin + shape[group.concatenation->dimension];
    pieces.push_back({input, begin, end});
    begin = end;
  }
  return pieces;
}

/// True if an array with this home and layout cannot be used in place, so that it has to be copied.
bool is_elsewhere(Home home, const Shape& shape, const dsl::Layout& layout) {
  const auto row_major_one = dsl::Layout::row_major(static_cast<int>(shape.size()));
  return home == Home::Taken ||
         (home == Home::Caller && graph::is_same_storage(shape, layout, row_major_one));
}

/// Returns the choice in which the concatenation runs no kernel: each piece is a part of the
/// result's array, or is copied to its place there. nullopt if a piece is not contiguous in the
/// result, does not begin where arrays may begin, or has another layout than the result.
std::optional<LayoutChoice> in_place(const OperatorGroup& group, LayoutChoice choice,
                                     int64_t alignment) {
  const dsl::Compute& compute = group.workload.compute;
  const Shape& whole = compute.shape_of(compute.outputs[0]);
  const dsl::Layout& layout = choice.outputs[0];
  const DType dtype = compute.stages.back().type;
  const std::vector<Piece> pieces = pieces_of(group);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [input, begin, end] = pieces[i];
    const Shape& shape = compute.inputs[input].shape;
    const auto offset =
        graph::offset_of_slice(whole, layout, group.concatenation->dimension, begin, end);
    if (!offset || *offset * size_bytes(dtype) % alignment != 0) return std::nullopt;
    if (group.packed_ahead[input]) {
      const auto row_major_one = dsl::Layout::row_major(static_cast<int>(shape.size()));
      choice.copies.push_back({{dtype, shape}, row_major_one, layout});
      continue;
    }
    if (!graph::is_same_storage(shape, choice.inputs[input], layout)) return std::nullopt;
    if (is_elsewhere(group.homes[i], shape, layout))
      choice.copies.push_back({{dtype, shape}, layout, layout});
  }
  if (is_elsewhere(group.homes.back(), whole, layout))
    choice.copies.push_back({{dtype, whole}, layout, layout});
  choice.moves_nothing = true;
  return choice;
}

/// Replaces each choice with which the concatenation needs neither a kernel nor copies by the
/// choice without a kernel. If only some pieces have to be copied, adds the choice with these
/// copies.
void add_choices_in_place(const OperatorGroup& group, const Machine& machine,
                          std::vector<LayoutChoice>& choices) {
  const int64_t alignment =
      machine.gpu ? runtime::device_tensor_alignment : runtime::arena_alignment;
  std::vector<LayoutChoice> added;
  for (LayoutChoice& choice : choices) {
    auto placed = in_place(group, choice, alignment);
    if (!placed) continue;
    if (placed->copies.empty())
      choice = std::move(*placed);
    else
      added.push_back(std::move(*placed));
  }
  std::ranges::move(added, std::back_inserter(choices));
}

/// Finds the homes (Home) of the tensors that concatenations read and write.
class Homes {
 public:
  explicit Homes(const graph::Graph& graph) : graph_(graph) {
    for (const graph::Operator& op : graph.operators)
      if (graph::is_reshape(op)) arrays_[op.name()] = array_of(op.inputs[0]);
    for (const graph::Port& port : graph.inputs) callers_.insert(port.name);
    for (const std::string& output : graph.outputs) callers_.insert(array_of(output));
    // Tensors that enter or leave a loop's body lie in arrays that the trips share.
    for (const graph::Loop& loop : graph.loops)
      for (const auto& names :
           {graph::entries_of(loop), graph::exits_of(loop), graph::results_of(loop)})
        for (const std::string& tensor : names) callers_.insert(array_of(tensor));
  }

  /// Returns the home of each piece, and then the home of the result. Call this function for
  /// operators in their order, because an array becomes a part of the first concatenation that
  /// reads it.
  std::vector<Home> of(const graph::Operator& op, const graph::Concatenation& concatenation) {
    std::vector<Home> homes;
    for (const size_t input : concatenation.inputs) {
      const std::string& array = array_of(op.inputs[input]);
      const bool is_free = !graph_.constants.contains(array) && taken_.insert(array).second;
      homes.push_back(is_free ? home_of(array) : Home::Taken);
    }
    homes.push_back(home_of(op.name()));
    return homes;
  }

 private:
  /// Returns the tensor that names the array of `tensor`. For the result of a reshape, which is a
  /// view, this is the input of the reshape.
  const std::string& array_of(const std::string& tensor) const {
    const auto found = arrays_.find(tensor);
    return found == arrays_.end() ? tensor : found->second;
  }
  Home home_of(const std::string& array) const {
    return callers_.contains(array) ? Home::Caller : Home::Free;
  }

  const graph::Graph& graph_;
  std::map<std::string, std::string> arrays_;
  std::set<std::string> callers_, taken_;
};

/// Returns the shape of the signal [n, c, w] as an image of one row, [n, c, 1, w].
Shape with_row(Shape signal) {
  signal.insert(signal.begin() + 2, 1);
  return signal;
}
/// True if `other` is the image of one row, [n, c, 1, w], of the signal [n, c, w]. The channels may
/// be split into groups: [n, g, c / g, 1, w].
bool has_row_of(const Shape& other, const Shape& signal) {
  return signal.size() == 3 && other.size() > 3 && other[other.size() - 2] == 1 &&
         other.back() == signal.back() && other.front() == signal.front();
}

/// Returns the image of a tensor of this shape that a reshape connects with a tensor of shape
/// `other`; empty if it has none.
Shape image_by_reshape(const Shape& shape, const Shape& other) {
  const bool is_image = other.size() == 4 || other.size() == 5;
  if (is_image && shape.size() > other.size()) return other;
  if (has_row_of(other, shape)) return with_row(shape);
  if (shape.size() > 4 && has_row_of(shape, other)) return with_row(other);
  return {};
}

/// True if the operator has the form of a convolution over depth, height and width. It has a sum,
/// reads a tensor of five dimensions and constant weights of four or more dimensions, and its
/// output has five dimensions.
bool convolves_volumes(const graph::Graph& graph, const graph::Operator& op) {
  const dsl::Compute& compute = op.workload.compute;
  bool has_volume = false, has_weights = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const bool is_constant = graph.constants.contains(op.inputs[i]);
    const size_t rank = compute.inputs[i].shape.size();
    has_volume |= !is_constant && rank == 5;
    has_weights |= is_constant && rank >= 4;
  }
  return has_volume && has_weights && compute.shape_of(compute.outputs[0]).size() == 5 &&
         std::ranges::any_of(compute.stages, [](const dsl::Stage& stage) {
           return stage.combine == dsl::Combine::Sum;
         });
}

/// Returns the tensors of five dimensions that the operator reads or writes, except constants.
std::map<std::string, Shape> volumes_of(const graph::Graph& graph, const graph::Operator& op) {
  const dsl::Compute& compute = op.workload.compute;
  std::map<std::string, Shape> volumes;
  const auto see = [&](const std::string& tensor, const Shape& shape) {
    if (shape.size() == 5 && !graph.constants.contains(tensor)) volumes.emplace(tensor, shape);
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) see(op.inputs[i], compute.inputs[i].shape);
  for (size_t i = 0; i < op.outputs.size(); ++i)
    see(op.outputs[i], compute.shape_of(compute.outputs[i]));
  return volumes;
}

/// Returns the images of tensors whose rank is not four (OperatorGroup::images). They come from
/// reshapes and from convolutions over volumes. Other operators, such as poolings, sums and
/// concatenations, pass them on from one five-dimensional tensor to another.
std::map<std::string, Shape> images_of(const graph::Graph& graph) {
  std::map<std::string, Shape> images;
  const auto see = [&](const std::string& tensor, Shape image) {
    return !image.empty() && images.emplace(tensor, std::move(image)).second;
  };
  std::vector<const graph::Operator*> joining;
  for (const graph::Operator& op : graph.operators) {
    if (graph::is_reshape(op)) {
      const dsl::Compute& compute = op.workload.compute;
      const Shape &from = compute.inputs[0].shape, to = compute.shape_of(compute.outputs[0]);
      see(op.inputs[0], image_by_reshape(from, to));
      see(op.outputs[0], image_by_reshape(to, from));
    } else if (!volumes_of(graph, op).empty() && !graph::as_transpose(op)) {
      joining.push_back(&op);
    }
  }
  // The operators are visited forwards and backwards by turns, so that long chains need few rounds.
  for (bool grows = true; grows; std::ranges::reverse(joining)) {
    grows = false;
    for (const graph::Operator* op : joining) {
      const std::map<std::string, Shape> volumes = volumes_of(graph, *op);
      const bool has_image = std::ranges::any_of(volumes, [&](const auto& volume) {
        const auto known = images.find(volume.first);
        return known != images.end() && known->second.size() == 5;
      });
      if (!has_image && !convolves_volumes(graph, *op)) continue;
      for (const auto& [tensor, shape] : volumes) grows |= see(tensor, shape);
    }
  }
  return images;
}

/// Returns the images of the operator's inputs, and then those of its outputs.
std::vector<Shape> images_of(const graph::Operator& op, const std::map<std::string, Shape>& known) {
  std::vector<Shape> images;
  for (const auto* tensors : {&op.inputs, &op.outputs})
    for (const std::string& tensor : *tensors) {
      const auto found = known.find(tensor);
      images.push_back(found == known.end() ? Shape() : found->second);
    }
  return images;
}

OperatorGroup group_of_operator(const graph::Operator& op, std::vector<bool> packed_ahead,
                                std::vector<Shape> images) {
  OperatorGroup group = {op.workload, std::move(packed_ahead), false, {}, std::move(images), {}};
  if (group.packed_ahead.size() != 1 || group.packed_ahead.front()) return group;
  group.moves_nothing = graph::is_reshape(op);
  if (!group.moves_nothing)
    group.transposed = graph::as_transpose(op).value_or(std::vector<size_t>());
  return group;
}

}  // namespace

std::vector<OperatorGroup> group_operators(const graph::Graph& graph, dsl::CacheState state,
                                           const std::vector<dsl::CacheState>& in_loops) {
  std::vector<OperatorGroup> groups;
  const std::map<std::string, Shape> known_images = images_of(graph);
  Homes known_homes(graph);
  std::map<std::tuple<std::string, dsl::CacheState, std::vector<bool>, std::vector<Shape>,
                      std::vector<Home>>,
           size_t>
      places;
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const graph::Operator& op = graph.operators[i];
    std::vector<bool> packed_ahead;
    for (const std::string& tensor : op.inputs)
      packed_ahead.push_back(graph.constants.contains(tensor));
    std::vector<Shape> images = images_of(op, known_images);
    auto concatenation = graph::as_concatenation(op);
    std::vector<Home> homes =
        concatenation ? known_homes.of(op, *concatenation) : std::vector<Home>();
    const dsl::CacheState in = op.loop && !in_loops.empty() ? in_loops[*op.loop] : state;
    const auto [place, is_new] = places.emplace(
        std::tuple(op.workload.text(), in, packed_ahead, images, homes), groups.size());
    if (is_new) {
      groups.push_back(group_of_operator(op, std::move(packed_ahead), std::move(images)));
      groups.back().workload.state = in;
      groups.back().concatenation = std::move(concatenation);
      groups.back().homes = std::move(homes);
    }
    groups[place->second].operators.push_back(i);
  }
  return groups;
}

std::vector<LayoutChoice> offered_layouts(const OperatorGroup& group, const Machine& machine,
                                          const std::vector<LayoutChoice>& known) {
  if (group.moves_nothing) return renaming_choices(group, machine);
  std::vector<LayoutChoice> choices = Offers(group, machine).all();
  if (!group.transposed.empty()) add_renaming_choices(group, machine, choices);
  if (group.concatenation) add_choices_in_place(group, machine, choices);
  add_transposed_factors(group, choices);
  add_transposed_gathers(group, choices);
  const size_t most = choices.size() + most_known_choices;
  for (const LayoutChoice& choice : known)
    if (choices.size() < most) add_new(group, choice, choices);
  return choices;
}

Result<LayoutChoice> layouts_of_schedule(const dsl::Compute& compute, std::string_view schedule) {
  TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(compute, schedule));
  // These may include layouts of stages that an algorithm added, which are not used here.
  const std::map<std::string, dsl::Layout>& layouts = parsed.nest().layouts;
  LayoutChoice choice = row_major_choice(compute);
  const auto choose = [&](const std::string& tensor, dsl::Layout& layout) {
    if (const auto found = layouts.find(tensor); found != layouts.end()) layout = found->second;
  };
  for (size_t i = 0; i < choice.inputs.size(); ++i)
    choose(compute.inputs[i].name, choice.inputs[i]);
  for (size_t i = 0; i < choice.outputs.size(); ++i) choose(compute.outputs[i], choice.outputs[i]);
  return choice;
}

Result<std::vector<LayoutChoice>> known_layouts(db::Store& store, const OperatorGroup& group,
                                                const Target& target, int threads) {
  db::Filter filter;
  filter.workload = group.workload.key();
  filter.target = target.to_string();
  filter.threads = threads;
  filter.codegen_abi = codegen::codegen_abi;
  filter.status = db::TrialStatus::Ok;
  filter.believed = true;
  filter.order = db::Order::Fastest;
  filter.limit = most_records;
  TW_TRY(std::vector<db::Record> records, store.query(filter));
  db::for_each_below(store, filter, [&](const db::Record& record) {
    records.push_back(record);
    return true;
  });
  std::vector<LayoutChoice> choices;
  for (const db::Record& record : records)
    if (auto choice = layouts_of_schedule(group.workload.compute, record.schedule))
      choices.push_back(std::move(*choice));
  return choices;
}

bool is_same_choice(const OperatorGroup& group, const LayoutChoice& a, const LayoutChoice& b) {
  const dsl::Compute& compute = group.workload.compute;
  for (size_t i = 0; i < compute.inputs.size(); ++i)
    if (!group.packed_ahead[i] &&
        !graph::is_same_storage(compute.inputs[i].shape, a.inputs[i], b.inputs[i]))
      return false;
  for (size_t i = 0; i < compute.outputs.size(); ++i)
    if (!graph::is_same_storage(compute.shape_of(compute.outputs[i]), a.outputs[i], b.outputs[i]))
      return false;
  return true;
}

dsl::Workload with_choice(const OperatorGroup& group, const LayoutChoice& choice) {
  const dsl::Compute& compute = group.workload.compute;
  dsl::Layouts layouts;
  const auto ask = [&](const std::string& tensor, const dsl::Layout& layout) {
    if (layout.rank() > 0) layouts[tensor] = layout.to_string(compute.letters_of(tensor));
  };
  for (size_t i = 0; i < compute.inputs.size(); ++i)
    if (!group.packed_ahead[i]) ask(compute.inputs[i].name, choice.inputs[i]);
  for (size_t i = 0; i < compute.outputs.size(); ++i) ask(compute.outputs[i], choice.outputs[i]);
  auto asked = dsl::with_layouts(group.workload, layouts);
  TW_CHECK(asked, "these are layouts of its tensors");
  return std::move(*asked);
}

Result<dsl::Workload> transform_workload(const graph::TensorType& type, const dsl::Layout& from,
                                         const dsl::Layout& to, dsl::CacheState state) {
  std::vector<dsl::Axis> axes;
  std::vector<dsl::Expr> indices;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    axes.emplace_back(std::string(1, static_cast<char>('a' + d)), type.shape[d]);
    indices.emplace_back(axes.back());
  }
  const dsl::Tensor in = dsl::input("in0", type.dtype, axes);
  TW_TRY(dsl::Workload copy, dsl::workload(dsl::compute("out", axes, in.read_at(indices))));
  copy.state = state;
  if (axes.empty()) return copy;
  const std::string letters = dsl::default_letters(static_cast<int>(axes.size()));
  return dsl::with_layouts(std::move(copy),
                           {{"in0", from.to_string(letters)}, {"out", to.to_string(letters)}});
}

}  // namespace tw::tuner
