// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"
#include "codegen/halide/arithmetic.h"
#include "codegen/halide/phase_translator.h"

namespace tw::codegen::halide {
namespace {

/// Returns vectors of sums: lane i of the result sums the products of the i-th group of factors.
/// For 8-bit factors the products are made by an explicit widening multiplication. Otherwise
/// Halide's simplifier would narrow the factors according to their values, and then no instruction
/// would match.
HExpr sums_of(const HExpr& own, const HExpr& shared, Halide::Type type, int lanes) {
  const Halide::Type wide = type.with_lanes(own.type().lanes());
  const bool are_bytes = own.type().bits() == 8 && shared.type().bits() == 8;
  const HExpr products = are_bytes ? hi::Cast::make(wide, Halide::widening_mul(shared, own))
                                   : hi::Cast::make(wide, shared) * hi::Cast::make(wide, own);
  return hi::VectorReduce::make(hi::VectorReduce::Add, products, lanes);
}

/// Returns the same sums as sums_of(), but first adds the products in pairs. For saturating sums of
/// two products, Halide selects `vpmaddubsw`. No sum saturates, because digits are at most 127.
HExpr sums_by_pairs(const HExpr& own, const HExpr& shared, Halide::Type type, int lanes) {
  const HExpr pairs = hi::VectorReduce::make(
      hi::VectorReduce::SaturatingAdd, Halide::widening_mul(own, shared), own.type().lanes() / 2);
  const Halide::Type wide = type.with_lanes(pairs.type().lanes());
  return hi::VectorReduce::make(hi::VectorReduce::Add, hi::Cast::make(wide, pairs), lanes);
}

bool is_defined(const PhaseScope& scope, const schedules::Digit& digit) {
  const auto least = scope.bounds().lower(digit.shift), most = scope.bounds().upper(digit.shift);
  return least && most && *least >= 0 && *most < 8;
}

/// Distances in memory, in elements: between adjacent lanes, and between adjacent products of a
/// lane.
struct DotStrides {
  int64_t lane, product;
};
bool strides_are(const PhaseScope& scope, const DotProduct& dot, const std::string& buffer,
                 const std::vector<Expr>& indices, DotStrides expected) {
  const Affine affine = scope.affine_index(scope.access(buffer).buffer, indices);
  for (const Affine::Term& term : affine.terms) {
    const dsl::Var* v = term.atom.as<dsl::Var>();
    const bool is_own = v && (v->name == dot.lanes->variable || v->name == dot.depth->variable);
    const bool uses_own = dsl::uses_var(term.atom, dot.lanes->variable) ||
                          dsl::uses_var(term.atom, dot.depth->variable);
    if (uses_own && !is_own) return false;
  }
  return affine.coefficient(dsl::var(dot.lanes->variable)) == expected.lane &&
         affine.coefficient(dsl::var(dot.depth->variable)) == expected.product;
}

HStmt loop_over(const std::string& name, const Loop& loop, hi::ForType type, const HStmt& body) {
  const auto begin = static_cast<int>(*dsl::as_int(loop.begin));
  const auto end = static_cast<int>(*dsl::as_int(loop.end));
  return hi::For::make(name, begin, end - begin, type, Halide::Partition::Never,
                       Halide::DeviceAPI::None, body);
}

}  // namespace

HStmt PhaseTranslator::translate_dot_product(const DotProduct& dot) {
  const PhaseScope::Mark mark = scope_.mark();
  const std::string lane = scope_.fresh(dot.lanes->variable);
  const std::string product = scope_.fresh(dot.depth->variable);
  scope_.enter(dot.lanes->variable, dot.lanes->begin, dot.lanes->end, lane, LoopKind::Vector);
  scope_.enter(dot.depth->variable, dot.depth->begin, dot.depth->end, product, LoopKind::Unrolled);
  HStmt result = as_instruction(dot);
  if (!result.defined())
    result =
        loop_over(product, *dot.depth, hi::ForType::Unrolled,
                  loop_over(lane, *dot.lanes, hi::ForType::Vectorized, translate_assign(*dot.sum)));
  scope_.restore(mark);
  return result;
}

HStmt PhaseTranslator::as_instruction(const DotProduct& dot) {
  const int64_t products = *dsl::as_int(dot.depth->end);
  const DType type = scope_.access(dot.sum->buffer).buffer.type;
  const schedules::DotInstruction* instruction =
      schedules::find_dot_instruction(target_, dot, type, products);
  const bool lies_so = strides_are(scope_, dot, dot.sum->buffer, dot.sum->indices, {1, 0}) &&
                       strides_are(scope_, dot, dot.shared->tensor, dot.shared->indices, {0, 1}) &&
                       strides_are(scope_, dot, dot.own->tensor, dot.own->indices, {products, 1});
  TW_CHECK(!mask_.defined() && !guard_.defined(), "loops have no masks");
  if (!instruction || !lies_so || (dot.digit && !is_defined(scope_, *dot.digit))) return {};
  const auto lanes =
      static_cast<int>(*dsl::as_int(dot.lanes->end) - *dsl::as_int(dot.lanes->begin));
  const auto depth = static_cast<int>(products);
  const HExpr own = second_factor(dot, *instruction, lanes * depth);
  // Halide 21 fails ("Cast may not change vector widths") if it narrows a Broadcast of a vector.
  const HExpr shared = hi::Shuffle::make_broadcast(
      neighbours(dot, dot.shared->tensor, dot.shared->indices, depth), lanes);
  const HExpr sums = instruction->by_pairs ? sums_by_pairs(own, shared, value_type(type), lanes)
                                           : sums_of(own, shared, value_type(type), lanes);
  const HExpr old = neighbours(dot, dot.sum->buffer, dot.sum->indices, lanes);
  const Access& target = scope_.access(dot.sum->buffer);
  return hi::Store::make(target.name,
                         instruction->accumulates ? old + sums : wrapping(BinaryOp::Add, old, sums),
                         indices_of(dot, dot.sum->buffer, dot.sum->indices, lanes), target.external,
                         hi::const_true(lanes), hi::ModulusRemainder());
}

HExpr PhaseTranslator::second_factor(const DotProduct& dot,
                                     const schedules::DotInstruction& instruction, int count) {
  const HExpr elements = neighbours(dot, dot.own->tensor, dot.own->indices, count);
  if (!dot.digit) return elements;
  const HExpr digits = digit_of(elements, *dot.digit);
  return instruction.own == DType::Int8 ? hi::Cast::make(Halide::Int(8, count), digits) : digits;
}

HExpr PhaseTranslator::digit_of(const HExpr& elements, const schedules::Digit& digit) {
  const Halide::Type type = elements.type();
  const HExpr count = Halide::cast(type.element_of(), integer(digit.shift, Halide::Int(64)));
  const HExpr shift = hi::Broadcast::make(count, type.lanes());
  return (elements >> shift) & hi::make_const(type, digit.mask);
}

HExpr PhaseTranslator::indices_of(const DotProduct& dot, const std::string& buffer,
                                  std::vector<Expr> indices, int count) {
  for (Expr& index : indices) {
    index = dsl::substitute(index, dot.lanes->variable, dot.lanes->begin);
    index = dsl::substitute(index, dot.depth->variable, dot.depth->begin);
  }
  const HExpr first = linear(scope_.access(buffer).buffer, indices);
  return hi::Ramp::make(first, hi::make_one(first.type()), count);
}

HExpr PhaseTranslator::neighbours(const DotProduct& dot, const std::string& buffer,
                                  const std::vector<Expr>& indices, int count) {
  const Access& access = scope_.access(buffer);
  return hi::Load::make(storage_type(access.buffer.type).with_lanes(count), access.name,
                        indices_of(dot, buffer, indices, count), {}, access.external,
                        hi::const_true(count), hi::ModulusRemainder());
}

}  // namespace tw::codegen::halide
