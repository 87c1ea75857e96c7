// SPDX-License-Identifier: Apache-2.0
// Attention with its variants as one operator of several stages, and rotary positions. Attention
// without mask, cache and other options is the operator `attention`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// The inputs of an Attention by their position.
enum AttentionInput : size_t { Query, Key, ValueInput, Mask, PastKey, PastValue, KeyCount };

/// Queries, keys or values. Heads are a dimension of their own if there are four dimensions, else
/// parts of the last of three dimensions.
struct Heads {
  Value value;
  int64_t batch = 0, heads = 0, length = 0, size = 0;

  bool is_flat() const { return value.rank() == 3; }
  Expr read(Declaration& declaration, const Expr& b, const Expr& h, const Expr& i,
            const Expr& d) const {
    const Tensor tensor = declaration.read(value);
    return is_flat() ? tensor(b, i, h * Expr(size) + d) : tensor(b, h, i, d);
  }
};

Result<Heads> heads_of(const Node& node, const Value& value, std::string_view attribute) {
  const Shape& s = value.type.shape;
  if (s.size() == 4) return Heads{value, s[0], s[1], s[2], s[3]};
  TW_TRY(const int64_t heads, node.integer(attribute, 0));
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
    return node.invalid(fmt::format("'{}' is not made of {} heads", value.name, heads));
  return Heads{value, s[0], heads, s[1], s[2] / heads};
}

struct AttentionOptions {
  double scale = 0, softcap = 0;
  bool is_causal = false;
  /// Keys before and after a query that the query sees; -1: all of them.
  int64_t left = -1, right = -1;
  int64_t shown = 0;  ///< selects the scores that become the fourth output: see shown_scores()
};

struct AttentionParts {
  Heads q, k, v;
  int64_t past = 0;
  AttentionOptions options;

  int64_t keys() const { return past + k.length; }
  /// The head of keys and values that a head of queries reads.
  Expr key_head(const Expr& h) const { return h / Expr(q.heads / k.heads); }
};

Result<AttentionOptions> options_of(const Node& node, int64_t head_size) {
  AttentionOptions options;
  TW_TRY(options.scale, node.number("scale", 1 / std::sqrt(static_cast<double>(head_size))));
  TW_TRY(options.softcap, node.number("softcap", 0));
  TW_TRY(const int64_t is_causal, node.integer("is_causal", 0));
  TW_TRY(options.left, node.integer("left_window_size", -1));
  TW_TRY(options.right, node.integer("right_window_size", -1));
  TW_TRY(options.shown, node.integer("qk_matmul_output_mode", 0));
  options.is_causal = is_causal != 0;
  return options;
}

Result<AttentionParts> attention_of(const Node& node) {
  AttentionParts p;
  TW_TRY(p.q, heads_of(node, node.input(Query), "q_num_heads"));
  TW_TRY(p.k, heads_of(node, node.input(Key), "kv_num_heads"));
  TW_TRY(p.v, heads_of(node, node.input(ValueInput), "kv_num_heads"));
  TW_RETURN_IF_ERROR(check_same_type(node, {Query, Key, ValueInput, PastKey, PastValue}));
  TW_RETURN_IF_ERROR(check_float(node, p.q.value.type.dtype));
  if (p.k.heads < 1 || p.q.heads % p.k.heads != 0 || p.v.heads != p.k.heads ||
      p.k.size != p.q.size || p.v.length != p.k.length || p.k.batch != p.q.batch ||
      p.v.batch != p.q.batch || p.q.size < 1)
    return node.invalid("queries, keys and values do not fit");
  if (node.has_input(PastKey) != node.has_input(PastValue))
    return node.invalid("a past of keys and values is given together");
  if (node.has_input(PastKey)) {
    const Value& past = node.input(PastKey);
    if (past.rank() != 4) return node.invalid("expected a past of four dimensions");
    p.past = past.type.shape[2];
    if (past.type.shape != Shape{p.k.batch, p.k.heads, p.past, p.k.size} ||
        node.input(PastValue).type.shape != Shape{p.k.batch, p.k.heads, p.past, p.v.size})
      return node.invalid("the past does not fit the keys and values");
  }
  TW_TRY(p.options, options_of(node, p.q.size));
  return p;
}

