// SPDX-License-Identifier: Apache-2.0
// Tests the tests: mutants are programs with one planted mistake. The legality check must reject
// each mutant, or its results must differ from what the compute means.

#include <gtest/gtest.h>

#include <map>

#include "schedules/program/legality.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

struct Mutant {
  std::string kind;
  Block body;
};

/// Returns copies of `expr`. In the n-th copy, the n-th node for which `change` returns an
/// expression is replaced by that expression.
std::vector<Expr> variants(const Expr& expr,
                           const std::function<std::optional<Expr>(const Expr&)>& change) {
  int64_t count = 0;
  dsl::transform(expr, [&](const Expr& e) -> std::optional<Expr> {
    count += change(e).has_value();
    return std::nullopt;
  });
  std::vector<Expr> result;
  for (int64_t n = 0; n < count; ++n) {
    int64_t seen = 0;
    result.push_back(dsl::transform(expr, [&](const Expr& e) -> std::optional<Expr> {
      const auto changed = change(e);
      return changed && seen++ == n ? changed : std::nullopt;
    }));
  }
  return result;
}

std::optional<Expr> swap_bound(const Expr& e) {
  const auto* b = e.as<dsl::Binary>();
  if (!b || (b->op != dsl::BinaryOp::Min && b->op != dsl::BinaryOp::Max)) return std::nullopt;
  return b->op == dsl::BinaryOp::Min ? dsl::max(b->a, b->b) : dsl::min(b->a, b->b);
}

std::optional<Expr> shift_read(const Expr& e) {
  const auto* r = e.as<dsl::Read>();
  if (!r || r->indices.empty()) return std::nullopt;
  std::vector<Expr> indices = r->indices;
  indices.back() = indices.back() + Expr(1);
  return dsl::read(r->tensor, indices, r->type);
}

std::vector<Mutant> mutants_of(const Block& body);

std::vector<Mutant> of_loop(const Loop& loop) {
  std::vector<Mutant> result;
  const auto add = [&](const std::string& kind, const Expr& begin, const Expr& end) {
    Loop changed = loop;
    changed.begin = begin;
    changed.end = end;
    result.push_back({kind, {Stmt{std::move(changed)}}});
  };
  add("trimmed end", loop.begin, loop.end - Expr(1));
  add("trimmed begin", loop.begin + Expr(1), loop.end);
  add("one more iteration", loop.begin, loop.end + Expr(1));
  for (const Expr& begin : variants(loop.begin, swap_bound)) add("swapped bound", begin, loop.end);
  for (const Expr& end : variants(loop.end, swap_bound)) add("swapped bound", loop.begin, end);
  for (const auto& [ahead, slots] : {std::pair{1, 1}, {-1, 0}, {0, -1}})
    if (loop.pipeline) {
      Loop changed = loop;
      changed.pipeline->ahead += ahead;
      changed.pipeline->slots += slots;
      result.push_back({"wrong pipeline", {Stmt{std::move(changed)}}});
    }
  if (loop.kind == LoopKind::Vector) {
    const Expr reversed = loop.begin + loop.end - Expr(1) - dsl::var(loop.variable);
    Block lanes;
    for (const Stmt& stmt : *loop.body) {
      const Assign* assign = stmt.as<Assign>();
      Assign wrong = assign ? *assign : Assign{};
      if (assign) wrong.value = dsl::substitute(wrong.value, {{loop.variable, reversed}});
      lanes.push_back(assign ? Stmt{wrong} : stmt);
    }
    const bool has_lanes = to_string(lanes, 0) != to_string(*loop.body, 0);
    if (has_lanes) result.push_back({"wrong lane", {with_body({loop}, block(lanes))}});
  }
  for (Mutant& inner : mutants_of(*loop.body))
    result.push_back({inner.kind, {with_body({loop}, block(std::move(inner.body)))}});
  return result;
}

