// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides if other work disturbed the machine during a stretch of time. contention() compares
// counters of the operating system at the begin and the end of the stretch; drift() compares the
// machine's speeds. The stretch should be a tenth of a second or longer; watch.h judges single
// timings.
//
//   const Counters before = read_counters({});
//   ...
//   const auto suspect = contention(before, read_counters({}), elapsed_ns);
//
// Stateless and thread-safe. A counter that the system lacks is ignored.

#include <cstdint>
#include <optional>
#include <string>

namespace tw::tuner {

/// Files that read_counters() reads. Tests pass their own files.
struct CounterSources {
  std::string stat = "/proc/stat";
  std::string pressure = "/proc/pressure/cpu";
};

/// Counters of the operating system, since boot or since the process began; nullopt for a counter
/// that the system does not report.
struct Counters {
  std::optional<int64_t> involuntary_switches = {};
  /// Time taken by the hypervisor, of all processors together.
  std::optional<int64_t> steal_ns = {};
  std::optional<int64_t> pressure_ns = {};  ///< time in which some task waited for a processor
};

Counters read_counters(const CounterSources& sources);

/// Number of involuntary context switches of all threads of this process since it began; nullopt if
/// the system does not report it.
std::optional<int64_t> involuntary_switches();

struct Tolerance {
  /// Largest number of involuntary context switches per second that counts as undisturbed. Even on
  /// a quiet machine, timer interrupts and kernel threads take the processor from a timing thread a
  /// few times a second.
  double switches_per_second = 50;
  int64_t least_switches = 5;    ///< a stretch with fewer switches in all is undisturbed
  double steal_share = 0.02;     ///< limit of (time taken by the hypervisor) / (elapsed time); a
                                 ///< quiet virtual machine has 0.1 %
  double pressure_share = 0.10;  ///< limit of the share of the time in which a task waits
  double drift = 0.03;           ///< limit of the relative change of speed; a steady machine has
                                 ///< 1-2 %
};

/// Returns a text that says why the time between two readings of the counters counts as disturbed;
/// nullopt if it counts as undisturbed. `elapsed_ns` is the time between the readings.
std::optional<std::string> contention(const Counters& before, const Counters& after,
                                      int64_t elapsed_ns, const Tolerance& tolerance = {});

/// Returns a text that says by how much the machine's speed changed; nullopt if the change is
/// within the tolerance. If a speed is not positive, the text says that the speed could not be
/// measured. Both speeds are in the same unit, for example GFLOP/s.
std::optional<std::string> drift(double speed_before, double speed_after,
                                 const Tolerance& tolerance = {});

}  // namespace tw::tuner
