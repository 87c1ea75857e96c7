// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/integer.h"
#include "base/random.h"
#include "dsl/parse.h"
#include "dsl/value.h"
#include "schedules/program/bounds.h"
#include "schedules/program/simplify.h"

namespace tw::schedules {
namespace {

using dsl::BinaryOp;
using Values = std::map<std::string, int64_t>;

Expr affine_expr(const std::string& text) { return dsl::parse_expr(text).value(); }
std::string normal(const std::string& text) {
  return dsl::to_string(to_expr(to_affine(affine_expr(text))));
}

/// Returns the value of an integer expression; arithmetic wraps. `point` has the values of
/// variables and of tensors, each of which has one element.
int64_t value_of(const Expr& expr, const Values& point) {
  const auto wrapped = [](uint64_t value) { return static_cast<int64_t>(value); };
  if (const auto literal = dsl::as_int(expr)) return *literal;
  if (const auto* v = expr.as<dsl::Var>()) return point.at(v->name);
  if (const auto* r = expr.as<dsl::Read>()) return point.at(r->tensor);
  if (const auto* c = expr.as<dsl::Cast>()) return wrap_to(c->type, value_of(c->a, point));
  if (const auto* s = expr.as<dsl::Select>())
    return value_of(value_of(s->condition, point) ? s->a : s->b, point);
  if (const auto* u = expr.as<dsl::Unary>()) {
    const int64_t a = value_of(u->a, point);
    const int64_t minus = wrapped(-static_cast<uint64_t>(a));
    return u->op == dsl::UnaryOp::Not ? !a : u->op == dsl::UnaryOp::Neg || a < 0 ? minus : a;
  }
  const auto* b = expr.as<dsl::Binary>();
  const int64_t x = value_of(b->a, point), y = value_of(b->b, point);
  const auto modular_x = static_cast<uint64_t>(x), modular_y = static_cast<uint64_t>(y);
  switch (b->op) {
    case BinaryOp::Add:
      return wrapped(modular_x + modular_y);
    case BinaryOp::Sub:
      return wrapped(modular_x - modular_y);
    case BinaryOp::Mul:
      return wrapped(modular_x * modular_y);
    case BinaryOp::Div:
      return floor_div(x, y);
    case BinaryOp::Mod:
      return floor_mod(x, y);
    case BinaryOp::Min:
      return std::min(x, y);
    case BinaryOp::Max:
      return std::max(x, y);
    case BinaryOp::Lt:
      return x < y;
    case BinaryOp::Le:
      return x <= y;
    case BinaryOp::Eq:
      return x == y;
    case BinaryOp::Ne:
      return x != y;
    case BinaryOp::And:
      return x && y;
    case BinaryOp::Or:
      return x || y;
    default:  // no bounds have powers, shifts or bits
      break;
  }
  return 0;
}

/// A nest of loops and conditions. points() lists the values of all loop variables for which the
/// conditions hold.
struct ScopeOfLoops {
  struct Level {
    std::string variable;  ///< a condition where it is empty
    Expr begin, end, condition;
  };
  std::vector<Level> levels;

  Bounds bounds() const {
    Bounds result;
    for (const Level& level : levels)
      if (level.variable.empty())
        result.push_condition(level.condition);
      else
        result.push_loop(level.variable, level.begin, level.end);
    return result;
  }
  std::vector<Values> points() const {
    std::vector<Values> result = {{}};
    for (const Level& level : levels) {
      std::vector<Values> next;
      for (const Values& point : result) {
        if (level.variable.empty()) {
          if (value_of(level.condition, point)) next.push_back(point);
          continue;
        }
        for (int64_t i = value_of(level.begin, point); i < value_of(level.end, point); ++i) {
          next.push_back(point);
          next.back()[level.variable] = i;
        }
      }
      result = std::move(next);
    }
    return result;
  }
  std::string text() const {
    std::string out;
    for (const Level& l : levels)
      out += l.variable.empty() ? "if " + dsl::to_string(l.condition) + "\n"
                                : "for " + l.variable + " in " + dsl::to_string(l.begin) + ".." +
                                      dsl::to_string(l.end) + "\n";
    return out;
  }
};

class Maker {
 public:
  explicit Maker(Random& random) : random_(random) {}

