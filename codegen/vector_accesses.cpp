// SPDX-License-Identifier: Apache-2.0
#include "codegen/vector_accesses.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedules/affine.h"

namespace tw::codegen {
namespace {

using dsl::BinaryOp;
using schedules::Affine;
using schedules::Assign;
using schedules::Expr;
using schedules::Loop;

const std::string lane = "%lane";  // no variable of a program is named so

/// Indices as multiples of `lanes` plus a lane.
class LaneIndex {
 public:
  /// `stepped`: a variable that only takes multiples of `lanes`.
  LaneIndex(int64_t lanes, std::string stepped) : lanes_(lanes), stepped_(std::move(stepped)) {}

  /// The indices of lane 0, if the lanes lie next to each other from an aligned address on.
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

  /// The same by checking each lane, since indices may divide a lane, as [..., lane / 2, lane % 2].
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

  /// affine - lane, if that is a multiple of the lanes.
  std::optional<Expr> without_lane(Affine affine) const {
    if (affine.coefficient(dsl::var(lane)) != 1) return std::nullopt;
    affine.add(dsl::var(lane), -1);
    const Expr rest = schedules::to_expr(affine);
    if (dsl::uses_var(rest, lane) || divisor(rest) % lanes_ != 0) return std::nullopt;
    return rest;
  }

  /// (r + lane) / k is r / k, and (r + lane) % k is r % k + lane, where r and k are multiples.
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

  /// Divides every value that the index takes; 0 for the index 0.
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

std::optional<VectorAccess> with_lanes(
    const Assign& assign, const Loop& loop, int64_t lanes,
    const std::function<VectorBuffer(const std::string&)>& buffer) {
  const int64_t begin = *dsl::as_int(loop.begin), end = *dsl::as_int(loop.end);
  const bool needs_loop = end - begin > lanes;
  if ((end - begin) % lanes != 0 || (needs_loop && begin % lanes != 0)) return std::nullopt;
  const Expr start = needs_loop ? dsl::var(loop.variable) : Expr(begin);
  const LaneIndex index(lanes, needs_loop ? loop.variable : "");
  const auto first = [&](const std::string& name, const std::vector<Expr>& indices) {
    const std::vector<Expr> of_lanes =
        dsl::substitute(indices, {{loop.variable, start + dsl::var(lane)}});
    const auto all = index.first(buffer(name), of_lanes);
    return all ? all : index.first_of_each(buffer(name), of_lanes);
  };
  const auto to = first(assign.buffer, assign.indices);
  if (!to) return std::nullopt;
  VectorAccess vectors{lanes, needs_loop, *to, {}};
  if (const auto* read = assign.value.as<dsl::Read>()) {
    const auto from = first(read->tensor, read->indices);
    if (!from) return std::nullopt;
    vectors.from = *from;
  }
  return vectors;
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

}  // namespace tw::codegen
