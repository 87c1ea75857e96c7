// SPDX-License-Identifier: Apache-2.0
#include "codegen/vector_accesses.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedules/program/affine.h"

namespace tw::codegen {
namespace {

using dsl::BinaryOp;
using schedules::Affine;
using schedules::Assign;
using schedules::Expr;
using schedules::If;
using schedules::Loop;

const std::string lane = "%lane";  // no variable of a program is named so

/// Analyses indices of the form r + lane, in which r is a multiple of the number of lanes.
class LaneIndex {
 public:
  /// `stepped` is a variable that has only multiples of `lanes` as its values.
  LaneIndex(int64_t lanes, std::string stepped) : lanes_(lanes), stepped_(std::move(stepped)) {}

  /// Returns the indices of lane 0 if the lanes are contiguous and the first one is aligned.
  std::optional<std::vector<Expr>> first(const VectorBuffer& b,
                                         const std::vector<Expr>& indices) const {
    Expr linear = 0;
    std::vector<Expr> result;
    for (size_t d = 0; d < indices.size(); ++d) {
      Affine index = schedules::to_affine(resolved(indices[d]));
      if (std::ranges::count(b.dropped, d) == 0)
        linear = linear * Expr(b.buffer.extents[d]) + schedules::to_expr(index);
      index.add(dsl::var(lane), -index.coefficient(dsl::var(lane)));
      result.push_back(schedules::to_expr(index));
      if (dsl::uses_var(result.back(), lane)) return std::nullopt;
    }
    return without_lane(schedules::to_affine(linear)) ? std::optional(result) : std::nullopt;
  }

  /// Returns the same as first(), but checks each lane. So it also accepts indices that divide the
  /// lane, such as [..., lane / 2, lane % 2].
  std::optional<std::vector<Expr>> first_of_each(const VectorBuffer& b,
                                                 const std::vector<Expr>& indices) const {
    const auto of_lane = [&](int64_t i) { return dsl::substitute(indices, {{lane, Expr(i)}}); };
    const Affine begin = linear(b, of_lane(0));
    if (divisor(schedules::to_expr(begin)) % lanes_ != 0) return std::nullopt;
    for (int64_t i = 1; i < lanes_; ++i) {
      Affine distance = linear(b, of_lane(i));
      distance.add(begin, -1);
      if (!distance.is_constant() || distance.constant != i) return std::nullopt;
    }
    return of_lane(0);
  }

  /// True if the condition has the same value in all lanes, because its comparisons change only at
  /// multiples of the number of lanes. Example: if r is such a multiple, `r + lane >= 0` means `r
  /// >= 0`, and `r - 1 - lane >= 0` means `r > 0`.
  bool is_shared(const Expr& condition) const {
    const schedules::Constraints constraints = schedules::split_condition(condition);
    const auto uses_lane = [](const Expr& e) { return dsl::uses_var(e, lane); };
    if (std::ranges::any_of(constraints.opaque, uses_lane)) return false;
    return std::ranges::all_of(constraints.affine, [&](const Affine& at_least_zero) {
      Affine rest = schedules::to_affine(resolved(schedules::to_expr(at_least_zero)));
      const int64_t step = rest.coefficient(dsl::var(lane));
      rest.add(dsl::var(lane), -step);
      if (uses_lane(schedules::to_expr(rest))) return false;
      if (step == -1) rest.constant += 1;
      return step == 0 || (std::abs(step) == 1 && divisor(schedules::to_expr(rest)) % lanes_ == 0);
    });
  }

 private:
  static Affine linear(const VectorBuffer& b, const std::vector<Expr>& indices) {
    Affine sum;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (std::ranges::count(b.dropped, d) != 0) continue;
      Affine next = schedules::to_affine(indices[d]);
      next.add(sum, b.buffer.extents[d]);
      sum = std::move(next);
    }
    return sum;
  }

