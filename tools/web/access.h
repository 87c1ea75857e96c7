// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access control of the web server: methods, names by which the server is called, and the token.
// Thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/web/http.h"

namespace tw::tools::web {

struct AccessRules {
  /// Names by which browsers may call the server, besides localhost and addresses in digits. A page
  /// of another site whose name was made to mean this machine (DNS rebinding) calls it otherwise.
  std::vector<std::string> names = {};
  std::string token = {};        ///< empty: everybody who reaches the server may read
  std::string cookie = "token";  ///< its name, which browsers share between the ports of a machine
};

/// The response to a request that is not answered otherwise: a method that does not read, a foreign
/// name, no token; or the one that turns ?token= into a cookie. None where the request may be
/// answered. Tokens are compared in a time that says nothing about where they differ.
std::optional<Response> refusal(const Request& request, const AccessRules& rules);

/// True if an address names this machine alone: "localhost", 127.0.0.0/8 or "::1".
bool is_loopback(std::string_view host);

/// True for an IPv4 or IPv6 address in digits, also in brackets.
bool is_address(std::string_view host);

}  // namespace tw::tools::web
