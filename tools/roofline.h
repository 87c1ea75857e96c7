// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a measured kernel stands under the roofline of its machine: arithmetic against its peak,
// traffic against the bandwidth of the cache or memory that holds its arrays.
//
// The traffic is compulsory: each input read once, each output written once. So GB/s is the
// effective bandwidth, what a kernel without any other traffic would need. Plain values.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "tools/report.h"
#include "tuner/clock.h"

namespace tw::tools {

struct Roofline {
  double latency_ns = 0, flops = 0;
  double peak_gflops = 0;  ///< of the machine; 0: unknown
  dsl::Traffic traffic;
  std::string level;          ///< that the arrays fit into: "L1" ... "memory"; empty: unknown
  double level_gb_per_s = 0;  ///< of reading and writing as much as this kernel; 0: unknown

  double gflops() const { return tools::gflops(flops, latency_ns); }
  double gb_per_s() const { return latency_ns > 0 ? traffic.bytes() / latency_ns : 0; }
  double peak_share() const { return peak_gflops > 0 ? gflops() / peak_gflops : 0; }
  double level_share() const { return level_gb_per_s > 0 ? gb_per_s() / level_gb_per_s : 0; }
  /// The arithmetic intensity is below the machine's balance: at the peak and at the bandwidth of
  /// the level, moving the bytes takes longer than the operations. Where the machine is unknown:
  /// less than an operation a byte, which is below the balance of every processor.
  bool is_memory_bound() const;
};

/// Without the level's bandwidth.
Roofline roofline(const dsl::Workload& workload, const Target& target, int threads,
                  double latency_ns, double peak_gflops);

/// Of a record: without the level where its device is another one than the target's machine.
Roofline roofline(const db::Record& record, const dsl::Workload& workload, const Target& target);

/// The same with the level's bandwidth, measured in some tens of milliseconds, of a kernel of this
/// processor that can be timed here and was. What fails is said, and leaves it unknown.
Roofline with_bandwidth(Roofline line, const Target& target, int threads,
                        const tuner::Clock& clock);

/// Speeds and shares, what bounds the kernel first; nothing of what there is none of.
Facts speeds(const Roofline& line);
/// "36.1 GB/s, 72 % of L3" or "98.1 GFLOP/s, 84 % of the peak", whichever bounds it.
std::string leading_speed(const Roofline& line);
/// Fields that documents of verbs hold as "memory".
nlohmann::json memory_json(const Roofline& line);

}  // namespace tw::tools
