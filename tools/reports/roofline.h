// SPDX-License-Identifier: Apache-2.0
#pragma once
// A measured kernel under the roofline of its machine: its arithmetic against the peak, its traffic
// against the bandwidth of the cache or memory that holds its arrays.
//
// The traffic is compulsory: each input read once, each output written once. So GB/s is the
// effective bandwidth, what a kernel without any other traffic would need. Plain values.

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
  /// Peak of the machine, by its dot products or tiles if they apply; 0: unknown.
  double peak_gflops = 0;
  /// The steps by which the kernel computes by other operations than those that `flops` counts, as
  /// schedules::algorithm_text(); empty: it does not.
  std::string algorithm = {};
  /// Numbers of products that the kernel sums and that the declared compute sums; 0 without an
  /// algorithm.
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

/// The roofline without the level's bandwidth, which is not measured. `peak_gflops` is that of
/// tuner::peak_for(), which knows no dot products of processors, as records have it.
Roofline roofline(const dsl::Workload& workload, const Target& target, int threads,
                  double latency_ns, double peak_gflops);

/// The same for a record, also without the level where its device is not that of the target.
Roofline roofline(const db::Record& record, const dsl::Workload& workload, const Target& target);

/// Adds the algorithm of a schedule, tw1 text for the compute.
Roofline with_algorithm(Roofline line, const dsl::Compute& compute, const std::string& schedule);

/// Adds the level's bandwidth, which takes some tens of milliseconds to measure. Returns `line`
/// unchanged for GPUs, for unmeasured kernels, and, with a note to the user, where measuring fails.
Roofline with_bandwidth(Roofline line, const Target& target, int threads,
                        const tuner::Clock& clock);

/// Speeds and their shares, beginning with what bounds the kernel; unknown ones are left out.
Facts speeds(const Roofline& line);
/// The speed that bounds the kernel, with its share where that is known: "36.1 GB/s, 72.0 % of L3"
/// or "98.1 GFLOP/s, 84.0 % of the peak".
std::string leading_speed(const Roofline& line);
/// The object "memory" in the JSON output of verbs.
nlohmann::json memory_json(const Roofline& line);
/// The object "algorithm" in the JSON output; null for kernels that do the declared operations.
nlohmann::json algorithm_json(const Roofline& line);

}  // namespace tw::tools
