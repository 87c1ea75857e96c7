// SPDX-License-Identifier: Apache-2.0
#pragma once
// Was a measurement disturbed? Readings of the kernel's own counters before and after it, and the
// machine's speed before and after, say so. What was disturbed is measured again.
//
//   const auto suspect = measure_undisturbed([] { return read_counters({}); }, clock, measure, 2);
//
// Stateless and thread-safe. A counter that the system lacks is not judged.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tuner/clock.h"

namespace tw::tuner {

/// Where to read; tests name their own files.
struct CounterSources {
  std::string stat = "/proc/stat";
  std::string pressure = "/proc/pressure/cpu";
  bool whole_process = false;  ///< count switches of all its threads, for kernels that use several
};

/// Since boot or since the thread began; nullopt where the system does not tell.
struct Counters {
  std::optional<int64_t> involuntary_switches = {};
  std::optional<int64_t> steal_ns = {};     ///< taken by the hypervisor, all processors together
  std::optional<int64_t> pressure_ns = {};  ///< in which some task waited for a processor
};

Counters read_counters(const CounterSources& sources);

struct Tolerance {
  /// A timing thread loses its processor a few times a second on a quiet machine: timer, kernel
  /// threads.
  double switches_per_second = 50;
  int64_t least_switches = 5;
  double steal_share = 0.02;  ///< a quiet virtual machine has 0.1 %
  double pressure_share = 0.10;
  double drift = 0.03;  ///< of the peak; a steady one repeats to 1-2 %
};

/// The reason, in words, why the time between the two readings was disturbed; nullopt if it was
/// not.
std::optional<std::string> contention(const Counters& before, const Counters& after,
                                      int64_t elapsed_ns, const Tolerance& tolerance = {});

/// The same from the machine's speed (any unit) before and after.
std::optional<std::string> drift(double speed_before, double speed_after,
                                 const Tolerance& tolerance = {});

/// Calls measure() until nothing disturbs it or it returns false, which says that its result stands
/// whatever happened; at most `attempts` times. Returns why the last call is suspect, or nullopt.
std::optional<std::string> measure_undisturbed(const std::function<Counters()>& read,
                                               const Clock& clock,
                                               const std::function<bool()>& measure, int attempts,
                                               const Tolerance& tolerance = {});

}  // namespace tw::tuner