  /// Returns affine - lane if that is a multiple of the number of lanes, else nullopt.
  std::optional<Expr> without_lane(Affine affine) const {
    if (affine.coefficient(dsl::var(lane)) != 1) return std::nullopt;
    affine.add(dsl::var(lane), -1);
    const Expr rest = schedules::to_expr(affine);
    if (dsl::uses_var(rest, lane) || divisor(rest) % lanes_ != 0) return std::nullopt;
    return rest;
  }

  /// Simplifies (r + lane) / k to r / k, and (r + lane) % k to r % k + lane, where r and k are
  /// multiples of the number of lanes.
  Expr resolved(const Expr& expr) const {
    const auto* b = expr.as<dsl::Binary>();
    if (!b || !dsl::uses_var(expr, lane)) return expr;
    const Expr x = resolved(b->a), y = resolved(b->b);
    const auto k = dsl::as_int(y);
    const bool divides = b->op == BinaryOp::Div || b->op == BinaryOp::Mod;
    if (divides && k && *k > 0 && *k % lanes_ == 0)
      if (const auto rest = without_lane(schedules::to_affine(x))) {
        const Expr part = dsl::binary(b->op, *rest, y);
        return b->op == BinaryOp::Div ? part : part + dsl::var(lane);
      }
    return dsl::binary(b->op, x, y);
  }

  /// Returns a number that divides every value that the index can have; 0 for the index 0.
  int64_t divisor(const Expr& expr) const {
    if (const auto value = dsl::as_int(expr)) return std::abs(*value);
    if (const auto* v = expr.as<dsl::Var>()) return v->name == stepped_ ? lanes_ : 1;
    const Affine affine = schedules::to_affine(expr);
    if (affine.terms.size() != 1 || affine.constant != 0 ||
        !dsl::equal(affine.terms[0].atom, expr)) {
      int64_t common = std::abs(affine.constant);
      for (const Affine::Term& term : affine.terms)
        common = std::gcd(common, term.coefficient * divisor(term.atom));
      return common;
    }
    const auto* b = expr.as<dsl::Binary>();
    if (!b) return 1;
    const auto k = dsl::as_int(b->b);
    if (b->op == BinaryOp::Mod && k) return std::gcd(divisor(b->a), *k);
    if (b->op == BinaryOp::Div && k && *k > 0)
      return divisor(b->a) % *k == 0 ? divisor(b->a) / *k : 1;
    if (b->op == BinaryOp::Min || b->op == BinaryOp::Max)
      return std::gcd(divisor(b->a), divisor(b->b));
    return 1;
  }

  int64_t lanes_;
  std::string stepped_;
};

using Buffers = std::function<VectorBuffer(const std::string&)>;

/// The lanes of an access: all iterations of a vector loop, or some of them at a time.
class Lanes {
 public:
  /// Returns nullopt if the iterations cannot be divided into groups of `lanes`, or if there are
  /// several groups and the first does not begin at a multiple of `lanes`.
  static std::optional<Lanes> of(const Loop& loop, int64_t lanes) {
    const int64_t begin = *dsl::as_int(loop.begin), end = *dsl::as_int(loop.end);
    const bool needs_loop = end - begin > lanes;
    if ((end - begin) % lanes != 0 || (needs_loop && begin % lanes != 0)) return std::nullopt;
    return Lanes(loop, lanes, needs_loop);
  }

  bool needs_loop() const { return needs_loop_; }
  const LaneIndex& index() const { return index_; }

  /// Returns a substitution of the loop's variable by its value in a lane.
  dsl::Substitution at(const Expr& lane) const {
    const Expr start = needs_loop_ ? dsl::var(loop_.variable) : loop_.begin;
    return {{loop_.variable, start + lane}};
  }

  /// Returns the indices of the first lane, if the lanes are contiguous and aligned.
  std::optional<std::vector<Expr>> first(const VectorBuffer& buffer,
                                         const std::vector<Expr>& indices) const {
    const std::vector<Expr> of_lanes = dsl::substitute(indices, at(dsl::var(lane)));
    const auto all = index_.first(buffer, of_lanes);
    return all ? all : index_.first_of_each(buffer, of_lanes);
  }

