// SPDX-License-Identifier: Apache-2.0
#include "schedules/dot_products.h"

#include <algorithm>

namespace tw::schedules {
namespace {

// Halide's back end chooses the instructions. It has those of AVX512-VNNI for processors that have
// AVX512-BF16 too, and none of AVX-VNNI.
constexpr DotInstruction rows[] = {
    {"vpdpbusd", UInt8, Int8, Int32, 4, "avx512_bf16", true},
    {"vpdpbusd", Int8, UInt8, Int32, 4, "avx512_bf16", true},
    {"vpdpwssd", Int16, Int16, Int32, 2, "avx512_bf16", true},
    {"vpmaddwd", Int16, Int16, Int32, 2, "sse4_1", false},
    {"sdot", Int8, Int8, Int32, 4, "asimddp", true},
};

/// Whether all values of the one type are values of the other.
bool is_part_of(DType type, DType wide) {
  if (type == wide) return true;
  if (is_float(type) || is_float(wide)) return false;
  const IntegerLimits values = integer_limits(type), all = integer_limits(wide);
  return values.least >= all.least && values.largest <= all.largest;
}

const Loop* only_vector(const Block& body) {
  const Loop* loop = body.size() == 1 ? body.front().as<Loop>() : nullptr;
  return loop && loop->kind == LoopKind::Vector ? loop : nullptr;
}

/// The element that a factor is, widened or not.
const dsl::Read* element_of(const Expr& factor) {
  const dsl::Cast* cast = factor.as<dsl::Cast>();
  return (cast ? cast->a : factor).as<dsl::Read>();
}

bool uses(const std::vector<Expr>& indices, const Loop& loop) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return dsl::uses_var(index, loop.variable); });
}
bool uses(const dsl::Read& read, const Loop& loop) { return uses(read.indices, loop); }

}  // namespace

std::span<const DotInstruction> dot_instructions() { return rows; }

const DotInstruction* find_dot_instruction(const Target& target, DType shared, DType own,
                                           DType accumulator, int64_t depth) {
  const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const DotInstruction& row) {
    return row.depth == depth && row.accumulator == accumulator && target.has(row.feature) &&
           is_part_of(shared, row.shared) && is_part_of(own, row.own);
  });
  return found == std::end(rows) ? nullptr : found;
}

std::optional<DotProduct> dot_product(const Loop& loop) {
  const Loop* depth = loop.kind == LoopKind::Vector ? only_vector(*loop.body) : nullptr;
  if (!depth || !dsl::is_int(depth->begin, 0)) return std::nullopt;
  const int64_t products = dsl::as_int(depth->end).value_or(0);
  if (products < 2 || products > most_dot_depth) return std::nullopt;
  const Assign* sum = depth->body->size() == 1 ? depth->body->front().as<Assign>() : nullptr;
  if (!sum || sum->combine != dsl::Combine::Sum || uses(sum->indices, *depth)) return std::nullopt;
  const dsl::Binary* product = sum->value.as<dsl::Binary>();
  if (!product || product->op != dsl::BinaryOp::Mul) return std::nullopt;
  const dsl::Read *a = element_of(product->a), *b = element_of(product->b);
  if (!a || !b || !uses(*a, *depth) || !uses(*b, *depth)) return std::nullopt;
  if (uses(*a, loop)) std::swap(a, b);
  if (uses(*a, loop) || !uses(*b, loop)) return std::nullopt;
  return DotProduct{&loop, depth, sum, a, b};
}

}  // namespace tw::schedules
