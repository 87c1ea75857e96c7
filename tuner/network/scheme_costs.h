// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost of every scheme of a network. If the operator was measured on this device under the
// layouts of the scheme, the cost is the time of the fastest kernel. Otherwise it is the analytic
// model's time of the schedule that it prefers, times the ratio of measured to predicted time of
// the operator's other schemes. Times are for the state of the caches that the network has
// (working_set.h). A record with hot caches, where the network's are not, gives the schedule and
// the ratio of measured to predicted time, but does not count as a measurement. By these costs
// plans are chosen. The times that people are told of a plan (Stance::Expected) are made in the
// same way from the times to be expected (cost_model/expected.h).
//
// Schemes that convert between layouts can be estimated at first. They then cost as much as the
// fastest kernel that was predicted for their operator, which their own predictions hardly ever
// undercut.
//
//   TW_TRY(SchemeCosts costs, SchemeCosts::predict(graph, context, predict));
//   TW_RETURN_IF_ERROR(costs.refresh(store));
//   ... costs.predict_estimated(schemes of a plan), a few times ...
//   costs.drop_estimated();
//   make_plans(graph, costs.schemes(), costs.transform_cost(), 1);
//   ... tune some of costs.at(op, scheme).workload ...
//   TW_RETURN_IF_ERROR(costs.refresh(store));          // and plan again
//
// Not thread-safe; predict() uses threads of its own.

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "graph/plan.h"
#include "tuner/network/predictor.h"
#include "tuner/network/schemes.h"

namespace tw::tuner {

/// A kernel of a network: what it computes under which layouts, how, and how long it takes.
struct KernelChoice {
  dsl::Workload workload;  ///< with the layouts that are asked for
  /// The tw1 text. It is empty where the operator is a view, so that no kernel runs, and while the
  /// kernel is estimated.
  std::string schedule = {};
  double predicted_ns = 0;  ///< time by the analytic model; 0: not predicted
  /// Time to be expected of the predicted schedule; 0: not predicted. A record may have given the
  /// kernel another schedule since.
  double expected_ns = 0;
  double measured_ns = 0;  ///< time on this device; 0: not measured
  /// The same two times with hot caches, if those of the network are not hot; 0: unknown.
  double hot_predicted_ns = 0, hot_measured_ns = 0;
  /// schedules::rewriting_text() of the schedule that was predicted; nullopt: none was.
  std::optional<std::string> predicted_algorithm = {};
  /// The error of the schedule where it was verified, relative to the largest element of the
  /// result.
  std::optional<double> error = {};
  bool is_predicted = false;  ///< the cost model chose the schedule, which nobody has measured
  bool is_rough = false;      ///< Precision::Rough is that of the prediction
  /// The kernel is not predicted yet: `predicted_ns` is that of the fastest kernel predicted for
  /// its operator.
  bool is_estimated = false;
};

/// Cost assumed for schemes and copies that were not measured.
enum class Stance {
  Likely,    ///< the corrected prediction, while kernels will still be measured
  Cautious,  ///< one standard deviation above it, for the last choice, which nothing corrects
  Measured,  ///< a thousand times Cautious, so that only measured ones are chosen if possible
  /// The time that is to be expected, which people are told of a plan that is chosen. Plans are not
  /// chosen by it: the least of many times would be one that is too low.
  Expected,
};

struct CostContext {
  Target target;  ///< as with_known_machine() makes it
  int threads = 1;
  StopToken stop = {};
  /// Called with the number of predictions made and to be made, on the thread that asked for them;
  /// may be empty.
  std::function<void(size_t done, size_t count)> tell = {};
  double most_error = std::numeric_limits<double>::infinity();  ///< of records that are used
  /// Schemes that convert (LayoutChoice::converts) are estimated if they are in no record, and
  /// their operator has other schemes.
  bool estimates = false;
};

/// A group, and the index of one of its schemes.
using SchemeIndex = std::pair<size_t, size_t>;
using SchemeSet = std::set<SchemeIndex>;

class SchemeCosts {
 public:
  /// Predicts all offered schemes (schemes.h) roughly, on all cores, but for those that are
  /// estimated. Interrupted if context.stop stopped it; Unsupported, naming the operator, if none
  /// of its schemes can be scheduled. The graph must outlive the costs.
  static Result<SchemeCosts> predict(const graph::Graph& graph, const CostContext& context,
                                     db::Store& store, Predict predict);

  /// Predicts those of these schemes roughly that are estimated, and drops those of them that
  /// cannot be scheduled. Returns whether there were any: then costs and the indices of schemes
  /// have changed. Interrupted if context.stop stopped it; then nothing has changed.
  Result<bool> predict_estimated(const SchemeSet& schemes);
  SchemeSet estimated() const;
  /// Drops the schemes that are estimated. The indices of the others change.
  void drop_estimated();

