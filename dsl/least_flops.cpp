// SPDX-License-Identifier: Apache-2.0
#include "dsl/least_flops.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/integer.h"
#include "dsl/selection.h"
#include "dsl/workload.h"

namespace tw::dsl {
namespace {

// The most nodes of conditions that are evaluated for one definition; a node takes about 40 ns. A 3
// x 3 convolution of 224 x 224 elements needs 10,000 nodes, and a transposed convolution of that
// size 100,000.
constexpr int64_t most_evaluated = 2'000'000;

/// The values from `low` to `high`, including both.
struct Interval {
  int64_t low, high;
  bool is_point() const { return low == high; }
};
using Box = std::map<std::string, Interval>;

std::optional<Interval> hull(std::initializer_list<std::optional<int64_t>> values) {
  Interval all{INT64_MAX, INT64_MIN};
  for (const auto& value : values) {
    if (!value) return std::nullopt;
    all = {std::min(all.low, *value), std::max(all.high, *value)};
  }
  return all;
}

std::optional<Interval> difference(Interval a, Interval b) {
  Interval result{};
  if (__builtin_sub_overflow(a.low, b.high, &result.low) ||
      __builtin_sub_overflow(a.high, b.low, &result.high))
    return std::nullopt;
  return result;
}

Interval truth(bool is_true, bool is_false) { return {is_true ? 1 : 0, is_false ? 0 : 1}; }

std::optional<Interval> quotient(Interval a, int64_t divisor) {
  return Interval{floor_div(a.low, divisor), floor_div(a.high, divisor)};
}

std::optional<Interval> remainder(Interval a, int64_t divisor) {
  if (floor_div(a.low, divisor) != floor_div(a.high, divisor)) return Interval{0, divisor - 1};
  return Interval{floor_mod(a.low, divisor), floor_mod(a.high, divisor)};
}

/// Returns an interval that contains all results of an operation on i64 or bool, if its operands
/// lie in `a` and `b`. Returns nullopt if the results are not known or may overflow.
std::optional<Interval> values_of(BinaryOp op, Interval a, Interval b) {
  switch (op) {
    case BinaryOp::Add:
      return hull({checked_add(a.low, b.low), checked_add(a.high, b.high)});
    case BinaryOp::Sub:
      return difference(a, b);
    case BinaryOp::Mul:
      return hull({checked_mul(a.low, b.low), checked_mul(a.low, b.high),
                   checked_mul(a.high, b.low), checked_mul(a.high, b.high)});
    case BinaryOp::Div:
      return b.is_point() && b.low > 0 ? quotient(a, b.low) : std::nullopt;
    case BinaryOp::Mod:
      return b.is_point() && b.low > 0 ? remainder(a, b.low) : std::nullopt;
    case BinaryOp::Min:
      return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
    case BinaryOp::Max:
      return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
    case BinaryOp::Lt:
      return truth(a.high < b.low, a.low >= b.high);
    case BinaryOp::Le:
      return truth(a.high <= b.low, a.low > b.high);
    case BinaryOp::Eq:
    case BinaryOp::Ne: {
      const bool same = a.is_point() && b.is_point() && a.low == b.low;
      const bool apart = a.high < b.low || b.high < a.low;
      return op == BinaryOp::Eq ? truth(same, apart) : truth(apart, same);
    }
    case BinaryOp::And:
      return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
    case BinaryOp::Or:
      return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
    default:
      return std::nullopt;
  }
}

bool is_index_type(DType type) { return type == Int64 || type == Bool; }

/// Returns an interval that contains all values of the expression for indices in the box. The
/// interval is a point if the box is a single point. Returns nullopt if the values are not known,
/// for example because the expression reads data.
std::optional<Interval> values_in(const Expr& expr, const Box& box) {
  if (!is_index_type(expr.type())) return std::nullopt;
  std::optional<Interval> values = dsl::visit(
      expr,
      [](const Const& c) -> std::optional<Interval> {
        return Interval{c.int_value, c.int_value};
      },
      [&](const Var& v) -> std::optional<Interval> {
        const auto found = box.find(v.name);
        return found == box.end() ? std::nullopt : std::optional(found->second);
      },
      [](const Read&) -> std::optional<Interval> { return std::nullopt; },
      [&](const Unary& u) -> std::optional<Interval> {
        const auto a = values_in(u.a, box);
        if (!a) return std::nullopt;
        if (u.op == UnaryOp::Not && u.a.type() == Bool) return Interval{1 - a->high, 1 - a->low};
        return u.op == UnaryOp::Neg ? difference({0, 0}, *a) : std::nullopt;
      },
      [&](const Binary& b) -> std::optional<Interval> {
        const auto left = values_in(b.a, box), right = values_in(b.b, box);
        return left && right ? values_of(b.op, *left, *right) : std::nullopt;
      },
      [&](const Select& s) -> std::optional<Interval> {
        const auto condition = values_in(s.condition, box);
        if (condition && condition->is_point()) return values_in(condition->low ? s.a : s.b, box);
        const auto a = values_in(s.a, box), b = values_in(s.b, box);
        return a && b ? hull({a->low, a->high, b->low, b->high}) : std::nullopt;
      },
      [&](const Cast& c) { return values_in(c.a, box); });
  // A condition whose value is not known may be true or false.
  if (!values && expr.type() == Bool) return Interval{0, 1};
  return values;
}

using Axes = std::vector<Axis>;

/// Conditions that are linked by common axes, and all axes that these conditions use.
struct Group {
  std::vector<Expr> conditions;
  std::set<std::string> axes;
};

/// Counts the points of a box that fulfil all conditions. It halves boxes until each condition
/// either holds or fails in a whole box.
class PointCount {
 public:
  PointCount(const std::vector<Expr>& conditions, int64_t& evaluations_left)
      : conditions_(conditions), left_(evaluations_left) {}

