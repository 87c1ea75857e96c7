// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Demand is the list of kernels that a network or an operator uses on a device. Databases keep
// demands so that a later run knows which kernels are worth tuning. A demand is stored when a plan
// was made from predictions, or when a run was cut short. When demands are read, the time that
// better kernels would save is computed from the trials that the database has then. Demands are not
// facts about a machine: no hash covers their fields, layers do not have them, and merges and
// exports leave them out. Values are thread-safe; functions that take a Store are not.

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
  std::string schedule;   ///< schedule that the network or operator uses at present; empty: none
  double runs = 1;        ///< number of runs in one call of the network or operator
  double latency_ns = 0;  ///< time of one run of `schedule` when the demand was stored; 0: unknown
  /// True if `latency_ns` was measured on the device; false if it was predicted.
  bool is_measured = false;
  /// Limit on the error of a kernel: no element may differ from the right result by more than this
  /// share of the largest element of the result.
  double most_error = std::numeric_limits<double>::infinity();

  // demands() computes the members below from the trials; keep_demand() ignores them.
  int64_t trials = 0;  ///< number of trials of this workload on the target and device of the demand
  /// Latency of `schedule`, in ns. This is the latency of the best record if that record has this
  /// schedule; else the smallest latency of a trial of this schedule with status Ok. 0 if there is
  /// no such trial.
  double used_ns = 0;
  double best_ns = 0;  ///< latency of the best record of the workload; 0 if there is none
};

/// The kernels of one network or operator on one device.
struct Demand {
  /// 64 hex digits that identify the network or the operator independently of `name`.
  std::string source;
  std::string name;  ///< a name for people to read
  std::string target, device;
  int64_t threads = 1, codegen_abi = 1;
  double latency_ns = 0;  ///< expected time of one call when the demand was stored
  int64_t asked_ms = 0;   ///< when the demand was stored, in ms since 1970
  std::vector<WantedKernel> kernels;

  // demands() fills the members below; keep_demand() ignores them.
  std::string hash;      ///< 64 hex digits that identify source, target, device, threads and ABI
  double first_ns = 0;   ///< `latency_ns` when the demand was stored for the first time
  int64_t first_ms = 0;  ///< when the demand was stored for the first time
  int64_t asked = 1;     ///< number of times that the demand was stored
};

/// Selects the demands that agree with all members that have a value. Members without a value are
/// ignored.
struct DemandFilter {
  std::optional<std::string> target = {};
  std::optional<std::string> device = {};
  std::optional<int64_t> codegen_abi = {};
  std::optional<std::string> hash = {};  ///< 64 hex digits
  /// A text that the name has to contain. The letters a to z match in either case.
  std::optional<std::string> part_of_name = {};
  int64_t limit = 0;  ///< largest number of demands; 0: all
};

/// Ok if a database can store the demand. Otherwise fails with Invalid; the message says what is
/// wrong.
Status check(const Demand& demand);

/// Stores a demand in one durable transaction. It replaces the earlier demand with equal source,
/// target, device, threads and codegen_abi. Kernels with equal workload and layouts are merged:
/// their `runs` are added, and the smallest `most_error` is kept. Fails with the error of
/// check(demand), or with TryLater if another process holds the database for writing too long.
Status keep_demand(Store& store, const Demand& demand);
/// Returns the demands that match the filter, with all members. The demand with the latest
/// `asked_ms` comes first.
Result<std::vector<Demand>> demands(Store& store, const DemandFilter& filter = {});
/// Deletes the demand with the given Demand::hash. Returns false if there is none.
Result<bool> drop_demand(Store& store, const std::string& hash);

}  // namespace tw::db
