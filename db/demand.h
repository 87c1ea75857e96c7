// SPDX-License-Identifier: Apache-2.0
#pragma once
// Demand: the kernels that networks and operators use, so that others know which of them are worth
// tuning. A plan that was made from predictions, or a run that was cut short, leaves its kernels
// here. What a better kernel would save follows from the trials that the database has by the time
// somebody asks. Demand is no fact about a machine: it has no hash of its own, no layer has it, and
// neither merges nor exports take it over. Values are thread-safe; functions over a
// Store are not, as it is not.

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
  std::string workload;  ///< canonical key
  std::string layouts;  ///< asked of inputs and outputs, and the state of the caches, as in records
  std::string schedule;      ///< that is used at present; empty: there is none
  double runs = 1;           ///< in one call of what uses it
  double latency_ns = 0;     ///< of one run of `schedule`, when the demand was left; 0: unknown
  bool is_measured = false;  ///< `latency_ns` was measured on the device, and not predicted
  /// A kernel whose error, relative to the largest element of its result, is larger is of no use.
  double most_error = std::numeric_limits<double>::infinity();

  // The members that follow from the trials. Absent where a demand is left.
  int64_t trials = 0;  ///< of this workload at the place of the demand
  /// Latency of `schedule`: that of the best record where it is its schedule, else the least that
  /// was measured; 0: it was not timed.
  double used_ns = 0;
  double best_ns = 0;  ///< latency of the best record; 0: there is none
};

/// The kernels of one network or operator on one device.
struct Demand {
  /// 64 hex digits that name the network or the operator, whatever it is called.
  std::string source;
  std::string name;  ///< for people
  std::string target, device;
  int64_t threads = 1, codegen_abi = 1;
  double latency_ns = 0;  ///< of one call, as it was to be expected when the demand was left
  int64_t asked_ms = 0;   ///< when it was left
  std::vector<WantedKernel> kernels;

  // The members that the database adds.
  std::string hash;      ///< 64 hex digits that name the source and the place together
  double first_ns = 0;   ///< `latency_ns` of the first time
  int64_t first_ms = 0;  ///< when it was left for the first time
  int64_t asked = 1;     ///< number of times that it was left
};

/// Absent members do not restrict.
struct DemandFilter {
  std::optional<std::string> target = {};
  std::optional<std::string> device = {};
  std::optional<int64_t> codegen_abi = {};
  std::optional<std::string> hash = {};  ///< 64 hex digits
  /// Part of the name; lower and upper case are equal.
  std::optional<std::string> part_of_name = {};
  int64_t limit = 0;  ///< most demands; 0: all
};

/// Invalid, saying what is wrong, for a demand that no database keeps.
Status check(const Demand& demand);

/// Keeps a demand in place of that of the same source and place, in one durable transaction.
/// Errors: check(demand); TryLater as Store::append().
Status keep_demand(Store& store, const Demand& demand);
/// The demands that match, those that were left last first, with what the trials say by now.
Result<std::vector<Demand>> demands(Store& store, const DemandFilter& filter = {});
/// Forgets the demand with that hash; false where there is none.
Result<bool> drop_demand(Store& store, const std::string& hash);

}  // namespace tw::db
