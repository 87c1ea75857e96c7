// SPDX-License-Identifier: Apache-2.0
#pragma once
// A contender is one kernel, ours or another library's, with its data in place: what is timed is
// run(), and nothing that can be done ahead of a call is part of it.
//
// Each contender runs on the thread that made it; those of a GPU (device_contender.h) on its
// stream.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "bench/cache_state.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "tuner/clock.h"

namespace tw::bench {

struct DeviceSetup;

struct Setup {
  const dsl::Workload* workload = nullptr;
  const dsl::Arrays* inputs = nullptr;  ///< logical, row-major
  int threads = 1;
  CacheState cache = CacheState::Hot;  ///< of each call that is timed
  /// Constant inputs have so many copies that together they exceed this, and each call takes the
  /// next one: weights come from memory (CacheState::Cold). 0: one copy.
  int64_t rotated_bytes = 0;
  const DeviceSetup* gpu = nullptr;  ///< of contenders on a GPU
};

class Contender {
 public:
  virtual ~Contender() = default;
  /// Brings the caches into the setup's state, where calls alone do not; outside of their time.
  virtual void prepare_call() {}
  /// One call. `call` counts from 0 and chooses the copy of the weights.
  virtual Status run(int64_t call) = 0;
  /// How long so many calls take, the first of which is number `first`: by this clock, or by a
  /// device's own. With `prepares` each of them alone, after prepare_call().
  virtual Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                                  const tuner::Clock& clock);
  /// Of the last run, by name, logical and row-major.
  virtual Result<dsl::Arrays> outputs() = 0;
  /// Layouts and implementation, for people.
  virtual std::string description() const = 0;
};

/// "NCHW16c row-major row-major": of each argument.
std::string layouts_text(const runtime::KernelInfo& info);

/// How many copies of `bytes` of weights a setup asks for.
int64_t copies_of(int64_t bytes, const Setup& setup);

}  // namespace tw::bench
