// SPDX-License-Identifier: Apache-2.0
#pragma once
// A contender is one kernel, ours or another library's, with its data in place. Its run() is what
// is timed, and contains no work that can be done ahead of a call.
//
// A contender on the processor runs on the thread that made it, a contender on a GPU
// (device_contender.h) on the device's stream.

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
  /// Least total size of the copies of constant inputs. There are enough copies to exceed this
  /// size, and each call uses the next copy, so that weights come from memory (CacheState::Cold).
  /// 0: one copy.
  int64_t rotated_bytes = 0;
  const DeviceSetup* gpu = nullptr;  ///< set for contenders on a GPU
};

class Contender {
 public:
  virtual ~Contender() = default;
  /// Brings the caches into the setup's state, if repeated calls alone do not. The time of this
  /// function is not counted.
  virtual void prepare_call() {}
  /// Makes one call. `call` counts from 0 and selects the copy of the weights.
  virtual Status run(int64_t call) = 0;
  /// Time of `calls` calls, which are numbered from `first` on, by `clock` or by the device's own
  /// clock. If `prepares` is true, prepare_call() precedes each call, and each call is timed by
  /// itself.
  virtual Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                                  const tuner::Clock& clock);
  /// Overhead of a call in ns, measured with a call that computes next to nothing. 0: unknown and
  /// small.
  virtual double empty_call_ns() const { return 0; }
  /// The error, relative to the largest output, that the library may add on random data by
  /// roundings that the definition lacks, such as rounding scales to f16. 0: there are no such
  /// roundings.
  virtual double own_rounding() const { return 0; }
  /// Outputs of the last run(), by name, as logical row-major arrays.
  virtual Result<dsl::Arrays> outputs() = 0;
  /// Layouts and implementation, for people.
  virtual std::string description() const = 0;
};

/// A text with the layouts of all arguments: "NCHW16c row-major row-major".
std::string layouts_text(const runtime::KernelInfo& info);

/// Number of copies that a setup asks for if one copy of the weights has `bytes` bytes.
int64_t copies_of(int64_t bytes, const Setup& setup);

}  // namespace tw::bench
