// SPDX-License-Identifier: Apache-2.0
#include "tools/web/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

namespace tw::tools::web {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A request is its head: a line of at most 8 KiB and headers. Version 0.11 of the library bounds
// neither their number nor the time that they may take.
constexpr size_t most_request_bytes = 16 << 10;
constexpr milliseconds request_limit{5'000};
constexpr milliseconds response_limit{30'000};
// For what a client still sends after it was answered, such as the body of a refused POST; without
// that, closing would take the answer away from it.
constexpr milliseconds farewell_limit{300};
constexpr size_t most_farewell_bytes = 64 << 10;
constexpr size_t thread_count = 8;
constexpr milliseconds between_looks{50};

class Countdown {
 public:
  explicit Countdown(milliseconds limit) : end_(SteadyClock::now() + limit) {}
  int left_ms() const {
    const auto left = std::chrono::ceil<milliseconds>(end_ - SteadyClock::now()).count();
    return static_cast<int>(std::max<int64_t>(left, 0));
  }

 private:
  SteadyClock::time_point end_;
};

/// Whether the socket is ready for `events` before the time is over, or `is_over`.
bool is_ready(int socket, short events, const Countdown& countdown,
              const std::atomic<bool>* is_over = nullptr) {
  for (;;) {
    const int left_ms = countdown.left_ms();
    pollfd polled = {socket, events, 0};
    const int ready = poll(&polled, 1, std::min<int>(left_ms, between_looks.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (left_ms == 0 || (is_over && *is_over)) return false;
  }
}

/// One connection, from which a bounded number of bytes is read within a bounded time.
class Connection final : public httplib::Stream {
 public:
  /// Requests that have not arrived once `is_ending` are not waited for.
  Connection(int socket, const std::atomic<bool>& is_ending)
      : socket_(socket), is_ending_(is_ending) {}

  bool is_readable() const override {
    return used_ < filled_ || is_ready(socket_, POLLIN, asking_, &is_ending_);
  }
  bool is_writable() const override { return is_ready(socket_, POLLOUT, answering_); }

  ssize_t read(char* out, size_t size) override {
    if (used_ == filled_ && !fill()) return -1;
    const size_t count = std::min(size, filled_ - used_);
    std::memcpy(out, buffer_.data() + used_, count);
    used_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, size_t size) override {
    if (!is_writable()) return -1;
    for (;;) {
      const ssize_t sent = send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0 || (errno != EINTR && errno != EAGAIN) || !is_writable()) return sent;
    }
  }

  // Nobody asks who it is.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

  void close() {
    shutdown(socket_, SHUT_WR);
    const Countdown farewell(farewell_limit);
    for (size_t taken = 0; taken < most_farewell_bytes && is_ready(socket_, POLLIN, farewell);) {
      const ssize_t count = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (count <= 0) break;
      taken += static_cast<size_t>(count);
    }
    ::close(socket_);
  }

 private:
  bool fill() {
    if (received_ >= most_request_bytes || !is_readable()) return false;
    const size_t room = std::min(buffer_.size(), most_request_bytes - received_);
    const ssize_t count = recv(socket_, buffer_.data(), room, 0);
    if (count <= 0) return false;
    received_ += static_cast<size_t>(count);
    used_ = 0;
    filled_ = static_cast<size_t>(count);
    return true;
  }

  int socket_;
  const std::atomic<bool>& is_ending_;
  Countdown asking_{request_limit};
  Countdown answering_{request_limit + response_limit};
  std::array<char, 4096> buffer_;
  size_t used_ = 0, filled_ = 0, received_ = 0;
};

/// The library's server over our connections.
class Listener final : public httplib::Server {
 public:
  void end() {
    is_ending_ = true;
    stop();  // does nothing before the listener runs
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, is_ending_);
    bool is_closed = false;
    // Pages are small: parts of them are not served, of which a request could ask for thousands.
    const bool answered =
        process_request(connection, true, is_closed, [](httplib::Request& r) { r.ranges.clear(); });
    connection.close();
    return answered;
  }

  std::atomic<bool> is_ending_ = false;
};

Request request_of(const httplib::Request& from) {
  Request request;
  request.method = from.method;
  request.path = from.path;
  for (const auto& [name, value] : from.params) request.parameters.try_emplace(name, value);
  request.headers.assign(from.headers.begin(), from.headers.end());
  return request;
}

void put(const Response& from, httplib::Response& to) {
  to.status = from.status;
  to.set_content(from.body, from.type);
  for (const auto& [name, value] : from.headers) to.set_header(name, value);
}

Response answer(const Handler& handler, const Request& request) {
  try {
    return handler(request);
  } catch (const std::exception&) {  // above all std::bad_alloc
    return {.status = 500, .type = "text/plain", .body = "The page cannot be made.\n"};
  }
}

// The library's own default lets another process of the user listen on the same port.
void set_options(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

struct Server::State {
  Listener listener;
  int port = 0;
};

Result<Server> Server::listen(const std::string& host, int port) {
  auto state = std::make_unique<State>();
  Listener& listener = state->listener;
  listener.set_socket_options(set_options);
  listener.new_task_queue = [] { return new httplib::ThreadPool(thread_count); };
  errno = 0;
  if (port == 0)
    state->port = listener.bind_to_any_port(host);
  else
    state->port = listener.bind_to_port(host, port) ? port : -1;
  if (state->port > 0) return Server(std::move(state));
  return fail(ErrorCode::Environment,
              fmt::format("[serve] {} port {} cannot be listened on ({}): name another with --host "
                          "and --port; --port 0 takes a free one",
                          host, port, errno == 0 ? "no such address" : std::strerror(errno)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

int Server::port() const { return state_->port; }

Status Server::run(const Handler& handler, const StopToken& stop) {
  Listener& listener = state_->listener;
  listener.set_pre_routing_handler([&](const httplib::Request& from, httplib::Response& to) {
    put(answer(handler, request_of(from)), to);
    return httplib::Server::HandlerResponse::Handled;
  });
  const std::jthread watcher([&](const std::stop_token& done) {
    while (!done.stop_requested()) {
      if (stop.is_stopped()) listener.end();
      std::this_thread::sleep_for(between_looks);
    }
  });
  if (listener.listen_after_bind() || stop.is_stopped()) return {};
  return fail(ErrorCode::Environment, "[serve] the socket failed: start the server again");
}

}  // namespace tw::tools::web
