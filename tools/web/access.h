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
  /// Host names under which the server answers, besides localhost and numeric addresses. Requests
  /// for other names are refused, because they are a sign of DNS rebinding, an attack in which the
  /// name of a foreign site is made to resolve to this machine.
  std::vector<std::string> names = {};
  std::string token = {};  ///< empty: everybody who reaches the server may read
  /// Name of the cookie that has the token. Servers on other ports of the machine need other names,
  /// because browsers share cookies between ports.
  std::string cookie = "token";
};

/// Checks a request. Returns nullopt if the request may be answered. Otherwise returns the response
/// to send instead: a refusal, if the method is not GET or HEAD, the host name is foreign or the
/// token is missing; or a redirect that turns ?token= into a cookie. Tokens are compared in
/// constant time.
std::optional<Response> refusal(const Request& request, const AccessRules& rules);

/// True if the host is a loopback address: "localhost", 127.0.0.0/8 or "::1".
bool is_loopback(std::string_view host);

/// True if the host is a numeric IPv4 or IPv6 address, with or without brackets.
bool is_address(std::string_view host);

}  // namespace tw::tools::web
