// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random expressions and computes for property tests. They have every kind of node and are always
// valid.

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "dsl/compute.h"

namespace tw::dsl {

class RandomExpr {
 public:
  RandomExpr(Random& random, std::vector<std::string> variables, std::map<std::string, int> tensors)
      : random_(random), variables_(std::move(variables)), tensors_(std::move(tensors)) {}

  Expr make(DType type, int depth) {
    if (depth == 0 || random_.chance(0.15)) return leaf(type);
    if (type == Bool) return condition(depth);
    switch (random_.below(6)) {
      case 0:
        return select(make(Bool, depth - 1), make(type, depth - 1), make(type, depth - 1));
      case 1:
        return cast(type, make(random_.pick(number_types()), depth - 1));
      case 2:
        return unary_of(type, depth);
      default:
        return binary_of(type, depth);
    }
  }

  static const std::vector<DType>& number_types() {
    static const std::vector<DType> types = {Float32, Float64, Float16, BFloat16,
                                             Int8,    UInt8,   Int32,   Int64};
    return types;
  }

 private:
  Expr leaf(DType type) {
    if (type == Int64 && !variables_.empty() && random_.chance(0.6))
      return var(random_.pick(variables_));
    if (type == Float32 && !tensors_.empty() && random_.chance(0.6)) return read_of();
    if (type == Bool) return constant_int(Bool, random_.below(2));
    if (is_float(type)) {
      const double specials[] = {0.0, -0.0, 0.1, -2.5, 1e30, 3.0, 1e-7};
      return constant(type, type == Float16 ? random_.unit() - 0.5 : specials[random_.below(7)]);
    }
    return constant_int(type, random_.below(300) - 100);
  }

  Expr read_of() {
    std::vector<std::string> names;
    for (const auto& [name, rank] : tensors_) names.push_back(name);
    const std::string name = random_.pick(names);
    std::vector<Expr> indices;
    for (int i = 0; i < tensors_.at(name); ++i) indices.push_back(make(Int64, 1));
    return read(name, indices, Float32);
  }

  Expr condition(int depth) {
    if (random_.chance(0.3)) return unary(UnaryOp::Not, make(Bool, depth - 1));
    if (random_.chance(0.5))
      return binary(random_.chance(0.5) ? BinaryOp::And : BinaryOp::Or, make(Bool, depth - 1),
                    make(Bool, depth - 1));
    const std::vector<BinaryOp> comparisons = {BinaryOp::Lt, BinaryOp::Le, BinaryOp::Eq,
                                               BinaryOp::Ne};
    const DType type = random_.pick(number_types());
    return binary(random_.pick(comparisons), make(type, depth - 1), make(type, depth - 1));
  }

  Expr unary_of(DType type, int depth) {
    const std::vector<UnaryOp> integers = {UnaryOp::Neg, UnaryOp::Abs};
    const std::vector<UnaryOp> floats = {
        UnaryOp::Neg, UnaryOp::Abs,   UnaryOp::Exp, UnaryOp::Log, UnaryOp::Sqrt,    UnaryOp::Tanh,
        UnaryOp::Erf, UnaryOp::Floor, UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Sigmoid, UnaryOp::Round};
    return unary(random_.pick(is_float(type) ? floats : integers), make(type, depth - 1));
  }

  Expr binary_of(DType type, int depth) {
    const Expr a = make(type, depth - 1);
    if (!is_float(type) && random_.chance(0.2))
      return binary(random_.chance(0.5) ? BinaryOp::Div : BinaryOp::Mod, a, divisor(type, depth));
    const std::vector<BinaryOp> bitwise = {BinaryOp::Shl, BinaryOp::Shr, BinaryOp::BitAnd,
                                           BinaryOp::BitOr, BinaryOp::BitXor};
    if (!is_float(type) && random_.chance(0.2))
      return binary(random_.pick(bitwise), a, make(type, depth - 1));
    if (is_float(type) && random_.chance(0.1)) return pow(a, make(type, depth - 1));
    const std::vector<BinaryOp> ops = {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Min,
                                       BinaryOp::Max};
    const Expr b = make(type, depth - 1);
    const Const* literal = b.as<Const>();
    const bool divides =
        is_float(type) && random_.chance(0.2) && !(literal && literal->float_value == 0);
    return binary(divides ? BinaryOp::Div : random_.pick(ops), a, b);
  }

  /// Returns an integer expression. If it is a literal, it is not 0.
  Expr divisor(DType type, int depth) {
    const Expr any = make(type, depth - 1);
    return random_.chance(0.5) && !is_int(any, 0) ? any : constant_int(type, 1 + random_.below(9));
  }

  Random& random_;
  std::vector<std::string> variables_;
  std::map<std::string, int> tensors_;
};

/// Returns a compute with two inputs and one to three stages.
inline Compute random_compute(Random& random) {
  Compute compute;
  compute.inputs = {{"a", Float32, {5, 4}, false, "MN"}, {"b", Float32, {3}, true, ""}};
  std::map<std::string, int> known = {{"a", 2}, {"b", 1}};
  const int64_t count = 1 + random.below(3);
  for (int64_t i = 0; i < count; ++i) {
    Stage stage;
    stage.name = "t" + std::to_string(i);
    stage.axes = {{"i", 1 + random.below(4)}, {"j", 1 + random.below(4)}};
    std::vector<std::string> variables = {"i", "j"};
    if (random.chance(0.5)) {
      stage.combine = random.pick(
          std::vector<Combine>{Combine::Sum, Combine::Prod, Combine::Min, Combine::Max});
      stage.reduction = {{"r", 1 + random.below(4)}};
      variables.push_back("r");
    }
    stage.type = random.chance(0.7) ? Float32 : random.pick(RandomExpr::number_types());
    stage.body = RandomExpr(random, variables, known).make(stage.type, 4);
    if (stage.type == Float32) known[stage.name] = 2;
    compute.stages.push_back(stage);
  }
  compute.outputs = {compute.stages.back().name};
  if (count > 1 && random.chance(0.3)) compute.outputs.push_back("t0");
  return compute;
}

}  // namespace tw::dsl
