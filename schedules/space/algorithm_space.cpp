// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/algorithm_space.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace tw::schedules {
namespace {

// The time to lower a point, divided by (100 * stages + nodes), was 0.3 to 0.8 times that of a
// matrix product for chains of 3 to 256 stages.
constexpr double nodes_per_stage = 100, nodes_of_weight_one = 105;

/// Phases of a schedule: a stage that has a loop for others, and those that are computed in it.
class Phases {
 public:
  /// The site at which a stage may be computed: the site of the phase that all its readers are in.
  /// Null if they are in several phases, or if that phase has no loop for the stage.
  const Site* site_for(const StagePlan& stage) const {
    const Site* common = nullptr;
    for (const std::string& reader : stage.readers) {
      const Site* site = &sites_.at(phases_.at(reader));
      if (common && site != common) return nullptr;
      common = site;
    }
    return common && !common->loop.empty() ? common : nullptr;
  }
  void open(const std::string& stage, Site site) {
    phases_[stage] = stage;
    sites_[stage] = std::move(site);
  }
  void join(const std::string& stage, const Site& site) { phases_[stage] = site.stage; }

 private:
  std::map<std::string, std::string> phases_;  // by stage: the one that opened its phase
  std::map<std::string, Site> sites_;          // by the latter
};

/// Computes the weight from the stages and the nodes of their bodies.
double weight_of(const ComputePlan& plan) {
  double nodes = 0;
  for (const dsl::Stage& stage : plan.compute.stages)
    nodes += nodes_per_stage + static_cast<double>(stage.body.node().size);
  return std::max(1.0, nodes / nodes_of_weight_one);
}

}  // namespace

AlgorithmSpace::AlgorithmSpace(ComputePlan made) : plan(std::move(made)), weight(weight_of(plan)) {}

double AlgorithmSpace::size() const {
  double product = 1;
  for (const StageSpace& stage : stages) product *= stage.size();
  return product;
}

void AlgorithmSpace::settle(std::span<int> choices) const {
  for (const StageSpace& stage : stages) stage.settle(choices);
}

void AlgorithmSpace::construct(std::span<const int> choices, const std::vector<Knob>& decisions,
                               Construction& c) const {
  Phases phases;
  for (const StageSpace& stage : stages) {
    const StagePlan& plan_of_stage = stage.plan();
    const Site* inside = stage.place() ? phases.site_for(plan_of_stage) : nullptr;
    if (inside) c.uses_decision(*stage.place());
    if (!stage.is_placed(choices)) inside = nullptr;
    if (stage.strategy()) c.uses_decision(*stage.strategy());
    const Offer& offer = stage.offer(choices);
    const KnobValues values = stage.values(choices, decisions);
    Site site =
        offer.strategy->construct({values.begin(), values.size()}, offer.decisions, inside, c);
    if (c.schedule.error()) return;
    if (inside) {
      phases.join(plan_of_stage.name, *inside);
    } else {
      phases.open(plan_of_stage.name, std::move(site));
    }
  }
}

}  // namespace tw::schedules
