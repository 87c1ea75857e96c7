// SPDX-License-Identifier: Apache-2.0
#include "schedules/dot_products.h"

#include <algorithm>

#include "schedules/nest.h"

namespace tw::schedules {
namespace {

// Halide's back end chooses the instructions. It has those of AVX512-VNNI for processors that have
// all that Zen 4 has, and none of AVX-VNNI.
constexpr std::string_view zen4[] = {"avx512_bf16", "avx512_bitalg",    "avx512_vbmi2",
                                     "avx512_vnni", "avx512_vpopcntdq", "avx512ifma",
                                     "avx512vbmi"};
constexpr std::string_view sse[] = {"sse4_1"}, arm[] = {"asimddp"};
constexpr DotInstruction rows[] = {
    {"vpdpbusd", UInt8, Int8, Int32, 4, zen4, true},
    {"vpdpbusd", Int8, UInt8, Int32, 4, zen4, true},
    {"vpdpwssd", Int16, Int16, Int32, 2, zen4, true},
    {"vpmaddwd", Int16, Int16, Int32, 2, sse, false},
    {"sdot", Int8, Int8, Int32, 4, arm, true},
};

/// True if all values of the one type are values of the other.
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

bool uses(const std::vector<Expr>& indices, const std::string& variable) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return dsl::uses_var(index, variable); });
}

}  // namespace

const DotInstruction* find_dot_instruction(const Target& target, DType shared, DType own,
                                           DType accumulator, int64_t depth) {
  const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const DotInstruction& row) {
    const bool has_all = std::all_of(row.features.begin(), row.features.end(),
                                     [&](std::string_view f) { return target.has(f); });
    return has_all && row.depth == depth && row.accumulator == accumulator &&
           is_part_of(shared, row.shared) && is_part_of(own, row.own);
  });
  return found == std::end(rows) ? nullptr : found;
}

std::optional<DotFactors> dot_factors(const Expr& product, const std::string& lane,
                                      const std::string& term) {
  const dsl::Binary* binary = product.as<dsl::Binary>();
  if (!binary || binary->op != dsl::BinaryOp::Mul) return std::nullopt;
  const Expr first = unwidened(binary->a), second = unwidened(binary->b);
  const dsl::Read *a = first.as<dsl::Read>(), *b = second.as<dsl::Read>();
  if (!a || !b || !uses(a->indices, term) || !uses(b->indices, term)) return std::nullopt;
  if (uses(a->indices, lane)) std::swap(a, b);
  if (uses(a->indices, lane) || !uses(b->indices, lane)) return std::nullopt;
  return DotFactors{a, b};
}

std::optional<DotProduct> dot_product(const Loop& loop) {
  const Loop* depth = loop.kind == LoopKind::Vector ? only_vector(*loop.body) : nullptr;
  if (!depth || !dsl::is_int(depth->begin, 0)) return std::nullopt;
  const int64_t products = dsl::as_int(depth->end).value_or(0);
  if (products < 2 || products > most_dot_depth) return std::nullopt;
  const Assign* sum = depth->body->size() == 1 ? depth->body->front().as<Assign>() : nullptr;
  if (!sum || sum->combine != dsl::Combine::Sum || !uses(sum->indices, loop.variable) ||
      uses(sum->indices, depth->variable))
    return std::nullopt;
  const auto factors = dot_factors(sum->value, loop.variable, depth->variable);
  if (!factors) return std::nullopt;
  return DotProduct{*factors, &loop, depth, sum};
}

}  // namespace tw::schedules
