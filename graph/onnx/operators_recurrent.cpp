// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, unrolled: the input is projected for all steps by one operator, and each step
// is an operator of its own.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// Steps of all directions together; each is an operator, and an input of the one that joins them.
constexpr int64_t most_steps = 512;

using Activation = Expr (*)(const Expr& x);

/// The inputs of a recurrent node by their position.
enum RecurrentInput : size_t {
  Sequence,
  Weights,
  Recurrence,
  Bias,
  Lengths,
  FirstH,
  FirstC,
  Peephole
};

/// What a recurrent node computes. A gate is a slice of `hidden` rows of the weights.
struct Recurrent {
  Value x, w, r;
  int64_t gates = 1, directions = 1, steps = 0, batch = 0, size = 0, hidden = 0;
  bool is_batch_first = false, is_reverse = false;
  bool resets_last = false;             ///< GRU: the reset gate acts behind the product
  bool couples_gates = false;           ///< LSTM: the forget gate is 1 - input gate
  double limit = 0;                     ///< of what enters an activation; 0: none
  std::vector<Activation> activations;  ///< of each direction, one after the other

  int64_t rows() const { return gates * hidden; }
  Expr activated(size_t direction, size_t which, const Expr& x) const {
    const Expr inside = limit > 0 ? clamp(x, number(x, -limit), number(x, limit)) : x;
    return activations[direction * activations.size() / static_cast<size_t>(directions) + which](
        inside);
  }
  /// The position in time of a step of a direction.
  int64_t time(size_t direction, int64_t step) const {
    return is_reverse || direction == 1 ? steps - 1 - step : step;
  }
};

Result<Activation> activation_of(const Node& node, const std::string& name) {
  if (name == "Sigmoid") return logistic;
  if (name == "Tanh") return [](const Expr& x) { return tanh(x); };
  if (name == "Relu") return [](const Expr& x) { return max(x, number(x, 0)); };
  return node.unsupported(fmt::format("the activation {}", name));
}

Result<std::vector<Activation>> activations_of(const Node& node, int64_t directions) {
  std::vector<std::string> usual = {"Tanh"};
  if (node.op_type == "GRU") usual = {"Sigmoid", "Tanh"};
  if (node.op_type == "LSTM") usual = {"Sigmoid", "Tanh", "Tanh"};
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  if (const auto found = node.attributes.find("activations"); found != node.attributes.end()) {
    const auto* given = std::get_if<std::vector<std::string>>(&found->second);
    if (!given || given->size() != names.size())
      return node.invalid(fmt::format("expected {} activations", names.size()));
    names = *given;
  }
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    TW_TRY(const Activation activation, activation_of(node, name));
    activations.push_back(activation);
  }
  return activations;
}

/// The optional inputs have these shapes.
Status check_optional(const Node& node, const Recurrent& p) {
  const int64_t d = p.directions;
  const Shape state = p.is_batch_first ? Shape{p.batch, d, p.hidden} : Shape{d, p.batch, p.hidden};
  const std::array<std::pair<size_t, Shape>, 4> expected = {
      {{Bias, {d, 2 * p.rows()}}, {FirstH, state}, {FirstC, state}, {Peephole, {d, 3 * p.hidden}}}};
  for (const auto& [index, shape] : expected)
    if (node.has_input(index) && node.input(index).type.shape != shape)
      return node.invalid(fmt::format("input {} does not fit the sequence", index));
  if (!node.has_input(Lengths)) return {};
  TW_TRY(const std::vector<int64_t> lengths, node.constant_integers(Lengths));
  if (std::ranges::all_of(lengths, [&](int64_t length) { return length == p.steps; })) return {};
  return node.unsupported("sequences that are shorter than the longest");
}