/// True if the named operator `attention` declares the same function as the node, because the node
/// uses no options.
bool is_plain(const Node& node, const AttentionParts& p) {
  const bool has_more_inputs =
      node.has_input(Mask) || node.has_input(PastKey) || node.has_input(KeyCount);
  const bool has_one_output = std::all_of(node.outputs.begin() + 1, node.outputs.end(),
                                          [](const std::string& name) { return name.empty(); });
  const AttentionOptions& o = p.options;
  return !has_more_inputs && has_one_output && !p.q.is_flat() && p.q.heads == p.k.heads &&
         p.v.size == p.q.size && o.softcap == 0 && o.left < 0 && o.right < 0 &&
         !node.has("scale") && (!o.is_causal || p.q.length == p.k.length) && p.k.length > 0;
}

Status add_plain(const Node& node, Builder& builder, const AttentionParts& p) {
  const int64_t batch = p.q.batch * p.q.heads;
  const auto flat = [&](const Heads& heads) {
    return reshaped(builder, heads.value, {batch, heads.length, heads.size});
  };
  TW_TRY(const Value q, flat(p.q));
  TW_TRY(const Value k, flat(p.k));
  TW_TRY(const Value v, flat(p.v));
  const dsl::Attributes attributes = {{"b", batch},
                                      {"m", p.q.length},
                                      {"n", p.k.length},
                                      {"d", p.q.size},
                                      {"causal", p.options.is_causal ? 1 : 0}};
  const std::string mixed = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(
      add_named(builder, "attention", attributes, p.q.value.type.dtype, {q, k, v}, mixed));
  return add_reshape(builder, builder.value(mixed), p.q.value.type.shape, node.outputs[0]);
}

/// Returns an element of the keys or values: those of the past come first. `at` has the indices of
/// the batch, the head, the key and the element.
Expr read_with_past(const Node& node, Declaration& declaration, const AttentionParts& p,
                    const Heads& heads, size_t past_input, const std::vector<Expr>& at) {
  const Expr now = heads.read(declaration, at[0], at[1], at[2] - Expr(p.past), at[3]);
  if (p.past == 0) return now;
  const Expr before = declaration.read(node.input(past_input)).read_at(at);
  return select(at[2] < Expr(p.past), before, now);
}

/// Axes of scores: batch, head, query, key.
struct ScoreAxes {
  Axis b, h, i, j;
  std::vector<Axis> all() const { return {b, h, i, j}; }
};

/// Returns the score plus the mask input; -inf if the mask hides the key.
Result<Expr> masked(const Node& node, Declaration& declaration, const ScoreAxes& a,
                    const Expr& score) {
  if (!node.has_input(Mask)) return score;
  const Value& mask = node.input(Mask);
  const Expr hidden = number(score, -std::numeric_limits<double>::infinity());
  if (mask.rank() < 1 || mask.rank() > 4) return node.invalid("a mask of that many dimensions");
  Shape seen = mask.type.shape;
  const int64_t length = seen.back();
  if (length != 1 || a.j.extent == 1) seen.back() = a.j.extent;
  TW_TRY(const Shape shape,
         broadcast(node, {seen, {a.b.extent, a.h.extent, a.i.extent, a.j.extent}}));
  if (length > a.j.extent || shape != Shape{a.b.extent, a.h.extent, a.i.extent, a.j.extent})
    return node.invalid("the mask does not fit the scores");
  const Expr entry = broadcast_read(declaration.read(mask), mask.type.shape, at(a.all()));
  if (entry.type() != Bool && !is_float(entry.type()))
    return node.unsupported("a mask of integers");
  const Expr value =
      entry.type() == Bool ? select(entry, score, hidden) : score + cast(score.type(), entry);
  // If the mask is shorter than the keys, it hides the keys behind its end.
  const bool is_short = length != 1 && length < a.j.extent;
  return is_short ? select(Expr(a.j) < Expr(length), value, hidden) : value;
}

/// Returns the condition under which a query may attend to a key, by their positions. It combines
/// the causal mask, the sliding window, and the number of keys. Fails with Invalid unless there is
/// a number of keys for each batch.
Result<Expr> visible(const Node& node, Declaration& declaration, const AttentionParts& p,
                     const ScoreAxes& a) {
  std::vector<Expr> conditions;
  Expr offset(p.past);
  if (node.has_input(KeyCount)) {
    const Value& counts = node.input(KeyCount);
    if (counts.type.dtype != Int64 || counts.type.shape != Shape{p.q.batch})
      return node.invalid("expected a number of keys a batch");
    const Expr count = declaration.read(counts)(a.b);
    conditions.push_back(Expr(a.j) < count);
    offset = count - Expr(p.q.length);
  }
  const Expr place = Expr(a.i) + offset;
  if (p.options.is_causal) conditions.push_back(Expr(a.j) <= place);
  if (p.options.left >= 0) conditions.push_back(place - Expr(p.options.left) <= Expr(a.j));
  if (p.options.right >= 0) conditions.push_back(Expr(a.j) <= place + Expr(p.options.right));
  return all_of(conditions);
}

