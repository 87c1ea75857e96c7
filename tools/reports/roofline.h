// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares a measured kernel with the roofline of its machine: the speed of its arithmetic with the
// peak, and its memory traffic with the bandwidth of the cache or memory that holds its arrays.
//
// The traffic is the compulsory traffic: each input is read once and each output written once. GB/s
// is the effective bandwidth: this traffic divided by the measured time. A kernel that also moves
// other bytes needs more bandwidth than that. Plain values.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "tools/reports/report.h"
#include "tuner/processes/clock.h"

namespace tw::tools {

struct Roofline {
  double latency_ns = 0, flops = 0;
  /// Peak of the machine. If instructions for dot products or tensor tiles can compute the
  /// workload, it is the peak with these instructions. 0: unknown.
  double peak_gflops = 0;
  /// The schedule's steps that change the algorithm, as schedules::algorithm_text() prints them. If
  /// there are such steps, `flops` still counts the declared operations, not those of the new
  /// algorithm. Empty: no step changes the algorithm.
  std::string algorithm = {};
  /// Number of products that the kernel sums, and number that the declared compute sums; both 0 if
  /// `algorithm` is empty.
  double products = 0, declared_products = 0;
  dsl::Traffic traffic;
  std::string level;          ///< smallest level that holds the arrays, as tuner::MemoryLevel;
                              ///< empty: unknown
  double level_gb_per_s = 0;  ///< bandwidth for this kernel's mix of reads and writes; 0: unknown

  double gflops() const { return tools::gflops(flops, latency_ns); }
  double gb_per_s() const { return latency_ns > 0 ? traffic.bytes() / latency_ns : 0; }
  double peak_share() const { return peak_gflops > 0 ? gflops() / peak_gflops : 0; }
  double level_share() const { return level_gb_per_s > 0 ? gb_per_s() / level_gb_per_s : 0; }
  /// True if the arithmetic intensity is below the machine's balance, that is, if the bytes take
  /// longer at the level's bandwidth than the operations at the peak. If the bandwidth or the peak
  /// is unknown: true if there is less than one operation per byte.
  bool is_memory_bound() const;
};

/// The roofline of a kernel. The level's bandwidth is left 0; with_bandwidth() adds it.
/// `peak_gflops` is the peak as records have it, from tuner::peak_for(). It does not count the
/// dot-product instructions of processors; if they apply, this function multiplies it by their
/// gain.
Roofline roofline(const dsl::Workload& workload, const Target& target, int threads,
                  double latency_ns, double peak_gflops);

/// The roofline of a record's kernel. The level's bandwidth is left 0. If the record's device is
/// not the target's, `level` is left empty.
Roofline roofline(const db::Record& record, const dsl::Workload& workload, const Target& target);

/// Adds the algorithm of a kernel. `schedule` is its tw1 text for the compute.
Roofline with_algorithm(Roofline line, const dsl::Compute& compute, const std::string& schedule);

/// Measures the level's bandwidth, which takes some tens of milliseconds, and adds it. Returns
/// `line` unchanged for GPUs and for kernels without a measured time. If measuring fails, prints a
/// note and returns `line` unchanged.
Roofline with_bandwidth(Roofline line, const Target& target, int threads,
                        const tuner::Clock& clock);

/// The arithmetic speed and the bandwidth with their shares of the peaks; whichever bounds the
/// kernel comes first. Unknown values are left out.
Facts speeds(const Roofline& line);
/// The speed that bounds the kernel, with its share of the peak if that is known: "36.1 GB/s, 72.0
/// % of L3" or "98.1 GFLOP/s, 84.0 % of the peak".
std::string leading_speed(const Roofline& line);
/// The object "memory" in the JSON output of verbs.
nlohmann::json memory_json(const Roofline& line);
/// The object "algorithm" in the JSON output. null if the kernel uses no other algorithm than the
/// declared operations (such as Winograd's).
nlohmann::json algorithm_json(const Roofline& line);

}  // namespace tw::tools