  ScopeOfLoops scope() {
    ScopeOfLoops scope;
    const int64_t count = 1 + random_.below(3);
    for (int64_t i = 0; i < count; ++i) {
      const std::string variable(1, static_cast<char>('x' + i));
      Expr begin(random_.below(4) - 1), end = Expr(2 + random_.below(6));
      if (!variables_.empty() && random_.chance(0.4)) begin = dsl::max(begin, affine());
      if (!variables_.empty() && random_.chance(0.4)) end = dsl::min(end, index(1));
      scope.levels.push_back({variable, begin, end, {}});
      variables_.push_back(variable);
      if (random_.chance(0.4)) scope.levels.push_back({"", {}, {}, condition(1)});
    }
    return scope;
  }

  Expr condition(int depth) {
    const Expr a = index(depth),
               b = random_.chance(0.5) ? Expr(random_.below(9) - 2) : index(depth);
    switch (random_.below(6)) {
      case 0:
        return a < b;
      case 1:
        return dsl::eq(a, b);
      case 2:
        return dsl::ne(a, b);
      case 3:
        return a <= b && affine() < Expr(random_.below(9));
      default:
        return a <= b;
    }
  }

  Expr index(int depth) {
    if (depth == 0 || random_.chance(0.2)) return affine();
    const Expr a = index(depth - 1);
    switch (random_.below(7)) {
      case 0:
        return a / Expr(1 + random_.below(8));
      case 1:
        return a % Expr(1 + random_.below(8));
      case 2:
        return dsl::min(a, index(depth - 1));
      case 3:
        return dsl::max(a, index(depth - 1));
      case 4:
        return dsl::select(condition(depth - 1), a, index(depth - 1));
      case 5:
        return a * Expr(random_.below(7) - 3);
      default:
        return random_.chance(0.5) ? a + index(depth - 1) : a - index(depth - 1);
    }
  }

 private:
  Expr affine() {
    Expr sum(random_.below(9) - 3);
    for (const std::string& v : variables_)
      if (random_.chance(0.6)) sum = sum + dsl::var(v) * Expr(random_.below(7) - 2);
    return sum;
  }

