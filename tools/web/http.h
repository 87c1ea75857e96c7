// SPDX-License-Identifier: Apache-2.0
#pragma once
// A request and its response as plain values, so that pages and access rules need no socket.
// Thread-safe to share.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tw::tools::web {

struct Request {
  std::string method = "GET";
  std::string path = "/";  ///< without the query, %-sequences decoded
  /// The parameters of the query, decoded. If a name occurs several times, its first value counts.
  std::map<std::string, std::string> parameters = {};
  std::vector<std::pair<std::string, std::string>> headers = {};

  /// Returns the value of a header. The case of letters in `name` does not matter. nullopt if the
  /// header is absent or repeated.
  std::optional<std::string> header(std::string_view name) const;
  /// Returns the value of a parameter; empty if the parameter is absent.
  std::string parameter(const std::string& name) const;
};

struct Response {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// Percent-encodes a text for a query, or for a path if `is_path`. Letters, digits, "-._~" and, in
/// a path, "/" stay; every other byte becomes %XX.
std::string percent_encoded(std::string_view text, bool is_path = false);

/// Returns the percent-encoded address "/path?name=value&...". Parameters with an empty value are
/// left out.
std::string address_of(std::string_view path, const std::map<std::string, std::string>& parameters);

}  // namespace tw::tools::web
