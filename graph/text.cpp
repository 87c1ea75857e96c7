// SPDX-License-Identifier: Apache-2.0
// Printing and parsing of graphs.

#include "base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "graph/graph.h"

namespace tw::graph {
namespace {

struct Line {
  size_t number;
  std::string_view text;

  tl::unexpected<Error> wrong(const std::string& why) const {
    return fail(ErrorCode::Invalid, fmt::format("[graph] line {}: {}", number, why));
  }
};

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  if (trim(list).empty()) return names;
  for (const std::string& name : split(list, ',')) names.emplace_back(trim(name));
  return names;
}

/// Parses a type such as "f32[1, 3]".
Result<TensorType> parse_type(const Line& line, std::string_view text) {
  const size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || !text.ends_with(']'))
    return line.wrong(fmt::format("'{}' is no type such as f32[1, 3]", text));
  TensorType type;
  TW_TRY(type.dtype, parse_dtype(text.substr(0, bracket)));
  for (const std::string& word : names_in(text.substr(bracket + 1, text.size() - bracket - 2))) {
    const auto extent = parse_int(word);
    if (!extent || *extent < 0) return line.wrong(fmt::format("'{}' is no extent", word));
    type.shape.push_back(*extent);
  }
  return type;
}

/// The trimmed texts before and after the first occurrence of a separator. halves() returns nullopt
/// if the text does not contain `separator`.
struct Halves {
  std::string_view before, after;
};
std::optional<Halves> halves(std::string_view text, std::string_view separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  return Halves{trim(text.substr(0, at)), trim(text.substr(at + separator.size()))};
}

class Reader {
 public:
  explicit Reader(const std::map<std::string, Constant>& constants) {
    for (const auto& [name, constant] : constants) by_hash_.emplace(constant.hash, constant);
  }

  Result<Graph> read(std::string_view text) {
    size_t number = 0;
    for (const std::string& row : split(text, '\n')) {
      const Line line = {++number, trim(row)};
      if (!line.text.empty()) TW_RETURN_IF_ERROR(read_line(line));
    }
    if (is_in_loop_)
      return fail(ErrorCode::Invalid,
                  fmt::format("[graph] loop '{}' has no end", graph_.loops.back().name));
    TW_RETURN_IF_ERROR(validate(graph_));
    return std::move(graph_);
  }

 private:
  Status read_line(const Line& line) {
    // Operators are looked for first, because a tensor may be called `input` too. Only operators
    // have an equals sign.
    if (line.text.find(" = ") != std::string_view::npos) return read_operator(line);
    if (line.text.starts_with("input ")) return read_input(line, line.text.substr(6));
    if (line.text.starts_with("const ")) return read_constant(line, line.text.substr(6));
    if (line.text.starts_with("loop ")) return begin_loop(line, line.text.substr(5));
    if (is_in_loop_) return read_in_loop(line);
    if (!line.text.starts_with("output "))
      return line.wrong("expected input, const, loop or output");
    graph_.outputs = names_in(line.text.substr(7));
    return {};
  }

  /// Parses "loop NAME: TRIPS".
  Status begin_loop(const Line& line, std::string_view rest) {
    const auto parts = halves(rest, ":");
    const auto trips = parts ? parse_int(parts->after) : std::nullopt;
    if (!trips || is_in_loop_) return line.wrong("expected loop NAME: TRIPS, outside of loops");
    graph_.loops.emplace_back();
    graph_.loops.back().name = parts->before;
    graph_.loops.back().trips = *trips;
    is_in_loop_ = true;
    return {};
  }

  /// Reads a line between the head of a loop and its `end` that is not an operator: slice, share,
  /// state or stack, which say what tensors enter or leave the body, or `end` itself.
  Status read_in_loop(const Line& line) {
    Loop& loop = graph_.loops.back();
    if (line.text == "end") {
      is_in_loop_ = false;
      return {};
    }
    const auto words = halves(line.text, " ");
    auto parts = words ? halves(words->after, ":") : std::nullopt;
    if (!parts) return line.wrong("expected slice, share, state, stack or end");
    constexpr std::string_view backward = " backward";
    const bool is_backward = parts->after.ends_with(backward);
    if (is_backward) parts->after.remove_suffix(backward.size());
    const std::string name(parts->before);
    const std::vector<std::string> others = names_in(parts->after);
    if (words->before == "slice" && others.size() == 1)
      loop.slices.push_back({name, others[0], is_backward});
    else if (words->before == "stack" && others.size() == 1)
      loop.stacks.push_back({others[0], name, is_backward});
    else if (words->before == "share" && others.size() == 1 && !is_backward)
      loop.shares.push_back({name, others[0]});
    else if (words->before == "state" && (others.size() == 2 || others.size() == 3) && !is_backward)
      loop.states.push_back({name, others[0], others[1], others.size() == 3 ? others[2] : ""});
    else
      return line.wrong(
          "expected slice NAME: NAME, share, stack, or state NAME: FIRST, NEXT, LAST");
    return {};
  }

