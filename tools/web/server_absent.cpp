// SPDX-License-Identifier: Apache-2.0
// Replaces server.cpp if the program is compiled without the HTTP library.

#include "tools/web/server.h"

namespace tw::tools::web {

struct Server::State {};

Result<Server> Server::listen(const std::string&, int) {
  return fail(ErrorCode::Environment,
              "[serve] this program was built without a web server: install Debian's "
              "libcpp-httplib-dev, and build it again");
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

int Server::port() const { return 0; }

Status Server::run(const Handler&, const StopToken&) { return {}; }

}  // namespace tw::tools::web