 private:
  Lanes(const Loop& loop, int64_t lanes, bool needs_loop)
      : loop_(loop), needs_loop_(needs_loop), index_(lanes, needs_loop ? loop.variable : "") {}

  const Loop& loop_;
  bool needs_loop_;
  LaneIndex index_;
};

std::optional<VectorAccess> with_lanes(const Assign& assign, const Loop& loop, int64_t count,
                                       const Buffers& buffer) {
  const auto lanes = Lanes::of(loop, count);
  if (!lanes) return std::nullopt;
  const auto to = lanes->first(buffer(assign.buffer), assign.indices);
  if (!to) return std::nullopt;
  VectorAccess vectors{count, lanes->needs_loop(), *to, {}};
  if (const auto* read = assign.value.as<dsl::Read>()) {
    const auto from = lanes->first(buffer(read->tensor), read->indices);
    if (!from) return std::nullopt;
    vectors.from = *from;
  }
  return vectors;
}

/// Calls visit(read) for each read that the expression makes in any case. Reads in the alternatives
/// of a select, in the second operand of And and Or, and in indices of other reads are left out.
void for_each_certain_read(const Expr& expr, const std::function<void(const Expr& read)>& visit) {
  dsl::visit(
      expr, [&](const dsl::Read&) { visit(expr); },
      [&](const dsl::Select& s) { for_each_certain_read(s.condition, visit); },
      [&](const dsl::Unary& u) { for_each_certain_read(u.a, visit); },
      [&](const dsl::Cast& c) { for_each_certain_read(c.a, visit); },
      [&](const dsl::Binary& b) {
        for_each_certain_read(b.a, visit);
        if (b.op != BinaryOp::And && b.op != BinaryOp::Or) for_each_certain_read(b.b, visit);
      },
      [](const dsl::Const&) {}, [](const dsl::Var&) {});
}

std::vector<VectorStore::Load> loads_of(const Assign& assign, const Lanes& lanes, int64_t count,
                                        const Buffers& buffer) {
  std::vector<VectorStore::Load> loads;
  for_each_certain_read(assign.value, [&](const Expr& expr) {
    const auto& read = *expr.as<dsl::Read>();
    const int64_t bytes = size_bytes(buffer(read.tensor).buffer.type);
    if (bytes != 2 && bytes != 4) return;
    const Expr first_read = dsl::substitute(expr, lanes.at(Expr(0)));
    const auto is_it = [&](const auto& load) { return dsl::equal(load.reads[0], first_read); };
    if (std::ranges::any_of(loads, is_it)) return;
    const auto from = lanes.first(buffer(read.tensor), read.indices);
    if (!from) return;
    VectorStore::Load& load = loads.emplace_back(VectorStore::Load{read.tensor, *from, {}});
    for (int64_t i = 0; i < count; ++i)
      load.reads.push_back(dsl::substitute(expr, lanes.at(Expr(i))));
  });
  return loads;
}

std::optional<VectorStore> store_lanes(const Assign& assign, const If* branch, const Loop& loop,
                                       int64_t count, const Buffers& buffer) {
  const auto lanes = Lanes::of(loop, count);
  if (!lanes) return std::nullopt;
  const auto to = lanes->first(buffer(assign.buffer), assign.indices);
  if (!to) return std::nullopt;
  VectorStore store{count, lanes->needs_loop(), *to, {}, {}, {}};
  const auto condition = [&](const Expr& of_lane) {
    return dsl::substitute(branch->condition, lanes->at(of_lane));
  };
  const bool is_shared = branch && lanes->index().is_shared(condition(dsl::var(lane)));
  for (int64_t i = 0; i < count; ++i) {
    Assign of_lane = assign;
    of_lane.indices = dsl::substitute(assign.indices, lanes->at(Expr(i)));
    of_lane.value = dsl::substitute(assign.value, lanes->at(Expr(i)));
    store.assigns.push_back(std::move(of_lane));
    if (branch && (i == 0 || !is_shared)) store.conditions.push_back(condition(Expr(i)));
  }
  store.loads = loads_of(assign, *lanes, count, buffer);
  return store;
}

}  // namespace

