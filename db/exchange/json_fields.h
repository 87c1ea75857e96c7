// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: reads JSON objects that somebody else may have written. If the text is no JSON
// object, or a field is missing or has another type, the functions throw std::invalid_argument. Its
// message says in plain words what is wrong, for example "the field threads is missing".
// Thread-safe.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tw::db {

/// Parses a text that is one JSON object. Values that are nested deeper than `levels` levels are
/// dropped while the text is parsed, so that a hostile text takes no memory.
nlohmann::ordered_json parse_object(std::string_view text, int levels);

/// Returns the value of a field of an object.
const nlohmann::ordered_json& field_of(const nlohmann::ordered_json& object, const char* name);
/// Returns the text of a field that has a text.
std::string text_field(const nlohmann::ordered_json& object, const char* name);
/// Returns the integer of a field that has an integer.
int64_t integer_field(const nlohmann::ordered_json& object, const char* name);

/// Returns a clause that says where a text is not JSON: at byte number `byte`, from 1 on, or at its
/// end.
std::string syntax_problem(size_t byte, bool is_at_end);

}  // namespace tw::db