  /// Returns how many points of the box fulfil all conditions. Boxes that are still undecided when
  /// the evaluations are used up count 0.
  double in(const Box& box) {
    bool is_decided = true;
    for (const Expr& condition : conditions_) {
      left_ -= condition.node().size;
      if (left_ < 0) return 0;
      const std::optional<Interval> values = values_in(condition, box);
      if (values && values->high == 0) return 0;
      is_decided = is_decided && values && values->low != 0;
    }
    if (is_decided) return points_of(box);
    const auto widest = std::ranges::max_element(
        box, {}, [](const auto& side) { return side.second.high - side.second.low; });
    if (widest == box.end() || widest->second.is_point()) return 0;
    const Interval all = widest->second;
    const int64_t middle = all.low + (all.high - all.low) / 2;
    Box half = box;
    half[widest->first] = {all.low, middle};
    const double lower = in(half);
    half[widest->first] = {middle + 1, all.high};
    return lower + in(half);
  }

  static double points_of(const Box& box) {
    double points = 1;
    for (const auto& [name, side] : box) points *= static_cast<double>(side.high - side.low + 1);
    return points;
  }

 private:
  const std::vector<Expr>& conditions_;
  int64_t& left_;
};

/// Adds a condition to the groups, and joins all groups with which it has axes in common.
/// Conditions that use no axis form one group.
void add_to_groups(const Expr& condition, std::set<std::string> axes, std::vector<Group>& groups) {
  Group joined{{condition}, std::move(axes)};
  std::erase_if(groups, [&](Group& group) {
    const bool meets = std::ranges::any_of(
        group.axes, [&](const std::string& name) { return joined.axes.contains(name); });
    if (!meets && !(group.axes.empty() && joined.axes.empty())) return false;
    if (group.conditions.size() > joined.conditions.size()) std::swap(group, joined);
    joined.axes.merge(group.axes);
    joined.conditions.insert(joined.conditions.end(), group.conditions.begin(),
                             group.conditions.end());
    return true;
  });
  groups.push_back(std::move(joined));
}

/// True for a condition `axis == data` that makes the stage a gather or scatter.
bool selects(const Expr& condition, const std::vector<std::string>& selected) {
  const Binary* equation = condition.as<Binary>();
  if (!equation || equation->op != BinaryOp::Eq) return false;
  return std::ranges::any_of(std::initializer_list<const Expr*>{&equation->a, &equation->b},
                             [&](const Expr* side) {
                               const Var* axis = side->as<Var>();
                               return axis && std::ranges::count(selected, axis->name) > 0;
                             });
}

class LeastWork {
 public:
  explicit LeastWork(const Compute& compute) : compute_(compute) {}

