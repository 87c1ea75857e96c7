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
  /// for other names are refused, because they are a sign of DNS rebinding. In this attack, the
  /// name of a foreign site is made to resolve to this machine, so that scripts of that site can
  /// read from it.
  std::vector<std::string> names = {};
  std::string token = {};  ///< empty: everybody who reaches the server may read
  /// Name of the cookie that replaces the token. Servers on different ports of a machine need
  /// different names, because browsers share cookies between ports.
  std::string cookie = "token";
};

/// Checks a request. Returns nullopt if the request may be answered. Otherwise returns the response
/// to send instead of a page. It is a redirect that sets a cookie if the parameter `token` is right
/// and the request has neither the cookie nor the token in a header. It is a refusal if the header
/// Host is missing, repeated or has a foreign name, if the token is missing, or if the method is
/// not GET or HEAD. Tokens are compared in constant time.
std::optional<Response> refusal(const Request& request, const AccessRules& rules);

/// True if the host is a loopback address: "localhost", 127.0.0.0/8 or "::1".
bool is_loopback(std::string_view host);

/// True if the host is a numeric IPv4 or IPv6 address, with or without brackets.
bool is_address(std::string_view host);

}  // namespace tw::tools::web
