// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/tma_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/integer.h"
#include "schedules/program/affine.h"
#include "schedules/program/bounds.h"
#include "schedules/program/global_names.h"
#include "schedules/program/legality.h"

namespace tw::schedules {
namespace {

using dsl::Binary;
using dsl::BinaryOp;

constexpr int64_t most_extent = int64_t{1} << 32, most_stride_bytes = int64_t{1} << 40;

tl::unexpected<Error> illegal_copy(const std::string& why, const Stmt& stmt) {
  return fail(ErrorCode::Invalid, fmt::format("[bulk] {}\n{}", why, to_string(Block{stmt}, 1)));
}

const Loop* as_bulk_loop(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  return loop && loop->kind == LoopKind::Bulk ? loop : nullptr;
}

/// For each loop of a box, by variable: the number of elements of the box along it.
using BoxLoops = std::map<std::string, int64_t>;

bool uses_any(const Expr& expr, const BoxLoops& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const auto& loop) { return dsl::uses_var(expr, loop.first); });
}

// ---- affine forms ---------------------------------------------------------------------------

/// x / k or x % k.
struct IndexDigit {
  Expr x;
  int64_t k;
};
std::optional<IndexDigit> as_digit(const Expr& expr, BinaryOp op) {
  const Binary* b = expr.as<Binary>();
  const auto k = b && b->op == op ? dsl::as_int(b->b) : std::nullopt;
  return k && *k > 0 ? std::optional(IndexDigit{b->a, *k}) : std::nullopt;
}

/// Rewrites the expression as one quotient: x / 3 / 4 -> x / 12, x / 3 + y -> (x + y * 3) / 3, and
/// both: x / 3 / 4 + y -> (x + y * 12) / 12. Returns nullopt if this is not possible.
std::optional<IndexDigit> as_quotient(const Expr& expr) {
  if (const auto outer = as_digit(expr, BinaryOp::Div)) {
    const auto inner = as_quotient(outer->x);
    return inner ? IndexDigit{inner->x, inner->k * outer->k} : outer;
  }
  const Affine sum = to_affine(expr);
  for (const Affine::Term& term : sum.terms) {
    const auto inner = term.coefficient == 1 ? as_digit(term.atom, BinaryOp::Div) : std::nullopt;
    if (!inner) continue;
    Affine rest = sum, x = to_affine(inner->x);
    rest.add(term.atom, -1);
    x.add(rest, inner->k);
    const IndexDigit whole{to_expr(x), inner->k};
    const auto nested = as_quotient(whole.x);
    return nested ? IndexDigit{nested->x, nested->k * whole.k} : whole;
  }
  return std::nullopt;
}

/// True if x % k and y % k are proved to be equal.
bool are_congruent(const Expr& x, const Expr& y, int64_t k) {
  Affine difference = to_affine(x);
  difference.add(to_affine(y), -1);
  return difference.constant % k == 0 &&
         std::all_of(difference.terms.begin(), difference.terms.end(),
                     [&](const Affine::Term& term) { return term.coefficient % k == 0; });
}

/// Joins two digits of one number x: x / k * k + x % k -> x, or x / k % n * k + x % k -> x % (k *
/// n). x may itself be a quotient. If `loops` are given, at least one of the two digits must use
/// one of these loops. Returns true if two digits were joined.
bool join_digits(Affine& affine, const BoxLoops* loops = nullptr) {
  for (const Affine::Term& low : affine.terms) {
    const auto last = as_digit(low.atom, BinaryOp::Mod);
    if (!last) continue;
    const IndexDigit number = as_quotient(last->x).value_or(IndexDigit{last->x, 1});
    for (const Affine::Term& high : affine.terms) {
      if (high.coefficient != low.coefficient * last->k) continue;
      if (loops && !uses_any(low.atom, *loops) && !uses_any(high.atom, *loops)) continue;
      const auto next = as_digit(high.atom, BinaryOp::Mod);
      const auto first = as_quotient(next ? next->x : high.atom);
      if (!first || first->k != number.k * last->k || !are_congruent(first->x, number.x, first->k))
        continue;
      const Expr whole = number.k == 1 ? first->x : first->x / Expr(number.k);
      const Expr joined = next ? whole % Expr(last->k * next->k) : whole;
      const int64_t a = low.coefficient;
      const Expr low_atom = low.atom, high_atom = high.atom;
      affine.add(low_atom, -a);
      affine.add(high_atom, -a * last->k);
      affine.add(to_affine(joined), a);
      return true;
    }
  }
  return false;
}

