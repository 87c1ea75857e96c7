// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections whose request has not arrived yet, and connections that were answered and may still
// send. One thread watches all of them, so a client that sends nothing, or sends slowly, takes none
// of the threads that answer.
//
//   WaitingRoom room([&](int socket, std::string request) { pool.add(...); });
//   room.await_request(socket);       // the room owns the socket
//   ... answer the request, then
//   room.await_end(socket);           // the room closes it
//
// Thread-safe.

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tw::tools::web {

class WaitingRoom {
 public:
  /// Takes over a connection with the bytes of its request: the whole head, or the beginning of a
  /// head that is too long or malformed. It owns the socket from then on. The room's thread calls
  /// it, so it must return at once.
  using Arrived = std::function<void(int socket, std::string request)>;

  /// At most `most_connections` wait. A further connection closes the one that has waited longest.
  WaitingRoom(size_t most_connections, Arrived arrived);
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;
  /// Closes connections without a request, and waits at most 300 ms for clients that were answered.
  ~WaitingRoom();

  /// Takes a connection. Its request has 5 seconds and 16 KiB; otherwise the connection is closed.
  void await_request(int socket);
  /// Takes a connection that was answered. Tells the client that no more comes, reads what the
  /// client still sends, such as the body of a refused POST, for 300 ms and 64 KiB at most, and
  /// closes the connection. Closing it at once would take the answer away from the client.
  void await_end(int socket);
  /// Closes every connection whose request has not arrived, from now on too.
  void refuse_requests();

 private:
  using SteadyClock = std::chrono::steady_clock;
  enum class Awaiting { Request, End };
  struct Guest {
    int socket = -1;
    Awaiting awaiting = Awaiting::Request;
    SteadyClock::time_point until = {};
    std::string request = {};
    size_t ignored_bytes = 0;
  };

  void admit(Guest guest);
  void wake() const;
  void watch();
  void take_newcomers();
  void close_overdue();
  void poll_guests();
  /// Reads what has arrived. True: the guest stays.
  bool serve(Guest& guest);
  bool read_request(Guest& guest);
  static bool ignore_rest(Guest& guest);

  const size_t most_connections_;
  const Arrived arrived_;
  int alarm_;  ///< an eventfd that wakes the thread, so that it looks at what changed
  std::mutex mutex_;
  std::vector<Guest> newcomers_;  ///< guarded by mutex_
  std::atomic<bool> refuses_requests_ = false, is_closing_ = false;
  std::vector<Guest> guests_;  ///< used by the thread alone, the longest waiting first
  std::thread thread_;
};

}  // namespace tw::tools::web