std::vector<Mutant> of_assign(const Assign& assign) {
  std::vector<Mutant> result;
  const auto add = [&](const std::string& kind, Assign changed) {
    result.push_back({kind, {Stmt{std::move(changed)}}});
  };
  for (size_t d = 0; d < assign.indices.size(); ++d) {
    Assign moved = assign;
    moved.indices[d] = moved.indices[d] + Expr(1);
    add("store off by one", std::move(moved));
  }
  for (const Expr& value : variants(assign.value, shift_read)) {
    Assign moved = assign;
    moved.value = value;
    add("read off by one", std::move(moved));
  }
  if (assign.guard) {
    Assign always = assign, never = assign, other = assign, uniform = assign;
    always.guard.reset();
    add("lost guard", std::move(always));
    never.guard->condition = dsl::constant_int(Bool, 0);
    add("lost value", std::move(never));
    other.guard->otherwise = dsl::constant(assign.value.type(), 1);
    add("wrong otherwise", std::move(other));
    uniform.guard->uniform = true;
    if (!assign.guard->uniform) add("wrong uniform", std::move(uniform));
  }
  const bool initial = assign.combine == Combine::None && assign.value.as<dsl::Const>();
  if (initial) result.push_back({"missing initialisation", {}});
  if (assign.combine != Combine::None)
    for (const Combine other : {Combine::None, Combine::Sum, Combine::Max})
      if (other != assign.combine) {
        Assign changed = assign;
        changed.combine = other;
        add("wrong combine", std::move(changed));
      }
  return result;
}

std::vector<Mutant> of_statement(const Stmt& stmt) {
  std::vector<Mutant> result;
  if (const Loop* loop = stmt.as<Loop>()) return of_loop(*loop);
  if (const Assign* assign = stmt.as<Assign>()) return of_assign(*assign);
  if (stmt.as<Barrier>()) return {{"lost barrier", {}}};
  if (stmt.as<Commit>()) return {{"lost commit", {}}};
  if (stmt.as<Wait>()) return {{"lost wait", {}}};
  if (const If* branch = stmt.as<If>()) {
    result.push_back({"lost guard", *branch->body});
    for (Mutant& inner : mutants_of(*branch->body))
      result.push_back({inner.kind, {with_body(stmt, block(std::move(inner.body)))}});
  } else if (const Allocate* allocate = stmt.as<Allocate>()) {
    for (Mutant& inner : mutants_of(*allocate->body))
      result.push_back({inner.kind, {with_body(stmt, block(std::move(inner.body)))}});
  }
  return result;
}

std::vector<Mutant> mutants_of(const Block& body) {
  std::vector<Mutant> result;
  for (size_t i = 0; i < body.size(); ++i)
    for (Mutant& changed : of_statement(body[i])) {
      Block mutated(body.begin(), body.begin() + static_cast<ptrdiff_t>(i));
      for (Stmt& s : changed.body) mutated.push_back(std::move(s));
      mutated.insert(mutated.end(), body.begin() + static_cast<ptrdiff_t>(i) + 1, body.end());
      result.push_back({changed.kind, std::move(mutated)});
    }
  return result;
}

