// SPDX-License-Identifier: Apache-2.0
#include "schedules/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <concepts>
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
template <size_t N>
void print(std::string& out, const OwnNames<N>& value) {
  print(out, "as");
  print(out, value.names);
}

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

template <typename T>
requires std::same_as<T, OwnNames<1>> std::string value_usage(std::string_view) {
  return "as NAME";
}
template <typename T>
requires std::same_as<T, OwnNames<2>> std::string value_usage(std::string_view) {
  return "as OUTER INNER";
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

/// Joins the names for a message: "register or local", "guard, exact or shift".
std::string choices(std::span<const std::string_view> names) {
  std::string text(names[0]);
  for (size_t i = 1; i < names.size(); ++i)
    text += fmt::format("{}{}", i + 1 == names.size() ? " or " : ", ", names[i]);
  return text;
}

/// Parses the words after the name of a step, one field at a time, and keeps the first error.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {}

  void parse(std::string_view field, std::string& value) {
    if (const std::string* word = next(field)) value = *word;
  }
  void parse(std::string_view field, std::vector<std::string>& values) {
    if (is_done()) note(at_, fmt::format("the {} are missing", field));
    take_rest(values);
  }
  void parse(std::string_view field, int64_t& value) {
    const std::string* word = next(field);
    if (!word) return;
    const auto number = parse_int(*word);
    if (number && *number >= 1)
      value = *number;
    else
      note(at_ - 1, fmt::format("'{}' is no positive integer", *word));
  }
  template <size_t N>
  void parse(std::string_view, OwnNames<N>& value) {
    if (is_done() || words_[at_] != "as") return;
    if (words_.size() - at_ - 1 != N)
      note(at_, fmt::format("'as' is followed by {}", N == 1 ? "one name" : "two names"));
    ++at_;
    take_rest(value.names);
  }
  template <typename T>
  void parse(std::string_view, T& value) {
    if (is_done() || words_[at_] == "as") return;
    constexpr auto names = Words<T>::names;
    const auto found = std::find(names.begin(), names.end(), words_[at_]);
    if (found == names.end())
      return note(
          at_, fmt::format("'{}' is no {}: use {}", words_[at_], Words<T>::noun, choices(names)));
    value = Words<T>::value(static_cast<size_t>(found - names.begin()));
    ++at_;
  }

  /// Returns the first error of the line; nullopt if there is none. Words after the last field are
  /// an error.
  std::optional<BadStep> error() const {
    if (error_ || is_done()) return error_;
    return bad(at_, fmt::format("'{}' is left over", words_[at_]));
  }
  bool is_done() const { return at_ == words_.size(); }

 private:
  static BadStep bad(size_t word, std::string what) {
    return {Error{ErrorCode::Invalid, std::move(what)}, word};
  }
  void note(size_t word, std::string what) {
    if (!error_) error_ = bad(word, std::move(what));
  }
  void take_rest(std::vector<std::string>& values) {
    values.assign(words_.begin() + static_cast<ptrdiff_t>(at_), words_.end());
    at_ = words_.size();
  }
  /// Returns the next word. If there is none, notes the error that the field is missing and returns
  /// null.
  const std::string* next(std::string_view field) {
    if (!is_done()) return &words_[at_++];
    note(at_, fmt::format("the {} is missing", field));
    return nullptr;
  }

  const std::vector<std::string>& words_;
  size_t at_ = 1;  // the first word is the name of the step
  std::optional<BadStep> error_;
};

template <typename S>
tl::expected<Step, BadStep> parse_as(const std::vector<std::string>& words) {
  S step;
  Parser parser(words);
  for_each_field<S>([&](const auto& field) {
    if (field.is_optional && parser.is_done()) return;
    parser.parse(field.name, step.*field.member);
  });
  if (auto bad = parser.error()) {
    bad->error.message =
        fmt::format("[{}] {}; write '{}'", S::name, bad->error.message, usage<S>());
    return tl::unexpected<BadStep>(std::move(*bad));
  }
  return Step(std::move(step));
}

Error unknown_step(const std::string& name) {
  const std::vector<std::string> names = {
#define X(Type, method) std::string(Type::name),
      TW_STEPS(X)
#undef X
  };
  const auto guess = nearest(name, names);
  return {ErrorCode::Invalid,
          fmt::format("[schedule] '{}' is no scheduling step{}", name,
                      guess ? fmt::format("; did you mean '{}'?", *guess)
                            : fmt::format(": the steps are {}", join(names, ", ")))};
}

}  // namespace

std::string_view to_string(Tail tail) { return tail_names[static_cast<size_t>(tail)]; }
std::string_view to_string(Partition partition) {
  return partition_names[static_cast<size_t>(partition)];
}

std::string to_string(const Step& step) {
  return std::visit([](const auto& s) { return text_of(s); }, step);
}

tl::expected<Step, BadStep> parse_step(const std::vector<std::string>& words) {
  if (words.empty())
    return tl::unexpected<BadStep>(BadStep{{ErrorCode::Invalid, "[schedule] an empty step"}, 0});
  const std::string& name = words.front();
#define X(Type, method) \
  if (name == Type::name) return parse_as<Type>(words);
  TW_STEPS(X)
#undef X
  return tl::unexpected<BadStep>(BadStep{unknown_step(name), 0});
}

Result<Step> parse_step(std::string_view line) {
  auto step = parse_step(words(line));
  if (!step) return tl::unexpected<Error>(std::move(step.error().error));
  return std::move(*step);
}

std::vector<std::string> step_usages() {
  return {
#define X(Type, method) usage<Type>(),
      TW_STEPS(X)
#undef X
  };
}

}  // namespace tw::schedules
