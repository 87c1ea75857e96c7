// SPDX-License-Identifier: Apache-2.0
#include "db/server_address.h"

#include <fmt/format.h>

#include <algorithm>

namespace tw::db {
namespace {

constexpr std::string_view schemes[] = {"postgresql://", "postgres://"};

/// Returns the part of the address after the scheme; empty if there is no scheme.
std::string_view after_scheme(std::string_view name) {
  for (const std::string_view scheme : schemes)
    if (name.starts_with(scheme)) return name.substr(scheme.size());
  return {};
}

Status refused(std::string_view what, std::string_view todo) {
  return fail(ErrorCode::Usage, fmt::format("[open] the address of the server {}; "
                                            "postgresql://user@host:port/database was expected; {}",
                                            what, todo));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Decodes %-escapes: "pass%77ord" is "password". libpq decodes the names of options too.
std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    out += low >= 0 ? static_cast<char>(16 * high + low) : text[i];
    if (low >= 0) i += 2;
  }
  return out;
}

bool has_password_option(std::string_view options) {
  while (!options.empty()) {
    const size_t end = std::min(options.find('&'), options.size());
    const std::string name = decoded(options.substr(0, std::min(options.find('='), end)));
    if (name == "password" || name == "sslpassword") return true;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return false;
}

}  // namespace

bool is_server(std::string_view name) {
  return std::any_of(std::begin(schemes), std::end(schemes),
                     [&](std::string_view scheme) { return name.starts_with(scheme); });
}

Status check_address(std::string_view address) {
  constexpr std::string_view where =
      "give the password in ~/.pgpass, in the file that PGPASSFILE names, or in a service";
  std::string_view rest = after_scheme(address);
  const auto is_printable = [](char c) { return c > ' ' && c != '\x7f'; };
  if (!std::all_of(rest.begin(), rest.end(), is_printable))
    return refused("holds a space or a control character", "write it as %20 and the like");
  const size_t at = rest.find('@');
  if (at != std::string_view::npos) {
    // libpq looks for the @ that ends the user's name only before the first /. A person may mean an
    // @ behind a / or ?, or a later @. Such addresses are refused.
    if (rest.find('@', at + 1) != std::string_view::npos || rest.find('/') < at ||
        rest.find('?') < at)
      return refused("has an @ that ends no name of a user", "write it as %40");
    if (rest.substr(0, at).find(':') != std::string_view::npos)
      return refused("holds a password, which the list of processes shows to everybody", where);
    rest.remove_prefix(at + 1);
  }
  const size_t options = rest.find('?');
  if (options != std::string_view::npos && has_password_option(rest.substr(options + 1)))
    return refused("holds a password, which the list of processes shows to everybody", where);
  return {};
}

std::string shown_database(const std::string& name) {
  return !is_server(name) || check_address(name) ? name : std::string(schemes[0]) + "...";
}

}  // namespace tw::db
