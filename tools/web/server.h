// SPDX-License-Identifier: Apache-2.0
#pragma once
// The socket: listens, reads requests within bounds of size and time, and answers each on one of a
// few threads, one request a connection. A connection takes a thread once its request has arrived;
// until then it waits in a WaitingRoom (waiting_room.h). Other methods than GET and HEAD reach the
// handler too, but bodies of requests are not read.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "tools/web/http.h"

namespace tw::tools::web {

/// Called by several threads at once. What it throws becomes status 500.
using Handler = std::function<Response(const Request&)>;

class Server {
 public:
  /// Listens at once, so that what connects from now on is answered by run(); port 0: any free one.
  /// Environment where the address cannot be had, or the program was built without a server.
  static Result<Server> listen(const std::string& host, int port);

  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  int port() const;
  /// Answers until the token stops, which it asks 20 times a second; requests that have arrived are
  /// answered. Environment where the socket fails. Call it once.
  Status run(const Handler& handler, const StopToken& stop);

  struct State;

 private:
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tw::tools::web
