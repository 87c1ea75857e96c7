// SPDX-License-Identifier: Apache-2.0
#pragma once
// A contender is one kernel, ours or another library's, with its data in place. Its run() is timed
// and contains no work that can be done ahead of a call.
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
#include "tuner/processes/clock.h"

namespace tw::bench {

struct DeviceSetup;

struct Setup {
  const dsl::Workload* workload = nullptr;
  const dsl::Arrays* inputs = nullptr;  ///< logical, row-major
  int threads = 1;
  CacheState cache = CacheState::Hot;  ///< state of the caches before each timed call
  /// Total size of the copies of constant inputs: there are as many copies as exceed it together,
  /// and each call takes the next one, so that weights come from memory (CacheState::Cold). 0: one
  /// copy.
  int64_t rotated_bytes = 0;
  const DeviceSetup* gpu = nullptr;  ///< set for contenders on a GPU
};

class Contender {
 public:
  virtual ~Contender() = default;
  /// Brings the caches into the setup's state if calls alone do not. Its time is not counted.
  virtual void prepare_call() {}
  /// Makes one call. `call` counts from 0 and selects the copy of the weights.
  virtual Status run(int64_t call) = 0;
  /// Time of `calls` calls, the first of which has the number `first`, by this clock or by the
  /// device's own. If `prepares`, each call is timed by itself, after prepare_call().
  virtual Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                                  const tuner::Clock& clock);
  /// Time in ns of a call that computes next to nothing, which every call of this contender takes
  /// besides its kernel. 0: unknown and small.
  virtual double empty_call_ns() const { return 0; }
  /// The error, relative to the largest output, that roundings of the library's own may add on
  /// random data, as of scales in f16. 0: it rounds as the definition does.
  virtual double own_rounding() const { return 0; }
  /// Outputs of the last run by name, as logical row-major arrays.
  virtual Result<dsl::Arrays> outputs() = 0;
  /// Layouts and implementation, for people.
  virtual std::string description() const = 0;
};

/// The layouts of all arguments: "NCHW16c row-major row-major".
std::string layouts_text(const runtime::KernelInfo& info);

/// Number of copies of `bytes` bytes of weights that a setup asks for.
int64_t copies_of(int64_t bytes, const Setup& setup);

}  // namespace tw::bench
