// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/passes.h"

namespace tw::codegen::halide {
namespace {

/// A call with this name wraps a value that is kept: the simplifier does not change calls.
const char* const kept_name = "tw_kept";

struct DropKept : hi::IRMutator {
  using hi::IRMutator::visit;
  HExpr visit(const hi::Call* call) override {
    return call->name == kept_name ? mutate(call->args[0]) : hi::IRMutator::visit(call);
  }
};

/// Writes the index of a gather out lane by lane if all lanes are constant. Halide's pass makes a
/// load and a shuffle of a gather from a short span of memory, and takes the begin of the span from
/// the bounds of the index. These bounds can lie before the buffer, which Halide 21 refuses for
/// constant indices: the bounds of `select(0 <= i - 3, i - 3, 0)` start at -3, although no lane is
/// below 0. The bounds of a list of lanes are exact.
struct ListConstantLanes : hi::IRMutator {
  using hi::IRMutator::visit;
  HExpr visit(const hi::Load* load) override {
    const int lanes = load->type.lanes();
    if (lanes == 1 || load->index.as<hi::Ramp>()) return hi::IRMutator::visit(load);
    std::vector<HExpr> indices;
    for (int lane = 0; lane < lanes; ++lane) {
      indices.push_back(hi::simplify(hi::extract_lane(load->index, lane)));
      if (!hi::is_const(indices.back())) return hi::IRMutator::visit(load);
    }
    return hi::Load::make(load->type, load->name, hi::Shuffle::make_concat(indices), load->image,
                          load->param, mutate(load->predicate), load->alignment);
  }
};

/// Changes accesses whose first lanes are before the begin of the buffer and masked off: the index
/// of the first lane is put in a variable. Halide 21 would take a constant index as an offset into
/// the buffer, and assert that it is not negative.
struct NameNegativeStarts : hi::IRMutator {
  using hi::IRMutator::visit;
  HExpr visit(const hi::Load* load) override {
    const auto* ramp = negative_start(load->index);
    if (!ramp) return hi::IRMutator::visit(load);
    return hi::Let::make(name, ramp->base,
                         hi::Load::make(load->type, load->name, from_variable(*ramp), load->image,
                                        load->param, mutate(load->predicate), load->alignment));
  }
  HStmt visit(const hi::Store* store) override {
    const auto* ramp = negative_start(store->index);
    if (!ramp) return hi::IRMutator::visit(store);
    return hi::LetStmt::make(
        name, ramp->base,
        hi::Store::make(store->name, mutate(store->value), from_variable(*ramp), store->param,
                        mutate(store->predicate), store->alignment));
  }

 private:
  static constexpr const char* name = "start";

  static const hi::Ramp* negative_start(const HExpr& index) {
    const auto* ramp = index.as<hi::Ramp>();
    return ramp && hi::is_negative_const(ramp->base) ? ramp : nullptr;
  }
  static HExpr from_variable(const hi::Ramp& ramp) {
    return hi::Ramp::make(hi::Variable::make(ramp.base.type(), name), ramp.stride, ramp.lanes);
  }
};

}  // namespace

HExpr kept(const HExpr& value) {
  return hi::Call::make(value.type(), kept_name, {value}, hi::Call::PureExtern);
}

HStmt run_passes(HStmt body) {
  // Vectorized before it is unrolled: once a statement instead of once a copy.
  body = hi::vectorize_loops(body, {});
  body = hi::unroll_loops(body);
  body = hi::simplify(body);
  body = hi::flatten_nested_ramps(ListConstantLanes().mutate(body));
  body = hi::find_intrinsics(body);
  // Indices are not lifted into variables: if a load and a store shared a ramp as a variable,
  // Halide would no longer see that the accesses are contiguous.
  body = hi::common_subexpression_elimination(DropKept().mutate(body));
  return NameNegativeStarts().mutate(body);
}

}  // namespace tw::codegen::halide
