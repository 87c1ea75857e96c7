// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds HTML safely: html() escapes every argument that is not Html already.
//
//   Html cell = html("<td>{}</td>", record.workload);      // shows the text, whatever it is
//   Html row = html("<tr>{}{}</tr>", cell, link(address, "more"));
//
// Thread-safe.

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace tw::tools::web {

struct Html {
  std::string markup;
  Html& operator+=(const Html& other) {
    markup += other.markup;
    return *this;
  }
};

/// Returns the text with everything that readers cannot see replaced by escapes such as "\u202e":
/// control characters except tabs and line feeds, invisible characters, characters that change the
/// direction of text, and bytes that are not UTF-8 ("\xff").
std::string visible(std::string_view text);
/// Returns visible(text) as one line: line feeds become "\n" and tabs "\t". After `most` characters
/// (0: no limit) the rest is replaced by "…".
std::string one_line(std::string_view text, size_t most = 0);

/// Returns visible(text), escaped for use in an element or in a quoted attribute of HTML.
std::string markup_of(std::string_view text);
inline std::string markup_of(const Html& html) { return html.markup; }
template <std::integral Number>
std::string markup_of(Number number) {
  return fmt::format("{}", number);
}

template <typename T>
using MarkupOf = decltype(markup_of(std::declval<const T&>()));

template <typename... Args>
Html html(fmt::format_string<MarkupOf<Args>...> pattern, const Args&... args) {
  return {fmt::format(pattern, markup_of(args)...)};
}

/// Returns a link with the text. Requires: `address` is from address_of() or has only characters
/// that need no escaping in an address.
Html link(std::string_view address, std::string_view text);

}  // namespace tw::tools::web
