// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes the cost of every scheme of a network. Plans are chosen by these costs.
//
// If an operator was measured on this device with the layouts of the scheme, the cost is the time
// of the fastest kernel. Otherwise the cost is the time that the analytic model predicts for the
// operator's best schedule, corrected by measurements of other schemes of the operator: if these
// took 1.2 times their predicted times, a prediction of 100 us becomes a cost of 120 us.
//
// Times are for the state of the caches in which the network runs (working_set.h). If this state is
// not hot, a record that was measured with hot caches provides a schedule, and the ratio of its
// measured to its predicted time corrects predictions. But the record does not count as a
// measurement of the scheme. People are shown the times of Stance::Expected, which are computed in
// the same way from expected times (cost_model/expected.h).
//
// A converting scheme reads and writes different layouts. Predictions of converting schemes are
// hardly ever below that of the operator's fastest other scheme. So such a scheme can be estimated
// at first: it then costs as much as the fastest kernel that was predicted for its operator.
//
//   TW_TRY(SchemeCosts costs, SchemeCosts::predict(graph, context, store, predict));
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

/// A kernel of a network: its workload with layouts, its schedule, and its times.
struct KernelChoice {
  dsl::Workload workload;  ///< with the layouts that the scheme asks for
  /// tw1 text of the schedule. Empty if the scheme runs no kernel, as for a view, and as long as
  /// the kernel is only estimated (is_estimated).
  std::string schedule = {};
  double predicted_ns = 0;  ///< time by the analytic model; 0: not predicted
  /// Expected time of the predicted schedule; 0 if no schedule was predicted. `schedule` may be
  /// another one, because a record may have replaced it after the prediction.
  double expected_ns = 0;
  double measured_ns = 0;  ///< time on this device; 0: not measured
  /// Predicted and measured time with hot caches. Each is 0 if unknown, or if the network's state
  /// of the caches is hot.
  double hot_predicted_ns = 0, hot_measured_ns = 0;
  /// The algorithm of the predicted schedule, in the text form of schedules::rewriting_text();
  /// nullopt: no schedule was predicted.
  std::optional<std::string> predicted_algorithm = {};
  /// Error of the schedule, relative to the largest element of the result; nullopt if it was not
  /// verified.
  std::optional<double> error = {};
  bool is_predicted = false;  ///< `schedule` was chosen by the cost model and was never measured
  bool is_rough = false;      ///< the prediction was made with Precision::Rough
  /// True if the kernel was not predicted yet. `predicted_ns` is then an estimate: the time of the
  /// fastest kernel that was predicted for the operator.
  bool is_estimated = false;
};

/// Selects the cost that schemes and copies without measurements have.
enum class Stance {
  Likely,  ///< the corrected prediction; for plans whose kernels are measured afterwards
  /// One standard deviation above Likely. It is used for the last choice of plans, after which only
  /// kernels of the chosen plans may still be measured.
  Cautious,
  Measured,  ///< a thousand times Cautious, so that measured schemes are chosen if possible
  /// The expected time, which is shown to people for a plan. Plans are not chosen by it, since the
  /// smallest of many expected times tends to be too low.
  Expected,
};

struct CostContext {
  Target target;  ///< target with the machine of with_known_machine()
  int threads = 1;
  StopToken stop = {};
  /// Called during predictions, on the thread that called predict(), refine() or
  /// predict_estimated(), to tell that `done` of `count` predictions are made. May be empty.
  std::function<void(size_t done, size_t count)> tell = {};
  /// Records with a larger error are ignored.
  double most_error = std::numeric_limits<double>::infinity();
  /// True if schemes whose kernels convert layouts (LayoutChoice::converts) are only estimated at
  /// first. Two kinds of such schemes are predicted at once even so: schemes that have a record,
  /// and schemes of an operator that has no other schemes.
  bool estimates = false;
};

/// A scheme: the index of its group in SchemeCosts::groups(), and its index in
/// SchemeCosts::kernels(group).
using SchemeIndex = std::pair<size_t, size_t>;
using SchemeSet = std::set<SchemeIndex>;

class SchemeCosts {
 public:
  /// Predicts all offered schemes (schemes.h) roughly, on all cores, except those that are only
  /// estimated (CostContext::estimates). The offered schemes include the layouts of records in
  /// `store`. Schemes that cannot be scheduled are dropped. Fails with Interrupted if context.stop
  /// stopped the call, and with Unsupported, naming the operator, if none of the operator's schemes
  /// can be scheduled. The graph must outlive the result.
  static Result<SchemeCosts> predict(const graph::Graph& graph, const CostContext& context,
                                     db::Store& store, Predict predict);

