// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the report of a benchmark: a table for people, and JSON for programs and for bench/results.
// bench/README.md explains the fields. Thread-safe.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/target.h"
#include "bench/agreement.h"
#include "bench/interleave.h"
#include "tools/reports/roofline.h"

namespace tw::bench {

/// Version of the JSON documents that reports write. It does not change if fields are added. In
/// documents of version 1, `ours_us`, `peer_us` and `ratio` are computed from minima, and
/// `ratio_median` is the median of the ratios.
inline constexpr int results_schema_version = 2;

/// Converts to microseconds, the unit of tables and results.
inline double us(double ns) { return ns / 1000; }

/// The result for one workload and one number of threads.
struct Row {
  std::string name, workload;
  int64_t count = 1;
  int threads = 1;
  std::string error;  ///< reason why the row was not timed; empty: it was timed
  Versus versus;      ///< A is our contender, B the peer
  double flops = 0;
  double peak_gflops = 0;    ///< peak for the workload's type (tuner::peak_for())
  tools::Roofline roofline;  ///< roofline of our kernel
  Agreement agreement;
  std::string schedule, layouts;
  std::string peer;         ///< layouts and implementation of the peer's fastest form
  double peer_call_ns = 0;  ///< Contender::empty_call_ns() of the peer
  /// Time in ns of each form of the peer, measured in order to choose the fastest.
  std::map<std::string, double> forms;
  /// Forms of the peer that were left out of the comparison, each with the reason.
  std::map<std::string, std::string> wrong_forms;
  std::string disturbed;  ///< the disturbance of the timing; empty: it was not disturbed
  bool searched = false;  ///< true if our kernel was searched for in this run

  double gflops() const { return versus.a_ns.value > 0 ? flops / versus.a_ns.value : 0; }
  double peak_share() const { return peak_gflops > 0 ? gflops() / peak_gflops : 0; }
};

/// The facts about a benchmark that hold for all rows.
struct Heading {
  std::string suite, peer, peer_version, program_version, date;
  Target target;
  int rounds = 0;
  double budget_s = 0;                 ///< tuning time of a row that was searched
  CacheState cache = CacheState::Hot;  ///< state in which both contenders were timed
  std::string interface;               ///< "storage" or "row-major"
  bool graphs = false;                 ///< true if calls on a GPU were submitted as graphs
};

/// A ratio (Versus::ratio) above this limit shows that the peer has no fast kernel for the
/// workload. A few such rows can dominate the geometric mean, so the mean is also given without
/// them.
inline constexpr double high_ratio = 2;

/// The summary of all rows with one number of threads.
struct Summary {
  int64_t rows = 0, failed = 0;
  double geomean = 0;  ///< geometric mean of the ratios; 0 without rows
  /// Geometric mean of the ratios that are at most `high_ratio`; 0 if there are none.
  double geomean_without_high = 0;
  int64_t high = 0;  ///< number of ratios above `high_ratio`
  /// The times of our kernels and of the peer, summed over all rows. Each row is weighted by the
  /// number of times that the network has this workload.
  double ours_ns = 0, peer_ns = 0;
};
std::map<int, Summary> summarize(const std::vector<Row>& rows);

/// Returns the line below a table that explains the star at a disturbed row. `what` is the
/// disturbance.
std::string disturbed_line(const std::string& row, const std::string& what);

nlohmann::json machine_json(const Target& target);
nlohmann::json as_json(const Heading& heading, const std::vector<Row>& rows);
std::string as_table(const Heading& heading, const std::vector<Row>& rows, bool color);

}  // namespace tw::bench