  Random& random_;
  std::vector<std::string> variables_;
};

TEST(Affine, NormalFormMergesTerms) {
  EXPECT_EQ(normal("x + 2 * (y - x) + 3 - y"), "y - x + 3");
  EXPECT_EQ(normal("x - x"), "0");
  EXPECT_EQ(normal("(x / 2) * 4 - x / 2"), "x / 2 * 3");
}

TEST(Affine, PrintsPositiveTermsFirstElseTheConstant) {
  EXPECT_EQ(normal("0 - y + x"), "x - y");
  EXPECT_EQ(normal("1 - y"), "1 - y");
  EXPECT_EQ(normal("0 - y + 1 - 2 * x"), "1 - y - x * 2");
  EXPECT_EQ(normal("0 - y"), "0 - y");
}

TEST(Affine, ConditionsSplitAndPrintBack) {
  const Constraints c = split_condition(affine_expr("x < 4 && 0 <= x - y && x != 3"));
  ASSERT_EQ(c.affine.size(), 2u);
  EXPECT_EQ(dsl::to_string(to_condition(c.affine[0])), "x <= 3");
  EXPECT_EQ(dsl::to_string(to_condition(c.affine[1])), "y <= x");
  ASSERT_EQ(c.opaque.size(), 1u);
  EXPECT_EQ(dsl::to_string(c.opaque[0]), "x != 3");
}

struct Proof {
  std::vector<std::string> scope;  ///< "x 0 8" or a condition
  std::string condition;
};

// Proofs that lowering depends on. Each of them is a regression test.
TEST(Affine, ProvesWhatLoopsOfSchedulesNeed) {
  const std::vector<Proof> proofs = {
      {{"x;0;8", "y;max(0, 1 - x);min(3, 9 - x)"}, "0 <= x + y - 1 && x + y - 1 < 8"},
      {{"x.0;0;4", "x.1;0;min(4, 14 - x.0 * 4)"}, "x.0 * 4 + x.1 < 14"},
      // A fused loop f with the guard of a split inside of it.
      {{"a;0;3", "f;0;6", "a * 2 + f / 3 < 5"}, "a * 6 + f < 15"},
      // A strided window in a blocked layout.
      {{"y;0;3", "r;0;3", "0 <= y * 2 + r - 1"}, "0 <= y + (r - 1) / 2"},
      {{"x;0;9", "s;0;2", "0 <= s * 2 + x - 2"}, "0 <= s + (x - 2) / 2"},
      {{"y;0;3", "r;0;3", "0 <= y * 2 + r * 2 - 2"}, "0 <= y + r - 1"},
      // The difference of two clamped reads.
      {{"a;0;3", "b;0;2", "t;0;2"},
       "min(min(a * 4, 7) + b * 2 + t + 2, 10) - min(min(a * 4, 7) + b * 2 + 2, 10) < 2"},
      {{"i;0;9", "0 <= min(i + 1, 3) - 3"}, "0 <= min(i + 1, 3) - 3"},
      {{"i;0;9", "b;0;2", "i * 3 + min(b * 2, 1) < 19"}, "i * 3 + min(b * 2, 1) < 19"},
      // The bound of x is fractional (x < 56/48), so that integers are at most 1.
      {{"x;0;2", "v;0;48", "x * 48 + v < 56"}, "x * 48 + v < 56"},
      {{"x;0;9", "48 * x < 56"}, "x <= 1"},
      // In the region that a blocked loop reads, the index (m + i + 1) / 3 is smallest for m = 0.
      {{"m;0;3", "i;0;4"}, "0 <= (m + i + 1) / 3 - (i + 1) / 3"},
  };
  for (const Proof& proof : proofs) {
    Bounds bounds;
    for (const std::string& level : proof.scope) {
      const size_t a = level.find(';'), b = level.find(';', a + 1);
      if (a == std::string::npos) {
        bounds.push_condition(affine_expr(level));
      } else {
        bounds.push_loop(level.substr(0, a), affine_expr(level.substr(a + 1, b - a - 1)),
                         affine_expr(level.substr(b + 1)));
      }
    }
    EXPECT_TRUE(bounds.proves(affine_expr(proof.condition))) << proof.condition;
  }
}

TEST(Affine, SimplifiesDivisionsOfFusedAndBlockedLoops) {
  Bounds bounds;
  bounds.push_loop("k.0", Expr(0), Expr(4));
  bounds.push_loop("k.1", Expr(0), Expr(16));
  bounds.push_loop("f", Expr(0), Expr(12));
  const auto simple = [&](const char* text) {
    return dsl::to_string(simplify(affine_expr(text), bounds));
  };
  EXPECT_EQ(simple("(k.0 * 16 + k.1) / 16"), "k.0");
  EXPECT_EQ(simple("(k.0 * 16 + k.1) % 16"), "k.1");
  EXPECT_EQ(simple("(k.0 * 16 + k.1) / 4"), "k.0 * 4 + k.1 / 4");
  EXPECT_EQ(simple("f / 3 * 3 + f % 3"), "f");
  EXPECT_EQ(simple("f / 12"), "0");
  EXPECT_EQ(simple("min(f, 11)"), "f");
  EXPECT_EQ(simple("f < 12 && k.0 < 2"), "k.0 < 2");
}

TEST(Affine, DivisionsByMultiplesOfABlockAreThoseOfTheBlock) {
  Bounds bounds;
  bounds.push_loop("x", Expr(0), Expr(4));
  bounds.push_loop("y", Expr(0), Expr(4));
  bounds.push_loop("z", Expr(0), Expr(16));
  const auto reduced = [&](const char* text) {
    return dsl::to_string(to_expr(reduce_divisions(to_affine(affine_expr(text)), bounds)));
  };
  EXPECT_EQ(reduced("(x * 16 + z) / 48"), "x / 3");
  EXPECT_EQ(reduced("(x * 16 + z) % 48 * 2 + y"), "z * 2 + x % 3 * 32 + y");
  EXPECT_EQ(reduced("(x * 64 + y * 16 + z + 32) / 96"), "(x * 4 + y + 2) / 6");
  EXPECT_EQ(reduced("(x * 16 + z + 1) / 48"), "(x * 16 + z + 1) / 48");
  EXPECT_EQ(reduced("(x * 8 + z) / 48"), "(x * 8 + z) / 48");
  EXPECT_EQ(reduced("x * 16 / 48"), "x * 16 / 48");
  EXPECT_EQ(reduced("x * 16 / z"), "x * 16 / z");
}

TEST(Affine, ReflectedIndicesAreProvedInside) {
  Bounds bounds;
  bounds.push_loop("x", Expr(0), Expr(13));
  // A tensor of 10 elements is padded by reflection, with 1 element before it and 2 behind.
  const Expr low = affine_expr("max(x - 1, 1 - x)"), reflected = dsl::min(low, Expr(18) - low);
  EXPECT_TRUE(bounds.proves_inside(reflected, 10));
  EXPECT_FALSE(bounds.proves_inside(reflected, 9));
  EXPECT_EQ(bounds.lower(low), 0);
  EXPECT_EQ(bounds.upper(low), 11);
  EXPECT_EQ(bounds.upper(reflected), 9);
  // 2 min(x, 7 - x) <= 7
  EXPECT_EQ(bounds.upper(affine_expr("min(x, 7 - x)")), 3);
  EXPECT_EQ(bounds.lower(affine_expr("max(x, 7 - x)")), 4);
}

TEST(Affine, UnclampFindsWhatIsInsideAndWhen) {
  const auto text = [](const Unclamped& u) {
    std::string found = dsl::to_string(u.index);
    for (const Affine& a : u.at_least_zero) found += " | " + dsl::to_string(to_expr(a));
    return found;
  };
  EXPECT_EQ(text(unclamp(affine_expr("max(min(x - 1, 43), 0)"))), "x - 1 | x - 1 | 44 - x");
  EXPECT_EQ(text(unclamp(affine_expr("min(9, x)"))), "x | 9 - x");
  EXPECT_EQ(text(unclamp(affine_expr("min(x, y)"))), "min(x, y)");
  EXPECT_EQ(text(unclamp(affine_expr("max(x - 1, 1 - x)"))), "x - 1 | x * 2 - 2");
  EXPECT_EQ(text(unclamp(affine_expr("min(max(x, 0 - x), 18 - max(x, 0 - x))"))),
            "x | 18 - x * 2 | x * 2");
  EXPECT_EQ(text(unclamp(affine_expr("x + 1"))), "x + 1");
}

TEST(Affine, NarrowIntegersAreNotAffine) {
  const Expr a = dsl::read("a", {Expr(0)}, UInt8), b = dsl::read("b", {Expr(0)}, UInt8);
  const Expr wraps = a - b <= dsl::constant_int(UInt8, 3);
  const Expr negative = dsl::cast(Int8, a) < dsl::constant_int(Int8, 0);
  for (const Expr& condition : {wraps, negative}) {
    EXPECT_TRUE(split_condition(condition).affine.empty());
    EXPECT_EQ(split_condition(condition).opaque.size(), 1u);
    EXPECT_FALSE(Bounds().proves(condition));
    EXPECT_FALSE(Bounds().refutes(condition));
  }
}

TEST(Affine, ComparisonsOfElementsOfI64AreNotAffine) {
  const Expr x = dsl::read("x", {dsl::var("k")}, Int64), y = dsl::read("y", {Expr(0)}, Int64);
  const Expr n = dsl::cast(Int64, dsl::read("n", {Expr(0)}, Int32)), k = dsl::var("k");
  const Expr f = dsl::cast(Int64, dsl::read("f", {Expr(0)}, Float64));
  for (const Expr& condition : {x < y, dsl::eq(x, y), x + 5 < Expr(8), x < Expr(0), x <= n, f < y,
                                x + 1 <= x + 3, x < Expr(INT64_MIN)}) {
    EXPECT_TRUE(split_condition(condition).affine.empty()) << dsl::to_string(condition);
    EXPECT_EQ(split_condition(condition).opaque.size(), 1u);
  }
  for (const Expr& condition : {x < k, k * 2 <= x - 1, n < n * 2 + k, n < Expr(3), k < f})
    EXPECT_EQ(split_condition(condition).affine.size(), 1u) << dsl::to_string(condition);
}

/// True if the bounds prove that the index is in [0, 100) where the condition holds.
bool implies_inside(const Expr& index, const Expr& condition) {
  Bounds bounds;
  bounds.push_condition(condition);
  return bounds.proves_inside(index, 100);
}

TEST(Affine, SumsOfElementsOfI64MayWrap) {
  const Expr x = dsl::read("x", {Expr(0)}, Int64), zero(0), end(100);
  const Expr n = dsl::cast(Int64, dsl::read("n", {Expr(0)}, Int32));
  const auto inside = [&](const Expr& e) { return zero <= e && e < end; };
  for (const Expr& index : {x, x + 3, x * 4, -x, x - 1, n * 4 - 1})
    EXPECT_TRUE(implies_inside(index, inside(index))) << dsl::to_string(index);
  // For x = 2^62 + 5 the product x * 4 wraps to 20.
  EXPECT_FALSE(implies_inside(x, inside(x * 4)));
  EXPECT_TRUE(implies_inside(n, inside(n * 4)));
  // A sum of several elements, multiplied by a coefficient beyond 2^62.
  const Expr sum = x + dsl::read("y", {Expr(0)}, Int64) + dsl::read("z", {Expr(0)}, Int64);
  EXPECT_FALSE(implies_inside(sum, inside(sum * Expr(INT64_MAX))));
  // For x = 2^63 - 1 the sum x + 1 wraps to -2^63.
  EXPECT_FALSE(implies_inside(x, zero <= x && x + 1 < end));
  EXPECT_FALSE(implies_inside(x, zero <= x && (x + 1) / 2 < Expr(10)));
  EXPECT_FALSE(implies_inside(x, zero <= x && dsl::max(x + 1, zero) < end));
  EXPECT_FALSE(implies_inside(x, zero <= x && dsl::select(x < zero, zero, x + 1) < end));
  EXPECT_TRUE(implies_inside(n, zero <= n && n + 1 < end));
  // Other conditions on x show that the sum does not wrap.
  EXPECT_TRUE(implies_inside(x + 1, inside(x) && x + 1 < end));
  EXPECT_TRUE(implies_inside(x * 2, inside(x) && x * 2 < end));
  EXPECT_TRUE(implies_inside(x + 1, inside(x + 1) && inside(x)));
  // x + 1 can only wrap from the largest i64 to a negative value, for which 0 <= x + 1 does not
  // hold.
  EXPECT_TRUE(implies_inside(x + 1, zero <= x + 1 && x <= Expr(98)));
  Bounds bounds;
  bounds.push_condition(zero <= x);
  bounds.push_loop("v", x * 4, Expr(8));
  EXPECT_FALSE(bounds.proves_inside(x, 8));
  Bounds trimmed;
  trimmed.push_loop("v", dsl::max(Expr(0), x), dsl::min(Expr(64), x + 1));
  EXPECT_TRUE(trimmed.proves_inside(x, 64));
}

TEST(Affine, ClampedElementsOfI64DoNotWrap) {
  const Expr x = dsl::read("x", {Expr(0)}, Int64), all = dsl::constant_int(Bool, 1);
  const Expr clamped = dsl::min(dsl::max(x, Expr(0)), Expr(97)), i = dsl::var("i");
  EXPECT_TRUE(implies_inside(dsl::min(clamped + 4, Expr(99)), all));
  EXPECT_TRUE(implies_inside((clamped + 1) / 2, all));
  EXPECT_TRUE(implies_inside(clamped + 2, all));
  EXPECT_TRUE(implies_inside(i * i + 1, Expr(0) <= i * i + 1 && i * i + 1 < Expr(100)));
}

TEST(Affine, DivisionsOfSumsThatWrapStay) {
  const Expr x = dsl::read("x", {Expr(0)}, Int64);
  const Expr hash = (x + 31) * Expr(6364136223846793005) + Expr(1442695040888963407);
  const Expr scaled = x * Expr(int64_t{1} << 58) * 8;
  for (const Expr& index : {hash % 1000, hash / 5, scaled / 8, scaled * 6 % 3})
    for (const int64_t value : {int64_t{10}, int64_t{-7}, INT64_MAX})
      EXPECT_EQ(value_of(simplify(index, Bounds()), {{"x", value}}),
                value_of(index, {{"x", value}}))
          << dsl::to_string(index);
}

TEST(Affine, ProofsDoNotOverflow) {
  Bounds bounds;
  bounds.push_loop("i", Expr(0), Expr(8));
  const Expr i = dsl::var("i"), large = i * Expr(int64_t{1} << 61);
  EXPECT_FALSE(bounds.lower(large));  // negative for i = 4
  EXPECT_FALSE(bounds.upper(large));
  EXPECT_FALSE(bounds.proves_inside(large, 4));
  EXPECT_FALSE(bounds.proves_inside((i * Expr(int64_t{1} << 62) + i) * 4, 40));
  EXPECT_FALSE(bounds.proves(i + Expr(INT64_MAX) < Expr(0)));
  EXPECT_FALSE(bounds.refutes(Expr(INT64_MIN) <= i));
  EXPECT_TRUE(bounds.proves_inside(i * Expr(int64_t{1} << 59), int64_t{1} << 62));
  bounds.push_condition(large + large + large + large <= Expr(0));  // 2^63 i has no coefficient
  EXPECT_EQ(bounds.upper(i), 7);
}

TEST(Affine, RestoreForgetsAScope) {
  Bounds bounds;
  bounds.push_loop("x", Expr(0), Expr(8));
  const auto mark = bounds.mark();
  bounds.push_condition(affine_expr("x < 3"));
  EXPECT_TRUE(bounds.proves(affine_expr("x <= 2")));
  bounds.restore(mark);
  EXPECT_FALSE(bounds.proves(affine_expr("x <= 2")));
}

// All bounds, proofs and simplifications hold at every point. More than 60 % of the bounds are as
// tight as possible, and more than 60 % of the conditions that always hold are proved.
TEST(Affine, BoundsAndSimplificationAgreeWithEveryPoint) {
  Random random(11);
  int64_t judged = 0, exact = 0, held = 0, proved = 0;
  for (int round = 0; round < 4000; ++round) {
    Maker maker(random);
    const ScopeOfLoops scope = maker.scope();
    const std::vector<Values> points = scope.points();
    const Bounds bounds = scope.bounds();
    const Expr index = maker.index(2), condition = maker.condition(1);
    SCOPED_TRACE(scope.text() + dsl::to_string(index) + "\n" + dsl::to_string(condition));
    const Expr simple = simplify(index, bounds), decided = simplify(condition, bounds);
    const Expr reduced = to_expr(reduce_divisions(to_affine(simple), bounds));
    const bool proves = bounds.proves(condition), refutes = bounds.refutes(condition);
    const auto low = bounds.lower(index), high = bounds.upper(index);
    int64_t least = INT64_MAX, most = INT64_MIN, holds = 0;
    for (const Values& point : points) {
      const int64_t v = value_of(index, point), c = value_of(condition, point);
      least = std::min(least, v), most = std::max(most, v), holds += c;
      ASSERT_EQ(value_of(simple, point), v) << dsl::to_string(simple);
      ASSERT_EQ(value_of(reduced, point), v) << dsl::to_string(reduced);
      ASSERT_EQ(value_of(decided, point), c) << dsl::to_string(decided);
      ASSERT_TRUE(!proves || c);
      ASSERT_TRUE(!refutes || !c);
    }
    if (points.empty()) continue;
    ASSERT_TRUE(!low || *low <= least) << *low << " " << least;
    ASSERT_TRUE(!high || *high >= most) << *high << " " << most;
    ++judged;
    exact += low == least && high == most;
    if (holds == static_cast<int64_t>(points.size())) ++held, proved += proves;
  }
  EXPECT_GT(judged, 2000);
  EXPECT_GT(exact * 10, judged * 6) << exact << " of " << judged;
  EXPECT_GT(proved * 10, held * 6) << proved << " of " << held;
}

/// Makes random indices and conditions of tensor elements; their sums and products wrap.
class DataMaker {
 public:
  explicit DataMaker(Random& random) : random_(random) {}

