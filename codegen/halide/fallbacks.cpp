// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/fallbacks.h"

namespace tw::codegen::halide {
namespace {

/// The mark is a call with this name.
const char* const fallback_name = "tw_fallback";

}  // namespace

HStmt as_fallback(const HStmt& body) {
  const HExpr mark = hi::Call::make(index32, fallback_name, {}, hi::Call::Extern);
  return hi::Block::make(hi::Evaluate::make(mark), body);
}

bool is_fallback(const HStmt& body) {
  const auto* block = body.as<hi::Block>();
  const auto* first = block ? block->first.as<hi::Evaluate>() : nullptr;
  const auto* mark = first ? first->value.as<hi::Call>() : nullptr;
  return mark && mark->name == fallback_name;
}

}  // namespace tw::codegen::halide
