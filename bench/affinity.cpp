// SPDX-License-Identifier: Apache-2.0
#include "bench/affinity.h"

#include <sched.h>

#include "base/cores.h"

namespace tw::bench {
namespace {

void allow(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (!cores.empty()) (void)sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

void pin_to(int core) { allow({core}); }

PinnedHere::PinnedHere() : before_(allowed_cores()) {
  if (!before_.empty()) pin_to(before_.front());
}
PinnedHere::~PinnedHere() { allow(before_); }

}  // namespace tw::bench