/// The steps from scores to probabilities, as expressions of ScoreAxes.
struct Scores {
  Expr raw;      ///< q k^T * scale
  Expr capped;   ///< after the soft cap
  Expr seen;     ///< after the masks: -inf where a query does not see a key
  Expr share;    ///< exp(seen - peak of the row)
  Expr divisor;  ///< the sum of the row's shares, or 1 where that is 0
};

/// Returns the scores after all masks, as a stage. A score is -inf if the query does not see the
/// key.
Result<Expr> seen_scores(const Node& node, Declaration& declaration, const AttentionParts& p,
                         const ScoreAxes& a, const Expr& capped) {
  const Expr hidden = number(capped, -std::numeric_limits<double>::infinity());
  TW_TRY(const Expr with_mask, masked(node, declaration, a, capped));
  TW_TRY(const Expr is_visible, visible(node, declaration, p, a));
  return compute("seen", a.all(), select(is_visible, with_mask, hidden)).read_at(at(a.all()));
}

Result<Scores> scores_of(const Node& node, Declaration& declaration, const AttentionParts& p,
                         const ScoreAxes& a) {
  const Axis d("d", p.q.size);
  const Expr q = wide(p.q.read(declaration, a.b, a.h, a.i, d));
  const Expr k =
      wide(read_with_past(node, declaration, p, p.k, PastKey, {a.b, p.key_head(a.h), a.j, d}));
  const Tensor product = compute("product", a.all(), sum(d, q * k));
  Scores scores;
  scores.raw = product.read_at(at(a.all())) * number(q, p.options.scale);
  scores.capped = scores.raw;
  if (p.options.softcap > 0) {
    const Expr cap = number(q, p.options.softcap);
    scores.capped = cap * tanh(scores.raw / cap);
  }
  TW_TRY(scores.seen, seen_scores(node, declaration, p, a, scores.capped));
  const std::vector<Axis> row = {a.b, a.h, a.i};
  const Tensor peak = compute("peak", row, max_over({a.j}, scores.seen));
  // A query that sees no key has the result 0.
  const Expr zero = number(q, 0), hidden = number(q, -std::numeric_limits<double>::infinity());
  const Expr e = exp(scores.seen - peak.read_at(at(row)));
  scores.share =
      compute("share", a.all(), select(hidden < scores.seen, e, zero)).read_at(at(a.all()));
  const Expr total = compute("total", row, sum(a.j, scores.share)).read_at(at(row));
  scores.divisor = select(eq(total, zero), number(q, 1), total);
  return scores;
}

/// The scores that the attribute qk_matmul_output_mode asks for.
Expr shown_scores(const Scores& scores, int64_t mode) {
  if (mode == 1) return scores.capped;
  if (mode == 2) return scores.seen;
  if (mode == 3) return scores.share / scores.divisor;
  return scores.raw;
}

/// Returns the stage `name` with the keys or values of the past and then the current ones, [batch,
/// head, key, element].
Tensor present(const Node& node, Declaration& declaration, const AttentionParts& p,
               const std::string& name, const Heads& part, size_t past_input) {
  const std::vector<Axis> axes = {Axis("b", p.q.batch), Axis("g", p.k.heads), Axis("j", p.keys()),
                                  Axis("e", part.size)};
  return compute(name, axes, read_with_past(node, declaration, p, part, past_input, at(axes)));
}

/// Adds the general form of attention, as one operator of several stages.
Status add_stages(const Node& node, Builder& builder, const AttentionParts& p) {
  const DType type = p.q.value.type.dtype;
  const ScoreAxes a = {Axis("b", p.q.batch), Axis("h", p.q.heads), Axis("i", p.q.length),
                       Axis("j", p.keys())};
  const Axis e("e", p.v.size);
  Declaration declaration(builder);
  TW_TRY(const Scores scores, scores_of(node, declaration, p, a));
  const Expr v =
      wide(read_with_past(node, declaration, p, p.v, PastValue, {a.b, p.key_head(a.h), a.j, e}));
  const Tensor mixed = compute("mixed", {a.b, a.h, a.i, e}, sum(a.j, scores.share * v));
  const Expr y = cast(type, mixed(a.b, a.h, a.i, e) / scores.divisor);
  // If the queries have three dimensions, the result has three too.
  const bool is_flat = p.q.is_flat();
  const std::vector<Axis> out =
      is_flat ? std::vector<Axis>{a.b, a.i, a.h, e} : std::vector<Axis>{a.b, a.h, a.i, e};
  std::vector<std::string> outputs = node.outputs;
  if (is_flat) outputs[0] = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(declaration.add(
      {compute("out", out, y), present(node, declaration, p, "keys", p.k, PastKey),
       present(node, declaration, p, "values", p.v, PastValue),
       compute("scores", a.all(), cast(type, shown_scores(scores, p.options.shown)))},
      outputs));
  if (!is_flat) return {};
  return add_reshape(builder, builder.value(outputs[0]),
                     {p.q.batch, p.q.length, p.q.heads * p.v.size}, node.outputs[0]);
}

}  // namespace

