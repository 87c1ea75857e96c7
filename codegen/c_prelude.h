// SPDX-License-Identifier: Apache-2.0
#pragma once
// The prelude of emitted C. It begins with the lines of c_head(), which every text needs. Small
// functions follow, of which a text contains only those that it calls (c_functions_for()).

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

/// True if no variable of emitted C can have this name, because the name is a keyword, is declared
/// by the standard headers, or begins with tw_ or TW_ as the names of the prelude do.
bool is_reserved_in_c(std::string_view word);

}  // namespace tw::codegen
