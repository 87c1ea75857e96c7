// SPDX-License-Identifier: Apache-2.0
#pragma once
// HTML that cannot be broken by the texts in it: html() escapes every argument that is not Html
// already.
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

/// The text with what readers could not see as escapes, "\u202e": control characters but tabs and
/// ends of lines, invisible and bidirectional ones, bytes that are no UTF-8.
std::string visible(std::string_view text);
/// The same in one line, cut to `most` characters, 0: all.
std::string one_line(std::string_view text, size_t most = 0);

/// Content of an element or of an attribute in double quotes that shows visible(text).
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

/// `address` as address_of() makes it.
Html link(std::string_view address, std::string_view text);

}  // namespace tw::tools::web
