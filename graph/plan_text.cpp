// SPDX-License-Identifier: Apache-2.0
#include "graph/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/text.h"
#include "base/time_text.h"

namespace tw::graph {
namespace {

std::string layout_text(const dsl::Layout& layout, const std::string& letters) {
  return layout.rank() == 0 ? "scalar" : layout.to_string(letters);
}

/// Cuts a text after 64 bytes, so that the lines of the table stay short.
std::string shortened(std::string text) {
  constexpr size_t most = 64;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

/// Returns the time and the number of steps as text: "41.0 µs in 2 kernels", "no transforms".
std::string time_in(double ns, size_t count, std::string_view noun) {
  if (count == 0) return fmt::format("no {}s", noun);
  return fmt::format("{} in {}", time_text(ns), counted(static_cast<int64_t>(count), noun));
}

/// A plan and its graph: the chosen schemes, the transforms, and the layouts as text.
class PlannedGraph {
 public:
  PlannedGraph(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
               const Plan& plan)
      : graph_(graph), schemes_(schemes), plan_(plan), types_(tensor_types(graph)) {
    for (const Operator& op : graph.operators) note_letters(op);
  }

  const Scheme& scheme(size_t op) const { return schemes_[op][plan_.schemes[op]]; }
  bool is_constant(const std::string& tensor) const { return graph_.constants.contains(tensor); }

  /// Returns the layout, spelled with the letters of the first operator that has letters for the
  /// tensor.
  std::string spelled(const std::string& tensor, const dsl::Layout& layout) const {
    const auto letters = letters_.find(tensor);
    return layout_text(layout, letters == letters_.end() ? "" : letters->second);
  }

  const Transform* transform(const std::string& tensor, const dsl::Layout& layout) const {
    return transform_to(plan_, tensor, types_.at(tensor).shape, layout);
  }

 private:
  void note_letters(const Operator& op) {
    const dsl::Compute& compute = op.workload.compute;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      note_letters(op.inputs[i], compute.inputs[i].letters);
    for (size_t i = 0; i < op.outputs.size(); ++i)
      note_letters(op.outputs[i], compute.letters_of(compute.outputs[i]));
  }
  void note_letters(const std::string& tensor, const std::string& letters) {
    if (!letters.empty()) letters_.emplace(tensor, letters);
  }

  const Graph& graph_;
  const std::vector<std::vector<Scheme>>& schemes_;
  const Plan& plan_;
  const std::map<std::string, TensorType> types_;
  std::map<std::string, std::string> letters_;  // dimension letters of each tensor
};

// ---- table ----------------------------------------------------------------------------------

using PlanRow = std::array<std::string, 8>;  // cells in the order of the header of the table

/// Returns the number of characters of a UTF-8 text: the number of bytes that begin a character.
size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string aligned(const std::vector<PlanRow>& rows) {
  constexpr std::array is_number = {false, false, true, true, false, false, true, false};
  std::array<size_t, std::tuple_size_v<PlanRow>> widths = {};
  for (const PlanRow& row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  std::string text;
  for (const PlanRow& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width(row[column]), ' ');
      line += is_number[column] ? padding + row[column] : row[column] + padding;
      line += "  ";
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::vector<double> times_of(const Graph& graph, const PlannedGraph& planned, const Plan& plan) {
  std::vector<double> times;
  for (size_t op = 0; op < graph.operators.size(); ++op)
    times.push_back(planned.scheme(op).cost_ns);
  for (const Transform& transform : plan.transforms) times.push_back(transform.cost_ns);
  return times;
}

class PlanTable {
 public:
  PlanTable(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes, const Plan& plan,
            const std::vector<KernelLabel>& kernels)
      : graph_(graph),
        plan_(plan),
        planned_(graph, schemes, plan),
        kernels_(kernels),
        unit_(times_of(graph, planned_, plan)) {}

  std::string run() {
    for (const Port& port : graph_.inputs) add_transforms(port.name);
    const std::vector<std::pair<size_t, size_t>> ranges = loop_ranges(graph_);
    for (size_t op = 0; op < graph_.operators.size(); ++op) {
      const std::optional<size_t> loop = graph_.operators[op].loop;
      if (loop && ranges[*loop].first == op) begin_loop(graph_.loops[*loop]);
      add_operator(op);
      for (const std::string& tensor : graph_.operators[op].outputs) add_transforms(tensor);
      if (!loop || ranges[*loop].second != op + 1) continue;
      rows_.push_back({"end of " + graph_.loops[*loop].name});
      for (const std::string& tensor : results_of(graph_.loops[*loop])) add_transforms(tensor);
    }
    return aligned(rows_) + "\n" + sums() + proof();
  }

 private:
  std::string share(double ns) const {
    return fmt::format("{:.1f} %", plan_.predicted_ns > 0 ? 100 * ns / plan_.predicted_ns : 0);
  }

  void add_transforms(const std::string& tensor) {
    for (const Transform& transform : plan_.transforms)
      if (transform.tensor == tensor)
        rows_.push_back({"transform " + tensor,
                         planned_.spelled(tensor, transform.from) + " -> " +
                             planned_.spelled(tensor, transform.to),
                         unit_.text(transform.cost_ns), share(transform.cost_ns)});
  }

  /// Adds the row that begins a loop. The times in the rows from here to the end of the loop are
  /// sums over all trips.
  void begin_loop(const Loop& loop) {
    rows_.push_back({"loop " + loop.name, fmt::format("{} trips", loop.trips)});
    for (const std::string& tensor : entries_of(loop)) add_transforms(tensor);
  }

  void add_operator(size_t number) {
    const Operator& op = graph_.operators[number];
    const Scheme& scheme = planned_.scheme(number);
    const KernelLabel& kernel = kernels_[number];
    rows_.push_back({op.name(), layouts(op, scheme), unit_.text(scheme.cost_ns),
                     share(scheme.cost_ns), scheme.is_measured ? "measured" : "predicted",
                     kernel.algorithm, kernel.error ? fmt::format("{:.1e}", *kernel.error) : "",
                     shortened(op.workload.key())});
  }

  std::string layouts(const Operator& op, const Scheme& scheme) const {
    const dsl::Compute& compute = op.workload.compute;
    std::vector<std::string> read, written;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (!planned_.is_constant(op.inputs[i]))
        read.push_back(layout_text(scheme.inputs[i], compute.inputs[i].letters));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      written.push_back(layout_text(scheme.outputs[i], compute.letters_of(compute.outputs[i])));
    return join(read, ", ") + (read.empty() ? "-> " : " -> ") + join(written, ", ");
  }

  std::string sums() const {
    double kernels_ns = 0, transforms_ns = 0;
    size_t measured = 0;
    for (size_t op = 0; op < graph_.operators.size(); ++op) {
      kernels_ns += planned_.scheme(op).cost_ns;
      measured += planned_.scheme(op).is_measured ? 1 : 0;
    }
    for (const Transform& transform : plan_.transforms) transforms_ns += transform.cost_ns;
    const size_t kernels = graph_.operators.size();
    return fmt::format("total    {}{}, {}; {} of {} measured\n",
                       kernels > 0 ? time_text(plan_.predicted_ns) + ": " : "",
                       time_in(kernels_ns, kernels, "kernel"),
                       time_in(transforms_ns, plan_.transforms.size(), "transform"), measured,
                       counted(static_cast<int64_t>(kernels), "kernel"));
  }

  std::string proof() const {
    if (plan_.is_optimal) return "optimal  no other choice among these schemes is faster\n";
    return fmt::format("bound    no choice among these schemes takes less than {}\n",
                       time_text(plan_.lower_bound_ns));
  }

  const Graph& graph_;
  const Plan& plan_;
  const PlannedGraph planned_;
  const std::vector<KernelLabel>& kernels_;
  const TimeUnit unit_;
  std::vector<PlanRow> rows_ = {
      {"operator", "layouts", "time", "share", "", "algorithm", "error", "workload"}};
};

// ---- drawing --------------------------------------------------------------------------------

class PlanDrawing {
 public:
  PlanDrawing(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes, const Plan& plan)
      : graph_(graph), plan_(plan), planned_(graph, schemes, plan) {}

  std::string run() {
    for (const Port& port : graph_.inputs) add_producer(port.name, add_node(port.name, "ellipse"));
    const std::vector<std::pair<size_t, size_t>> ranges = loop_ranges(graph_);
    for (size_t op = 0; op < graph_.operators.size(); ++op) {
      const std::optional<size_t> loop = graph_.operators[op].loop;
      if (loop && ranges[*loop].first == op) begin_loop(graph_.loops[*loop]);
      add_operator(op);
      if (loop && ranges[*loop].second == op + 1) end_loop(graph_.loops[*loop]);
    }
    for (const std::string& output : graph_.outputs) add_output(output);
    return "digraph plan {\n" + text_ + "}\n";
  }

 private:
  std::string add_node(std::string_view label, std::string_view shape) {
    std::string node = fmt::format("n{}", nodes_++);
    text_ += fmt::format("  {} [label={} shape={}];\n", node, graphviz_quoted(label), shape);
    return node;
  }

  void add_edge(const std::string& from, const std::string& to, const std::string& label) {
    text_ += fmt::format("  {} -> {} [label={}];\n", from, to, graphviz_quoted(label));
  }

  /// Notes that `node` writes the tensor, and adds nodes for the transforms of the tensor.
  void add_producer(const std::string& tensor, const std::string& node) {
    producers_[tensor] = node;
    for (const Transform& transform : plan_.transforms) {
      if (transform.tensor != tensor) continue;
      const std::string label = "transform\n" + time_text(transform.cost_ns);
      transforms_[&transform] = add_node(label, "hexagon");
      if (transform.from == plan_.produced.at(tensor))
        add_edge(node, transforms_[&transform], planned_.spelled(tensor, transform.from));
    }
    for (const Transform& transform : plan_.transforms)
      if (transform.tensor == tensor && !(transform.from == plan_.produced.at(tensor)))
        add_edge(transforms_.at(planned_.transform(tensor, transform.from)),
                 transforms_.at(&transform), planned_.spelled(tensor, transform.from));
  }

  /// Adds a node for the loop. The edges that enter or leave the body lead to this node.
  void begin_loop(const Loop& loop) {
    const std::string node =
        add_node(fmt::format("loop {}\n{} trips", loop.name, loop.trips), "diamond");
    add_reads(sources_of(loop), node);
    for (const std::string& tensor : entries_of(loop)) add_producer(tensor, node);
    loop_ = node;
  }

  void end_loop(const Loop& loop) {
    add_reads(exits_of(loop), loop_);
    for (const std::string& tensor : results_of(loop)) add_producer(tensor, loop_);
  }

  /// Adds edges for tensors that `node` reads row-major.
  void add_reads(const std::vector<std::string>& tensors, const std::string& node) {
    for (const std::string& tensor : tensors)
      if (const auto produced = plan_.produced.find(tensor); produced != plan_.produced.end())
        add_read(tensor, dsl::Layout::row_major(produced->second.rank()), node);
  }

  void add_operator(size_t number) {
    const Operator& op = graph_.operators[number];
    const Scheme& scheme = planned_.scheme(number);
    const std::string node = add_node(
        fmt::format("{}\n{}\n{}", op.name(), op.workload.op, time_text(scheme.cost_ns)), "box");
    for (size_t i = 0; i < op.inputs.size(); ++i) add_read(op.inputs[i], scheme.inputs[i], node);
    for (const std::string& tensor : op.outputs) add_producer(tensor, node);
  }

  void add_read(const std::string& tensor, const dsl::Layout& layout, const std::string& node) {
    if (planned_.is_constant(tensor)) return;
    const Transform* transform = planned_.transform(tensor, layout);
    add_edge(transform ? transforms_.at(transform) : producers_.at(tensor), node,
             planned_.spelled(tensor, layout));
  }

  void add_output(const std::string& tensor) {
    add_reads({tensor}, add_node("output " + tensor, "ellipse"));
  }

  const Graph& graph_;
  const Plan& plan_;
  const PlannedGraph planned_;
  std::string text_;
  size_t nodes_ = 0;
  std::string loop_;                                    // node of the loop that was begun last
  std::map<std::string, std::string> producers_;        // node that writes each tensor
  std::map<const Transform*, std::string> transforms_;  // node of each transform
};

}  // namespace

std::string to_text(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const Plan& plan, const std::vector<KernelLabel>& kernels) {
  return PlanTable(graph, schemes, plan, kernels).run();
}

std::string to_dot(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                   const Plan& plan) {
  return PlanDrawing(graph, schemes, plan).run();
}

}  // namespace tw::graph
