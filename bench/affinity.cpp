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

PinnedHere::PinnedHere() : PinnedHere(0, 1) {}
PinnedHere::PinnedHere(size_t first, size_t count) : before_(allowed_cores()) {
  std::vector<int> cores;
  for (size_t i = first; i < before_.size() && cores.size() < count; ++i)
    cores.push_back(before_[i]);
  allow(cores);
}
PinnedHere::~PinnedHere() { allow(before_); }

}  // namespace tw::bench
