// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/json_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tw::db {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json parse_object(std::string_view text, int levels) try {
  Json object =
      Json::parse(text, [=](int depth, Json::parse_event_t, Json&) { return depth <= levels; });
  if (!object.is_object()) throw std::invalid_argument("it is not a JSON object");
  return object;
} catch (const Json::parse_error& wrong) {
  throw std::invalid_argument("it is not JSON: " +
                              syntax_problem(wrong.byte, wrong.byte > text.size()));
} catch (const Json::exception&) {
  throw std::invalid_argument("it has a number that is too large");
}

const Json& field_of(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end())
    throw std::invalid_argument(fmt::format("the field {} is missing", name));
  return *field;
}

std::string text_field(const Json& object, const char* name) {
  const Json& value = field_of(object, name);
  if (!value.is_string()) throw std::invalid_argument(fmt::format("{} is not a text", name));
  return value.get<std::string>();
}

int64_t integer_field(const Json& object, const char* name) {
  const Json& value = field_of(object, name);
  if (!value.is_number_integer())
    throw std::invalid_argument(fmt::format("{} is not an integer", name));
  return value.get<int64_t>();
}

std::string syntax_problem(size_t byte, bool is_at_end) {
  return is_at_end ? "it ends too early" : fmt::format("the error is at byte {}", byte);
}

}  // namespace tw::db