  /// Predicts the estimated schemes among `schemes` roughly, and drops those that cannot be
  /// scheduled. All other schemes stay as they are. Returns true if any of `schemes` was estimated;
  /// then costs have changed, and the indices of schemes may have. Fails with Interrupted if
  /// context.stop stopped the call; then nothing has changed.
  Result<bool> predict_estimated(const SchemeSet& schemes);
  SchemeSet estimated() const;
  /// Drops all schemes that are still estimated. The indices of the remaining schemes change.
  void drop_estimated();

  /// Replaces the rough predictions among `schemes` by full ones. Schemes that were predicted in
  /// full, or that have the schedule of a record, stay as they are. Returns true if any prediction
  /// was replaced; then costs have changed. Fails with Interrupted if context.stop stopped the
  /// call, and with the errors of Predict.
  Result<bool> refine(const SchemeSet& schemes);

  /// Takes over the records that the database has now. If a server cannot be reached, costs stay as
  /// they are. Fails with the other errors of Store::best().
  Status refresh(db::Store& store);

  /// Returns for each operator of the graph the schemes of its group. The cost of a scheme is the
  /// time of all runs of the operator in one call of the network.
  std::vector<std::vector<graph::Scheme>> schemes(Stance stance = Stance::Likely) const;
  /// Returns a function that gives the time of a copy of a tensor between two layouts that schemes
  /// ask for. The time is measured if possible, else predicted, and infinite if the copy cannot be
  /// scheduled. The SchemeCosts must outlive the function.
  graph::TransformCost transform_cost(Stance stance = Stance::Likely) const;

  const std::vector<OperatorGroup>& groups() const { return groups_; }
  size_t group_of(size_t op) const { return group_of_[op]; }
  /// Number of runs of an operator in one call of the network: the number of trips of the
  /// operator's loop, or 1 outside of loops.
  double runs_of(size_t op) const;
  /// The state of the caches for operators outside of loops and for copies.
  dsl::CacheState state() const { return state_; }
  /// The kernels of a group, one for each of its schemes.
  const std::vector<KernelChoice>& kernels(size_t group) const { return kernels_[group]; }
  const KernelChoice& at(size_t op, size_t scheme) const { return kernels_[group_of_[op]][scheme]; }
  /// Time of one run of the kernel, by Stance::Expected.
  double expected_ns(size_t op, size_t scheme) const {
    return cost_ns(group_of_[op], at(op, scheme), Stance::Expected);
  }
  /// Returns the copies that a concatenation makes if it runs no kernel of its own; empty for all
  /// other schemes.
  const std::vector<LayoutCopy>& copies(size_t op, size_t scheme) const {
    return choices_[group_of_[op]][scheme].copies;
  }
  /// Returns the kernel that copies a tensor of this type from layout `from` to layout `to`, with
  /// its time by Stance::Expected. If the copy was not predicted before, it is predicted in full
  /// now. Fails with the errors of Predict.
  Result<KernelChoice> transform(const graph::TensorType& type, const dsl::Layout& from,
                                 const dsl::Layout& to) const;
  /// Returns an optimistic estimate of the time of one run of a scheme, the smallest of three
  /// times: the cost of the scheme; the time of the fastest kernel that was measured for the group
  /// with any layouts; and the predicted time of the scheme multiplied by the smallest ratio of
  /// measured to predicted time of any kernel of the same kind of operator. For example, if one
  /// convolution took 0.7 of its prediction, a convolution predicted at 100 us may take 70 us. For
  /// a scheme without a kernel it is the time of its copies.
  double optimistic_ns(size_t group, size_t scheme) const;
  /// The number of schemes of all groups together.
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
  std::vector<size_t> group_of_;                    ///< for each operator, the index of its group
  std::vector<std::vector<LayoutChoice>> choices_;  ///< for each group
  std::vector<std::vector<KernelChoice>> kernels_;  ///< for each group and each choice of layouts
  /// For each group, the ratio of measured to predicted time.
  std::vector<double> ratios_;
  /// For each group, the ratio of measured to expected time.
  std::vector<double> expected_ratios_;
  /// For each kind of operator, the smallest ratio of measured to predicted time of a kernel.
  std::map<std::string, double> least_ratios_;
  std::map<std::string, KernelChoice> copies_;  ///< by copy_key(): type and both layouts
  double doubt_ = 1;  ///< exp of the standard deviation of log(measured / predicted)
  double copy_ratio_ = 1, expected_copy_ratio_ = 1;  ///< the same ratios for copies
};

}  // namespace tw::tuner
