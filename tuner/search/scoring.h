// SPDX-License-Identifier: Apache-2.0
#pragma once
// From points of a space to candidates that the cost model can order: schedule, text, program,
// features. The costly half of a search; nothing is built here. Thread-safe.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "db/recall.h"
#include "schedules/space/space.h"
#include "tuner/search/descent.h"

namespace tw::tuner {

/// A candidate on its way through the funnel.
struct Candidate {
  schedules::Point point;  ///< without choices where the schedule came from elsewhere
  std::string schedule;    ///< tw1 text
  size_t program = 0;      ///< schedules::hash of what the schedule means
  std::vector<float> features;
  std::string configuration;  ///< text of the point; empty where the schedule came from elsewhere
};

/// Schedules and programs that need not be scored again.
struct Seen {
  std::set<std::string> schedules;  ///< tw1 texts
  std::set<size_t> programs;        ///< hashes
  std::set<std::string> tried;      ///< schedules in a database (db::schedule_key())
  /// True if the schedule with this text was chosen, or tried before.
  bool has(const std::string& schedule) const {
    return schedules.contains(schedule) ||
           (!tried.empty() && tried.contains(db::schedule_key(schedule)));
  }
};

/// The model that gives the expected times of candidates (cost_model/expected.h). Plans of networks
/// ask for the analytic one: a plan takes the least of hundreds of times, and so those that are too
/// low. With the trees, plans of MobileNetV2 and MobileNetV3 were up to a tenth slower.
enum class Prior {
  Pretrained,  ///< the trees that the program carries
  Analytic,    ///< the analytic model alone
};

struct ScoringOptions {
  int kernel_threads = 1;  ///< that the candidates are to run on
  int workers = 1;         ///< threads to use here
  StopToken stop = {};     ///< asked before each point: once stopped, the rest are left out
  Prior prior = Prior::Pretrained;
};

/// A point as it stands before a trial, and its candidate where it is new.
struct JudgedPoint {
  Standing standing = Standing::Illegal;
  std::optional<Candidate> candidate = {};
};

/// One entry a point. A point is illegal where its schedule is, or is larger than is worth
/// building. It is seen where its text or its program was seen, or is that of an earlier point (a
/// factor beyond an extent is the extent; loops of one iteration are none, whether unrolled or
/// not). The same for any number of workers. Points that the stop left out count as illegal.
std::vector<JudgedPoint> judge_points(const schedules::Space& space,
                                      const std::vector<schedules::Point>& points,
                                      const Target& target, const Seen& seen,
                                      const ScoringOptions& options);
/// The candidates of judge_points(): nothing for a point that is not new.
std::vector<std::optional<Candidate>> candidates_of(const schedules::Space& space,
                                                    const std::vector<schedules::Point>& points,
                                                    const Target& target, const Seen& seen,
                                                    const ScoringOptions& options);

/// The candidate of a schedule that was written by hand, which need not be of the space: then it
/// has no point and no configuration. Invalid where it is illegal, or keeps tensors in other
/// layouts than the problem asks for.
Result<Candidate> candidate_of(const schedules::Schedule& schedule, const schedules::Space& space,
                               const schedules::Problem& problem, int kernel_threads);

/// Scores of points by what is known before anything is measured. On GPUs a point whose registers
/// are expected to spill counts as illegal. The space must outlive the score.
Score score_before_trials(const schedules::Space& space, int kernel_threads, Prior prior,
                          const StopToken& stop);

/// The points that predicted_schedule() compares, and the model that rates them.
struct PredictionEffort {
  Descent descent;         ///< on GPUs
  size_t most_points = 0;  ///< of the first proposal of a search, on processors
  bool descends = true;    ///< on processors, from the best of these points
  Prior prior = Prior::Pretrained;
};
/// For one kernel. On GPUs it takes seconds, and comes within 3 % of the best of 20,000 samples of
/// products.
inline constexpr PredictionEffort effort_of_kernel{
    .descent = {.samples = 256, .starts = 8, .mutations = 64}, .most_points = SIZE_MAX};
/// For each of the many kernels of a network: some tenths of a second on GPUs.
inline constexpr PredictionEffort effort_of_network{
    .descent = {.samples = 0, .starts = 1, .mutations = 0},
    .most_points = SIZE_MAX,
    .prior = Prior::Analytic};
/// For schemes of which few are chosen. The points on processors are a part of those above.
inline constexpr PredictionEffort effort_of_scheme{.descent = effort_of_network.descent,
                                                   .most_points = 16,
                                                   .descends = false,
                                                   .prior = Prior::Analytic};

/// The schedule, as tw1 text, that a search prefers by the cost model before anything is measured
/// or learned. It is the default schedule of the space if no point that the search considers is
/// legal. On GPUs the search is a descent. Deterministic. Errors as Space::derive(), and as
/// check_not_stopped() where the token stopped.
Result<std::string> predicted_schedule(const schedules::Problem& problem, const Target& target,
                                       int kernel_threads, const StopToken& stop = {},
                                       const PredictionEffort& effort = effort_of_kernel);
/// The same in the space of the problem.
Result<std::string> predicted_schedule(const schedules::Space& space, int kernel_threads,
                                       const StopToken& stop, const PredictionEffort& effort);

}  // namespace tw::tuner