/// Joins a number and its quotient where the quotient is subtracted: x - x / k * k -> x % k.
/// Returns true if two terms were joined.
bool join_difference(Affine& affine) {
  for (const Affine::Term& term : affine.terms) {
    const auto quotient = as_digit(term.atom, BinaryOp::Div);
    if (!quotient || term.coefficient > 0 || term.coefficient % quotient->k != 0) continue;
    const int64_t a = -term.coefficient / quotient->k;
    Affine result = affine;
    result.add(term.atom, -term.coefficient);
    result.add(to_affine(quotient->x), -a);
    result.add(quotient->x % Expr(quotient->k), a);
    if (result.terms.size() >= affine.terms.size()) continue;
    affine = std::move(result);
    return true;
  }
  return false;
}

/// An affine form, split into a part that does not depend on the loops of a box, and the
/// coefficients of these loops.
struct BoxForm {
  Affine rest;
  std::map<std::string, int64_t> strides;
};

class AffineForms {
 public:
  explicit AffineForms(const BoxLoops& loops) : loops_(loops) {}

  /// Splits an affine form; nullopt if it is not linear in the loops of the box. Digits that use no
  /// loop of the box are not joined, because conditions contain these digits as separate terms.
  std::optional<BoxForm> split(Affine affine) const {
    while (join_digits(affine, &loops_)) {
    }
    BoxForm split;
    split.rest.constant = affine.constant;
    for (const Affine::Term& term : affine.terms) {
      const auto* v = term.atom.as<dsl::Var>();
      if (v && loops_.contains(v->name)) {
        split.strides[v->name] += term.coefficient;
      } else if (!uses_any(term.atom, loops_)) {
        split.rest.add(term.atom, term.coefficient);
      } else if (const auto inner = split_digit(term.atom)) {
        split.rest.add(inner->rest, term.coefficient);
        for (const auto& [name, a] : inner->strides) split.strides[name] += a * term.coefficient;
      } else {
        return std::nullopt;
      }
    }
    return split;
  }

  /// Returns the largest value of the sum of stride * variable over the loops.
  int64_t most(const std::map<std::string, int64_t>& strides) const {
    int64_t sum = 0;
    for (const auto& [name, a] : strides) sum += a * (loops_.at(name) - 1);
    return sum;
  }

 private:
  /// Splits x / k or x % k for x = r + v, where v is the part of the loops: (r + v) / k is r / k,
  /// and (r + v) % k is r % k + v, if 0 <= v < gcd(r, k). gcd(r, k) is the common divisor of k and
  /// of all coefficients in r.
  std::optional<BoxForm> split_digit(const Expr& atom) const {
    const auto remainder = as_digit(atom, BinaryOp::Mod);
    const auto quotient = remainder ? std::nullopt : as_quotient(atom);
    if (!quotient && !remainder) return std::nullopt;
    const IndexDigit digit = quotient ? *quotient : *remainder;
    auto inside = split(to_affine(digit.x));
    if (!inside) return std::nullopt;
    int64_t divisor = std::gcd(digit.k, inside->rest.constant);
    for (const Affine::Term& term : inside->rest.terms)
      divisor = std::gcd(divisor, term.coefficient);
    const bool grows = std::all_of(inside->strides.begin(), inside->strides.end(),
                                   [](const auto& stride) { return stride.second >= 0; });
    if (!grows || most(inside->strides) >= divisor) return std::nullopt;
    const Expr rest = to_expr(inside->rest);
    if (remainder) return BoxForm{to_affine(rest % Expr(digit.k)), inside->strides};
    return BoxForm{to_affine(rest / Expr(digit.k)), {}};
  }

  const BoxLoops& loops_;
};

int64_t stride_of(const BoxForm& split, const std::string& loop) {
  const auto found = split.strides.find(loop);
  return found == split.strides.end() ? 0 : found->second;
}