Result<Recurrent> recurrent_of(const Node& node) {
  Recurrent p;
  p.x = node.input(Sequence);
  p.w = node.input(Weights);
  p.r = node.input(Recurrence);
  p.gates = node.op_type == "RNN" ? 1 : node.op_type == "GRU" ? 3 : 4;
  TW_RETURN_IF_ERROR(
      check_same_type(node, {Sequence, Weights, Recurrence, Bias, FirstH, FirstC, Peephole}));
  TW_RETURN_IF_ERROR(check_float(node, p.x.type.dtype));
  if (p.x.rank() != 3 || p.w.rank() != 3 || p.r.rank() != 3)
    return node.invalid("expected a sequence and weights of three dimensions");
  TW_TRY(const int64_t layout, node.integer("layout", 0));
  TW_TRY(const std::string direction, node.text("direction", "forward"));
  TW_TRY(const int64_t resets_last, node.integer("linear_before_reset", 0));
  TW_TRY(const int64_t couples_gates, node.integer("input_forget", 0));
  TW_TRY(p.limit, node.number("clip", 0));
  p.is_batch_first = layout != 0;
  p.is_reverse = direction == "reverse";
  p.resets_last = resets_last != 0;
  p.couples_gates = couples_gates != 0;
  p.directions = p.r.type.shape[0];
  p.steps = p.x.type.shape[p.is_batch_first ? 1 : 0];
  p.batch = p.x.type.shape[p.is_batch_first ? 0 : 1];
  p.size = p.x.type.shape[2];
  p.hidden = p.r.type.shape[2];
  if (p.directions != (direction == "bidirectional" ? 2 : 1) || p.hidden < 1 ||
      p.r.type.shape[1] != p.rows() || p.w.type.shape != Shape{p.directions, p.rows(), p.size})
    return node.invalid("the weights do not fit the sequence");
  if (p.steps < 1 || p.steps > most_steps / p.directions)
    return node.unsupported(fmt::format("{} steps", p.steps));
  TW_TRY(p.activations, activations_of(node, p.directions));
  TW_RETURN_IF_ERROR(check_optional(node, p));
  return p;
}

/// Adds W x + Wb + Rb of all steps, [time, batch, gate], and returns its name. Of a gate that the
/// reset acts on behind the product, Rb is left to the step.
Result<std::string> add_projection(const Node& node, Builder& builder, const Recurrent& p,
                                   int64_t direction) {
  const Axis t("t", p.steps), b("b", p.batch), g("g", p.rows()), i("i", p.size);
  Declaration declaration(builder);
  const Tensor in = declaration.read(p.x);
  const Expr x = wide(p.is_batch_first ? in(b, t, i) : in(t, b, i));
  const Expr w = wide(declaration.read(p.w)(Expr(direction), g, i));
  const Tensor product = compute("product", {t, b, g}, sum(i, x * w));
  Expr result = product(t, b, g);
  if (node.has_input(Bias)) {
    const Tensor bias = declaration.read(node.input(Bias));
    const Expr of_input = wide(bias(Expr(direction), g));
    const Expr of_state = wide(bias(Expr(direction), Expr(g) + Expr(p.rows())));
    const Expr none = number(of_state, 0);
    result = result + of_input +
             (p.resets_last ? select(Expr(g) < Expr(2 * p.hidden), of_state, none) : of_state);
  }
  const std::string name = builder.fresh_name(node.op_type);
  TW_RETURN_IF_ERROR(declaration.add(compute("out", {t, b, g}, result), name));
  return name;
}

// ---- steps ----------------------------------------------------------------------------------

/// One step of one direction, as the functions below see it.
struct Step {
  const Node& node;
  const Recurrent& p;
  Declaration& declaration;
  int64_t direction, time;
  std::string projection, h, c;  ///< tensors: the projected input, and the states before
  Builder& builder;
  Axis b, j, k;  ///< batch, hidden, and hidden that is summed over