  Expr index(int depth) {
    if (depth == 0) return element();
    const Expr a = index(depth - 1);
    switch (random_.below(9)) {
      case 0:
      case 1:
        return a + literal();
      case 2:
        return a - index(0);
      case 3:
        return a * literal();
      case 4:
        return a / divisor();
      case 5:
        return a % divisor();
      case 6:
        return dsl::min(a, random_.chance(0.5) ? literal() : index(0));
      case 7:
        return dsl::max(a, random_.chance(0.5) ? literal() : index(0));
      default:
        return dsl::select(condition(0), a, literal());
    }
  }
  Expr condition(int depth) {
    const Expr a = index(depth);
    mentioned_.push_back(a);
    switch (random_.below(5)) {
      case 0:
        return Expr(0) <= a;
      case 1:
        return a < Expr(100);
      case 2:
        return dsl::eq(a, Expr(random_.below(100)));
      case 3:
        return a <= index(0);
      default:
        return Expr(0) <= a && a < Expr(100);
    }
  }
  /// Returns an expression that one of the conditions has.
  Expr mentioned() { return mentioned_[random_.below(static_cast<int64_t>(mentioned_.size()))]; }

 private:
  Expr element() {
    const Expr n = dsl::read("n", {Expr(0)}, Int8);
    switch (random_.below(4)) {
      case 0:
        return dsl::cast(Int64, dsl::cast(UInt16, n));
      case 1:
        return dsl::cast(Int64, n);
      case 2:
        return dsl::read("y", {Expr(0)}, Int64);
      default:
        return dsl::read("x", {Expr(0)}, Int64);
    }
  }
  Expr literal() {
    const int64_t literals[] = {1,
                                2,
                                3,
                                8,
                                99,
                                -1,
                                int64_t{1} << 58,
                                int64_t{1} << 61,
                                int64_t{1} << 62,
                                6364136223846793005,
                                INT64_MIN + 1,
                                INT64_MAX};
    return Expr(literals[random_.below(std::size(literals))]);
  }
  Expr divisor() {
    const int64_t divisors[] = {2, 3, 8, 10, int64_t{1} << 61};
    return Expr(divisors[random_.below(std::size(divisors))]);
  }

