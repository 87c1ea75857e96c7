// SPDX-License-Identifier: Apache-2.0
#include "tools/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace tw::tools {
namespace {

// Does nothing. SIGPIPE gets this handler instead of SIG_IGN, because programs that this process
// starts would inherit SIG_IGN.
void on_broken_pipe(int) {}

}  // namespace

void prepare_standard_streams() {
  // open() returns the lowest free descriptor, which is that of the closed stream. Standard output
  // is opened for reading only, so that writing to it fails.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  struct sigaction action = {};
  action.sa_handler = on_broken_pipe;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

void print_error(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace tw::tools
