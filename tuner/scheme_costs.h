// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every scheme of a network costs: the time of the best kernel that the database has for the
// operator under the layouts of the scheme, or, where none was measured on this device, the time
// that the analytic model predicts for the schedule that the cost model prefers, times what the
// measured schemes of the same operator took against their predictions. All of that is in the state
// of the caches that the network has (state_of()): a record of a kernel that was timed hot gives
// the schedule, and corrects the prediction by its own, but is no measurement.
//
//   TW_TRY(SchemeCosts costs, SchemeCosts::predict(graph, context, predict));
//   TW_RETURN_IF_ERROR(costs.refresh(store));
//   make_plans(graph, costs.schemes(), costs.transform_cost(), 1);
//   ... tune some of costs.at(op, scheme).workload ...
//   TW_RETURN_IF_ERROR(costs.refresh(store));          // and plan again
//
// Not thread-safe; predict() uses threads of its own.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "graph/plan.h"
#include "tuner/schemes.h"

namespace tw::tuner {

/// A kernel of a network: what it computes under which layouts, how, and how long it takes.
struct KernelChoice {
  dsl::Workload workload;     ///< with the layouts that are asked for
  std::string schedule = {};  ///< tw1 text; empty: nothing is to be run
  double predicted_ns = 0;    ///< by the analytic model; 0: it was not asked
  double measured_ns = 0;     ///< on this device; 0: it was not measured
  /// The same with hot caches, where the network's are not; 0: unknown.
  double hot_predicted_ns = 0, hot_measured_ns = 0;
};

/// The schedule that the cost model prefers for a workload and its time in ns; nothing is measured.
/// Unsupported where no strategy of the target has the layouts that the workload asks for.
struct Predicted {
  std::string schedule;
  double analytic_ns = 0;
  double hot_ns = 0;  ///< the same if the caches were hot, where the workload says otherwise
};
using Predict = std::function<Result<Predicted>(const dsl::Workload& workload)>;
Predict predict_for(const Target& target, int threads, std::function<bool()> stops);

/// What a scheme or a copy that was not measured costs: what is most likely; a standard deviation
/// of predictions more, for a choice that nothing will be measured after; or a thousand times that,
/// for a choice among what was measured.
enum class Stance { Likely, Cautious, Measured };

struct CostContext {
  Target target;  ///< as with_known_machine() makes it
  int threads = 1;
  std::function<bool()> stops = [] { return false; };  ///< thread-safe
};

class SchemeCosts {
 public:
  /// Predicts all schemes that are worth offering on all cores. Interrupted where `stops` said so;
  /// Unsupported, naming the operator, where none of its schemes can be scheduled. The graph must
  /// outlive the costs.
  static Result<SchemeCosts> predict(const graph::Graph& graph, const CostContext& context,
                                     db::Store& store, Predict predict);

  /// Asks the database again for what was measured. Fails as Store::best() does.
  Status refresh(db::Store& store);

  /// For each operator of the graph, its schemes: those of its group.
  std::vector<std::vector<graph::Scheme>> schemes(Stance stance = Stance::Likely) const;
  /// The time of a copy between layouts that schemes ask of the tensor: measured where it is known,
  /// else predicted; infinite for one that cannot be scheduled.
  graph::TransformCost transform_cost(Stance stance = Stance::Likely) const;

  const std::vector<OperatorGroup>& groups() const { return groups_; }
  size_t group_of(size_t op) const { return group_of_[op]; }
  /// The state of the caches that all kernels are asked for.
  dsl::CacheState state() const { return state_; }
  /// The kernels of a group, one for each of its schemes.
  const std::vector<KernelChoice>& kernels(size_t group) const { return kernels_[group]; }
  const KernelChoice& at(size_t op, size_t scheme) const { return kernels_[group_of_[op]][scheme]; }
  /// What is copied under a scheme that has no kernel.
  const std::vector<LayoutCopy>& copies(size_t op, size_t scheme) const {
    return choices_[group_of_[op]][scheme].copies;
  }
  /// The kernel of a copy. Errors as Predict.
  Result<KernelChoice> transform(const graph::TensorType& type, const dsl::Layout& from,
                                 const dsl::Layout& to) const;
  /// The time that a scheme may turn out to have: that of the fastest kernel measured for its group
  /// under any layouts or, where that is less, its prediction as far off as the luckiest one of the
  /// same operator in any group. Its cost where nothing was measured.
  double optimistic_ns(size_t group, size_t scheme) const;
  /// Number of schemes, and of those that were measured on this device.
  size_t count() const;
  size_t count_measured() const;

 private:
  SchemeCosts(const graph::Graph& graph, CostContext context, Predict predict);
  Status offer(db::Store& store);
  Status predict_all();
  Status keep_supported(size_t group, const std::vector<Result<Predicted>>& predicted);
  Status predict_copies();
  void drop_impossible_copies();
  Status refresh_group(db::Store& store, size_t group, dsl::CacheState state);
  Result<std::optional<db::Record>> known(db::Store& store, dsl::Workload workload,
                                          dsl::CacheState state) const;
  Status refresh_copies(db::Store& store);
  void learn_ratios();
  void learn_doubt(const std::map<std::string, std::vector<double>>& ratios_by_operator);
  double cost_ns(size_t group, const KernelChoice& kernel) const;
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
  std::vector<double> ratios_;                      ///< of each group: measured by predicted time
  std::map<std::string, double> least_ratios_;      ///< of each operator in any group
  std::map<std::string, KernelChoice> copies_;      ///< by the text of the copy's workload
  double doubt_ = 1;       ///< exp of the standard deviation of log(measured / predicted)
  double copy_ratio_ = 1;  ///< of copies: measured by predicted time
};

}  // namespace tw::tuner
