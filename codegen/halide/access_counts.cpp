// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/access_counts.h"

#include "codegen/halide/fallbacks.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {
namespace {

class CountAccesses : public hi::IRVisitor {
 public:
  CountAccesses(const Target& target, std::map<std::string, AccessCounts>& counts)
      : masks_(masks_of(target)), counts_(counts) {}

 private:
  using hi::IRVisitor::visit;
  void visit(const hi::Load* load) override {
    hi::IRVisitor::visit(load);
    count(load->name, load->type, load->index, load->predicate);
  }
  void visit(const hi::Store* store) override {
    hi::IRVisitor::visit(store);
    count(store->name, store->value.type(), store->index, store->predicate);
  }
  void visit(const hi::IfThenElse* branch) override {
    branch->condition.accept(this);
    for (const HStmt& taken : {branch->then_case, branch->else_case})
      if (taken.defined() && !is_fallback(taken)) taken.accept(this);
  }

  void count(const std::string& name, Halide::Type type, const HExpr& index,
             const HExpr& predicate) {
    if (type.is_handle()) return;
    AccessCounts& counts = counts_[name.substr(0, name.rfind('$'))];
    const auto* ramp = index.as<hi::Ramp>();
    const bool is_contiguous =
        ramp && ramp->base.type().is_scalar() && hi::is_const_one(ramp->stride);
    ++(type.is_scalar() ? counts.scalar : is_contiguous ? counts.contiguous : counts.lanewise);
    counts.branching += type.is_vector() && !hi::is_const_one(predicate) &&
                        !(is_contiguous && masks_.cover(type.element_of()));
  }

  Masks masks_;
  std::map<std::string, AccessCounts>& counts_;
};

}  // namespace

void add_accesses(const HStmt& body, const Target& target,
                  std::map<std::string, AccessCounts>& counts) {
  CountAccesses visitor(target, counts);
  body.accept(&visitor);
}

}  // namespace tw::codegen::halide
