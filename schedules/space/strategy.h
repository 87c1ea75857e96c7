// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Strategy is one way to schedule one stage of a compute on a machine, for example by register
// tiles of vectors, or by the tensor cores of a GPU. A strategy that matches a stage offers knobs.
// The values of the knobs are decoded into a configuration: a plain struct whose other members
// (accumulators, threads, bytes of shared memory) are computed once from the members that knobs
// set. The strategy decides whether a configuration fits the machine, returns the heuristic prior
// of the configuration, and appends its steps to a schedule:
//
//   struct Rows { int64_t tile = 1; };                                 // the configuration
//
//   class TileRows : public Configured<Rows> {
//    public:
//     TileRows(const ComputePlan& plan, const StagePlan& stage) : Configured(plan, stage) {
//       add_knob("tile", {1, 2, 4, 8}, &Rows::tile);
//     }
//    private:
//     bool fits(const Rows& rows) const override { return rows.tile <= registers; }
//     Site append_steps(const Rows& rows, const Site* inside, Construction& c) const override {...}
//   };
//
//   std::unique_ptr<const StageStrategy> tile_rows(const ComputePlan& plan, const StagePlan& stage)
//   {
//     return stage.reduces ? nullptr : std::make_unique<TileRows>(plan, stage);
//   }
//
// A line of strategies/strategies.def adds the strategy to every space. A strategy is immutable
// once it is made, and thread-safe to share.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "schedules/space/construction.h"
#include "schedules/space/stage_plan.h"

namespace tw::schedules {

/// A decision: its name and the values that it may take, at least one.
struct Knob {
  std::string name;
  std::vector<int64_t> values;
  /// True if only some problems have the knob. The text of a configuration may leave out an
  /// optional knob, which then has its first value.
  bool is_optional = false;
  /// The last value is drawn this many times as often as each of the other values.
  int64_t weight_of_last = 1;
};

/// A strategy for one stage of a plan.
class StageStrategy {
 public:
  virtual ~StageStrategy() = default;

  virtual const std::vector<Knob>& knobs() const = 0;

  // Below, `values` has one value for each knob, in the order of knobs().

  /// True if the configuration fits the machine and should be built. The answer does not depend on
  /// the configurations of other stages.
  virtual bool allows(std::span<const int64_t> values) const = 0;
  /// Returns the number of knobs in the head, or 0 if the strategy has no head. The head are the
  /// first knobs of a strategy that allows only few combinations of their values, such as the sizes
  /// of a register tile. Samples draw the values of the head together, from the combinations for
  /// which may_begin_with() is true. They draw every other knob by itself.
  virtual size_t knobs_of_head() const { return 0; }
  /// False if no allowed configuration begins with these values. `values` has the values of the
  /// first knobs, at most of the knobs_of_head() knobs of the head.
  virtual bool may_begin_with(std::span<const int64_t> /*values*/) const { return true; }
  /// Returns the heuristic prior of the configuration: a score that is computed before anything is
  /// measured; higher is better. Priors of one stage are comparable across strategies, and the
  /// prior of a point is the sum over its stages. `placed` is true if the point asks to compute the
  /// stage inside of another stage. That stage may turn out to have no loop for it.
  virtual double rate(std::span<const int64_t> values, bool placed) const = 0;
  /// True if rate() depends on every knob, so that hill climbing on rate() finds a good schedule.
  virtual bool can_be_climbed() const { return false; }
  /// Appends the steps of the stage to `c`. If `inside` is not null, the stage is computed at this
  /// site in another stage, and the result is not used. If `inside` is null, the stage has its own
  /// phase, and the result is the site at which the stage's producers may be computed. `decisions`
  /// has, for each knob, the index of its decision.
  virtual Site construct(std::span<const int64_t> values, std::span<const size_t> decisions,
                         const Site* inside, Construction& c) const = 0;
  /// Appends the last steps of a phase that the strategy has opened at `site`. Called after all
  /// stages that are computed at the site have been constructed.
  virtual void close(const Site& /*site*/, Construction& /*c*/) const {}
};

/// A row of the table of strategies.
struct Strategy {
  std::string_view name;  ///< name of the strategy in the text of configurations
  /// Returns the strategy for the stage, or nullptr if it does not match. The plan must outlive the
  /// result.
  std::unique_ptr<const StageStrategy> (*match)(const ComputePlan& plan, const StagePlan& stage);
};

/// Returns all strategies, in the order in which a space offers them. If several strategies match a
/// stage, the first of these is the first value of the stage's decision "strategy".
std::span<const Strategy> strategies();

/// Base class of a strategy whose knobs set members of a configuration, a struct of type Config.
template <typename Config>
class Configured : public StageStrategy {
 public:
  Configured(const ComputePlan& compute, const StagePlan& plan)
      : compute_(compute), plan_(plan), stage_(compute.stage(plan)) {}

  const std::vector<Knob>& knobs() const final { return knobs_; }
  bool allows(std::span<const int64_t> values) const final { return fits(decode(values)); }
  double rate(std::span<const int64_t> values, bool placed) const final {
    return prior(decode(values), placed);
  }
  Site construct(std::span<const int64_t> values, std::span<const size_t> decisions,
                 const Site* inside, Construction& c) const final {
    Config config = decode(values);
    if (c.is_traced()) {
      std::vector<Construction::Origin> origins;
      for (size_t k = 0; k < members_.size(); ++k)
        origins.push_back({&members_[k](config), decisions[k]});
      c.set_origins(std::move(origins));
    }
    return append_steps(config, inside, c);
  }

  Config decode(std::span<const int64_t> values) const {
    Config config;
    for (size_t k = 0; k < members_.size(); ++k) members_[k](config) = values[k];
    complete(config);
    return config;
  }

 protected:
  /// Returns a reference to the member of a configuration that a knob sets. A pointer to a data
  /// member, such as &Rows::tile, converts to this type.
  using Member = std::function<int64_t&(Config&)>;
  void add_knob(std::string name, std::vector<int64_t> values, Member member) {
    if (values.empty()) values = {1};  // an extent of 0 leaves nothing to choose from
    knobs_.push_back({std::move(name), std::move(values), false});
    members_.push_back(std::move(member));
  }
  /// As add_knob(), for a knob that only some problems have. Requires: all later knobs are optional
  /// too.
  void add_optional_knob(std::string name, std::vector<int64_t> values, Member member,
                         int64_t weight_of_last = 1) {
    add_knob(std::move(name), std::move(values), std::move(member));
    knobs_.back().is_optional = true;
    knobs_.back().weight_of_last = weight_of_last;
  }

  /// Computes the members of the configuration that depend on members that knobs set.
  virtual void complete(Config&) const {}
  virtual bool fits(const Config&) const { return true; }
  virtual double prior(const Config&, bool /*placed*/) const { return 0; }
  virtual Site append_steps(const Config& config, const Site* inside, Construction& c) const = 0;

  const ComputePlan& compute_;
  const StagePlan& plan_;
  const dsl::Stage& stage_;  ///< definition of the stage

 private:
  std::vector<Knob> knobs_;
  std::vector<Member> members_;
};

}  // namespace tw::schedules
