// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares a measured kernel with the roofline of its machine: its arithmetic speed with the peak,
// and its memory traffic per second with the bandwidth of the cache or memory that holds its
// arrays.
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
  /// The schedule's steps that change the algorithm, as schedules::algorithm_text() prints them;
  /// empty if there are none. `flops` always counts the declared operations, not those of the new
  /// algorithm.
  std::string algorithm = {};
  /// Number of products that the kernel sums, and number of products that the declared compute
  /// sums. Both are 0 if `algorithm` is empty.
  double products = 0, declared_products = 0;
  dsl::Traffic traffic;
  std::string level;          ///< smallest level that holds the arrays, as tuner::MemoryLevel;
                              ///< empty: unknown
  double level_gb_per_s = 0;  ///< bandwidth for this kernel's mix of reads and writes; 0: unknown

  double gflops() const { return tools::gflops(flops, latency_ns); }
  double gb_per_s() const { return latency_ns > 0 ? traffic.bytes() / latency_ns : 0; }
  double peak_share() const { return peak_gflops > 0 ? gflops() / peak_gflops : 0; }
  double level_share() const { return level_gb_per_s > 0 ? gb_per_s() / level_gb_per_s : 0; }
  /// True if memory limits the kernel: moving `traffic` at the level's bandwidth takes longer than
  /// the kernel's operations at the peak. If the bandwidth or the peak is unknown: true if the
  /// kernel has less than one operation per byte of traffic. It is always true for less than a
  /// quarter of an operation per byte. An algorithm such as Winograd's needs fewer products than
  /// the workload declares, so `flops` is multiplied by products / declared_products.
  bool is_memory_bound() const;
};

/// Returns the roofline of a kernel without the level's bandwidth, which with_bandwidth() adds.
/// `peak_gflops` is the peak as records have it, from tuner::peak_for(); 0: unknown. On processors
/// it does not count instructions for dot products or tensor tiles. If such instructions can
/// compute the workload, this function multiplies it by their gain (schedules::dot_speed()).
Roofline roofline(const dsl::Workload& workload, const Target& target, int threads,
                  double latency_ns, double peak_gflops);

/// Returns the roofline of a record's kernel, with its algorithm but without the level's bandwidth.
/// `level` is empty if the record was not measured on the device of the target.
Roofline roofline(const db::Record& record, const dsl::Workload& workload, const Target& target);

/// Sets the members about the kernel's algorithm from `schedule`, the kernel's schedule as tw1
/// text. Changes nothing if the text is not a schedule of `compute`.
Roofline with_algorithm(Roofline line, const dsl::Compute& compute, const std::string& schedule);

/// Measures the level's bandwidth, which takes some tens of milliseconds, and adds it. Returns
/// `line` unchanged for GPUs and if the level or the kernel's time is unknown. If measuring fails,
/// prints a note and returns `line` unchanged.
Roofline with_bandwidth(Roofline line, const Target& target, int threads,
                        const tuner::Clock& clock);

/// Returns the arithmetic speed and the bandwidth, with their shares of the peaks, as facts. The
/// one that limits the kernel comes first. Unknown values are left out.
Facts speeds(const Roofline& line);
/// Returns the speed that limits the kernel, with its share of the peak if the peak is known: "36.1
/// GB/s, 72.0 % of L3" or "98.1 GFLOP/s, 84.0 % of the peak".
std::string leading_speed(const Roofline& line);
/// Returns the object "memory" of the JSON output of verbs.
nlohmann::json memory_json(const Roofline& line);
/// Returns the object "algorithm" of the JSON output. It is null if the kernel computes the
/// declared operations, not another algorithm such as Winograd's.
nlohmann::json algorithm_json(const Roofline& line);

}  // namespace tw::tools