  Expr state(const std::string& name, const Axis& along) const {
    return wide(declaration.read(builder.value(name))(b, along));
  }
  Expr recurrence(int64_t gate, const Axis& row) const {
    const Tensor r = declaration.read(p.r);
    return wide(r(Expr(direction), Expr(row) + Expr(gate * p.hidden), k));
  }
  /// The gate's projected input, and R h of it as a stage.
  Expr input(int64_t gate, const Axis& row) const {
    return declaration.read(builder.value(projection))(Expr(time), b,
                                                       Expr(row) + Expr(gate * p.hidden));
  }
  Expr product(int64_t gate) const {
    return compute(fmt::format("gate{}", gate), {b, j}, sum(k, state(h, k) * recurrence(gate, j)))(
        b, j);
  }
  Expr activated(size_t which, const Expr& x) const {
    return p.activated(static_cast<size_t>(direction), which, x);
  }
};

Expr rnn_step(const Step& s) { return s.activated(0, s.input(0, s.j) + s.product(0)); }

/// Gates: update, reset, candidate.
Expr gru_step(const Step& s) {
  const Expr update = s.activated(0, s.input(0, s.j) + s.product(0));
  const Tensor reset = compute("reset", {s.b, s.j}, s.activated(0, s.input(1, s.j) + s.product(1)));
  Expr recurrent;
  if (s.p.resets_last) {
    recurrent = s.product(2);
    if (s.node.has_input(Bias)) {
      const Tensor bias = s.declaration.read(s.node.input(Bias));
      recurrent = recurrent + wide(bias(Expr(s.direction), Expr(s.j) + Expr(5 * s.p.hidden)));
    }
    recurrent = reset(s.b, s.j) * recurrent;
  } else {
    const Expr term = reset(s.b, s.k) * s.state(s.h, s.k) * s.recurrence(2, s.j);
    recurrent = compute("gate2", {s.b, s.j}, sum(s.k, term))(s.b, s.j);
  }
  const Expr candidate = s.activated(1, s.input(2, s.j) + recurrent);
  return (number(update, 1) - update) * candidate + update * s.state(s.h, s.j);
}

/// The states after a step.
struct States {
  Expr h, c;
};

/// Gates: input, output, forget, cell; peepholes: input, output, forget.
States lstm_step(const Step& s) {
  const auto gate = [&](int64_t which, const Expr& cell) {
    Expr x = s.input(which, s.j) + s.product(which);
    if (s.node.has_input(Peephole)) {
      const Tensor weights = s.declaration.read(s.node.input(Peephole));
      x = x + wide(weights(Expr(s.direction), Expr(s.j) + Expr(which * s.p.hidden))) * cell;
    }
    return s.activated(0, x);
  };
  const Expr before = s.state(s.c, s.j);
  const Expr in = gate(0, before);
  const Expr forget = s.p.couples_gates ? number(in, 1) - in : gate(2, before);
  const Expr candidate = s.activated(1, s.input(3, s.j) + s.product(3));
  const Tensor cell = compute("cell", {s.b, s.j}, forget * before + in * candidate);
  const Expr c = cell(s.b, s.j);
  return {gate(1, c) * s.activated(2, c), c};
}

/// The state before the first step, [batch, hidden].
Result<std::string> first_state(const Node& node, Builder& builder, const Recurrent& p,
                                size_t input, int64_t direction) {
  const std::string name = builder.fresh_name(node.op_type);
  if (!node.has_input(input)) {
    TW_TRY(dsl::Array zeros, dsl::Array::make(p.x.type.dtype, {p.batch, p.hidden}));
    TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(zeros)));
    return name;
  }
  const Axis b("b", p.batch), j("j", p.hidden);
  Declaration declaration(builder);
  const Tensor given = declaration.read(node.input(input));
  const Expr d(direction);
  TW_RETURN_IF_ERROR(declaration.add(
      compute("out", {b, j}, p.is_batch_first ? given(b, d, j) : given(d, b, j)), name));
  return name;
}

/// Names of the states after each step, in the order of time, and of the last cell.
struct Run {
  std::vector<std::string> h;
  std::string last_h, last_c;
};