  /// Returns a lower bound, from 0 to 1, of the share of the stage's evaluations whose condition
  /// holds.
  double share_of(const Stage& stage) {
    if (stage.scan) return 1;
    const Expr neutral = stage.combine == Combine::None ? constant_int(stage.type, 0)
                                                        : identity(stage.combine, stage.type);
    const std::optional<Expr> body = with_paddings(stage.body);
    if (!body) return 0;
    const Expr condition = guarded_term(*body, neutral).condition;
    const std::vector<std::string> selected = selection_of(stage).selected;
    std::map<std::string, int64_t> extents;
    for (const Axes* axes : {&stage.axes, &stage.reduction})
      for (const Axis& axis : *axes) {
        if (axis.extent == 0) return 1;
        if (std::ranges::count(selected, axis.name) == 0) extents[axis.name] = axis.extent;
      }
    std::vector<Group> groups;
    for_each_conjunct(condition, [&](const Expr& conjunct) {
      if (selects(conjunct, selected)) return;
      std::set<std::string> used;
      for (const auto& [name, extent] : extents)
        if (uses_var(conjunct, name)) used.insert(name);
      add_to_groups(conjunct, std::move(used), groups);
    });
    double share = 1;
    for (const Group& group : groups) share *= share_of(group, extents);
    return share;
  }

 private:
  double share_of(const Group& group, const std::map<std::string, int64_t>& extents) {
    Box box;
    for (const std::string& name : group.axes) box[name] = {0, extents.at(name) - 1};
    return PointCount(group.conditions, evaluations_left_).in(box) / PointCount::points_of(box);
  }

  /// Replaces each read of a padding stage by the definition of the element, because a kernel may
  /// compute the padding where it is read:
  /// pad[y + r] * w[r] -> select(1 <= y + r && y + r < 9, in[y + r - 1], 0) * w[r].
  /// Returns nullopt if this takes too long or the result is too large.
  std::optional<Expr> with_paddings(const Expr& body) {
    Expr result = body;
    for (auto stage = compute_.stages.rbegin(); stage != compute_.stages.rend(); ++stage) {
      if (stage->combine != Combine::None || stage->scan || !stage->body.as<Select>()) continue;
      int64_t reads = 0;
      for_each(result, [&](const Expr& e) {
        if (const Read* read = e.as<Read>()) reads += read->tensor == stage->name;
      });
      evaluations_left_ -= result.node().size * (1 + reads * stage->body.node().size);
      if (evaluations_left_ < 0) return std::nullopt;
      if (reads == 0) continue;
      result = transform(result, [&](const Expr& e) { return element_of(*stage, e); });
      if (!check_size(result)) return std::nullopt;
    }
    return result;
  }

  /// Returns the definition of the element of `stage` that `expr` reads; nullopt if `expr` is not a
  /// read of this stage.
  static std::optional<Expr> element_of(const Stage& stage, const Expr& expr) {
    const Read* read = expr.as<Read>();
    if (!read || read->tensor != stage.name) return std::nullopt;
    Substitution indices;
    for (size_t i = 0; i < stage.axes.size(); ++i) indices[stage.axes[i].name] = read->indices[i];
    return substitute(stage.body, indices);
  }

  const Compute& compute_;
  int64_t evaluations_left_ = most_evaluated;
};

double flops_of(const Stage& stage) {
  Compute alone;
  alone.stages.push_back(stage);
  return count_flops(alone);
}

double share_of(const std::string& key) {
  const auto workload = parse_workload(key);
  if (!workload) return 1;
  const double all = count_flops(workload->compute);
  return all > 0 ? std::clamp(least_flops(workload->compute) / all, 0.0, 1.0) : 1;
}

}  // namespace

double least_flops(const Compute& compute) {
  LeastWork work(compute);
  double flops = 0;
  for (const Stage& stage : compute.stages)
    if (const double all = flops_of(stage); all > 0) flops += all * work.share_of(stage);
  return flops;
}

double needed_share(const std::string& key) {
  struct Known {
    std::string key;
    double share = 1;
  };
  static thread_local Known last;
  if (last.key != key) last = {key, share_of(key)};
  return last.share;
}

}  // namespace tw::dsl
