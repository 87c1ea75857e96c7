// SPDX-License-Identifier: Apache-2.0
#pragma once
// The process that a member of a farm starts to do jobs. A station either measures on one device or
// builds. It uses the workers of its machine (worker_pool.h), with their limits, deadlines and
// locks. A station trusts the farm, since it runs kernels that other members build; it runs them
// within the same limits as any tuning run. Not thread-safe.
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
  /// `own` is the target of the device on which the station measures, and environment.device is the
  /// index of that device.
  Station(Target own, Environment environment);

  FarmReply answer(const FarmJob& job);
  /// Parses a target. A processor target gets the caches and other numbers of the station's
  /// machine. An empty text gives the station's own target. Fails with Environment if the station's
  /// machine cannot run kernels for the target.
  Result<Target> target_of(const std::string& text);

 private:
  /// Parameters with which workers were started. Workers serve a job only if its parameters are
  /// equal.
  struct Key {
    std::string target, processor;
    int64_t threads = 1;
    double timeout_s = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  /// Workers that were started, and the number of bytes of kernels in their store.
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
  std::optional<DeviceLock> lock_;  ///< the processor's lock
};

/// The main function of the station's program, `worker station TARGET INDEX CODE_GENERATOR [CUDA
/// DIRECTORY ...]`. Answers each FarmJob with a FarmReply until the parent closes the connection. A
/// job and a reply are one frame each. If `confined` is Yes, each worker of the station limits what
/// it may do to what a kernel needs (restrict_self() in processes/sandbox.h).
int station_main(const std::vector<std::string>& arguments, Confined confined = Confined::Yes);

}  // namespace tw::tuner
