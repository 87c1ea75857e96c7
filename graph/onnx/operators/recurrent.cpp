// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM. One product projects the input for all time steps, and a loop runs the steps.
// The body of the loop is the product of the state with the recurrent weights, and one elementwise
// operator for all gates. A GRU whose reset gate acts before the product has two products and two
// elementwise operators in its body. DynamicQuantizeLSTM is the LSTM of ONNX Runtime's quantizer:
// its weights have 8 bits, and the tensors that are multiplied with them are quantized by their
// range.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "graph/onnx/composition.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/operators/constants.h"
#include "graph/onnx/quantization.h"

namespace tw::graph::onnx {
namespace {

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
  Peephole,
  // Inputs of DynamicQuantizeLSTM. The input after each of the two is its zero point.
  WeightsScale,
  RecurrenceScale = WeightsScale + 2
};

/// Returns the input that is the scale of the quantized weights `weights`.
RecurrentInput scale_of(RecurrentInput weights) {
  return weights == Weights ? WeightsScale : RecurrenceScale;
}

enum class Cell { Rnn, Gru, Lstm };

/// The parameters of a recurrent node. The weights are [direction, row, column], and a gate is a
/// slice of `hidden` of their rows. Quantized weights are [direction, column, row].
struct Recurrent {
  Cell cell = Cell::Rnn;
  bool is_quantized = false;
  Value x;
  int64_t gates = 1, directions = 1, steps = 0, batch = 0, size = 0, hidden = 0;
  bool is_batch_first = false, is_reverse = false;
  bool resets_last = false;    ///< GRU: the reset gate acts on the result of the recurrent product
  bool couples_gates = false;  ///< LSTM: the forget gate is 1 - input gate
  bool has_lengths = false;    ///< sequences may be shorter than the longest
  double limit = 0;            ///< largest magnitude of the argument of an activation; 0: no limit
  std::vector<Activation> activations;  ///< those of direction 0, then those of direction 1

