// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/algorithm_space.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace tw::schedules {
namespace {

// The weight of a compute is proportional to 100 * stages + nodes. Measured: for chains of 3 to 256
// stages, the time to lower a point divided by this number was 0.3 to 0.8 times that of a matrix
// product.
constexpr double nodes_per_stage = 100, nodes_of_weight_one = 105;

/// The phases of a schedule. A phase is a stage that may have a loop for other stages, and the
/// stages that are computed in this loop.
class Phases {
 public:
  /// Returns the site at which a stage may be computed: the site of the phase in which all its
  /// readers are. Null if the readers are in several phases, or if the phase has no loop for other
  /// stages.
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
  std::map<std::string, std::string> phases_;  // for each stage, the stage that opened its phase
  std::map<std::string, Site> sites_;  // for each stage that opened a phase, the site of the phase
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
  std::vector<std::pair<const StageStrategy*, Site>> opened;
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
      opened.emplace_back(offer.strategy.get(), site);
      phases.open(plan_of_stage.name, std::move(site));
    }
  }
  for (const auto& [strategy, site] : opened) strategy->close(site, c);
}

}  // namespace tw::schedules
