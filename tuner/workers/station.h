// SPDX-License-Identifier: Apache-2.0
#pragma once
// A process that a member of a farm starts to do its jobs. A station measures on one device, or
// builds, by the workers of its machine (worker_pool.h), with their limits, deadlines and locks. It
// trusts the farm, because it runs kernels that other members build, but it trusts a kernel as
// little as any tuning run does. Not thread-safe.
//
//   Station station(device, environment);
//   const FarmReply reply = station.answer(job);

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "tuner/processes/sandbox.h"
#include "tuner/workers/device_lock.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/farm_jobs.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {

class Station {
 public:
  /// `own` is the target of the device that the station measures on, and environment.device its
  /// index.
  Station(Target own, Environment environment);

  FarmReply answer(const FarmJob& job);
  /// Parses a target and, for a processor, adds what is known of the station's machine. An empty
  /// text gives the station's own target. Environment if the station's machine cannot run kernels
  /// for the target.
  Result<Target> target_of(const std::string& text);

 private:
  /// Parameters with which workers were started. A job with other parameters needs workers of its
  /// own.
  struct Key {
    std::string target, processor;
    int64_t threads = 1;
    double timeout_s = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  /// Workers, and the bytes of kernels in their store.
  struct Started {
    Key key;
    Workers workers;
    int64_t bytes = 0;
  };
  static Key key_of(const FarmJob& job);
  Result<FarmReply> perform(const FarmJob& job);
  Result<FarmReply> build(const FarmJob& job);
  Result<std::string> measure(const FarmJob& job);
  Result<std::string> run(Runner& runner, const FarmJob& job);
  Status start_building(const FarmJob& job);
  Status start_measuring(const FarmJob& job);
  Result<DeviceTurn> turn(const FarmJob& job);

  Target own_;
  Environment environment_;
  std::optional<Started> building_, measuring_;
  std::optional<DeviceLock> lock_;  ///< of the processor
};

/// The body of the station's program, `worker station TARGET INDEX CODE_GENERATOR [CUDA DIRECTORY
/// ...]`: answers FarmJobs with FarmReplies, a frame each, until its parent closes the connection.
/// Its workers limit themselves as `confined` says.
int station_main(const std::vector<std::string>& arguments, Confined confined = Confined::Yes);

}  // namespace tw::tuner
