// SPDX-License-Identifier: Apache-2.0
#include "tools/web/download.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace tw::tools::web {
namespace {

using std::chrono::milliseconds;

/// Ends the connection of a client after `total_ms`, whatever the client is waiting for, unless
/// end() is called before. Its destructor calls end().
class Deadline {
 public:
  Deadline(httplib::Client& client, int64_t total_ms)
      : watching_([this, &client, total_ms] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, milliseconds(total_ms), [this] { return has_ended_; })) return;
          client.stop();
        }) {}
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() { end(); }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
    if (watching_.joinable()) watching_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread watching_;
};

std::string_view describe(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "it cannot be connected to";
    case httplib::Error::ConnectionTimeout:
      return "it does not take the connection";
    case httplib::Error::Read:
      return "it stopped sending";
    case httplib::Error::Write:
      return "it stopped listening";
    case httplib::Error::SSLConnection:
      return "no secure connection can be made";
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
      return "its certificate is not trusted";
    default:
      return "the transfer failed";
  }
}

}  // namespace

namespace {

/// The two parts of an address: the server, such as "https://host:443", and the path of a file on
/// it.
struct Address {
  std::string server, path;
  bool is_encrypted() const { return server.starts_with("https://"); }
};

std::optional<Address> parse_address(const std::string& text) {
  const bool is_known = text.starts_with("https://") || text.starts_with("http://");
  const size_t path = is_known ? text.find('/', text.find("://") + 3) : std::string::npos;
  if (path == std::string::npos) return std::nullopt;
  return Address{text.substr(0, path), text.substr(path)};
}

/// The reply to one request.
struct Reply {
  int status = 0;
  std::string location;  ///< address of a redirect
  bool is_complete = false;
  std::string_view problem;
};

Reply ask(const Address& address, const DownloadLimits& limits, int64_t left_ms,
          const std::function<bool(std::string_view)>& take) {
  httplib::Client client(address.server);
  Reply reply;
  reply.problem = "the address names no server";
  if (!client.is_valid()) return reply;
  const auto ends = std::chrono::steady_clock::now() + milliseconds(left_ms);
  client.set_connection_timeout(milliseconds(std::min(limits.connect_ms, left_ms)));
  client.set_read_timeout(milliseconds(std::min(limits.idle_ms, left_ms)));
  client.set_write_timeout(milliseconds(std::min(limits.idle_ms, left_ms)));
  Deadline deadline(client, left_ms);
  const httplib::Result result = client.Get(
      address.path,
      [&](const httplib::Response& response) {
        reply.status = response.status;
        reply.location = response.get_header_value("Location");
        return reply.status == 200;
      },
      [&](const char* bytes, size_t size) {
        return std::chrono::steady_clock::now() < ends && take({bytes, size});
      });
  deadline.end();
  reply.is_complete = result && result->status == 200;
  reply.problem = describe(result.error());
  return reply;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

constexpr int most_redirects = 5;

}  // namespace

Status download(const std::string& address, const DownloadLimits& limits,
                const std::function<bool(std::string_view)>& take) try {
  std::optional<Address> next = parse_address(address);
  const auto begun = std::chrono::steady_clock::now();
  const auto spent_ms = [&] {
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun)
        .count();
  };
  for (int redirects = 0; next && redirects <= most_redirects; ++redirects) {
    const int64_t left_ms = limits.total_ms - spent_ms();
    if (left_ms <= 0) break;
    const Address now = *next;
    const Reply reply = ask(now, limits, left_ms, take);
    if (reply.is_complete) return {};
    if (spent_ms() >= limits.total_ms) break;
    if (reply.status == 0 || reply.status == 200)
      return fail(ErrorCode::Environment,
                  fmt::format("the server cannot be asked: {}", reply.problem));
    if (!is_redirect(reply.status))
      return fail(ErrorCode::Environment,
                  fmt::format("the server answers with status {}", reply.status));
    // If the redirect has only a path, the file is on the same server.
    next = parse_address(reply.location.starts_with("/") ? now.server + reply.location
                                                         : reply.location);
    if (next && now.is_encrypted() && !next->is_encrypted())
      return fail(ErrorCode::Environment, "the server redirects to a page that is not encrypted");
  }
  if (spent_ms() >= limits.total_ms)
    return fail(ErrorCode::Environment,
                fmt::format("the server takes more than {} s", limits.total_ms / 1000));
  return fail(ErrorCode::Environment,
              next ? "the server redirects too often" : "the address names no file of a server");
} catch (const std::exception& error) {
  // The HTTP library throws an exception if the port of an address is not a number.
  return fail(ErrorCode::Environment, fmt::format("the address is none ({})", error.what()));
}

}  // namespace tw::tools::web