// ---- one copy -------------------------------------------------------------------------------

/// A dimension of the box while its index is being determined. The index is first + v, where v is
/// the variable of the dimension's loop.
struct Dimension {
  std::string loop;
  int64_t box = 1, stride = 1;
  Affine first;
  bool is_fixed = false;            ///< true if `first` is determined, except for a constant
  bool is_exact = false;            ///< true if the constant is determined too
  std::optional<Affine> last_room;  ///< largest v for which elements exist; nullopt: no bound
};

class CopyFinder {
 public:
  CopyFinder(const Loop& loop, const Bounds& bounds, const BuffersByName& buffers)
      : stmt_{loop}, outermost_(loop), bounds_(bounds), buffers_(buffers), forms_(loops_) {}

  Result<TmaCopy> find() {
    TW_TRY(const Block* body, gather_loops());
    TW_RETURN_IF_ERROR(gather_copy(*body));
    TW_RETURN_IF_ERROR(gather_dimensions());
    for (const Affine& condition : split_condition(condition_).affine)
      TW_RETURN_IF_ERROR(apply(condition));
    TW_RETURN_IF_ERROR(place_box());
    return result();
  }

 private:
  tl::unexpected<Error> wrong(const std::string& why) const { return illegal_copy(why, stmt_); }

  Result<const Block*> gather_loops() {
    const Block* body = outermost_.body.get();
    for (const Loop* loop = &outermost_; loop; body = loop->body.get(),
                     loop = body->size() == 1 ? as_bulk_loop(body->front()) : nullptr) {
      const auto end = dsl::as_int(loop->end);
      if (!dsl::is_int(loop->begin, 0) || !end || *end < 1 || *end > most_tma_iterations)
        return wrong(fmt::format("loop '{}' does not run from 0 over at most {} iterations",
                                 loop->variable, most_tma_iterations));
      loops_[loop->variable] = *end;
    }
    if (loops_.size() > most_tma_dimensions)
      return wrong(fmt::format("{} loops, a box has at most {} dimensions", loops_.size(),
                               most_tma_dimensions));
    return body;
  }

  /// Recognises `to[...] = from[...]`, perhaps under a condition, with zeros where the condition
  /// fails.
  Status gather_copy(const Block& body) {
    copy_ = body.size() == 1 ? body.front().as<Assign>() : nullptr;
    read_ = copy_ ? copy_->value.as<dsl::Read>() : nullptr;
    if (!read_ || copy_->combine != Combine::None || !copy_->asynchronous)
      return wrong("a box is one asynchronous copy, or zeros in its place");
    if (copy_->guard) {
      if (!dsl::is_zero_bytes(copy_->guard->otherwise))
        return wrong("where nothing is copied a box has zeros");
      condition_ = copy_->guard->condition;
    }
    if (!split_condition(condition_).opaque.empty())
      return wrong(fmt::format("{} does not bound an index", dsl::to_string(condition_)));
    to_ = buffers_.at(copy_->buffer);
    from_ = buffers_.at(read_->tensor);
    if (from_->scope != Scope::Argument && from_->scope != Scope::Scratch)
      return wrong(fmt::format("'{}' is not in global memory", from_->name));
    if (to_->scope != Scope::Shared)
      return wrong(
          fmt::format("'{}' is not shared by threads: bind loops of what uses it", to_->name));
    return {};
  }

  /// Lists the dimensions in the order of the destination, innermost first.
  Status gather_dimensions() {
    const auto to = forms_.split(linear_address(to_->extents, copy_->indices));
    const auto from = forms_.split(linear_address(from_->extents, read_->indices));
    if (!to || !from)
      return wrong(fmt::format("the address in '{}' is not linear in the loops of the box",
                               to ? from_->name : to_->name));
    base_ = from->rest;
    dimensions_.reserve(most_tma_dimensions);  // pointers to them stay valid
    for (const auto& [loop, box] : loops_)
      dimensions_.push_back({loop, box, stride_of(*from, loop), {}, false, false, {}});
    std::ranges::sort(dimensions_, {}, [&](const Dimension& d) { return stride_of(*to, d.loop); });
    int64_t dense = 1;
    for (const Dimension& d : dimensions_) {
      if (stride_of(*to, d.loop) != dense)
        return wrong(fmt::format("the box has gaps in '{}'", to_->name));
      dense *= d.box;
    }
    bytes_ = dense * size_bytes(to_->type);
    return check_addresses(to->rest);
  }

