// SPDX-License-Identifier: Apache-2.0
#pragma once
// Demand is the list of kernels that networks and operators use, kept so that the kernels worth
// tuning are known later. A plan that was made from predictions, or a run that was cut short,
// leaves its kernels here. The time that better kernels would save is computed from the trials in
// the database when demand is read. Demand is not a fact about a machine: it has no hash that
// covers its fields, layers do not have it, and merges and exports leave it out. Values are
// thread-safe; functions that take a Store are not.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

class Store;

/// A kernel that a network or an operator uses.
struct WantedKernel {
  std::string op;
  std::string workload;   ///< canonical key
  std::string layouts;    ///< layouts that are asked for and the state of the caches, as in records
  std::string schedule;   ///< schedule that is used at present; empty: none
  double runs = 1;        ///< number of runs in one call of the network or operator
  double latency_ns = 0;  ///< time of one run of `schedule` when the demand was left; 0: unknown
  /// True if `latency_ns` was measured on the device; false if it was predicted.
  bool is_measured = false;
  /// The largest error of an element, relative to the largest element of the result, that a kernel
  /// may have to be of use.
  double most_error = std::numeric_limits<double>::infinity();

  // demands() computes these members from the trials; keep_demand() ignores them.
  int64_t trials = 0;  ///< number of trials of this workload at the place of the demand
  /// Latency of `schedule`: the latency of the best record if that has this schedule, else the
  /// smallest latency that was measured; 0 if the schedule was not timed.
  double used_ns = 0;
  double best_ns = 0;  ///< latency of the best record; 0 if there is none
};

/// The kernels of one network or operator on one device.
struct Demand {
  /// 64 hex digits that identify the network or the operator independently of `name`.
  std::string source;
  std::string name;  ///< a name for people to read
  std::string target, device;
  int64_t threads = 1, codegen_abi = 1;
  double latency_ns = 0;  ///< expected time of one call when the demand was left
  int64_t asked_ms = 0;   ///< when the demand was left
  std::vector<WantedKernel> kernels;

  // demands() fills these members; keep_demand() ignores them.
  std::string hash;      ///< 64 hex digits that identify the source and the place together
  double first_ns = 0;   ///< `latency_ns` when the demand was left for the first time
  int64_t first_ms = 0;  ///< when the demand was left for the first time
  int64_t asked = 1;     ///< number of times that the demand was left
};

/// Selects the demands that agree with every member which has a value.
struct DemandFilter {
  std::optional<std::string> target = {};
  std::optional<std::string> device = {};
  std::optional<int64_t> codegen_abi = {};
  std::optional<std::string> hash = {};  ///< 64 hex digits
  /// A text that occurs in the name; lower and upper case are equal.
  std::optional<std::string> part_of_name = {};
  int64_t limit = 0;  ///< most demands; 0: all
};

/// Ok if a database can keep the demand; otherwise Invalid, saying what is wrong.
Status check(const Demand& demand);

/// Stores a demand, replacing the earlier demand of the same source and place, in one durable
/// transaction. Errors: check(demand); TryLater as Store::append().
Status keep_demand(Store& store, const Demand& demand);
/// The demands that match, sorted from the one that was left last, with the members that follow
/// from the trials that the database has now.
Result<std::vector<Demand>> demands(Store& store, const DemandFilter& filter = {});
/// Deletes the demand with that hash; returns false if there is none.
Result<bool> drop_demand(Store& store, const std::string& hash);

}  // namespace tw::db
