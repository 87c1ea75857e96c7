// SPDX-License-Identifier: Apache-2.0
#include "tuner/schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "codegen/abi.h"
#include "graph/plan.h"
#include "graph/rewrite.h"
#include "schedules/schedule.h"

namespace tw::tuner {
namespace {

using Shape = std::vector<int64_t>;

// A tensor has few layouts that neighbours could agree on; each more is another kernel to judge.
constexpr size_t most_choices = 36, most_known_choices = 4;
constexpr int64_t most_records = 32;
constexpr int64_t least_block = 4;

/// The order of a tensor's elements: 0 is row-major, 1 has the channels last, any other number is a
/// block of so many channels.
using Order = int64_t;
constexpr Order row_major = 0, channels_last = 1;

/// The layout of a tensor of this shape in that order; row-major where it has no channels, or fewer
/// than the block.
dsl::Layout layout_in(Order order, const Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  if (rank != 4 || order == row_major || (order > channels_last && shape[1] < order))
    return dsl::Layout::row_major(rank);
  const std::string text = order == channels_last ? "ACDB" : fmt::format("ABCD{}b", order);
  return dsl::Layout::parse(text, "ABCD").value();
}

/// Orders beside row-major that kernels of the machine may gain from. Those of a GPU read channels
/// that lie side by side, and have no use for blocks.
std::vector<Order> candidate_orders(int64_t channels, const Machine& machine) {
  if (machine.gpu) return {channels_last};
  const Order lanes = std::max(machine.core.vector_bytes / 4, 1);
  const auto most = static_cast<uint64_t>(std::max<int64_t>(channels, 1));
  const Order fewer = std::min(static_cast<Order>(std::bit_floor(most)), lanes);
  return {channels_last, fewer, 2 * lanes};
}

/// Orders that place the elements of a tensor of this shape differently.
std::vector<Order> orders_of(const Shape& shape, const Machine& machine) {
  std::vector<Order> orders = {row_major};
  if (shape.size() != 4) return orders;
  for (const Order order : candidate_orders(shape[1], machine)) {
    if (order != channels_last && (order < least_block || order > shape[1])) continue;
    const dsl::Layout layout = layout_in(order, shape);
    const auto is_known = [&](Order other) {
      return graph::is_same_storage(shape, layout, layout_in(other, shape));
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

/// The tensors that a reduction reads, itself or through the stages before it.
std::set<std::string> feeding_reductions(const dsl::Compute& compute) {
  std::set<std::string> feeding;
  for (auto stage = compute.stages.rbegin(); stage != compute.stages.rend(); ++stage)
    if (stage->combine != dsl::Combine::None || feeding.contains(stage->name))
      feeding.merge(tensors_read(*stage));
  return feeding;
}

/// Whether a tensor of shape `a` can be an operand of one of shape `b`, dimension by dimension.
bool is_broadcast_of(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](int64_t x, int64_t y) { return x == y || x == 1; });
}

/// What is chosen for an operator: an order for each input that has one of its own, and one that
/// the outputs and all other inputs follow.
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
  /// The shape whose orders are those of the outputs.
  void find_leader() {
    leader_ = compute_.shape_of(compute_.outputs.front());
    for (const std::string& name : compute_.outputs)
      if (leader_.size() != 4) leader_ = compute_.shape_of(name);
  }

  void find_independent() {
    const std::set<std::string> feeding = feeding_reductions(compute_);
    size_t choices = orders_of(leader_, machine_).size();
    for (size_t i = 0; i < compute_.inputs.size(); ++i) {
      const dsl::Input& input = compute_.inputs[i];
      if (group_.packed_ahead[i]) continue;
      if (!feeding.contains(input.name) && is_broadcast_of(input.shape, leader_)) continue;
      independent_.push_back(i);
      choices *= orders_of(input.shape, machine_).size();
    }
    if (choices > most_choices) independent_.clear();
  }

  void add(Order order, std::vector<Order>& chosen, size_t next,
           std::vector<LayoutChoice>& choices) const {
    if (next == independent_.size()) {
      choices.push_back(choice(order, chosen));
      return;
    }
    for (const Order own : orders_of(compute_.inputs[independent_[next]].shape, machine_)) {
      chosen[next] = own;
      add(order, chosen, next + 1, choices);
    }
  }

  LayoutChoice choice(Order order, const std::vector<Order>& chosen) const {
    LayoutChoice layouts;
    for (const dsl::Input& input : compute_.inputs)
      layouts.inputs.push_back(layout_in(order, input.shape));
    for (size_t i = 0; i < independent_.size(); ++i)
      layouts.inputs[independent_[i]] =
          layout_in(chosen[i], compute_.inputs[independent_[i]].shape);
    for (const std::string& name : compute_.outputs)
      layouts.outputs.push_back(layout_in(order, compute_.shape_of(name)));
    return layouts;
  }

  const OperatorGroup& group_;
  const dsl::Compute& compute_;
  const Machine& machine_;
  Shape leader_;
  std::vector<size_t> independent_;  ///< inputs with an order of their own
};

LayoutChoice row_major_choice(const dsl::Compute& compute) {
  LayoutChoice choice;
  for (const dsl::Input& input : compute.inputs)
    choice.inputs.push_back(dsl::Layout::row_major(static_cast<int>(input.shape.size())));
  for (const std::string& name : compute.outputs)
    choice.outputs.push_back(
        dsl::Layout::row_major(static_cast<int>(compute.shape_of(name).size())));
  return choice;
}

}  // namespace

std::vector<OperatorGroup> group_operators(const graph::Graph& graph) {
  std::vector<OperatorGroup> groups;
  std::map<std::pair<std::string, std::vector<bool>>, size_t> places;
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const graph::Operator& op = graph.operators[i];
    std::vector<bool> packed_ahead;
    for (const std::string& tensor : op.inputs)
      packed_ahead.push_back(graph.constants.contains(tensor));
    const auto [place, is_new] =
        places.emplace(std::pair(op.workload.text(), packed_ahead), groups.size());
    if (is_new)
      groups.push_back(
          {op.workload, packed_ahead, graph::is_reshape(op) && !packed_ahead.front(), {}});
    groups[place->second].operators.push_back(i);
  }
  return groups;
}

