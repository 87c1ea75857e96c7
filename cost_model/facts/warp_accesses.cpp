// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/warp_accesses.h"

#include <algorithm>
#include <cstdlib>

#include "base/integer.h"
#include "base/random.h"

namespace tw::cost_model::facts {
namespace {

using dsl::BinaryOp;
using dsl::Expr;
using schedules::LoopKind;

// Number of sampled iterations. Warps mainly differ in the place where they begin (row, border),
// and four samples show these differences.
constexpr int sampled_warps = 4;

template <typename F>
LaneValues each(const LaneValues& a, const LaneValues& b, const F& f) {
  LaneValues result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = f(a[i], b[i]);
  return result;
}

LaneValues filled(int64_t value) {
  LaneValues lanes;
  lanes.fill(value);
  return lanes;
}

std::optional<LaneValues> apply(BinaryOp op, const LaneValues& a, const LaneValues& b) {
  const bool divides = op == BinaryOp::Div || op == BinaryOp::Mod;
  if (divides && *std::min_element(b.begin(), b.end()) <= 0) return std::nullopt;
  switch (op) {
    case BinaryOp::Add:
      return each(a, b, [](int64_t x, int64_t y) { return x + y; });
    case BinaryOp::Sub:
      return each(a, b, [](int64_t x, int64_t y) { return x - y; });
    case BinaryOp::Mul:
      return each(a, b, [](int64_t x, int64_t y) { return x * y; });
    case BinaryOp::Div:
      return each(a, b, [](int64_t x, int64_t y) { return floor_div(x, y); });
    case BinaryOp::Mod:
      return each(a, b, [](int64_t x, int64_t y) { return floor_mod(x, y); });
    case BinaryOp::Min:
      return each(a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
    case BinaryOp::Max:
      return each(a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
    case BinaryOp::Lt:
      return each(a, b, [](int64_t x, int64_t y) { return x < y; });
    case BinaryOp::Le:
      return each(a, b, [](int64_t x, int64_t y) { return x <= y; });
    case BinaryOp::Eq:
      return each(a, b, [](int64_t x, int64_t y) { return x == y; });
    case BinaryOp::Ne:
      return each(a, b, [](int64_t x, int64_t y) { return x != y; });
    case BinaryOp::And:
      return each(a, b, [](int64_t x, int64_t y) { return x != 0 && y != 0; });
    case BinaryOp::Or:
      return each(a, b, [](int64_t x, int64_t y) { return x != 0 || y != 0; });
    case BinaryOp::Shl:
    case BinaryOp::Shr:
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
      return each(a, b, [op](int64_t x, int64_t y) { return dsl::apply_bitwise(op, Int64, x, y); });
    case BinaryOp::Pow:
      break;
  }
  return std::nullopt;
}

std::optional<LaneValues> apply(dsl::UnaryOp op, const LaneValues& a) {
  switch (op) {
    case dsl::UnaryOp::Neg:
      return each(a, a, [](int64_t x, int64_t) { return -x; });
    case dsl::UnaryOp::Not:
      return each(a, a, [](int64_t x, int64_t) { return x == 0; });
    case dsl::UnaryOp::Abs:
      return each(a, a, [](int64_t x, int64_t) { return std::abs(x); });
    default:
      return std::nullopt;
  }
}

/// Sets the values of thread levels in the lanes of one warp: the first warp, or a random one.
/// Consecutive threads of a warp differ first in the innermost thread level.
void set_threads(const std::vector<Level>& levels, Random* random, WarpPoint& point) {
  int64_t threads = 1;
  bool any = false;
  for (const Level& level : levels) {
    if (level.kind != LoopKind::Thread) continue;
    threads *= static_cast<int64_t>(level.most_trips);
    any = true;
  }
  const int64_t warps = std::max<int64_t>(1, (threads + warp_threads - 1) / warp_threads);
  const int64_t first = random ? random->below(warps) * warp_threads : 0;
  for (int lane = 0; lane < warp_threads; ++lane) {
    int64_t number = first + lane;
    point.active[static_cast<size_t>(lane)] = any ? number < threads : lane == 0;
    for (size_t i = levels.size(); i > 0; --i) {
      if (levels[i - 1].kind != LoopKind::Thread) continue;
      const auto extent = std::max<int64_t>(1, static_cast<int64_t>(levels[i - 1].most_trips));
      point.values[i - 1][static_cast<size_t>(lane)] = number % extent;
      number /= extent;
    }
  }
}

WarpPoint make_point(const std::vector<Level>& levels, Random* random) {
  WarpPoint point;
  point.values.assign(levels.size(), filled(0));
  set_threads(levels, random, point);
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].kind == LoopKind::Thread) continue;
    // If bounds differ between lanes, those of the first lane are used.
    const auto begin = evaluate(levels[i].begin, levels, point);
    const auto end = evaluate(levels[i].end, levels, point);
    const int64_t low = begin ? (*begin)[0] : 0, high = end ? (*end)[0] : 0;
    const bool moves = random && high > low && levels[i].kind != LoopKind::Vector;
    point.values[i] = filled(low + (moves ? random->below(high - low) : 0));
  }
  return point;
}

int distinct(std::vector<int64_t>& values) {
  std::sort(values.begin(), values.end());
  return static_cast<int>(std::unique(values.begin(), values.end()) - values.begin());
}

}  // namespace

