// SPDX-License-Identifier: Apache-2.0
#include "schedules/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"

namespace tw::schedules {
namespace {

constexpr std::array<std::string_view, 3> tail_names = {"guard", "exact", "shift"};
constexpr std::array<std::string_view, 2> partition_names = {"interleaved", "blocks"};

struct Printer {
  std::string& out;
  void operator()(std::string_view value) { out.append(" ").append(value); }
  void operator()(const std::vector<std::string>& values) {
    for (const std::string& value : values) (*this)(value);
  }
  void operator()(int64_t value) { (*this)(std::to_string(value)); }
  void operator()(Tail value) {
    if (value != Tail::Guard) (*this)(to_string(value));
  }
  void operator()(Partition value) {
    if (value != Partition::Interleaved) (*this)(to_string(value));
  }
  void operator()(Scope value) {
    if (value != Scope::Register) (*this)(to_string(value));
  }
};

/// Takes the words of a line one field at a time; optional last fields keep their defaults.
struct Parser {
  std::vector<std::string> rest;
  std::string error;

  std::optional<std::string> next(std::string_view what) {
    if (rest.empty()) {
      if (error.empty()) error = fmt::format("a {} is missing", what);
      return std::nullopt;
    }
    std::string word = rest.front();
    rest.erase(rest.begin());
    return word;
  }
  void operator()(std::string& value) {
    if (auto word = next("name")) value = *word;
  }
  void operator()(std::vector<std::string>& values) {
    if (rest.empty() && error.empty()) error = "the list of loops is missing";
    values = std::move(rest);
    rest.clear();
  }
  void operator()(int64_t& value) {
    const auto word = next("number");
    if (!word) return;
    const auto number = parse_int(*word);
    if (number && *number >= 1) {
      value = *number;
    } else if (error.empty()) {
      error = fmt::format("'{}' is no positive integer", *word);
    }
  }
  void operator()(Tail& value) { one_of(tail_names, value, "tail: use guard, exact or shift"); }
  void operator()(Partition& value) {
    one_of(partition_names, value, "partition: use interleaved or blocks");
  }
  template <size_t n, typename T>
  void one_of(const std::array<std::string_view, n>& names, T& value, std::string_view what) {
    if (rest.empty()) return;
    const auto found = std::find(names.begin(), names.end(), rest[0]);
    if (found != names.end()) {
      value = static_cast<T>(found - names.begin());
      rest.erase(rest.begin());
    } else if (error.empty()) {
      error = fmt::format("'{}' is no {}", rest[0], what);
    }
  }
  void operator()(Scope& value) {
    if (rest.empty()) return;
    for (const Scope scope : {Scope::Register, Scope::Local})
      if (rest[0] == to_string(scope)) {
        value = scope;
        rest.clear();
        return;
      }
    if (error.empty()) error = fmt::format("'{}' is no scope: use register or local", rest[0]);
  }
};

template <size_t I = 0>
Result<Step> parse_as(const std::string& name, Parser& parser) {
  if constexpr (I == std::variant_size_v<Step>) {
    return fail(ErrorCode::Invalid, fmt::format("[schedule] '{}' is no scheduling step", name));
  } else {
    using T = std::variant_alternative_t<I, Step>;
    if (name != T::name) return parse_as<I + 1>(name, parser);
    T step;
    step.fields(parser);
    if (parser.error.empty() && !parser.rest.empty())
      parser.error = fmt::format("'{}' is left over", parser.rest[0]);
    if (!parser.error.empty())
      return fail(ErrorCode::Invalid, fmt::format("[{}] {}", name, parser.error));
    return Step(std::move(step));
  }
}

}  // namespace

std::string_view to_string(Tail tail) { return tail_names[static_cast<size_t>(tail)]; }
std::string_view to_string(Partition partition) {
  return partition_names[static_cast<size_t>(partition)];
}

std::string to_string(const Step& step) {
  return std::visit(
      [](auto copy) {
        std::string out(copy.name);
        copy.fields(Printer{out});
        return out;
      },
      step);
}

Result<Step> parse_step(std::string_view line) {
  Parser parser{words(line), ""};
  if (parser.rest.empty()) return fail(ErrorCode::Invalid, "[schedule] an empty step");
  const std::string name = parser.rest.front();
  parser.rest.erase(parser.rest.begin());
  return parse_as(name, parser);
}

}  // namespace tw::schedules
