// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holds connections whose request has not arrived yet, and answered connections on which the client
// may still send. One thread watches all these connections. So a client that sends nothing, or
// sends slowly, does not occupy a thread that answers requests.
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
  /// The callback for a request that has arrived. The callback owns the socket from then on.
  /// `request` is the complete head of the request, perhaps with the beginning of its body, or the
  /// beginning of a head that is too long or malformed. The room's thread makes the call, so the
  /// callback must return quickly.
  using Arrived = std::function<void(int socket, std::string request)>;

  /// At most `most_connections` connections wait or are being answered. When another connection
  /// arrives, the room closes the connection that has waited longest.
  WaitingRoom(size_t most_connections, Arrived arrived);
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;
  /// Closes connections whose request has not arrived, and waits at most 300 ms for clients that
  /// were answered.
  ~WaitingRoom();

  /// Adds a new connection. The connection is closed if its request has not arrived after 5
  /// seconds. A head of 16 KiB or more counts as arrived; the callback then gets the first 16 KiB.
  void await_request(int socket);
  /// Adds a connection that was answered, and closes it later. First the room tells the client that
  /// no more data follows. Then it reads and ignores what the client still sends, such as the body
  /// of a refused POST, for at most 300 ms and 64 KiB. Closing the connection at once could reset
  /// it before the client has read the answer.
  void await_end(int socket);
  /// Closes every connection whose request has not arrived, and from now on closes new connections
  /// at once.
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
  /// Reads the bytes that have arrived. Returns false if the connection leaves the room, because it
  /// was closed or handed to the callback.
  bool serve(Guest& guest);
  bool read_request(Guest& guest);
  static bool ignore_rest(Guest& guest);

  const size_t most_connections_;
  std::atomic<size_t> answered_ = 0;  ///< connections between `arrived` and await_end()
  const Arrived arrived_;
  int alarm_;  ///< an eventfd that wakes the thread after a change
  std::mutex mutex_;
  std::vector<Guest> newcomers_;  ///< guarded by mutex_
  std::atomic<bool> refuses_requests_ = false, is_closing_ = false;
  std::vector<Guest> guests_;  ///< used only by the room's thread; the longest waiting first
  std::thread thread_;
};

}  // namespace tw::tools::web