int WarpPoint::count() const {
  return static_cast<int>(std::count(active.begin(), active.end(), true));
}

std::vector<WarpPoint> sample_warps(const std::vector<Level>& levels) {
  std::vector<WarpPoint> points = {make_point(levels, nullptr)};
  Random random(0);
  while (points.size() < sampled_warps) points.push_back(make_point(levels, &random));
  return points;
}

std::optional<LaneValues> evaluate(const Expr& expr, const std::vector<Level>& levels,
                                   const WarpPoint& point) {
  using Found = std::optional<LaneValues>;
  const auto value = [&](const Expr& e) { return evaluate(e, levels, point); };
  return dsl::visit(
      expr,
      [&](const dsl::Const&) {
        const auto literal = dsl::as_int(expr);
        return literal ? Found(filled(*literal)) : Found();
      },
      [&](const dsl::Var& v) {
        for (size_t i = levels.size(); i > 0; --i)
          if (levels[i - 1].variable == v.name) return Found(point.values[i - 1]);
        return Found();
      },
      [&](const dsl::Unary& u) {
        const Found a = value(u.a);
        return a ? apply(u.op, *a) : Found();
      },
      [&](const dsl::Select& s) {
        const Found condition = value(s.condition), a = value(s.a), b = value(s.b);
        if (!condition || !a || !b) return Found();
        LaneValues result;
        for (size_t i = 0; i < result.size(); ++i) result[i] = (*condition)[i] ? (*a)[i] : (*b)[i];
        return Found(result);
      },
      [&](const dsl::Binary& b) {
        const Found x = value(b.a), y = x ? value(b.b) : Found();
        return y ? apply(b.op, *x, *y) : Found();
      },
      [](const dsl::Read&) { return Found(); }, [](const dsl::Cast&) { return Found(); });
}

int sectors(const LaneValues& addresses, int64_t bytes, const WarpPoint& point) {
  const auto size = static_cast<int64_t>(sector_bytes);
  std::vector<int64_t> touched;
  for (size_t lane = 0; lane < addresses.size(); ++lane) {
    if (!point.active[lane]) continue;
    const int64_t last = floor_div(addresses[lane] + bytes - 1, size);
    for (int64_t s = floor_div(addresses[lane], size); s <= last; ++s) touched.push_back(s);
  }
  return distinct(touched);
}

int different_addresses(const LaneValues& addresses, const WarpPoint& point) {
  std::vector<int64_t> active;
  for (size_t lane = 0; lane < addresses.size(); ++lane)
    if (point.active[lane]) active.push_back(addresses[lane]);
  return distinct(active);
}

int bank_cycles(const LaneValues& addresses, int64_t bytes, const WarpPoint& point) {
  std::array<std::vector<int64_t>, shared_banks> words;
  for (size_t lane = 0; lane < addresses.size(); ++lane) {
    if (!point.active[lane]) continue;
    const int64_t last = floor_div(addresses[lane] + bytes - 1, int64_t{4});
    for (int64_t word = floor_div(addresses[lane], int64_t{4}); word <= last; ++word)
      words[static_cast<size_t>(floor_mod(word, int64_t{shared_banks}))].push_back(word);
  }
  int most = 0;
  for (std::vector<int64_t>& bank : words) most = std::max(most, distinct(bank));
  return most;
}

}  // namespace tw::cost_model::facts