  int64_t rows() const { return gates * hidden; }
  Expr activated(size_t direction, size_t which, const Expr& x) const {
    const Expr inside = limit > 0 ? clamp(x, number(x, -limit), number(x, limit)) : x;
    return activations[direction * activations.size() / static_cast<size_t>(directions) + which](
        inside);
  }
  bool is_backward(int64_t direction) const { return is_reverse || direction == 1; }
  bool has_cell_state() const { return cell == Cell::Lstm; }
};

Result<Activation> activation_of(const Node& node, const std::string& name) {
  if (name == "Sigmoid") return logistic;
  if (name == "Tanh") return [](const Expr& x) { return tanh(x); };
  if (name == "Relu") return [](const Expr& x) { return max(x, number(x, 0)); };
  return node.unsupported(fmt::format("the activation {}", name));
}

Result<std::vector<Activation>> activations_of(const Node& node, const Recurrent& p) {
  std::vector<std::string> usual = {"Tanh"};
  if (p.cell == Cell::Gru) usual = {"Sigmoid", "Tanh"};
  if (p.cell == Cell::Lstm) usual = {"Sigmoid", "Tanh", "Tanh"};
  std::vector<std::string> names;
  for (int64_t d = 0; d < p.directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
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

/// Checks the shapes of the optional inputs.
Status check_optional(const Node& node, const Recurrent& p) {
  const int64_t d = p.directions;
  const Shape state = p.is_batch_first ? Shape{p.batch, d, p.hidden} : Shape{d, p.batch, p.hidden};
  const std::array<std::pair<size_t, Shape>, 4> expected = {
      {{Bias, {d, 2 * p.rows()}}, {FirstH, state}, {FirstC, state}, {Peephole, {d, 3 * p.hidden}}}};
  for (const auto& [index, shape] : expected)
    if (node.has_input(index) && node.input(index).type.shape != shape)
      return node.invalid(fmt::format("input {} does not fit the sequence", index));
  if (!node.has_input(Lengths)) return {};
  const Value& lengths = node.input(Lengths);
  if (lengths.type == TensorType{Int32, {p.batch}}) return {};
  return node.invalid(
      fmt::format("its lengths are {}, expected i32[{}]", lengths.type.to_string(), p.batch));
}

/// True if lengths are given, unless they are constants that all equal the number of steps.
Result<bool> has_shorter_lengths(const Node& node, const Recurrent& p) {
  if (!node.has_input(Lengths)) return false;
  if (!node.input(Lengths).constant) return true;
  TW_TRY(const std::vector<int64_t> lengths, node.constant_integers(Lengths));
  return std::ranges::any_of(lengths, [&](int64_t length) { return length != p.steps; });
}

Status check_types(const Node& node, const Recurrent& p) {
  TW_RETURN_IF_ERROR(check_same_type(node, {Sequence, Bias, FirstH, FirstC, Peephole}));
  TW_RETURN_IF_ERROR(check_float(node, p.x.type.dtype));
  if (!p.is_quantized) return check_same_type(node, {Sequence, Weights, Recurrence});
  TW_RETURN_IF_ERROR(check_bytes(node, {Weights, Recurrence}));
  return check_same_type(node, {Sequence, WeightsScale, RecurrenceScale});
}

/// True if the weights have, for each direction, a matrix of all gates with `columns` columns.
/// Quantized weights must also have a scale and a zero point, for each direction or for each row of
/// these matrices.
bool do_weights_fit(const Node& node, const Recurrent& p, RecurrentInput weights, int64_t columns) {
  const Shape& shape = node.input(weights).type.shape;
  if (!p.is_quantized) return shape == Shape{p.directions, p.rows(), columns};
  const size_t scale = scale_of(weights);
  const auto fits = [&](size_t input) {
    const Shape& given = node.input(input).type.shape;
    return given == Shape{p.directions} || given == Shape{p.directions, p.rows()};
  };
  return shape == Shape{p.directions, columns, p.rows()} && fits(scale) &&
         (!node.has_input(scale + 1) || fits(scale + 1));
}

Result<Recurrent> recurrent_of(const Node& node) {
  Recurrent p;
  p.is_quantized = node.op_type == "DynamicQuantizeLSTM";
  p.cell = node.op_type == "RNN" ? Cell::Rnn : node.op_type == "GRU" ? Cell::Gru : Cell::Lstm;
  p.x = node.input(Sequence);
  p.gates = p.cell == Cell::Rnn ? 1 : p.cell == Cell::Gru ? 3 : 4;
  if (p.is_quantized && !(node.has_input(WeightsScale) && node.has_input(RecurrenceScale)))
    return node.invalid("the scale of its weights is left out");
  TW_RETURN_IF_ERROR(check_types(node, p));
  const Value& r = node.input(Recurrence);
  if (p.x.rank() != 3 || node.input(Weights).rank() != 3 || r.rank() != 3)
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
  p.directions = r.type.shape[0];
  p.steps = p.x.type.shape[p.is_batch_first ? 1 : 0];
  p.batch = p.x.type.shape[p.is_batch_first ? 0 : 1];
  p.size = p.x.type.shape[2];
  p.hidden = r.type.shape[p.is_quantized ? 1 : 2];
  if (p.directions != (direction == "bidirectional" ? 2 : 1) || p.hidden < 1 ||
      !do_weights_fit(node, p, Recurrence, p.hidden) || !do_weights_fit(node, p, Weights, p.size))
    return node.invalid("the weights do not fit the sequence");
  if (p.steps < 1) return node.unsupported("a sequence without steps");
  TW_TRY(p.activations, activations_of(node, p));
  TW_RETURN_IF_ERROR(check_optional(node, p));
  TW_TRY(p.has_lengths, has_shorter_lengths(node, p));
  return p;
}

// ---- products -------------------------------------------------------------------------------

/// The rows [first, first + count) of one direction's weights.
struct RowRange {
  int64_t first, count;
};

/// Returns the part [row, ...] of a tensor [direction, row, ...] for one direction, or some rows of
/// this part. Constants are cut at import, because they may be too large for the interpreter.
Result<Value> part_of(Builder& builder, const Value& all, int64_t direction,
                      const std::optional<RowRange>& rows = {}) {
  Shape shape(all.type.shape.begin() + 1, all.type.shape.end());
  const int64_t before = direction * (shape.empty() ? 1 : shape[0]) + (rows ? rows->first : 0);
  if (rows) shape[0] = rows->count;
  const std::string name = builder.fresh_name(all.name);
  if (all.constant) {
    TW_TRY(dsl::Array part, dsl::Array::make(all.type.dtype, shape));
    const int64_t row = shape.empty() ? 1 : extent_of(Shape(shape.begin() + 1, shape.end()));
    const int64_t begin = before * row * size_bytes(all.type.dtype);
    std::ranges::copy_n(all.constant->array->data.begin() + begin, std::ssize(part.data),
                        part.data.begin());
    TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(part)));
  } else {
    const std::vector<Axis> axes = axes_of(shape);
    std::vector<Expr> indices = {Expr(direction)};
    indices.insert(indices.end(), axes.begin(), axes.end());
    if (rows) indices[1] = Expr(axes[0]) + Expr(rows->first);
    Declaration declaration(builder);
    const Tensor read = declaration.read(all);
    TW_RETURN_IF_ERROR(declaration.add(compute("out", axes, read.read_at(indices)), name));
  }
  return builder.value(name);
}

/// The second factor of a product, [k, n]: floats of the type of the first factor, or quantized
/// numbers.
using Factor = std::variant<Value, Quantized>;

/// Returns the weights of one direction, or some rows of them, as a factor of a product. Requires:
/// weights are not quantized if rows are given.
Result<Factor> factor_of(const Node& node, Builder& builder, const Recurrent& p,
                         RecurrentInput weights, int64_t direction,
                         const std::optional<RowRange>& rows = {}) {
  TW_TRY(const Value part, part_of(builder, node.input(weights), direction, rows));
  if (!p.is_quantized) {
    TW_TRY(const Value factor, transposed(builder, part, {1, 0}));
    return factor;
  }
  TW_CHECK(!rows, "the gates of an LSTM stay together");
  const size_t scale = scale_of(weights);
  Quantized factor = {part, {}, std::nullopt};
  TW_TRY(factor.scale, part_of(builder, node.input(scale), direction));
  if (node.has_input(scale + 1)) {
    TW_TRY(factor.zero, part_of(builder, node.input(scale + 1), direction));
  }
  return factor;
}

/// Adds the product [m, n] of a matrix with a factor, plus a bias [n] if there is one, and returns
/// its name.
Result<std::string> add_product(const Node& node, Builder& builder, const Value& a,
                                const Factor& factor, const std::optional<Value>& bias = {}) {
  if (const auto* quantized = std::get_if<Quantized>(&factor)) {
    Composition c(node, builder);
    TW_TRY(const Quantized first, c.quantized(a));
    TW_TRY(const Value product, c.product(first, *quantized, bias));
    return product.name;
  }
  const Value& weights = std::get<Value>(factor);
  dsl::Attributes attributes = {
      {"m", a.type.shape[0]}, {"n", weights.type.shape[1]}, {"k", weights.type.shape[0]}};
  std::vector<Value> inputs = {a, weights};
  if (bias) {
    attributes["bias"] = 1;
    inputs.push_back(*bias);
  }
  const std::string name = builder.fresh_name(node.op_type);
  TW_RETURN_IF_ERROR(add_named(builder, "dense", attributes, a.type.dtype, inputs, name));
  return name;
}

/// Returns Wb + Rb, the biases of the input and of the state. If the reset gate of a GRU acts on
/// the recurrent product, Rb of the candidate is left out and is added in each step instead.
Result<Value> bias_of(const Node& node, Builder& builder, const Recurrent& p, int64_t direction) {
  const Axis g("g", p.rows());
  Declaration declaration(builder);
  const Tensor bias = declaration.read(node.input(Bias));
  const Expr of_input = wide(bias(Expr(direction), g));
  const Expr of_state = wide(bias(Expr(direction), Expr(g) + Expr(p.rows())));
  const Expr none = number(of_state, 0);
  const Expr sum = of_input + (p.resets_last && p.cell == Cell::Gru
                                   ? select(Expr(g) < Expr(2 * p.hidden), of_state, none)
                                   : of_state);
  const std::string name = builder.fresh_name(node.op_type);
  TW_RETURN_IF_ERROR(declaration.add(compute("out", {g}, cast(p.x.type.dtype, sum)), name));
  return builder.value(name);
}

/// Adds W x + Wb + Rb of all steps, [time, batch, gate], and returns its name.
Result<std::string> add_projection(const Node& node, Builder& builder, const Recurrent& p,
                                   int64_t direction) {
  Value x = p.x;
  if (p.is_batch_first) {
    TW_TRY(x, transposed(builder, x, {1, 0, 2}));
  }
  TW_TRY(x, reshaped(builder, x, {p.steps * p.batch, p.size}));
  TW_TRY(const Factor w, factor_of(node, builder, p, Weights, direction));
  std::optional<Value> bias;
  if (node.has_input(Bias)) {
    TW_TRY(bias, bias_of(node, builder, p, direction));
  }
  TW_TRY(const std::string product, add_product(node, builder, x, w, bias));
  TW_TRY(const Value result,
         reshaped(builder, builder.value(product), {p.steps, p.batch, p.rows()}));
  return result.name;
}

// ---- steps ----------------------------------------------------------------------------------

/// The weights of a direction that steps read, as add_product() takes them.
struct StepWeights {
  Factor all;  ///< of all gates that are not in `last`; they multiply the state
  /// GRU that resets the state before the product: the weights of the candidate, which multiply the
  /// reset state.
  std::optional<Factor> last;
};

/// The body of the loop of one direction. Its tensors are [batch, gate] and [batch, hidden].
struct Step {
  const Node& node;
  const Recurrent& p;
  Builder& builder;
  int64_t direction;
  std::string projection, h, c;  ///< names of the projected input and of the states before the step
  std::string time;  ///< i32[1], the index of the step, if sequences have lengths of their own
  Axis b = {"b", p.batch}, j = {"j", p.hidden};

