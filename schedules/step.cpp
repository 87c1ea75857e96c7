// SPDX-License-Identifier: Apache-2.0
#include "schedules/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>
#include <type_traits>

#include "base/text.h"

namespace tw::schedules {
namespace {

constexpr std::array<std::string_view, 3> tail_names = {"guard", "exact", "shift"};
constexpr std::array<std::string_view, 2> partition_names = {"interleaved", "blocks"};
constexpr std::array<std::string_view, 2> accumulator_scope_names = {"register", "local"};
constexpr std::array<Scope, 2> accumulator_scopes = {Scope::Register, Scope::Local};

/// The words that schedule text uses for the values of an enumeration.
template <typename T>
struct Words;
template <>
struct Words<Tail> {
  static constexpr std::span<const std::string_view> names = tail_names;
  static constexpr std::string_view noun = "tail";
  static Tail value(size_t i) { return static_cast<Tail>(i); }
};
template <>
struct Words<Partition> {
  static constexpr std::span<const std::string_view> names = partition_names;
  static constexpr std::string_view noun = "partition";
  static Partition value(size_t i) { return static_cast<Partition>(i); }
};
template <>
struct Words<Scope> {
  static constexpr std::span<const std::string_view> names = accumulator_scope_names;
  static constexpr std::string_view noun = "scope";
  static Scope value(size_t i) { return accumulator_scopes[i]; }
};

template <typename S, typename F>
void for_each_field(F&& f) {
  std::apply([&](const auto&... field) { (f(field), ...); }, S::fields());
}

// ---- printing -------------------------------------------------------------------------------

void print(std::string& out, std::string_view value) { out.append(" ").append(value); }
void print(std::string& out, int64_t value) { print(out, std::to_string(value)); }
void print(std::string& out, const std::vector<std::string>& values) {
  for (const std::string& value : values) print(out, value);
}
void print(std::string& out, Tail value) { print(out, to_string(value)); }
void print(std::string& out, Partition value) { print(out, to_string(value)); }
void print(std::string& out, Scope value) { print(out, to_string(value)); }

template <typename S>
std::string text_of(const S& step) {
  const S defaults;
  std::string out(S::name);
  for_each_field<S>([&](const auto& field) {
    if (!field.is_optional || step.*field.member != defaults.*field.member)
      print(out, step.*field.member);
  });
  return out;
}

// ---- usage ----------------------------------------------------------------------------------

template <typename T>
std::string value_usage(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  if constexpr (std::is_same_v<T, std::vector<std::string>>) text += "...";
  return text;
}
template <typename T>
requires std::is_enum_v<T> std::string value_usage(std::string_view) {
  std::vector<std::string> names(Words<T>::names.begin(), Words<T>::names.end());
  return join(names, "|");
}

template <typename S>
std::string usage() {
  std::string text(S::name);
  for_each_field<S>([&]<typename F>(const F& field) {
    const std::string value = value_usage<typename F::Type>(field.name);
    text += field.is_optional ? fmt::format(" [{}]", value) : " " + value;
  });
  return text;
}

// ---- parsing --------------------------------------------------------------------------------

/// "register or local", "guard, exact or shift".
std::string choices(std::span<const std::string_view> names) {
  std::string text(names[0]);
  for (size_t i = 1; i < names.size(); ++i)
    text += fmt::format("{}{}", i + 1 == names.size() ? " or " : ", ", names[i]);
  return text;
}

/// Takes the words of a line one field at a time; keeps the first error.
class Parser {
 public:
  explicit Parser(std::vector<std::string> words) : rest_(std::move(words)) {}

  void parse(std::string_view field, std::string& value) {
    if (auto word = next(field)) value = *word;
  }
  void parse(std::string_view field, std::vector<std::string>& values) {
    if (rest_.empty()) note(fmt::format("the {} are missing", field));
    values = std::move(rest_);
    rest_.clear();
  }
  void parse(std::string_view field, int64_t& value) {
    const auto word = next(field);
    if (!word) return;
    const auto number = parse_int(*word);
    if (number && *number >= 1)
      value = *number;
    else
      note(fmt::format("'{}' is no positive integer", *word));
  }
  template <typename T>
  void parse(std::string_view, T& value) {
    if (rest_.empty()) return;
    constexpr auto names = Words<T>::names;
    const auto found = std::find(names.begin(), names.end(), rest_[0]);
    if (found == names.end())
      return note(fmt::format("'{}' is no {}: use {}", rest_[0], Words<T>::noun, choices(names)));
    value = Words<T>::value(static_cast<size_t>(found - names.begin()));
    rest_.erase(rest_.begin());
  }

  /// The first error of the line, words left over after the last field included; empty if none.
  std::string error() const {
    if (!error_.empty() || rest_.empty()) return error_;
    return fmt::format("'{}' is left over", rest_[0]);
  }

 private:
  void note(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  std::optional<std::string> next(std::string_view field) {
    if (rest_.empty()) {
      note(fmt::format("the {} is missing", field));
      return std::nullopt;
    }
    std::string word = rest_.front();
    rest_.erase(rest_.begin());
    return word;
  }

  std::vector<std::string> rest_;
  std::string error_;
};

template <typename S>
Result<Step> parse_as(std::vector<std::string> words) {
  S step;
  Parser parser(std::move(words));
  for_each_field<S>([&](const auto& field) { parser.parse(field.name, step.*field.member); });
  if (const std::string error = parser.error(); !error.empty())
    return fail(ErrorCode::Invalid, fmt::format("[{}] {}; write '{}'", S::name, error, usage<S>()));
  return Step(std::move(step));
}

tl::unexpected<Error> unknown_step(const std::string& name) {
  const std::vector<std::string> names = {
#define X(Type, method) std::string(Type::name),
      TW_STEPS(X)
#undef X
  };
  const auto guess = nearest(name, names);
  return fail(ErrorCode::Invalid,
              fmt::format("[schedule] '{}' is no scheduling step{}", name,
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

}  // namespace

std::string_view to_string(Tail tail) { return tail_names[static_cast<size_t>(tail)]; }
std::string_view to_string(Partition partition) {
  return partition_names[static_cast<size_t>(partition)];
}

std::string to_string(const Step& step) {
  return std::visit([](const auto& s) { return text_of(s); }, step);
}

Result<Step> parse_step(std::string_view line) {
  std::vector<std::string> rest = words(line);
  if (rest.empty()) return fail(ErrorCode::Invalid, "[schedule] an empty step");
  const std::string name = rest.front();
  rest.erase(rest.begin());
#define X(Type, method) \
  if (name == Type::name) return parse_as<Type>(std::move(rest));
  TW_STEPS(X)
#undef X
  return unknown_step(name);
}

std::vector<std::string> step_usages() {
  return {
#define X(Type, method) usage<Type>(),
      TW_STEPS(X)
#undef X
  };
}

}  // namespace tw::schedules