  Status check_addresses(const Affine& to) const {
    const int64_t size = size_bytes(to_->type);
    const Dimension& row = dimensions_.front();
    if (row.stride != 1)
      return wrong(fmt::format("neighbours along '{}' are {} elements apart in '{}'", row.loop,
                               row.stride, from_->name));
    if (row.box * size % engine_bytes != 0)
      return wrong(fmt::format("a row of the box, along '{}', has {} bytes, no multiple of {}",
                               row.loop, row.box * size, engine_bytes));
    for (size_t i = 1; i < dimensions_.size(); ++i)
      TW_RETURN_IF_ERROR(check_stride(dimensions_[i].stride, dimensions_[i].loop));
    const int64_t swizzle = to_->swizzle, alignment = std::max(tma_alignment, 8 * swizzle);
    if (swizzle > 0 && row.box * size != swizzle)
      return wrong(fmt::format("a row of the box has {} bytes, and '{}' is swizzled by {}",
                               row.box * size, to_->name, swizzle));
    int64_t divisor = to.constant * size;
    for (const Affine::Term& term : to.terms) divisor = std::gcd(divisor, term.coefficient * size);
    if (divisor % alignment != 0)
      return wrong(fmt::format("the box begins at multiples of {} bytes of '{}', not of {}",
                               std::abs(divisor), to_->name, alignment));
    return {};
  }

  Status check_stride(int64_t stride, const std::string& along) const {
    const int64_t bytes = stride * size_bytes(from_->type);
    if (bytes > 0 && bytes % engine_bytes == 0 && bytes < most_stride_bytes) return {};
    return wrong(fmt::format("'{}' has a stride of {} bytes along {}, which is no multiple of {}",
                             from_->name, bytes, along, engine_bytes));
  }

  /// Applies one term of the condition. The term must bound the index of one loop from below or
  /// above.
  Status apply(const Affine& at_least_zero) {
    const auto split = forms_.split(at_least_zero);
    const auto refuse = [&] {
      return wrong(fmt::format("{} does not bound the index of one loop",
                               dsl::to_string(to_condition(at_least_zero))));
    };
    if (!split) return refuse();
    // (f + v) * a + rest >= 0 with 0 <= rest < a is equivalent to f + v >= 0.
    const auto main = std::ranges::max_element(
        split->strides, {}, [](const auto& stride) { return std::abs(stride.second); });
    if (main == split->strides.end() || main->second == 0) return refuse();
    const int64_t a = std::abs(main->second);
    const bool is_lower = main->second > 0;
    auto others = split->strides;
    others.erase(main->first);
    for (auto& [name, stride] : others) {
      if (!is_lower) stride = -stride;
      if (stride < 0) return refuse();
    }
    const int64_t most = forms_.most(others), left = floor_mod(split->rest.constant, a);
    if (is_lower ? left + most >= a : left < most) return refuse();
    Affine room, part;
    room.constant = floor_div(split->rest.constant, a);
    part.constant = left;
    for (const Affine::Term& term : split->rest.terms)
      if (term.coefficient % a == 0) {
        room.add(term.atom, term.coefficient / a);
      } else {
        part.add(term.atom, term.coefficient);
      }
    if (!part.is_constant() && (!others.empty() || !add_quotient(part, a, room))) return refuse();
    return is_lower ? bound_below(main->first, room) : bound_above(main->first, room);
  }

  /// Adds floor(part / a) to `room`, for 0 <= part.constant < a. The quotient must be of a number
  /// that is not negative; returns false if this is not proved. A bound from below has the form
  /// floor(x / a), and a bound from above must have the form -floor((x + a - 1) / a), so that their
  /// sum is constant.
  bool add_quotient(Affine part, int64_t a, Affine& room) const {
    const bool is_negative = part.terms.front().coefficient < 0;
    if (is_negative) {
      Affine up;
      up.constant = a - 1;
      up.add(part, -1);
      part = std::move(up);
    }
    if (bounds_.lower(part).value_or(-1) < 0) return false;
    room.add(to_expr(part) / Expr(a), is_negative ? -1 : 1);
    return true;
  }

