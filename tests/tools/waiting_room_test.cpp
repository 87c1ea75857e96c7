// SPDX-License-Identifier: Apache-2.0
#include "tools/web/waiting_room.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <string_view>

namespace tw::tools::web {
namespace {

/// Has the clients of a waiting room, and the connections on which a request has arrived.
class Visitors : public testing::Test {
 protected:
  void TearDown() override {
    for (const int socket : clients_) ::close(socket);
  }

  void has_arrived(int socket) {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(socket);
    changed_.notify_all();
  }
  /// Waits until `count` requests have arrived, and returns their connections.
  std::vector<int> arrived(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(1), [&] { return arrived_.size() >= count; }));
    return arrived_;
  }
  /// Adds a client that has sent its request. Returns the connection to the client.
  int visitor() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const timeval patience = {60, 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    constexpr std::string_view request = "GET / HTTP/1.1\r\n\r\n";
    EXPECT_EQ(send(ends[0], request.data(), request.size(), 0), std::ssize(request));
    clients_.push_back(ends[0]);
    return ends[1];
  }
  /// True if the connection of the newest client was closed without an answer.
  bool is_turned_away() const {
    char byte = 0;
    const ssize_t count = recv(clients_.back(), &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> clients_, arrived_;
};

TEST_F(Visitors, ThoseThatAreAnsweredCountAgainstTheLimit) {
  WaitingRoom room(2, [&](int socket, const std::string&) { has_arrived(socket); });
  room.await_request(visitor());
  room.await_request(visitor());
  const std::vector<int> both = arrived(2);
  room.await_request(visitor());
  EXPECT_TRUE(is_turned_away());
  room.await_end(both[0]);
  room.await_request(visitor());
  const std::vector<int> three = arrived(3);
  room.await_end(three[1]);
  room.await_end(three[2]);
}

}  // namespace
}  // namespace tw::tools::web