  Status read_input(const Line& line, std::string_view rest) {
    const auto parts = halves(rest, ":");
    if (!parts) return line.wrong("expected input NAME: TYPE");
    TW_TRY(const TensorType type, parse_type(line, parts->after));
    graph_.inputs.push_back({std::string(parts->before), type});
    return {};
  }

  Status read_constant(const Line& line, std::string_view rest) {
    const auto parts = halves(rest, ":");
    const auto value = parts ? halves(parts->after, "#") : std::nullopt;
    if (!value) return line.wrong("expected const NAME: TYPE #HASH");
    TW_TRY(const TensorType type, parse_type(line, value->before));
    const auto found = by_hash_.find(std::string(value->after));
    if (found == by_hash_.end())
      return line.wrong(fmt::format("there are no bytes of the constant '{}'", parts->before));
    if (found->second.type() != type)
      return line.wrong(fmt::format("the constant of this hash is {}, not {}",
                                    found->second.type().to_string(), type.to_string()));
    if (!graph_.constants.emplace(parts->before, found->second).second)
      return line.wrong(fmt::format("tensor '{}' is given twice", parts->before));
    return {};
  }

  /// Parses "y = conv2d(x, w) n=1 ...".
  Status read_operator(const Line& line) {
    const auto sides = halves(line.text, " = ");
    const auto call = sides ? halves(sides->after, "(") : std::nullopt;
    const auto rest = call ? halves(call->after, ")") : std::nullopt;
    if (!rest) return line.wrong("expected OUTPUTS = OPERATOR(INPUTS) ATTRIBUTES");
    auto workload = dsl::parse_workload(fmt::format("{} {}", call->before, rest->after));
    if (!workload) return line.wrong(workload.error().message);
    graph_.operators.push_back(
        {std::move(*workload), names_in(rest->before), names_in(sides->before), {}});
    if (is_in_loop_) graph_.operators.back().loop = graph_.loops.size() - 1;
    return {};
  }

  Graph graph_;
  /// True if the line `end` of the last of graph_.loops was not read yet.
  bool is_in_loop_ = false;
  std::map<std::string, Constant> by_hash_;
};

/// The lines of a loop before its operators.
std::string head_of(const Loop& loop) {
  const auto order = [](const Loop::Slice& slice) { return slice.is_backward ? " backward" : ""; };
  std::string text = fmt::format("loop {}: {}\n", loop.name, loop.trips);
  for (const Loop::Slice& slice : loop.slices)
    text += fmt::format("slice {}: {}{}\n", slice.inside, slice.outside, order(slice));
  for (const auto& [inside, outside] : loop.shares)
    text += fmt::format("share {}: {}\n", inside, outside);
  for (const auto& [inside, first, next, last] : loop.states)
    text +=
        fmt::format("state {}: {}, {}{}\n", inside, first, next, last.empty() ? "" : ", " + last);
  for (const Loop::Slice& stack : loop.stacks)
    text += fmt::format("stack {}: {}{}\n", stack.outside, stack.inside, order(stack));
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text;
  for (const Port& port : graph.inputs)
    text += fmt::format("input {}: {}\n", port.name, port.type.to_string());
  for (const auto& [name, constant] : graph.constants)
    text += fmt::format("const {}: {} #{}\n", name, constant.type().to_string(), constant.hash);
  const std::vector<std::pair<size_t, size_t>> ranges = loop_ranges(graph);
  for (size_t number = 0; number < graph.operators.size(); ++number) {
    const Operator& op = graph.operators[number];
    if (op.loop && ranges[*op.loop].first == number) text += head_of(graph.loops[*op.loop]);
    const std::string key = op.workload.key();
    text += fmt::format("{} = {}({}){}\n", fmt::join(op.outputs, ", "), op.workload.op,
                        fmt::join(op.inputs, ", "), key.substr(op.workload.op.size()));
    if (op.loop && ranges[*op.loop].second == number + 1) text += "end\n";
  }
  if (!graph.outputs.empty()) text += fmt::format("output {}\n", fmt::join(graph.outputs, ", "));
  return text;
}

Result<Graph> parse_graph(std::string_view text, const std::map<std::string, Constant>& constants) {
  return Reader(constants).read(text);
}

}  // namespace tw::graph