  Dimension& dimension(const std::string& loop) {
    return *std::ranges::find(dimensions_, loop, &Dimension::loop);
  }

  /// Applies room + v >= 0, where v is the variable of the loop.
  Status bound_below(const std::string& loop, const Affine& room) {
    Dimension& d = dimension(loop);
    if (d.is_exact) return wrong(fmt::format("loop '{}' has two bounds from below", loop));
    d.first = room;
    d.is_fixed = d.is_exact = true;
    return {};
  }
  /// Applies room - v >= 0, where v is the variable of the loop.
  Status bound_above(const std::string& loop, const Affine& room) {
    Dimension& d = dimension(loop);
    if (d.last_room) return wrong(fmt::format("loop '{}' has two bounds from above", loop));
    d.last_room = room;
    if (d.is_fixed) return {};
    d.first.add(room, -1);
    d.first.constant = 0;
    d.is_fixed = true;
    return {};
  }

  /// Distributes the address of the first element over the indices of the dimensions.
  Status place_box() {
    Affine rest = base_;
    for (const Dimension& d : dimensions_) rest.add(d.first, -d.stride);
    while (join_difference(rest) || join_digits(rest)) {
    }
    std::vector<Dimension*> by_stride;
    for (Dimension& d : dimensions_) by_stride.push_back(&d);
    std::ranges::sort(by_stride, std::greater<>(), &Dimension::stride);
    const int64_t next = by_stride.size() > 1 ? by_stride[by_stride.size() - 2]->stride : 0;
    for (Dimension* d : by_stride)
      if (!d->is_fixed)
        take(rest, *d, [&](int64_t a) {
          return a % d->stride == 0 && (d->stride > 1 || next == 0 || std::abs(a) < next);
        });
    if (!rest.terms.empty()) {
      TW_RETURN_IF_ERROR(place_elsewhere(rest));
      if (by_stride.size() < dimensions_.size()) by_stride.push_back(&dimensions_.back());
      std::ranges::stable_sort(by_stride, std::greater<>(), &Dimension::stride);
    }
    for (Dimension* d : by_stride) {
      if (d->is_exact) continue;
      // A box begins before the tensor only if a condition of padding says so.
      const int64_t least = -std::max<int64_t>(bounds_.lower(d->first).value_or(0), 0);
      int64_t steps = std::max(floor_div(rest.constant, d->stride), least);
      if (d == &dimensions_.front()) steps -= place_rows_beyond(steps, next, rest);
      d->first.constant += steps;
      rest.constant -= steps * d->stride;
    }
    if (rest.constant != 0)
      return wrong(fmt::format("the box begins {} elements beside its indices", rest.constant));
    order_by_stride();
    return {};
  }

  /// Moves whole rows of the constant offset of the address to a dimension without a loop: to the
  /// last dimension if that has no loop, else to a new dimension if there may be another. Returns
  /// the part of the offset that was moved, or 0. `next` is the stride of rows.
  int64_t place_rows_beyond(int64_t offset, int64_t next, Affine& rest) {
    if (next == 0 || offset < next) return 0;
    Dimension rows{"", 1, offset - offset % next, {}, true, true, {}};
    rows.first.constant = 1;
    Dimension& last = dimensions_.back();
    if (last.loop.empty() && last.stride % rows.stride == 0) {
      rows.first.add(last.first, last.stride / rows.stride);
      last = rows;
    } else if (!last.loop.empty() && dimensions_.size() < most_tma_dimensions) {
      dimensions_.push_back(rows);
    } else {
      return 0;
    }
    rest.constant -= rows.stride;
    return rows.stride;
  }

  /// Moves a dimension without a loop from the end to the position where dimensions are in the
  /// order of their strides.
  void order_by_stride() {
    if (!dimensions_.back().loop.empty()) return;
    const auto place =
        std::find_if(dimensions_.begin() + 1, dimensions_.end(),
                     [&](const Dimension& d) { return d.stride >= dimensions_.back().stride; });
    std::rotate(place, dimensions_.end() - 1, dimensions_.end());
  }

