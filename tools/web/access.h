// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access control of the web server: allowed methods, allowed host names, and the token.
// Thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/web/http.h"

namespace tw::tools::web {

struct AccessRules {
  /// Host names under which the server answers, besides localhost and numeric addresses. Other
  /// names are refused, as they are a sign of DNS rebinding: a foreign site whose name was made to
  /// resolve to this machine.
  std::vector<std::string> names = {};
  std::string token = {};  ///< empty: everybody who reaches the server may read
  /// Name of the cookie. Browsers share cookies between the ports of a machine.
  std::string cookie = "token";
};

/// Checks a request. Returns nullopt if the request may be answered. Otherwise returns the response
/// to send instead: a refusal of a method other than GET and HEAD, of a foreign host name or of a
/// missing token, or the redirect that turns ?token= into a cookie. Tokens are compared in constant
/// time.
std::optional<Response> refusal(const Request& request, const AccessRules& rules);

/// True if the host is a loopback address: "localhost", 127.0.0.0/8 or "::1".
bool is_loopback(std::string_view host);

/// True if the host is a numeric IPv4 or IPv6 address, with or without brackets.
bool is_address(std::string_view host);

}  // namespace tw::tools::web