Result<Run> add_steps(const Node& node, Builder& builder, const Recurrent& p, int64_t direction) {
  TW_TRY(const std::string projection, add_projection(node, builder, p, direction));
  Run run = {std::vector<std::string>(static_cast<size_t>(p.steps)), "", ""};
  TW_TRY(run.last_h, first_state(node, builder, p, FirstH, direction));
  TW_TRY(run.last_c, first_state(node, builder, p, FirstC, direction));
  const DType type = p.x.type.dtype;
  for (int64_t i = 0; i < p.steps; ++i) {
    const int64_t time = p.time(static_cast<size_t>(direction), i);
    Declaration declaration(builder);
    const Axis b("b", p.batch), j("j", p.hidden), k("k", p.hidden);
    const Step step = {node,       p,          declaration, direction, time, projection,
                       run.last_h, run.last_c, builder,     b,         j,    k};
    const bool has_cell = node.op_type == "LSTM";
    States after;
    if (has_cell) after = lstm_step(step);
    if (node.op_type == "GRU") after.h = gru_step(step);
    if (node.op_type == "RNN") after.h = rnn_step(step);
    std::vector<Tensor> stages = {compute("h", {b, j}, cast(type, after.h))};
    if (has_cell) stages.push_back(compute("c", {b, j}, cast(type, after.c)));
    run.last_h = builder.fresh_name(node.op_type);
    if (has_cell) run.last_c = builder.fresh_name(node.op_type);
    TW_RETURN_IF_ERROR(declaration.add(stages, {run.last_h, run.last_c}));
    run.h[static_cast<size_t>(time)] = run.last_h;
  }
  return run;
}

// ---- outputs --------------------------------------------------------------------------------

/// The element of one of several tensors [batch, hidden], chosen by `which` in a balanced tree.
Expr choose(const std::vector<Tensor>& tensors, size_t first, size_t last, const Expr& which,
            const Axis& b, const Axis& j) {
  if (last - first == 1) return tensors[first](b, j);
  const size_t middle = (first + last) / 2;
  return select(which < Expr(static_cast<int64_t>(middle)),
                choose(tensors, first, middle, which, b, j),
                choose(tensors, middle, last, which, b, j));
}

/// Adds the tensors of all steps or directions side by side over these axes.
Status add_joined(Builder& builder, const std::vector<std::string>& names,
                  const std::vector<Axis>& axes, const Expr& which, const Axis& b, const Axis& j,
                  const std::string& output) {
  if (output.empty()) return {};
  Declaration declaration(builder);
  std::vector<Tensor> tensors;
  for (const std::string& name : names) tensors.push_back(declaration.read(builder.value(name)));
  return declaration.add(compute("out", axes, choose(tensors, 0, tensors.size(), which, b, j)),
                         output);
}

}  // namespace

Status convert_recurrent(const Node& node, Builder& builder) {
  TW_TRY(const Recurrent p, recurrent_of(node));
  std::vector<std::string> all, last_h, last_c;
  std::vector<Run> runs;
  for (int64_t d = 0; d < p.directions; ++d) {
    TW_TRY(Run run, add_steps(node, builder, p, d));
    last_h.push_back(run.last_h);
    last_c.push_back(run.last_c);
    runs.push_back(std::move(run));
  }
  for (size_t t = 0; t < static_cast<size_t>(p.steps); ++t)
    for (const Run& run : runs) all.push_back(run.h[t]);
  const Axis t("t", p.steps), d("d", p.directions), b("b", p.batch), j("j", p.hidden);
  const std::vector<Axis> states =
      p.is_batch_first ? std::vector<Axis>{b, d, j} : std::vector<Axis>{d, b, j};
  const std::vector<Axis> sequence =
      p.is_batch_first ? std::vector<Axis>{b, t, d, j} : std::vector<Axis>{t, d, b, j};
  std::vector<std::string> outputs = node.outputs;
  outputs.resize(3);
  const Expr step = Expr(t) * Expr(p.directions) + Expr(d);
  TW_RETURN_IF_ERROR(add_joined(builder, all, sequence, step, b, j, outputs[0]));
  TW_RETURN_IF_ERROR(add_joined(builder, last_h, states, d, b, j, outputs[1]));
  if (node.op_type != "LSTM") return {};
  return add_joined(builder, last_c, states, d, b, j, outputs[2]);
}

}  // namespace tw::graph::onnx