std::vector<LayoutChoice> offered_layouts(const OperatorGroup& group, const Machine& machine,
                                          const std::vector<LayoutChoice>& known) {
  if (group.moves_nothing) return {row_major_choice(group.workload.compute)};
  std::vector<LayoutChoice> choices = Offers(group, machine).all();
  const size_t most = choices.size() + most_known_choices;
  for (const LayoutChoice& choice : known) {
    const auto is_same = [&](const LayoutChoice& other) {
      return is_same_choice(group, choice, other);
    };
    if (choices.size() < most && std::ranges::none_of(choices, is_same)) choices.push_back(choice);
  }
  return choices;
}

Result<LayoutChoice> layouts_of_schedule(const dsl::Compute& compute, std::string_view schedule) {
  TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(compute, schedule));
  std::map<std::string, dsl::Layout> layouts;
  for (const schedules::Step& step : parsed.steps())
    if (const auto* set = std::get_if<schedules::SetLayout>(&step)) {
      TW_TRY(const dsl::Layout layout,
             dsl::Layout::parse(set->layout, compute.letters_of(set->tensor)));
      layouts.insert_or_assign(set->tensor, layout);
    }
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
  filter.order = db::Order::Fastest;
  filter.limit = most_records;
  TW_TRY(const std::vector<db::Record> records, store.query(filter));
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
                                         const dsl::Layout& to) {
  std::vector<dsl::Axis> axes;
  std::vector<dsl::Expr> indices;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    axes.emplace_back(std::string(1, static_cast<char>('a' + d)), type.shape[d]);
    indices.emplace_back(axes.back());
  }
  const dsl::Tensor in = dsl::input("in0", type.dtype, axes);
  TW_TRY(dsl::Workload copy, dsl::workload(dsl::compute("out", axes, in.read_at(indices))));
  if (axes.empty()) return copy;
  const std::string letters = dsl::default_letters(static_cast<int>(axes.size()));
  return dsl::with_layouts(std::move(copy),
                           {{"in0", from.to_string(letters)}, {"out", to.to_string(letters)}});
}

}  // namespace tw::tuner
