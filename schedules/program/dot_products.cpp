// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/dot_products.h"

#include <algorithm>

#include "schedules/nest.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/legality.h"
#include "schedules/program/tensor_tiles.h"

namespace tw::schedules {
namespace {

// The features that an instruction needs are those for which Halide's back end chooses it. The back
// end uses AVX512-VNNI only for processors with all features of Zen 4, and never uses AVX-VNNI.
constexpr std::string_view zen4[] = {"avx512_bf16", "avx512_bitalg",    "avx512_vbmi2",
                                     "avx512_vnni", "avx512_vpopcntdq", "avx512ifma",
                                     "avx512vbmi"};
constexpr std::string_view sse[] = {"sse4_1"}, arm[] = {"asimddp"};
constexpr DotInstruction rows[] = {
    {"vpdpbusd", UInt8, Int8, Int32, 4, zen4, &Core::byte_dots_per_cycle, true},
    {"vpdpbusd", Int8, UInt8, Int32, 4, zen4, &Core::byte_dots_per_cycle, true},
    {"vpdpwssd", Int16, Int16, Int32, 2, zen4, &Core::word_dots_per_cycle, true},
    {"vdpbf16ps", BFloat16, BFloat16, Float32, 2, zen4, &Core::bf16_dots_per_cycle, true},
    {"vpmaddubsw", Int8, UInt8, Int32, 4, sse, &Core::word_dots_per_cycle, false, true},
    {"vpmaddwd", Int16, Int16, Int32, 2, sse, &Core::word_dots_per_cycle, false},
    {"sdot", Int8, Int8, Int32, 4, arm, &Core::byte_dots_per_cycle, true},
    {"udot", UInt8, UInt8, Int32, 4, arm, &Core::byte_dots_per_cycle, true},
};

// The largest second factor for which the sum of two products with factors of 8 bits fits 16 bits:
// 2 * 127 * 128 < 2^15.
constexpr int64_t largest_of_pairs = 127;

/// Returns the least and the largest value of an integer factor.
IntegerLimits limits_of(const dsl::Read& read, const std::optional<Digit>& digit) {
  return digit ? IntegerLimits{0, digit->mask} : integer_limits(read.type);
}

bool has_all(const Target& target, const DotInstruction& row) {
  return std::ranges::all_of(row.features,
                             [&](std::string_view feature) { return target.has(feature); });
}

/// True if an instruction whose factors have the type can use this factor. An integer factor may be
/// narrower, and is widened; a float must have exactly the type.
bool takes(DType type, const dsl::Read& factor, const std::optional<Digit>& digit = {}) {
  if (is_float(type) || is_float(factor.type)) return type == factor.type;
  const IntegerLimits all = integer_limits(type), values = limits_of(factor, digit);
  return values.least >= all.least && values.largest <= all.largest;
}

bool widens(const DotInstruction& row, const DotFactors& factors) {
  return size_bytes(factors.shared->type) < size_bytes(row.shared) ||
         size_bytes(factors.own->type) < size_bytes(row.own);
}

/// Returns the factor without the condition that makes it 0 in a padding.
Expr unpadded_factor(const Expr& factor) {
  if (const dsl::Cast* cast = factor.as<dsl::Cast>())
    return dsl::cast(cast->type, unpadded_factor(cast->a));
  const dsl::Select* guard = factor.as<dsl::Select>();
  return guard && dsl::is_zero_bytes(guard->b) ? guard->a : factor;
}

const Loop* only_vector(const Block& body) {
  const Loop* loop = body.size() == 1 ? body.front().as<Loop>() : nullptr;
  return loop && loop->kind == LoopKind::Vector ? loop : nullptr;
}

/// True if the variable alone is one of the indices.
bool is_index(const std::vector<Expr>& indices, const std::string& variable) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
    const dsl::Var* var = index.as<dsl::Var>();
    return var && var->name == variable;
  });
}

/// Strips casts between integer types.
Expr uncast(Expr expr) {
  while (const dsl::Cast* cast = expr.as<dsl::Cast>()) {
    if (is_float(cast->type) || is_float(cast->a.type())) break;
    expr = cast->a;
  }
  return expr;
}

/// An element of memory, or some bits of it (Digit).
struct Factor {
  const dsl::Read* read = nullptr;
  std::optional<Digit> digit = {};
};

std::optional<Factor> factor_of(const Expr& operand) {
  const Expr value = unwidened(operand);
  if (const dsl::Read* read = value.as<dsl::Read>()) return Factor{read};
  const dsl::Binary* masked = value.as<dsl::Binary>();
  const auto mask = masked ? dsl::as_int(masked->b) : std::nullopt;
  if (!mask || masked->op != dsl::BinaryOp::BitAnd) return std::nullopt;
  const dsl::Binary* shifted = masked->a.as<dsl::Binary>();
  const bool is_shifted = shifted && shifted->op == dsl::BinaryOp::Shr;
  const Expr element = unwidened(is_shifted ? shifted->a : masked->a);
  const dsl::Read* read = element.as<dsl::Read>();
  if (!read || read->type != UInt8 || *mask < 0 || *mask > integer_limits(UInt8).largest)
    return std::nullopt;
  return Factor{read, Digit{is_shifted ? uncast(shifted->b) : Expr(0), *mask}};
}

}  // namespace

