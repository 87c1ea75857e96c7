// SPDX-License-Identifier: Apache-2.0
#include "tools/web/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"

namespace tw::tools::web {
namespace {

Response refused(int status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), to_lower);
  return result;
}

std::string_view without_brackets(std::string_view host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

/// Returns the name in a Host header, in lower case and without the port: "[::1]:80" gives "[::1]",
/// and "Box.lan:80" gives "box.lan". A dot at the end is removed.
std::string name_of(std::string_view host) {
  const size_t bracket = host.find(']');
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string name = lower(host.substr(0, colon));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_expected(std::string_view host, const std::vector<std::string>& names) {
  const std::string name = name_of(host);
  return name == "localhost" || is_address(name) ||
         std::ranges::any_of(names, [&](const std::string& known) { return lower(known) == name; });
}

// Compares two texts by their hashes, so that the time of the comparison says nothing about the
// token. Hashes have equal lengths, hashes of similar texts are not similar, and the loop does not
// stop at the first difference.
bool is_same_secret(std::string_view a, std::string_view b) {
  const std::string x = sha256_hex(a), y = sha256_hex(b);
  unsigned difference = 0;
  for (size_t i = 0; i < x.size(); ++i) difference |= static_cast<unsigned>(x[i] ^ y[i]);
  return difference == 0;
}

/// Returns the value of the cookie that a browser keeps in place of the token: a hash of the token.
std::string cookie_value(const std::string& token) {
  return sha256_hex("tilewright db serve: " + token);
}

std::string cookie_of(const Request& request, const std::string& name) {
  for (const std::string& part : split(request.header("Cookie").value_or(""), ';')) {
    const std::string_view cookie = trim(part);
    const size_t equals = cookie.find('=');
    if (equals != std::string_view::npos && cookie.substr(0, equals) == name)
      return std::string(cookie.substr(equals + 1));
  }
  return {};
}

bool has_token(const Request& request, const AccessRules& rules) {
  constexpr std::string_view bearer = "Bearer ";
  const std::string authorization = request.header("Authorization").value_or("");
  if (authorization.starts_with(bearer) &&
      is_same_secret(trim(authorization.substr(bearer.size())), rules.token))
    return true;
  return is_same_secret(cookie_of(request, rules.cookie), cookie_value(rules.token));
}

/// Returns a redirect to the requested page without the token in its address, which sets the cookie
/// that replaces the token. A path such as "//host" is replaced by "/", because browsers would
/// interpret it as the address of another site.
Response with_cookie(const Request& request, const AccessRules& rules) {
  std::map<std::string, std::string> others = request.parameters;
  others.erase("token");
  const std::string path =
      request.path.starts_with("/") && !request.path.starts_with("//") ? request.path : "/";
  Response response = refused(303, "go on");
  response.headers = {
      {"Location", address_of(path, others)},
      {"Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000",
                                 rules.cookie, cookie_value(rules.token))}};
  return response;
}

std::optional<Response> token_refusal(const Request& request, const AccessRules& rules) {
  if (rules.token.empty() || has_token(request, rules)) return std::nullopt;
  const auto given = request.parameters.find("token");
  if (given != request.parameters.end() && is_same_secret(given->second, rules.token))
    return with_cookie(request, rules);
  Response response =
      refused(401,
              "A token is needed: open this address once with ?token=TOKEN, or send the header "
              "\"Authorization: Bearer TOKEN\".");
  response.headers = {{"WWW-Authenticate", "Bearer"}};
  return response;
}

}  // namespace

std::optional<Response> refusal(const Request& request, const AccessRules& rules) {
  const std::optional<std::string> host = request.header("Host");
  if (!host) return refused(400, "One header Host was expected.");
  if (!is_expected(*host, rules.names))
    return refused(403,
                   "This server is not called by that name: --name tells it by which others it "
                   "may be.");
  if (const auto refused_token = token_refusal(request, rules)) return refused_token;
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  Response response = refused(405, "This server only reads: GET and HEAD.");
  response.headers = {{"Allow", "GET, HEAD"}};
  return response;
}

bool is_address(std::string_view host) {
  const std::string text(without_brackets(host));
  in_addr four = {};
  in6_addr six = {};
  return inet_pton(AF_INET, text.c_str(), &four) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &six) == 1;
}

bool is_loopback(std::string_view host) {
  const std::string text = lower(without_brackets(host));
  return text == "localhost" || text == "::1" || (is_address(text) && text.starts_with("127."));
}

}  // namespace tw::tools::web