  template <typename F>
  static void take(Affine& rest, Dimension& d, F&& takes) {
    const auto terms = rest.terms;
    for (const Affine::Term& term : terms) {
      if (!takes(term.coefficient)) continue;
      d.first.add(term.atom, term.coefficient / d.stride);
      rest.add(term.atom, -term.coefficient);
    }
  }

  /// Moves the part of the address that no dimension covers, for example the offset of a batch. It
  /// becomes a new dimension if the number of dimensions and its stride allow that. Else it is
  /// added to the index of the innermost dimension. Invalid if that index is fixed.
  Status place_elsewhere(Affine& rest) {
    int64_t stride = 0;
    for (const Affine::Term& term : rest.terms) stride = std::gcd(stride, term.coefficient);
    const bool has_room = dimensions_.size() < most_tma_dimensions;
    Dimension& row = dimensions_.front();
    const bool divides = stride * size_bytes(from_->type) % engine_bytes == 0;
    if ((!has_room || !divides) && !row.is_fixed) {
      take(rest, row, [](int64_t) { return true; });
      return {};
    }
    if (!has_room) return wrong(fmt::format("'{}' has too many dimensions", from_->name));
    TW_RETURN_IF_ERROR(check_stride(stride, dsl::to_string(to_expr(rest))));
    Dimension batch{"", 1, stride, {}, true, false, {}};
    take(rest, batch, [](int64_t) { return true; });
    dimensions_.push_back(std::move(batch));
    return {};
  }

  Result<TmaCopy> result() const {
    TmaCopy copy{outermost_.body.get(), from_->name, to_->name, {}, {}, bytes_};
    for (const Dimension& d : dimensions_) {
      TmaDimension dimension{1, d.stride, d.box, to_expr(d.first), !d.last_room};
      TW_TRY(dimension.extent, extent(d));
      copy.dimensions.push_back(std::move(dimension));
    }
    dsl::Substitution first;
    for (const auto& [loop, box] : loops_) first[loop] = Expr(0);
    copy.to = dsl::substitute(copy_->indices, first);
    return copy;
  }

  Result<int64_t> extent(const Dimension& d) const {
    // A box that begins before 0 has zeros there. This is right only if the condition bounds the
    // index from below.
    const bool may_be_before = d.is_exact && !d.loop.empty();
    const auto low = bounds_.lower(d.first), high = bounds_.upper(d.first);
    if (!low || !high || (!may_be_before && *low < 0))
      return wrong(fmt::format("{} is not proved to be an index of '{}'",
                               dsl::to_string(to_expr(d.first)), from_->name));
    int64_t extent = *high + d.box;
    if (extent > std::numeric_limits<int32_t>::max())
      return wrong(fmt::format(
          "a box along '{}' may begin at {}: the engine's indices have 32 bits", d.loop, *high));
    if (d.last_room) {
      Affine sum = *d.last_room;
      sum.add(d.first);
      if (!sum.is_constant())
        return wrong(
            fmt::format("the bound of loop '{}' is not where '{}' ends", d.loop, from_->name));
      extent = sum.constant + 1;
    }
    if (extent < 1 || extent > most_extent)
      return wrong(fmt::format("'{}' has an extent of {} along '{}'", from_->name, extent, d.loop));
    return extent;
  }

  const Stmt stmt_;
  const Loop& outermost_;
  const Bounds& bounds_;
  const BuffersByName& buffers_;
  BoxLoops loops_;
  const AffineForms forms_;
  const Assign* copy_ = nullptr;
  const dsl::Read* read_ = nullptr;
  Expr condition_ = dsl::constant_int(Bool, 1);
  const Buffer *to_ = nullptr, *from_ = nullptr;
  Affine base_;  ///< address in the source without the loops' part
  std::vector<Dimension> dimensions_;
  int64_t bytes_ = 0;
};

// ---- all copies of a phase ------------------------------------------------------------------

class PhaseWalk {
 public:
  explicit PhaseWalk(const Program& program) : buffers_(global_buffers(program)) {}

