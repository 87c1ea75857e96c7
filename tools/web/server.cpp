// SPDX-License-Identifier: Apache-2.0
#include "tools/web/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "tools/web/waiting_room.h"

namespace tw::tools::web {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds response_limit{30'000};
constexpr size_t thread_count = 8;
constexpr milliseconds between_looks{50};
// Length of the queue of connections that wait to be accepted. The HTTP library would use 5; a
// client that finds the queue full tries again only after a second.
constexpr int most_queued = 512;

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

/// Waits until the socket can be written. Returns false if the time of `countdown` is over before
/// that, or if waiting fails.
bool is_writable(int socket, const Countdown& countdown) {
  for (;;) {
    const int left_ms = countdown.left_ms();
    pollfd polled = {socket, POLLOUT, 0};
    const int ready = poll(&polled, 1, left_ms);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

/// A connection whose request has arrived. read() returns bytes of that request and reads nothing
/// from the socket.
class Connection final : public httplib::Stream {
 public:
  /// Requires: `request` outlives the connection.
  Connection(int socket, const std::string& request) : socket_(socket), request_(request) {}

  bool is_readable() const override { return used_ < request_.size(); }
  bool is_writable() const override { return web::is_writable(socket_, answering_); }

  ssize_t read(char* out, size_t size) override {
    if (!is_readable()) return -1;
    const size_t count = request_.copy(out, size, used_);
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

  // These functions set nothing, because no code uses the addresses.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  const std::string& request_;
  const Countdown answering_{response_limit};
  size_t used_ = 0;
};

/// Returns the number of connections that may wait or be answered: half of the number of files that
/// the process may open, but at least 16 and at most 4096. The other half is for the database.
size_t most_waiting() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 256;
  return std::clamp<size_t>(files.rlim_cur / 2, 16, 4096);
}

/// A queue that runs each task at once, on the thread that accepts connections. The tasks are
/// short: they only pass the connection to the waiting room.
class AtOnce final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

/// The server of the HTTP library, changed so that its threads only answer requests that have
/// arrived. Before and after that, the waiting room owns the connection.
class Listener final : public httplib::Server {
 public:
  Listener() {
    new_task_queue = [] { return new AtOnce; };
    set_socket_options([this](socket_t socket) {
      // The default of the library is replaced because it would let another process of the user
      // listen on the same port.
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      socket_ = socket;
    });
  }

  void lengthen_queue() const { ::listen(socket_, most_queued); }

  /// Answers requests until stop() is called, and then the requests that have arrived by then.
  /// Returns false if listening failed.
  bool serve() {
    httplib::ThreadPool threads(thread_count);
    WaitingRoom room(most_waiting(), [&](int socket, const std::string& request) {
      threads.enqueue([this, socket, request] { answer(socket, request); });
    });
    room_ = &room;
    const bool listened = listen_after_bind();
    room.refuse_requests();
    threads.shutdown();
    return listened;
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    room_->await_request(socket);
    return true;
  }

  void answer(int socket, const std::string& request) {
    Connection connection(socket, request);
    bool is_closed = false;
    // Requests for ranges of a page get the whole page, because one request could ask for thousands
    // of ranges. Pages are small.
    process_request(connection, true, is_closed, [](httplib::Request& r) { r.ranges.clear(); });
    room_->await_end(socket);
  }

  int socket_ = -1;  ///< the listening socket
  WaitingRoom* room_ = nullptr;
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
  } catch (const std::exception&) {  // mostly std::bad_alloc
    return {.status = 500, .type = "text/plain", .body = "The page cannot be made.\n"};
  }
}

}  // namespace

struct Server::State {
  Listener listener;
  int port = 0;
};

Result<Server> Server::listen(const std::string& host, int port) {
  auto state = std::make_unique<State>();
  Listener& listener = state->listener;
  errno = 0;
  if (port == 0)
    state->port = listener.bind_to_any_port(host);
  else
    state->port = listener.bind_to_port(host, port) ? port : -1;
  if (state->port > 0) {
    listener.lengthen_queue();
    return Server(std::move(state));
  }
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
      // Has no effect before the listener runs, so it is repeated.
      if (stop.is_stopped()) listener.stop();
      std::this_thread::sleep_for(between_looks);
    }
  });
  if (listener.serve() || stop.is_stopped()) return {};
  return fail(ErrorCode::Environment, "[serve] the socket failed: start the server again");
}

}  // namespace tw::tools::web
