// SPDX-License-Identifier: Apache-2.0
#include "tools/web/download.h"

#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tw::tools::web {
namespace {

using std::chrono::milliseconds;

/// Ends the connection of a client when its time is over, whatever the client waits for.
class Deadline {
 public:
  Deadline(httplib::Client& client, int64_t total_ms)
      : watching_([this, &client, total_ms] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, milliseconds(total_ms), [this] { return has_ended_; })) return;
          is_over_ = true;
          client.stop();
        }) {}
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() { end(); }

  /// True if the time was over before this call.
  bool end() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
    if (watching_.joinable()) watching_.join();
    return is_over_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false, is_over_ = false;
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
    case httplib::Error::ExceedRedirectCount:
      return "it redirects in a circle";
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
      return "its certificate is not trusted";
    default:
      return "the transfer failed";
  }
}

}  // namespace

Status download(const std::string& address, const DownloadLimits& limits,
                const std::function<bool(std::string_view piece)>& take) {
  const size_t host = address.find("://");
  const size_t path = host == std::string::npos ? host : address.find('/', host + 3);
  if (path == std::string::npos)
    return fail(ErrorCode::Environment, "the address names no file of a server");
  httplib::Client client(address.substr(0, path));
  if (!client.is_valid()) return fail(ErrorCode::Environment, "the address names no server");
  client.set_follow_location(true);
  client.set_connection_timeout(milliseconds(limits.connect_ms));
  client.set_read_timeout(milliseconds(limits.idle_ms));
  client.set_write_timeout(milliseconds(limits.idle_ms));
  int status = 0;
  Deadline deadline(client, limits.total_ms);
  const httplib::Result result = client.Get(
      address.substr(path),
      [&](const httplib::Response& response) {
        status = response.status;
        return status == 200;
      },
      [&](const char* bytes, size_t size) {
        return take({bytes, size});
      });
  const bool is_over = deadline.end();
  if (status != 0 && status != 200)
    return fail(ErrorCode::Environment, fmt::format("the server answers with status {}", status));
  if (is_over)
    return fail(ErrorCode::Environment,
                fmt::format("the server takes more than {} s", limits.total_ms / 1000));
  if (!result)
    return fail(ErrorCode::Environment,
                fmt::format("the server cannot be asked: {}", describe(result.error())));
  if (result->status != 200)
    return fail(ErrorCode::Environment,
                fmt::format("the server answers with status {}", result->status));
  return {};
}

}  // namespace tw::tools::web
