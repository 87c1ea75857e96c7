// SPDX-License-Identifier: Apache-2.0
#pragma once
// A mode is what tilewright-bench does with the workloads: it compares, or what a switch of the
// mode's name asks for. A new one is a function and a row in modes() of main.cpp; flags of its own
// are members of Flags and rows in verb_of() there. Not thread-safe.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "bench/suite.h"
#include "runtime/device.h"
#include "tools/selection.h"
#include "tools/surroundings.h"
#include "tuner/tune.h"

namespace tw::bench {

struct Flags {
  std::string suite, only, output;
  bool trace = false;  ///< of --output: all that is known, not the summary
  bool expressions = false;
  std::vector<std::string> files;
  std::string peer, threads = "1", tune = "missing", format = "table";
  std::string state = "hot";  ///< a CacheState
  std::string target = "host";
  std::string batch = "1", dtype = "f32";  ///< of a suite's workloads
  bool graphs = false;
  int64_t rounds = 10, seed = 1;
  double budget_s = 60;
  tools::PlaceFlags place;
  std::string workloads;      ///< the folder of the tables
  int64_t points = 2000;      ///< of --scoring
  int64_t comparisons = 200;  ///< of --twins
  // Of --search.
  std::string strategies, known, plot, record;
  int64_t trials = 0;
  bool replay = false;
};

/// What every mode is given.
struct Call {
  const Flags& flags;
  const tools::Surroundings& here;
  Target target;
  std::shared_ptr<runtime::Device> gpu;  ///< of a GPU target
  std::string suite;                     ///< of the items; empty: they are expressions
  std::vector<Item> items;
  std::vector<int> threads;  ///< numbers of threads, in the order asked for
  tuner::Environment environment;

  /// Budget and seed.
  tuner::TuneOptions tuning(int thread_count) const;
  bool interrupted() const;
};

struct Mode {
  std::string name;  ///< "throughput" is asked for by --throughput; empty: by no switch
  std::string help;  ///< of the switch
  std::vector<std::string> excludes;  ///< flags that mean nothing in this mode
  std::string suite, only;            ///< what it runs where the command line names no workloads
  /// Returns the exit code.
  Result<int> (*run)(const Call& call) = nullptr;
};

/// YYYY-MM-DD, UTC.
std::string date_of(int64_t now_ms);

/// Writes results to standard output in the format asked for, and to --output as JSON, there
/// without what only a closer look needs (summary.h) unless --trace is given. Adds schema_version,
/// date, program_version and machine where the document has none.
Status publish(const Call& call, nlohmann::json document, const std::string& table);

}  // namespace tw::bench
