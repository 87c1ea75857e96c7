// SPDX-License-Identifier: Apache-2.0
#pragma once
// The definitions that emitted C relies on: a head with which every text starts, and small
// functions, of which a text contains only those that it calls.

#include <string>
#include <string_view>

namespace tw::codegen {

/// A function of a prelude: its name and its definition.
struct PreludeFunction {
  std::string_view name;
  std::string_view text;
};

std::string_view c_head();

/// Returns the definitions of the functions that `body` calls, directly or through other functions,
/// in an order that compiles.
std::string c_functions_for(std::string_view body);

/// True for words that cannot name a variable of emitted C.
bool is_reserved_in_c(std::string_view word);

}  // namespace tw::codegen
