// SPDX-License-Identifier: Apache-2.0
#include "bench/affinity.h"

#include <sched.h>

namespace tw::bench {
namespace {

void allow(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (!cores.empty()) (void)sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

void pin_to(int core) { allow({core}); }

PinnedHere::PinnedHere() : before_(allowed_cores()) {
  if (!before_.empty()) pin_to(before_.front());
}
PinnedHere::~PinnedHere() { allow(before_); }

}  // namespace tw::bench