  Result<std::vector<TmaCopy>> run(const Phase& phase) {
    push_axes(phase, bounds_);
    TW_RETURN_IF_ERROR(gather(*phase.body));
    for (TmaCopy& copy : copies_)
      for (const TmaCopy& other : copies_)
        if (is_described_by(copy, other))
          for (size_t d = 0; d < copy.dimensions.size(); ++d)
            copy.dimensions[d].extent =
                std::max(copy.dimensions[d].extent, other.dimensions[d].extent);
    return std::move(copies_);
  }

 private:
  /// True if the tensor map of `b` also describes `a`: strides and boxes are equal, and extents
  /// differ only along dimensions in which no box of `a` extends past the end.
  static bool is_described_by(const TmaCopy& a, const TmaCopy& b) {
    const auto same = [](const TmaDimension& x, const TmaDimension& y) {
      return x.stride == y.stride && x.box == y.box && (x.is_inside || x.extent == y.extent);
    };
    return a.source == b.source && std::equal(a.dimensions.begin(), a.dimensions.end(),
                                              b.dimensions.begin(), b.dimensions.end(), same);
  }

  Status gather(const Block& body) {
    for (const Stmt& stmt : body) {
      const auto mark = bounds_.mark();
      TW_RETURN_IF_ERROR(gather(stmt));
      bounds_.restore(mark);
    }
    return {};
  }

  Status gather(const Stmt& stmt) {
    return schedules::visit(
        stmt,
        [&](const Loop& loop) {
          return loop.kind == LoopKind::Bulk ? gather_box(loop, stmt) : gather_inside(loop);
        },
        [&](const If& branch) {
          bounds_.push_condition(branch.condition);
          return gather(*branch.body);
        },
        [&](const Allocate& allocate) {
          buffers_[allocate.buffer.name] = &allocate.buffer;
          return gather(*allocate.body);
        },
        always<Assign, Barrier, Commit, Wait, PrefetchLines>(Status{}));
  }

  Status gather_inside(const Loop& loop) {
    const bool outer = in_threads_;
    in_threads_ |= loop.kind == LoopKind::Thread;
    bounds_.push_loop(loop.variable, loop.begin, loop.end);
    const Status status = gather(*loop.body);
    in_threads_ = outer;
    return status;
  }

  Status gather_box(const Loop& loop, const Stmt& stmt) {
    if (in_threads_)
      return illegal_copy("one thread asks for a box, outside of thread loops", stmt);
    TW_TRY(TmaCopy copy, CopyFinder(loop, bounds_, buffers_).find());
    copies_.push_back(std::move(copy));
    return {};
  }

  Bounds bounds_;
  BuffersByName buffers_;
  bool in_threads_ = false;
  std::vector<TmaCopy> copies_;
};

}  // namespace

Result<std::vector<TmaCopy>> tma_copies(const Program& program, const Phase& phase) {
  if (!has_tma_copies(*phase.body)) return std::vector<TmaCopy>{};
  return PhaseWalk(program).run(phase);
}

bool has_tma_copies(const Block& body) {
  bool found = false;
  for_each(body, [&](const Stmt& stmt) { found |= as_bulk_loop(stmt) != nullptr; });
  return found;
}

// A pipeline ends with as many empty groups in flight as its copies run ahead, and the next
// pipeline begins with that many groups again. So the number is doubled.
int64_t tma_barriers(const Block& body) {
  if (!has_tma_copies(body)) return 0;
  int64_t ahead = 1, groups = 1;
  for_each(body, [&](const Stmt& stmt) {
    if (const Wait* wait = stmt.as<Wait>()) ahead = std::max(ahead, wait->pending + 1);
  });
  while (groups < 2 * ahead) groups *= 2;
  return groups;
}

Status check_tma_copies(const Program& program, const Phase& phase, const Limits& limits) {
  TW_TRY(const std::vector<TmaCopy> copies, tma_copies(program, phase));
  if (!copies.empty() && limits.gpu_architecture > 0 && limits.gpu_architecture < tma_architecture)
    return fail(ErrorCode::Invalid,
                fmt::format("[bulk] boxes are copied by sm_{} and newer, the target is sm_{}\n  "
                            "stage '{}'",
                            tma_architecture, limits.gpu_architecture, phase.name));
  return {};
}

}  // namespace tw::schedules
