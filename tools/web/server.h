// SPDX-License-Identifier: Apache-2.0
#pragma once
// The HTTP server. It listens on a socket, reads requests within limits of size and time, and
// answers them on eight threads. Each connection is for one request. A connection waits in a
// WaitingRoom (waiting_room.h) until its request has arrived; only then it occupies a thread. The
// handler gets requests of all methods, but bodies of requests are not read.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "tools/web/http.h"

namespace tw::tools::web {

/// Makes the response to a request. Several threads call the handler at the same time. If it throws
/// an exception, the client gets a response with status 500.
using Handler = std::function<Response(const Request&)>;

class Server {
 public:
  /// Begins to listen. Clients can connect from now on, and run() will answer them. Port 0 stands
  /// for any free port. Fails with Environment if the address cannot be used or the program was
  /// built without a server.
  static Result<Server> listen(const std::string& host, int port);

  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  int port() const;
  /// Answers requests until `stop` is set, which is checked 20 times a second. Requests that have
  /// arrived by then are still answered. Fails with Environment if the socket fails. Call it at
  /// most once.
  Status run(const Handler& handler, const StopToken& stop);

  struct State;

 private:
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tw::tools::web
