// SPDX-License-Identifier: Apache-2.0
#pragma once
// The definitions that emitted C relies on: a head that every text starts with, and small functions
// of which a text contains those that it calls.

#include <string>
#include <string_view>

namespace tw::codegen {

/// A function of a prelude by name, with its definition.
struct PreludeFunction {
  std::string_view name;
  std::string_view text;
};

std::string_view c_head();

/// Definitions of the functions that `body` calls, and of those that they call, in order.
std::string c_functions_for(std::string_view body);

/// Words that no variable of the emitted C may be named.
bool is_reserved_in_c(std::string_view word);

}  // namespace tw::codegen
