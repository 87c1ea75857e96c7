// SPDX-License-Identifier: Apache-2.0
#include "tools/interrupts.h"

#include <unistd.h>

#include <csignal>

namespace tw::tools {
namespace {

std::atomic<int> interrupts{0}, later{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler stores to it");

void on_interrupt(int) {
  if (interrupts.fetch_add(1) == 0) return;
  later.fetch_add(2);
  alarm(3);
}

void on_alarm(int) { _exit(130); }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

const std::atomic<int>& interrupts_so_far() { return interrupts; }

const std::atomic<int>& later_interrupts() { return later; }

const std::atomic<int>& watch_interrupts() {
  handle(SIGALRM, on_alarm);
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, on_interrupt);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_interrupt);
  return interrupts;
}

}  // namespace tw::tools