Expr lane_number() { return dsl::var(lane); }

std::optional<std::vector<Expr>> first_lane_indices(const VectorBuffer& buffer,
                                                    const std::vector<Expr>& indices,
                                                    int64_t lanes) {
  return LaneIndex(lanes, "").first(buffer, indices);
}

std::optional<std::vector<Expr>> find_scatter(
    const Loop& loop, const std::function<VectorBuffer(const std::string& name)>& buffer) {
  const Assign* assign = loop.body->size() == 1 ? loop.body->front().as<Assign>() : nullptr;
  const auto* read = assign ? assign->value.as<dsl::Read>() : nullptr;
  if (!read || read->tensor == assign->buffer || assign->combine != schedules::Combine::None ||
      assign->guard || !dsl::is_int(loop.begin, 0))
    return std::nullopt;
  const DType type = buffer(read->tensor).buffer.type;
  const int64_t lanes = *dsl::as_int(loop.end), bytes = lanes * size_bytes(type);
  if (buffer(assign->buffer).buffer.type != type || size_bytes(type) > 4 ||
      (bytes != 8 && bytes != 16))
    return std::nullopt;
  return first_lane_indices(buffer(read->tensor),
                            dsl::substitute(read->indices, {{loop.variable, dsl::var(lane)}}),
                            lanes);
}

std::optional<VectorAccess> find_vector_access(
    const Loop& loop, const std::function<VectorBuffer(const std::string& name)>& buffer) {
  const Assign* assign = loop.body->size() == 1 ? loop.body->front().as<Assign>() : nullptr;
  if (!assign || assign->combine != schedules::Combine::None || assign->guard) return std::nullopt;
  const DType type = buffer(assign->buffer).buffer.type;
  const auto* read = assign->value.as<dsl::Read>();
  if (read ? buffer(read->tensor).buffer.type != type : !dsl::is_zero_bytes(assign->value))
    return std::nullopt;
  const int64_t bytes = size_bytes(type);
  if (bytes > 4) return std::nullopt;
  for (int64_t lanes = 16 / bytes; lanes > 1; lanes /= 2)
    if (auto vectors = with_lanes(*assign, loop, lanes, buffer)) return vectors;
  return std::nullopt;
}

std::optional<VectorStore> find_vector_store(
    const Loop& loop, const std::function<VectorBuffer(const std::string& name)>& buffer) {
  const auto only = [](const schedules::Block& body) {
    return body.size() == 1 ? &body.front() : nullptr;
  };
  const schedules::Stmt* stmt = only(*loop.body);
  const If* branch = stmt ? stmt->as<If>() : nullptr;
  if (branch) stmt = only(*branch->body);
  const Assign* assign = stmt ? stmt->as<Assign>() : nullptr;
  if (!assign || assign->combine != schedules::Combine::None || assign->guard ||
      assign->asynchronous)
    return std::nullopt;
  const DType type = buffer(assign->buffer).buffer.type;
  const auto* read = assign->value.as<dsl::Read>();
  if (read && buffer(read->tensor).buffer.type == type) return std::nullopt;
  const bool is_narrow = type == Float16 || type == BFloat16;
  const bool is_word = (type == Float32 || type == Int32) && assign->value.type() == type;
  if (!is_narrow && !is_word) return std::nullopt;
  for (int64_t lanes = 16 / size_bytes(type); lanes > 1; lanes /= 2)
    if (auto store = store_lanes(*assign, branch, loop, lanes, buffer)) return store;
  return std::nullopt;
}

}  // namespace tw::codegen
