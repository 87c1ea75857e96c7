// SPDX-License-Identifier: Apache-2.0
#include "codegen/abi.h"

#include <fmt/format.h>

#include <limits>

#include "base/integer.h"

namespace tw::codegen {

using schedules::Buffer;
using schedules::Expr;

ScratchLayout scratch_layout(const schedules::Program& program) {
  ScratchLayout layout;
  for (const Buffer& buffer : program.scratch) {
    layout.offsets.push_back(layout.bytes);
    layout.bytes += round_up(buffer.bytes(), buffer_alignment);
  }
  return layout;
}

std::string phase_symbol(const std::string& prefix, size_t phase) {
  return fmt::format("{}_p{}", prefix, phase);
}

std::string preparation_prefix(const std::string& prefix) { return prefix + "_prepare"; }

Status check_limits(const schedules::Program& program) {
  for (const schedules::Phase& phase : program.phases) {
    if (phase.tasks() > std::numeric_limits<int32_t>::max())
      return fail(ErrorCode::Unsupported,
                  fmt::format("[codegen] phase '{}' has {} tasks, at most {} can be numbered: make "
                              "fewer loops parallel",
                              phase.name, phase.tasks(), std::numeric_limits<int32_t>::max()));
    const int64_t bytes = schedules::stack_bytes(*phase.body);
    if (bytes > max_stack_bytes)
      return fail(
          ErrorCode::Unsupported,
          fmt::format("[codegen] phase '{}' needs {} bytes of local buffers, the limit is {}: "
                      "choose smaller tiles or place the buffer further in",
                      phase.name, bytes, max_stack_bytes));
  }
  return {};
}

namespace {

/// The sum without parentheses.
Expr plus(const Expr& sum, const Expr& term) {
  const auto* b = term.as<dsl::Binary>();
  if (b && b->op == dsl::BinaryOp::Add) return plus(plus(sum, b->a), b->b);
  if (b && b->op == dsl::BinaryOp::Sub) return plus(sum, b->a) - b->b;
  return sum + term;
}

/// x / n * n + x % n is x: how the loops of a fused one are numbered.
Expr joined(const Expr& outer, int64_t n, const Expr& inner) {
  const auto* quotient = outer.as<dsl::Binary>();
  const auto* remainder = inner.as<dsl::Binary>();
  if (quotient && remainder && quotient->op == dsl::BinaryOp::Div &&
      remainder->op == dsl::BinaryOp::Mod && dsl::is_int(quotient->b, n) &&
      dsl::is_int(remainder->b, n) && dsl::equal(quotient->a, remainder->a))
    return quotient->a;
  return plus(outer * Expr(n), inner);
}

}  // namespace

Expr linear_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  TW_CHECK(indices.size() == buffer.extents.size(), "an access has an index a dimension");
  Expr linear = 0;
  for (size_t i = 0; i < indices.size(); ++i)
    linear = joined(linear, buffer.extents[i], indices[i]);
  return linear;
}

}  // namespace tw::codegen
