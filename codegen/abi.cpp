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

}  // namespace tw::codegen