  /// Predicts in full those of these schemes that were predicted roughly and not measured. Returns
  /// whether there were any: then their costs have changed. Interrupted if context.stop stopped it.
  Result<bool> refine(const SchemeSet& schemes);

  /// Takes the measurements that the database has by now. Fails as Store::best() does.
  Status refresh(db::Store& store);

  /// For each operator of the graph, the schemes of its group, with the times of all its runs.
  std::vector<std::vector<graph::Scheme>> schemes(Stance stance = Stance::Likely) const;
  /// The time of a copy between layouts that schemes ask of a tensor: measured if possible, else
  /// predicted; infinite if the copy cannot be scheduled. The costs must outlive the function.
  graph::TransformCost transform_cost(Stance stance = Stance::Likely) const;

  const std::vector<OperatorGroup>& groups() const { return groups_; }
  size_t group_of(size_t op) const { return group_of_[op]; }
  /// Number of times that an operator runs in one call of the network: once in each trip of its
  /// loop, and once outside of loops.
  double runs_of(size_t op) const;
  /// The state of the caches that all kernels are asked for.
  dsl::CacheState state() const { return state_; }
  /// The kernels of a group, one for each of its schemes.
  const std::vector<KernelChoice>& kernels(size_t group) const { return kernels_[group]; }
  const KernelChoice& at(size_t op, size_t scheme) const { return kernels_[group_of_[op]][scheme]; }
  /// The time of one run of the kernel, as Stance::Expected has it.
  double expected_ns(size_t op, size_t scheme) const {
    return cost_ns(group_of_[op], at(op, scheme), Stance::Expected);
  }
  /// The copies that a scheme without a kernel makes.
  const std::vector<LayoutCopy>& copies(size_t op, size_t scheme) const {
    return choices_[group_of_[op]][scheme].copies;
  }
  /// The kernel of a copy, with its expected time corrected as Stance::Expected has it. Errors as
  /// Predict.
  Result<KernelChoice> transform(const graph::TensorType& type, const dsl::Layout& from,
                                 const dsl::Layout& to) const;
  /// An optimistic estimate of the time of one run of a scheme: the least of its cost, of the
  /// fastest kernel measured for its group under any layouts, and of its prediction times the
  /// smallest ratio of measured to predicted time among all kernels of the same operator.
  double optimistic_ns(size_t group, size_t scheme) const;
  /// The number of schemes of all groups.
  size_t count() const;
  /// The number of schemes that were measured on this device.
  size_t count_measured() const;

 private:
  SchemeCosts(const graph::Graph& graph, CostContext context, Predict predict);
  Status offer(db::Store& store);
  Status predict_offered();
  Status predict_roughly(const std::vector<SchemeIndex>& schemes);
  Error failure_of(size_t group, const Error& why) const;
  Result<bool> is_recorded(db::Store& store, const dsl::Workload& workload) const;
  Status estimate();
  std::vector<const dsl::Workload*> workloads_of(const std::vector<SchemeIndex>& schemes) const;
  Result<std::vector<Result<Predicted>>> predict_each(
      const std::vector<const dsl::Workload*>& workloads, Precision precision) const;
  Status predict_copies();
  void drop_impossible_copies();
  void drop(const SchemeSet& schemes);
  Status refresh_group(db::Store& store, size_t group, dsl::CacheState state);
  Result<std::optional<db::Record>> known(db::Store& store, dsl::Workload workload,
                                          dsl::CacheState state) const;
  Status refresh_copies(db::Store& store);
  void learn_ratios();
  void learn_doubt(const std::map<std::string, std::vector<double>>& ratios_by_operator);
  double cost_ns(size_t group, const KernelChoice& kernel, Stance stance) const;
  double copy_ns(const KernelChoice& copy, Stance stance) const;
  double copies_ns(const LayoutChoice& choice, Stance stance) const;
  double factor_of(Stance stance) const;
  std::map<std::string, dsl::Workload> copies_that_plans_may_need() const;

  const graph::Graph* graph_;
  CostContext context_;
  Predict predict_;
  dsl::CacheState state_;
  std::vector<OperatorGroup> groups_;
  std::vector<size_t> group_of_;                    ///< of each operator
  std::vector<std::vector<LayoutChoice>> choices_;  ///< of each group
  std::vector<std::vector<KernelChoice>> kernels_;  ///< of each group, one for each choice
  std::vector<double> ratios_;                      ///< measured / predicted time of each group
  std::vector<double> expected_ratios_;             ///< measured / expected time of each group
  std::map<std::string, double> least_ratios_;  ///< smallest such ratio of each operator's groups
  std::map<std::string, KernelChoice> copies_;  ///< by the text of the copy's workload
  double doubt_ = 1;  ///< exp of the standard deviation of log(measured / predicted)
  double copy_ratio_ = 1, expected_copy_ratio_ = 1;  ///< the same of copies
};

}  // namespace tw::tuner