  Expr state(Declaration& declaration, const std::string& name) const {
    return wide(declaration.read(builder.value(name))(b, j));
  }
  /// The element of gate `which` in a tensor of all gates.
  Expr gate(Declaration& declaration, const std::string& name, int64_t which) const {
    return wide(declaration.read(builder.value(name))(b, Expr(j) + Expr(which * p.hidden)));
  }
  Expr activated(size_t which, const Expr& x) const {
    return p.activated(static_cast<size_t>(direction), which, x);
  }
};

/// The hidden state and the cell state after a step. `c` is undefined without a cell state.
struct States {
  Expr h, c;
};

States rnn_step(const Step& s, Declaration& declaration, const std::string& product) {
  return {s.activated(0, s.gate(declaration, s.projection, 0) + s.gate(declaration, product, 0)),
          {}};
}

Expr gru_gate(const Step& s, Declaration& declaration, const std::string& product, int64_t which) {
  return s.activated(
      0, s.gate(declaration, s.projection, which) + s.gate(declaration, product, which));
}

/// Adds the state times the reset gate, and returns its name.
Result<std::string> add_reset_state(const Step& s, const std::string& product) {
  Declaration declaration(s.builder);
  const Expr reset = gru_gate(s, declaration, product, 1);
  const std::string name = s.builder.fresh_name(s.node.op_type);
  TW_RETURN_IF_ERROR(declaration.add(
      compute("out", {s.b, s.j}, cast(s.p.x.type.dtype, reset * s.state(declaration, s.h))), name));
  return name;
}

/// Gates: update, reset, candidate. `last` names the recurrent product of the candidate if the
/// reset gate acts before this product. Otherwise `last` is empty, and `product` has the columns of
/// the candidate too.
States gru_step(const Step& s, Declaration& declaration, const std::string& product,
                const std::string& last) {
  const Expr update = gru_gate(s, declaration, product, 0);
  Expr recurrent;
  if (last.empty()) {
    recurrent = s.gate(declaration, product, 2);
    if (s.node.has_input(Bias)) {
      const Tensor bias = declaration.read(s.node.input(Bias));
      recurrent = recurrent + wide(bias(Expr(s.direction), Expr(s.j) + Expr(5 * s.p.hidden)));
    }
    recurrent = gru_gate(s, declaration, product, 1) * recurrent;
  } else {
    recurrent = s.gate(declaration, last, 0);
  }
  const Expr candidate = s.activated(1, s.gate(declaration, s.projection, 2) + recurrent);
  return {(number(update, 1) - update) * candidate + update * s.state(declaration, s.h), {}};
}

/// Gates: input, output, forget, cell; peepholes: input, output, forget.
States lstm_step(const Step& s, Declaration& declaration, const std::string& product) {
  const auto gate = [&](int64_t which, const Expr& cell) {
    Expr x = s.gate(declaration, s.projection, which) + s.gate(declaration, product, which);
    if (s.node.has_input(Peephole)) {
      const Tensor weights = declaration.read(s.node.input(Peephole));
      x = x + wide(weights(Expr(s.direction), Expr(s.j) + Expr(which * s.p.hidden))) * cell;
    }
    return s.activated(0, x);
  };
  const Expr before = s.state(declaration, s.c);
  const Expr in = gate(0, before);
  const Expr forget = s.p.couples_gates ? number(in, 1) - in : gate(2, before);
  const Expr candidate =
      s.activated(1, s.gate(declaration, s.projection, 3) + s.gate(declaration, product, 3));
  const Tensor cell = compute("cell", {s.b, s.j}, forget * before + in * candidate);
  const Expr c = cell(s.b, s.j);
  return {gate(1, c) * s.activated(2, c), c};
}

/// Names of the tensors that a step writes: the states after the step, and its row of Y.
struct Written {
  std::string h, c, y;
};

/// Adds the operators of a step. After the end of a sequence, the states keep their values, and Y
/// is 0.
Result<Written> add_step(const Step& s, const StepWeights& weights) {
  TW_TRY(const std::string product,
         add_product(s.node, s.builder, s.builder.value(s.h), weights.all));
  std::string last;
  if (weights.last) {
    TW_TRY(const std::string reset, add_reset_state(s, product));
    TW_TRY(last, add_product(s.node, s.builder, s.builder.value(reset), *weights.last));
  }
  Declaration declaration(s.builder);
  const bool has_cell = s.p.has_cell_state();
  States after = has_cell                ? lstm_step(s, declaration, product)
                 : s.p.cell == Cell::Gru ? gru_step(s, declaration, product, last)
                                         : rnn_step(s, declaration, product);
  const auto stage = [&](const char* name, const Expr& value) {
    return compute(name, {s.b, s.j}, cast(s.p.x.type.dtype, value));
  };
  Written written = {s.builder.fresh_name(s.node.op_type), "", ""};
  std::vector<Tensor> stages;
  std::vector<std::string> names = {written.h};
  written.y = written.h;
  if (s.p.has_lengths) {
    const Tensor time = declaration.read(s.builder.value(s.time));
    const Tensor lengths = declaration.read(s.node.input(Lengths));
    const Expr is_inside = time(Expr(0)) < lengths(s.b);
    names.push_back(written.y = s.builder.fresh_name(s.node.op_type));
    const Expr y = select(is_inside, after.h, number(after.h, 0));
    after.h = select(is_inside, after.h, s.state(declaration, s.h));
    stages = {stage("h", after.h), stage("y", y)};
    if (has_cell) after.c = select(is_inside, after.c, s.state(declaration, s.c));
  } else {
    stages = {stage("h", after.h)};
  }
  if (has_cell) {
    names.push_back(written.c = s.builder.fresh_name(s.node.op_type));
    stages.push_back(stage("c", after.c));
  }
  TW_RETURN_IF_ERROR(declaration.add(stages, names));
  return written;
}

/// The state before the first step, [batch, hidden].
Result<std::string> first_state(const Node& node, Builder& builder, const Recurrent& p,
                                size_t input, int64_t direction) {
  const std::string name = builder.fresh_name(node.op_type);
  if (!node.has_input(input)) {
    TW_TRY(const dsl::Array zero, dsl::Array::make(p.x.type.dtype, {}));
    TW_RETURN_IF_ERROR(builder.add_filled(name, {p.batch, p.hidden}, zero));
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

/// Adds a constant with the indices of the steps, i32[steps, 1], and returns its name.
Result<std::string> add_times(const Node& node, Builder& builder, const Recurrent& p) {
  TW_TRY(dsl::Array times, made_array(node, Int32, {p.steps, 1}));
  for (int64_t t = 0; t < p.steps; ++t) times.set_int(t, t);
  const std::string name = builder.fresh_name(node.op_type);
  TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(times)));
  return name;
}

Result<StepWeights> step_weights(const Node& node, Builder& builder, const Recurrent& p,
                                 int64_t direction) {
  const auto factor = [&](const std::optional<RowRange>& rows) {
    return factor_of(node, builder, p, Recurrence, direction, rows);
  };
  if (p.cell != Cell::Gru || p.resets_last) {
    TW_TRY(const Factor all, factor(std::nullopt));
    return StepWeights{all, std::nullopt};
  }
  TW_TRY(const Factor gates, factor(RowRange{0, 2 * p.hidden}));
  TW_TRY(const Factor candidate, factor(RowRange{2 * p.hidden, p.hidden}));
  return StepWeights{gates, candidate};
}

/// Names of the tensors with the states of all steps, [time, batch, hidden], and with the states
/// after the last step. A name is empty if the node does not have the output.
struct Run {
  std::string y, last_h, last_c;
};

Result<Run> add_loop(const Node& node, Builder& builder, const Recurrent& p, int64_t direction) {
  TW_TRY(const std::string projection, add_projection(node, builder, p, direction));
  TW_TRY(const StepWeights weights, step_weights(node, builder, p, direction));
  TW_TRY(const std::string first_h, first_state(node, builder, p, FirstH, direction));
  const bool has_cell = p.has_cell_state();
  std::string first_c, times;
  if (has_cell) {
    TW_TRY(first_c, first_state(node, builder, p, FirstC, direction));
  }
  if (p.has_lengths) {
    TW_TRY(times, add_times(node, builder, p));
  }
  const auto name_of = [&](size_t output) {
    const bool is_read = output < node.outputs.size() && !node.outputs[output].empty();
    return is_read ? builder.fresh_name(node.op_type) : "";
  };
  const Run run = {name_of(0), name_of(1), has_cell ? name_of(2) : ""};
  const bool is_backward = p.is_backward(direction);
  const auto add_body = [&]() -> Status {
    const std::string h = builder.add_state(first_h);
    const std::string c = has_cell ? builder.add_state(first_c) : "";
    const std::string x = builder.add_slice(projection, is_backward);
    const std::string time = p.has_lengths ? builder.add_slice(times, is_backward) : "";
    TW_TRY(const Written written, add_step({node, p, builder, direction, x, h, c, time}, weights));
    TW_RETURN_IF_ERROR(builder.set_next(h, written.h, run.last_h));
    if (has_cell) TW_RETURN_IF_ERROR(builder.set_next(c, written.c, run.last_c));
    return builder.add_stack(written.y, run.y, is_backward);
  };
  TW_RETURN_IF_ERROR(builder.begin_loop(node.op_type, p.steps));
  const Status added = add_body();
  builder.end_loop();
  TW_RETURN_IF_ERROR(added);
  return run;
}

// ---- outputs --------------------------------------------------------------------------------

/// Adds `output`: the tensors `names`, one for each direction, joined along the axis `direction`.
/// `indices` are the indices into the tensor of one direction.
Status add_joined(Builder& builder, const std::vector<std::string>& names,
                  const std::vector<Axis>& axes, const Axis& direction,
                  const std::vector<Expr>& indices, const std::string& output) {
  if (output.empty()) return {};
  Declaration declaration(builder);
  Expr value = declaration.read(builder.value(names[0])).read_at(indices);
  if (names.size() > 1) {
    const Tensor other = declaration.read(builder.value(names[1]));
    value = select(Expr(direction) < Expr(1), value, other.read_at(indices));
  }
  return declaration.add(compute("out", axes, value), output);
}

}  // namespace