  Random& random_;
  std::vector<Expr> mentioned_;
};

TEST(Affine, ClaimsAboutElementsHoldWhereSumsWrap) {
  Random random(13);
  std::vector<Values> elements;
  for (const int64_t x :
       {INT64_MIN, INT64_MIN + 1, int64_t{-5}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{3},
        int64_t{10}, int64_t{98}, int64_t{99}, int64_t{100}, int64_t{1} << 61,
        (int64_t{1} << 62) + 5, INT64_MAX - 1, INT64_MAX})
    for (const int64_t n : {-128, -1, 0, 1, 7, 127})
      for (const int64_t y : {INT64_MIN, int64_t{2}, INT64_MAX})
        elements.push_back({{"x", x}, {"y", y}, {"n", n}});
  int64_t proofs = 0;
  for (int round = 0; round < 8000; ++round) {
    DataMaker maker(random);
    Expr condition = maker.condition(2);
    for (int64_t more = random.below(3); more > 0; --more)
      condition = condition && maker.condition(static_cast<int>(random.below(2)));
    const Expr index = random.chance(0.7) ? maker.mentioned() : maker.index(2);
    SCOPED_TRACE(dsl::to_string(condition) + "\n" + dsl::to_string(index));
    Bounds bounds;
    bounds.push_condition(condition);
    const bool inside = bounds.proves_inside(index, 100);
    const auto low = bounds.lower(index), high = bounds.upper(index);
    const Expr simple = simplify(index, bounds);
    for (const Values& point : elements) {
      if (!value_of(condition, point)) continue;
      const int64_t v = value_of(index, point);
      ASSERT_TRUE(!inside || (v >= 0 && v < 100)) << v << " for x = " << point.at("x");
      ASSERT_TRUE((!low || *low <= v) && (!high || v <= *high)) << v << " for " << point.at("x");
      ASSERT_EQ(value_of(simple, point), v) << dsl::to_string(simple) << " for " << point.at("x");
    }
    proofs += inside;
  }
  EXPECT_GT(proofs, 1600);
}

TEST(Affine, RoundTripsThroughConditions) {
  Random random(12);
  for (int round = 0; round < 500; ++round) {
    Maker maker(random);
    const ScopeOfLoops scope = maker.scope();
    const Expr condition = maker.condition(1);
    const Constraints split = split_condition(condition);
    for (const Values& point : scope.points()) {
      bool all = true;
      for (const Affine& a : split.affine) all &= value_of(to_condition(a), point) != 0;
      for (const Expr& e : split.opaque) all &= value_of(e, point) != 0;
      ASSERT_EQ(all, value_of(condition, point) != 0) << dsl::to_string(condition);
    }
  }
}

}  // namespace
}  // namespace tw::schedules