Status convert_attention(const Node& node, Builder& builder) {
  TW_TRY(const AttentionParts p, attention_of(node));
  if (is_plain(node, p)) return add_plain(node, builder, p);
  return add_stages(node, builder, p);
}

// ---- rotary positions -----------------------------------------------------------------------

namespace {

/// Returns the element of a table of cosines or sines for [batch, position, pair]. The table has a
/// row for each position of each batch. If the node has position_ids, the table instead has a row
/// for each number that may occur in position_ids.
Result<Expr> rotary_entry(const Node& node, Declaration& declaration, size_t table_input,
                          const Axis& b, const Axis& s, int64_t pairs, const Expr& pair) {
  const Value& table = node.input(table_input);
  const Tensor tensor = declaration.read(table);
  const Shape& shape = table.type.shape;
  if (!node.has_input(3)) {
    if (shape != Shape{b.extent, s.extent, pairs})
      return node.invalid("a table does not fit the input");
    return wide(tensor(b, s, pair));
  }
  const Value& ids = node.input(3);
  if (ids.type.dtype != Int64 || ids.type.shape != Shape{b.extent, s.extent} || shape.size() != 2 ||
      shape[1] != pairs)
    return node.invalid("a table or position_ids do not fit the input");
  const Axis row("v", shape[0]), p("p", pairs);
  const Expr entry = wide(tensor(row, p));
  const Expr is_named = eq(declaration.read(ids)(b, s), Expr(row));
  const Tensor chosen = compute(table_input == 1 ? "cosine" : "sine", {b, s, p},
                                sum(row, select(is_named, entry, number(entry, 0))));
  return chosen(b, s, pair);
}

}  // namespace

Status convert_rotary_embedding(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const Heads x, heads_of(node, node.input(0), "num_heads"));
  TW_TRY(const int64_t is_interleaved, node.integer("interleaved", 0));
  TW_TRY(int64_t rotated, node.integer("rotary_embedding_dim", 0));
  if (rotated == 0) rotated = x.size;
  if (rotated < 0 || rotated > x.size || rotated % 2 != 0)
    return node.invalid(fmt::format("rotary_embedding_dim={}", rotated));
  const int64_t half = rotated / 2;
  const Axis b("b", x.batch), h("h", x.heads), s("s", x.length), d("d", x.size);
  // The two elements of a pair are neighbours, or lie half of the rotated part apart.
  const Expr at_d = d,
             pair = is_interleaved ? at_d / Expr(2) : at_d % Expr(std::max<int64_t>(half, 1));
  const Expr is_second = is_interleaved ? eq(at_d % Expr(2), Expr(1)) : Expr(half) <= at_d;
  const int64_t distance = is_interleaved ? 1 : half;
  Declaration declaration(builder);
  TW_TRY(const Expr cosine, rotary_entry(node, declaration, 1, b, s, half, pair));
  TW_TRY(const Expr sine, rotary_entry(node, declaration, 2, b, s, half, pair));
  const auto element = [&](const Expr& index) { return wide(x.read(declaration, b, h, s, index)); };
  const Expr here = element(at_d);
  const Expr turned = select(is_second, sine * element(at_d - Expr(distance)) + cosine * here,
                             cosine * here - sine * element(at_d + Expr(distance)));
  const Expr result = rotated == x.size ? turned : select(at_d < Expr(rotated), turned, here);
  const Expr out = cast(x.value.type.dtype, result);
  if (!x.is_flat()) return declaration.add(compute("out", {b, h, s, d}, out), node.outputs[0]);
  const std::string flat = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(declaration.add(compute("out", {b, s, h, d}, out), flat));
  return add_reshape(builder, builder.value(flat), x.value.type.shape, node.outputs[0]);
}

}  // namespace tw::graph::onnx
