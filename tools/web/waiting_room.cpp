// SPDX-License-Identifier: Apache-2.0
#include "tools/web/waiting_room.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tw::tools::web {
namespace {

using std::chrono::milliseconds;

// Limits on the head of a request: its size and the time until it has arrived. The head is a line
// of at most 8 KiB, followed by headers; the body is not read. Version 0.11 of the HTTP library
// limits neither the number of headers nor the time in which they arrive.
constexpr size_t most_request_bytes = 16 << 10;
constexpr milliseconds request_limit{5'000};
constexpr milliseconds farewell_limit{300};
constexpr size_t most_farewell_bytes = 64 << 10;

/// True if the HTTP library can answer the bytes that have arrived. They are a complete head, or
/// something that the library refuses: a head that is too long, or a first line that is not that of
/// an HTTP request.
bool is_answerable(std::string_view request) {
  if (request.size() >= most_request_bytes || request.find("\n\r\n") != std::string_view::npos)
    return true;
  const size_t end = request.find('\n');
  return end != std::string_view::npos &&
         request.substr(0, end).find(" HTTP/") == std::string_view::npos;
}

ssize_t receive(int socket, char* out, size_t size) {
  for (;;) {
    const ssize_t count = recv(socket, out, size, MSG_DONTWAIT);
    if (count >= 0 || errno != EINTR) return count;
  }
}

bool came_to_nothing(ssize_t count) { return count < 0 && errno == EAGAIN; }

}  // namespace

WaitingRoom::WaitingRoom(size_t most_connections, Arrived arrived)
    : most_connections_(most_connections),
      arrived_(std::move(arrived)),
      alarm_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { watch(); }) {}

WaitingRoom::~WaitingRoom() {
  refuses_requests_ = is_closing_ = true;
  wake();
  thread_.join();
  ::close(alarm_);
}

void WaitingRoom::await_request(int socket) {
  admit({socket, Awaiting::Request, SteadyClock::now() + request_limit});
}

void WaitingRoom::await_end(int socket) {
  shutdown(socket, SHUT_WR);
  --answered_;
  admit({socket, Awaiting::End, SteadyClock::now() + farewell_limit});
}

void WaitingRoom::refuse_requests() {
  refuses_requests_ = true;
  wake();
}

void WaitingRoom::admit(Guest guest) {
  {
    const std::lock_guard lock(mutex_);
    newcomers_.push_back(std::move(guest));
  }
  wake();
}

void WaitingRoom::wake() const {
  const uint64_t one = 1;
  // Fails only if the counter is full, and then poll() wakes too.
  [[maybe_unused]] const ssize_t ignored = ::write(alarm_, &one, sizeof one);
}

void WaitingRoom::watch() {
  for (;;) {
    const bool closes = is_closing_;  // read first, because no guest is added after it is set
    take_newcomers();
    close_overdue();
    if (closes && guests_.empty()) return;
    poll_guests();
  }
}

void WaitingRoom::take_newcomers() {
  const std::lock_guard lock(mutex_);
  for (Guest& guest : newcomers_) guests_.push_back(std::move(guest));
  newcomers_.clear();
}

void WaitingRoom::close_overdue() {
  const auto now = SteadyClock::now();
  const size_t connections = guests_.size() + answered_;
  size_t excess = connections - std::min(connections, most_connections_);
  std::erase_if(guests_, [&](const Guest& guest) {
    const bool leaves = excess > 0 || guest.until <= now ||
                        (refuses_requests_ && guest.awaiting == Awaiting::Request);
    if (excess > 0) --excess;
    if (leaves) ::close(guest.socket);
    return leaves;
  });
}

void WaitingRoom::poll_guests() {
  std::vector<pollfd> polled = {{alarm_, POLLIN, 0}};
  auto until = SteadyClock::now() + request_limit;
  for (const Guest& guest : guests_) {
    polled.push_back({guest.socket, POLLIN, 0});
    until = std::min(until, guest.until);
  }
  const auto left = std::chrono::ceil<milliseconds>(until - SteadyClock::now()).count();
  const int limit_ms = static_cast<int>(std::max<int64_t>(left, 0));
  const int ready = ::poll(polled.data(), polled.size(), limit_ms);
  if (ready <= 0) return;
  uint64_t rung = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(alarm_, &rung, sizeof rung);
  size_t i = 0;
  std::erase_if(guests_, [&](Guest& guest) { return polled[++i].revents != 0 && !serve(guest); });
}

bool WaitingRoom::serve(Guest& guest) {
  if (guest.awaiting == Awaiting::Request ? read_request(guest) : ignore_rest(guest)) return true;
  if (guest.socket >= 0) ::close(guest.socket);
  return false;
}

bool WaitingRoom::read_request(Guest& guest) {
  std::array<char, 4096> bytes;
  const size_t room = std::min(bytes.size(), most_request_bytes - guest.request.size());
  const ssize_t count = receive(guest.socket, bytes.data(), room);
  if (count <= 0) return came_to_nothing(count);
  guest.request.append(bytes.data(), static_cast<size_t>(count));
  if (!is_answerable(guest.request)) return true;
  ++answered_;
  arrived_(std::exchange(guest.socket, -1), std::move(guest.request));
  return false;
}

bool WaitingRoom::ignore_rest(Guest& guest) {
  std::array<char, 4096> bytes;
  const ssize_t count = receive(guest.socket, bytes.data(), bytes.size());
  if (count <= 0) return came_to_nothing(count);
  guest.ignored_bytes += static_cast<size_t>(count);
  return guest.ignored_bytes < most_farewell_bytes;
}

}  // namespace tw::tools::web