std::vector<const DotInstruction*> dot_instructions(const Target& target) {
  std::vector<const DotInstruction*> found;
  for (const DotInstruction& row : rows)
    if (has_all(target, row) && (found.empty() || found.back()->name != row.name))
      found.push_back(&row);
  return found;
}

std::optional<DotFactors> dot_factors(const Expr& product, const std::string& lane,
                                      const std::string& term) {
  const dsl::Binary* binary = product.as<dsl::Binary>();
  if (!binary || binary->op != dsl::BinaryOp::Mul) return std::nullopt;
  const auto a = factor_of(binary->a), b = factor_of(binary->b);
  if (!a || !b) return std::nullopt;
  const bool is_first_own = dsl::uses_var(a->read->indices, lane);
  const std::optional<Factor>&shared = is_first_own ? b : a, &own = is_first_own ? a : b;
  if (dsl::uses_var(shared->read->indices, lane) || !dsl::uses_var(own->read->indices, lane))
    return std::nullopt;
  if (!dsl::uses_var(shared->read->indices, term) || !dsl::uses_var(own->read->indices, term))
    return std::nullopt;
  const std::optional<Digit>& digit = own->digit;
  if (shared->digit) return std::nullopt;
  if (digit && (dsl::uses_var(digit->shift, lane) || dsl::uses_var(digit->shift, term)))
    return std::nullopt;
  return DotFactors{shared->read, own->read, own->digit};
}

const DotInstruction* find_dot_instruction(const Target& target, const DotFactors& factors,
                                           DType accumulator, int64_t depth) {
  const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const DotInstruction& row) {
    return has_all(target, row) && row.depth == depth && row.accumulator == accumulator &&
           takes(row.shared, *factors.shared) && takes(row.own, *factors.own, factors.digit) &&
           (!row.by_pairs || limits_of(*factors.own, factors.digit).largest <= largest_of_pairs);
  });
  return found == std::end(rows) ? nullptr : found;
}

std::vector<StageDot> dots_along(const Target& target, const dsl::Stage& stage,
                                 const std::string& terms) {
  std::vector<StageDot> dots;
  if (stage.combine != dsl::Combine::Sum) return dots;
  const Expr product = unpadded(stage.body);
  for (const dsl::Axis& lanes : stage.axes) {
    if (lanes.extent < 2) continue;
    const auto factors = dot_factors(product, lanes.name, terms);
    if (!factors) continue;
    for (int64_t depth = most_dot_depth; depth > 1; --depth)
      if (const DotInstruction* row = find_dot_instruction(target, *factors, stage.type, depth))
        dots.push_back({row, lanes.name, factors->own->tensor,
                        is_index(factors->shared->indices, terms), widens(*row, *factors)});
  }
  return dots;
}

Expr unpadded(const Expr& product) {
  const dsl::Binary* binary = product.as<dsl::Binary>();
  if (!binary || binary->op != dsl::BinaryOp::Mul) return product;
  return unpadded_factor(binary->a) * unpadded_factor(binary->b);
}

double dot_speed(const Target& target, const dsl::Compute& compute) {
  double most = 1;
  for (const dsl::Stage& stage : compute.stages) {
    for (const dsl::Axis& terms : stage.reduction)
      for (const StageDot& dot : dots_along(target, stage, terms.name))
        most = std::max(most, dot.instruction->speed(target.machine.core));
    if (const TensorTile* tile = core_tile_for(target, stage))
      most = std::max(most, speed_of(*tile, target.machine.core));
  }
  return most;
}

bool multiplies(const Target& target, DType type) {
  if (target.is_gpu()) {
    const Limits limits = limits_of(target);
    return std::ranges::any_of(tensor_tiles(), [&](const TensorTile& tile) {
      return tile.operand == type &&
             has_tile(tile, limits.gpu_architecture, limits.architecture_specific);
    });
  }
  const Core& core = target.machine.core;
  // Core tiles also multiply i8 by i8, but do not count for i8. Otherwise data of i8 would stay i8
  // instead of becoming u8, and products that have no tiles would lose the dot products of u8.
  const bool has_tiles =
      type != Int8 && std::ranges::any_of(tensor_tiles(), [&](const TensorTile& tile) {
        return has_core_tile(tile, target) && takes(tile, type) && speed_of(tile, core) > 1;
      });
  return has_tiles || std::ranges::any_of(rows, [&](const DotInstruction& row) {
           return has_all(target, row) && row.accumulates && row.shared == type &&
                  row.own == (is_float(type) ? type : Int8) && row.speed(core) > 1;
         });
}

std::optional<DotProduct> dot_product(const Loop& loop) {
  const Loop* depth = loop.kind == LoopKind::Vector ? only_vector(*loop.body) : nullptr;
  if (!depth || !dsl::is_int(depth->begin, 0)) return std::nullopt;
  const int64_t products = dsl::as_int(depth->end).value_or(0);
  if (products < 2 || products > most_dot_depth) return std::nullopt;
  const Assign* sum = depth->body->size() == 1 ? depth->body->front().as<Assign>() : nullptr;
  if (!sum || sum->combine != dsl::Combine::Sum || !dsl::uses_var(sum->indices, loop.variable) ||
      dsl::uses_var(sum->indices, depth->variable))
    return std::nullopt;
  auto factors = dot_factors(sum->value, loop.variable, depth->variable);
  if (!factors) return std::nullopt;
  return DotProduct{*std::move(factors), &loop, depth, sum};
}

}  // namespace tw::schedules
