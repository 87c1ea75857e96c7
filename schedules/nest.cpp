// SPDX-License-Identifier: Apache-2.0
#include "schedules/nest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Stage;

int StageNest::find_loop(const std::string& name) const {
  for (size_t i = 0; i < loops.size(); ++i)
    if (loops[i].name == name) return static_cast<int>(i);
  return -1;
}

StageNest* Nest::find(const std::string& stage) {
  for (StageNest& s : stages)
    if (s.stage.name == stage) return &s;
  return nullptr;
}
const StageNest* Nest::find(const std::string& stage) const {
  return const_cast<Nest*>(this)->find(stage);
}

Nest default_nest(const dsl::Compute& compute) {
  Nest nest;
  nest.compute = compute;
  for (size_t i = 0; i < compute.stages.size(); ++i)
    nest.stages.push_back(make_stage_nest(compute.stages[i], i + 1 == compute.stages.size()));
  return nest;
}

Status apply(Nest& nest, const Step& step) {
  const Status status = std::visit([&](const auto& s) { return apply(nest, s); }, step);
  if (status) return {};
  Error error = status.error();
  const std::string stage = std::visit(
      [](const auto& s) {
        if constexpr (requires { s.stage; })
          return s.stage;
        else
          return std::string();
      },
      step);
  if (const StageNest* s = nest.find(stage)) error.message += "\n  " + describe(*s);
  return tl::unexpected<Error>(std::move(error));
}

std::vector<Expr> operands_of(const Stage& stage) {
  const dsl::Binary* product = stage.body.as<dsl::Binary>();
  if (stage.combine == Combine::Sum && product && product->op == dsl::BinaryOp::Mul)
    return {product->a, product->b};
  return {stage.body};
}

Expr unwidened(const Expr& operand) {
  const dsl::Cast* cast = operand.as<dsl::Cast>();
  return cast && size_bytes(cast->a.type()) < size_bytes(cast->type) ? cast->a : operand;
}

bool sums_products_of(const Stage& stage, const TensorTile& tile) {
  const std::vector<Expr> factors = operands_of(stage);
  return factors.size() == 2 && stage.type == tile.accumulator &&
         std::all_of(factors.begin(), factors.end(),
                     [&](const Expr& factor) { return takes(tile, unwidened(factor).type()); });
}

Bounds bounds_of_loops(const StageNest& stage) {
  Bounds bounds;
  for (const NestLoop& loop : stage.loops)
    bounds.push_loop(loop.variable, Expr(0), Expr(loop.extent));
  return bounds;
}

const NestLoop& loop_around(const Nest& nest, const StageNest& placed) {
  const StageNest& consumer = *nest.find(placed.at->consumer);
  return consumer.loops[static_cast<size_t>(consumer.find_loop(placed.at->loop))];
}

std::string shown_name(const StageNest& stage, const NestLoop& loop) {
  for (const StageNest::OwnName& own : stage.own_names)
    if (own.loop == loop.name) return fmt::format("{} ({})", own.name, loop.name);
  return loop.name;
}

std::string describe(const StageNest& stage) {
  std::vector<std::string> parts;
  for (const NestLoop& loop : stage.loops)
    parts.push_back(fmt::format("{} {} in 0..{}", loop.parallel ? "parallel" : to_string(loop.kind),
                                shown_name(stage, loop), loop.extent));
  return fmt::format("{}: {}", stage.stage.name, join(parts, " / "));
}

const StageNest* copy_of_results(const Nest& nest, const std::string& stage) {
  const auto found = std::ranges::find_if(nest.stages, [&](const StageNest& s) {
    return s.copies_results() && s.at->consumer == stage;
  });
  return found == nest.stages.end() ? nullptr : &*found;
}

void for_each_read(const Expr& body, const std::function<void(const dsl::Read&)>& visit) {
  dsl::for_each(body, [&](const Expr& e) {
    if (const dsl::Read* r = e.as<dsl::Read>()) visit(*r);
  });
}

bool uses_axis(const dsl::Read& read, const std::string& axis) {
  return std::any_of(read.indices.begin(), read.indices.end(),
                     [&](const Expr& index) { return dsl::uses_var(index, axis); });
}

bool reads(const StageNest& stage, const std::string& tensor) {
  bool found = false;
  const auto visit = [&](const dsl::Read& r) { found |= r.tensor == tensor; };
  for_each_read(stage.stage.body, visit);
  if (stage.epilogue) for_each_read(stage.epilogue->body, visit);
  return found;
}

}  // namespace tw::schedules
