// SPDX-License-Identifier: Apache-2.0
#pragma once
// A contender is one kernel, ours or another library's, whose data are in place. The timed part is
// run(), which contains no work that can be done before a call.
//
// A contender on the processor runs on the thread that made it. A contender on a GPU
// (device_contender.h) runs on the device's stream.

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
  /// If not 0, copies of the constant inputs are made until all copies together have more than this
  /// number of bytes. Each call uses the next copy, so weights come from memory (CacheState::Cold).
  /// If 0, there is one copy, which all calls use.
  int64_t rotated_bytes = 0;
  const DeviceSetup* gpu = nullptr;  ///< set for contenders on a GPU
};

class Contender {
 public:
  virtual ~Contender() = default;
  /// Brings the caches into the state `Setup::cache`. Does nothing if repeated calls keep the
  /// caches in this state anyway. The time of this function does not count.
  virtual void prepare_call() {}
  /// Makes one call. `call` is the index of the call, from 0 on, and selects the copy of the
  /// weights.
  virtual Status run(int64_t call) = 0;
  /// Makes the calls with the indices `first` to `first + calls - 1`, and returns their total time
  /// in ns, by `clock` or by the clock of the device. If `prepares` is true, each call is timed
  /// separately, and prepare_call() is called before it.
  virtual Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                                  const tuner::Clock& clock);
  /// Overhead of a call in ns, measured with a call that computes next to nothing. 0: the overhead
  /// is unknown and small.
  virtual double empty_call_ns() const { return 0; }
  /// The largest error that the library may add on random data because it rounds values that the
  /// definition does not round. For example, GGML rounds the scale of each block of an operand to
  /// f16. The error is relative to the largest output. 0: the library rounds no such values.
  virtual double own_rounding() const { return 0; }
  /// Returns the outputs of the last run() by their names, as logical row-major arrays.
  virtual Result<dsl::Arrays> outputs() = 0;
  /// Layouts and implementation of the kernel, as tables show them.
  virtual std::string description() const = 0;
};

/// Returns the layouts of all arguments as one text: "NCHW16c row-major row-major".
std::string layouts_text(const runtime::KernelInfo& info);

/// Returns the number of copies of the weights that setup.rotated_bytes asks for, if one copy has
/// `bytes` bytes.
int64_t copies_of(int64_t bytes, const Setup& setup);

}  // namespace tw::bench