struct Subject {
  std::string compute, steps;
  /// Expected number of mutants that compute the same results although they were changed:
  ///   - without its guard, a store only repeats a value that is stored anyway;
  ///   - a maximum over all lanes does not depend on the order of the lanes;
  ///   - one more iteration of an outer loop finds its inner loop empty, or computes padding;
  ///   - a zero or another literal stands where the other factor is 0, or in a row of padding;
  ///   - a block of zeros is copied ahead of the end.
  int64_t equivalent = 0;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> table = {
      {"input in: f32[1, 3, 5, 6] @NCHW\nweight w: f32[4, 3, 3, 3] @OIHW\n"
       "out: f32[n=1, k=4, y=5, x=6] @NCHW = sum(c=3, r=3, s=3) select(0 <= y + r - 1 && y + r - 1 "
       "< 5 && "
       "0 <= x + s - 1 && x + s - 1 < 6, in[n, c, y + r - 1, x + s - 1], 0.0) * w[k, c, r, s]",
       "tw1; split out k 2; split out x 3; reorder out n k.0 y x.0 c r s x.1 k.1; cache_write out "
       "x.0; "
       "vectorize out k.1; unroll out x.1; parallel out n; parallel out k.0"},
      {"input a: f32[5, 7]\nweight b: f32[7, 8]\nweight bias: f32[8]\n"
       "c: f32[m=5, n=8] = sum(k=7) a[m, k] * b[k, n]\nout: f32[m=5, n=8] = c[m, n] + bias[n]",
       "tw1; epilogue out c; split c k 4; split c n 4; reorder c k.0 m n.0 k.1 n.1; cache_write c "
       "n.0; "
       "vectorize c n.1",
       2},
      {"input a: f32[12]\nfirst: f32[i=12] = a[min(max(i - 1, 0), 11)] + a[i]\n"
       "out: f32[i=10] = first[i] - first[i + 2]",
       "tw1; split out i 4; compute_at first out i.0; parallel out i.0"},
      {"input a: i32[4, 5]\nr: i32[i=4] = max(j=5) a[i, j]",
       "tw1; rfactor r j 2; reorder r.rf i j j_rf; vectorize r.rf j_rf", 2},
      {"input a: f32[5, 7]\nweight b: f32[7, 8]\nc: f32[m=5, n=8] = sum(k=7) a[m, k] * b[k, n]",
       "tw1; split c m 3; split c k 2; reorder c m.0 k.0 m.1 n k.1; cache_write c m.0; "
       "cache_operand c 1 k.0 k.1 m.1; cache_operand c 2 k.0 k.1 n; pipeline a@c 3; "
       "pipeline b@c 3; pad a@c m.1 2; bind c m.1; bind c n; bind a@c k.1; bind a@c m.1; "
       "reorder b@c n k.1; bind b@c n; parallel c m.0",
       6},
      {"input a: f32[6]\nweight w: f32[3, 4]\n"
       "out: f32[x=6, k=4] = sum(r=3) select(0 <= x + r - 1 && x + r - 1 < 6, a[x + r - 1], 0.0) * "
       "w[r, k]",
       "tw1; split out x 3; reorder out x.0 r x.1 k; cache_write out x.0; "
       "cache_operand out 1 r x.1; cache_operand out 2 r k; bind out x.1; bind out k; "
       "bind a@out x.1; bind w@out k; parallel out x.0"},
      {"input a: f32[9]\nout: f32[i=9] = select(0 <= i - 1 && i - 1 < 7, a[i - 1], 5.0)",
       "tw1; set_layout out A4a; split out i 4", 3},
  };
  return table;
}

/// True if the program is wrong for one of 16 inputs. A single input is not enough: a maximum may
/// hide a wrong element that is smaller.
bool is_wrong(const dsl::Compute& compute, const Program& program) {
  for (uint64_t seed = 1; seed <= 16; ++seed)
    if (disagreement(compute, program, seed)) return true;
  return false;
}

TEST(Mutation, EveryMutantIsRejected) {
  std::map<std::string, int64_t> illegal, wrong;
  for (const auto& [text, steps, equivalent] : subjects()) {
    int64_t survivors = 0;
    std::string survivor;
    const dsl::Compute compute = dsl::parse_compute(text).value();
    const Schedule schedule = parse_schedule(compute, steps).value();
    const Program program = schedule.program().value();
    ASSERT_EQ(disagreement(compute, program), std::nullopt) << to_string(program);
    for (size_t p = 0; p < program.phases.size(); ++p)
      for (const Mutant& mutant : mutants_of(*program.phases[p].body)) {
        Program changed = program;
        changed.phases[p].body = block(mutant.body);
        EXPECT_NE(hash(changed), hash(program)) << to_string(changed);
        if (!check_legal(changed)) {
          ++illegal[mutant.kind];
        } else if (is_wrong(compute, changed)) {
          ++wrong[mutant.kind];
        } else {
          ++survivors;
          survivor += mutant.kind + "\n" + to_string(changed);
        }
      }
    EXPECT_EQ(survivors, equivalent) << survivor << to_string(program);
  }
  int64_t total = 0;
  for (const auto* counts : {&illegal, &wrong})
    for (const auto& [kind, count] : *counts) total += count;
  EXPECT_GE(total, 200);
  for (const char* kind :
       {"trimmed end", "trimmed begin", "one more iteration", "swapped bound", "wrong lane",
        "store off by one", "read off by one", "missing initialisation", "wrong combine",
        "lost guard", "lost value", "wrong otherwise", "wrong uniform", "wrong pipeline",
        "lost barrier", "lost commit", "lost wait"})
    EXPECT_GT(illegal[kind] + wrong[kind], 0) << kind;
  RecordProperty("mutants", static_cast<int>(total));
}

}  // namespace
}  // namespace tw::schedules