Status convert_recurrent(const Node& node, Builder& builder) {
  TW_TRY(const Recurrent p, recurrent_of(node));
  std::vector<std::string> all, last_h, last_c;
  for (int64_t direction = 0; direction < p.directions; ++direction) {
    TW_TRY(const Run run, add_loop(node, builder, p, direction));
    all.push_back(run.y);
    last_h.push_back(run.last_h);
    last_c.push_back(run.last_c);
  }
  const Axis t("t", p.steps), d("d", p.directions), b("b", p.batch), j("j", p.hidden);
  const std::vector<Axis> states =
      p.is_batch_first ? std::vector<Axis>{b, d, j} : std::vector<Axis>{d, b, j};
  const std::vector<Axis> sequence =
      p.is_batch_first ? std::vector<Axis>{b, t, d, j} : std::vector<Axis>{t, d, b, j};
  std::vector<std::string> outputs = node.outputs;
  outputs.resize(3);
  TW_RETURN_IF_ERROR(add_joined(builder, all, sequence, d, {t, b, j}, outputs[0]));
  TW_RETURN_IF_ERROR(add_joined(builder, last_h, states, d, {b, j}, outputs[1]));
  if (!p.has_cell_state()) return {};
  return add_joined(builder, last_c, states, d, {b, j}, outputs[2]);
}

}  // namespace tw::graph::onnx
