// SPDX-License-Identifier: Apache-2.0
#pragma once
// Says whether something else ran on the machine meanwhile, from readings of the operating system's
// counters and of the machine's speed before and after. For stretches of a tenth of a second and
// more; watch.h judges single timings.
//
//   const Counters before = read_counters({});
//   ...
//   const auto suspect = contention(before, read_counters({}), elapsed_ns);
//
// Stateless and thread-safe. A counter that the system lacks is not judged.

#include <cstdint>
#include <optional>
#include <string>

namespace tw::tuner {

/// Files that read_counters() reads. Tests pass their own files.
struct CounterSources {
  std::string stat = "/proc/stat";
  std::string pressure = "/proc/pressure/cpu";
};

/// Counters of the operating system, since boot or since the process began; nullopt where the
/// system does not report one.
struct Counters {
  std::optional<int64_t> involuntary_switches = {};
  std::optional<int64_t> steal_ns = {};     ///< taken by the hypervisor, all processors together
  std::optional<int64_t> pressure_ns = {};  ///< in which some task waited for a processor
};

Counters read_counters(const CounterSources& sources);

/// Number of involuntary context switches of all threads of this process since it began; nullopt
/// where the system does not report it.
std::optional<int64_t> involuntary_switches();

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

}  // namespace tw::tuner
