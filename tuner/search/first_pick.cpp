// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/first_pick.h"

#include <memory>
#include <utility>
#include <vector>

#include "schedules/problem.h"
#include "schedules/space/space.h"
#include "tuner/search/batch_size.h"
#include "tuner/search/experience.h"
#include "tuner/search/learner.h"
#include "tuner/search/proposer.h"
#include "tuner/search/scoring.h"
#include "tuner/search/search.h"

namespace tw::tuner {
Result<std::string> first_pick(db::Store& store, const dsl::Workload& workload,
                               const Target& target, int threads, const StopToken& stop,
                               Notes* notes, const Accepts& accepts) {
  const schedules::Problem problem = schedules::problem_of(workload);
  TW_TRY(schedules::Space space, schedules::Space::derive(problem, target, stop));
  Question question{&workload, &space, target, threads, nullptr, stop};
  question.notes = notes;
  Experience known = warm_start(store, question);
  TW_RETURN_IF_ERROR(check_not_stopped(stop, "search"));
  if (known.samples.empty() && known.seeds.empty())
    return predicted_schedule(problem, target, threads, stop, effort_of_kernel, accepts);
  Learner learner;
  learner.learn(known.samples, notes);
  const cost_model::WorkloadModel model = learner.for_group(ranking_group(workload, target));
  TW_TRY(std::unique_ptr<Search> search, make_search("evolution"));
  Proposer proposer(std::move(space), std::move(search), threads, 1);
  proposer.learn(std::move(known));
  proposer.begin(stop);
  // Asks for as many points as a run's first batch has, because the pool of a proposal grows with
  // their number.
  const std::vector<schedules::Point> points = proposer.propose(
      [&](const auto& pool) { return proposer.predict(pool, model); }, batch_size_for(target));
  const std::vector<Candidate> candidates = proposer.choose(points);
  if (candidates.empty())
    return predicted_schedule(problem, target, threads, stop, effort_of_kernel, accepts);
  return candidates.front().schedule;
}

}  // namespace tw::tuner
