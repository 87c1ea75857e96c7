// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns points of a space into candidates that the cost model can order. For each point it makes
// the schedule, its text, the program and its features. This is the costly half of a search;
// nothing is built here. Thread-safe.

#include <functional>
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

/// A schedule that may be built and measured, with the features from which the cost model predicts
/// its speed.
struct Candidate {
  schedules::Point point;  ///< has no choices if the schedule is no point of the space
  std::string schedule;    ///< tw1 text
  size_t program = 0;      ///< schedules::hash() of the program that the schedule means
  std::vector<float> features;
  std::string configuration;  ///< text of the point; empty if it has no choices
};

/// Schedules and programs that were seen before, and are not scored again.
struct Seen {
  std::set<std::string> schedules;  ///< tw1 texts of chosen schedules
  std::set<size_t> programs;        ///< hashes of chosen programs
  std::set<std::string> tried;      ///< db::schedule_key() of schedules in a database
  /// True if the schedule with this text was chosen or tried before.
  bool has(const std::string& schedule) const {
    return schedules.contains(schedule) ||
           (!tried.empty() && tried.contains(db::schedule_key(schedule)));
  }
};

/// The model that gives the expected times of candidates (cost_model/expected.h). Single workloads
/// use the pretrained model; plans of networks use the analytic model. A plan is made from the
/// smallest of hundreds of expected times, and so prefers times that are predicted too low: with
/// the pretrained trees, plans of MobileNetV2 and MobileNetV3 were up to a tenth slower.
enum class Prior {
  Pretrained,  ///< the trees that the program carries
  Analytic,    ///< the analytic model alone
};

struct ScoringOptions {
  int kernel_threads = 1;  ///< number of threads that the candidates run on
  int workers = 1;         ///< number of threads that score points
  /// Stops the scoring. Points that were not scored before are then judged as illegal.
  StopToken stop = {};
  Prior prior = Prior::Pretrained;
};

/// The state of a point before a trial (search.h), and its candidate if the point is new.
struct JudgedPoint {
  Standing standing = Standing::Illegal;
  std::optional<Candidate> candidate = {};
};

/// Returns one entry for each point, in order. A point is illegal if it has no legal schedule, or
/// only one that is too large to be worth building. A point is seen if the text of its schedule, or
/// its program, is in `seen` or is that of an earlier point. Different points can have the same
/// program: for example, a factor above an extent means the extent, and a loop of one iteration
/// means no loop, unrolled or not. The result does not depend on the number of workers. Points that
/// were left out after a stop are illegal.
std::vector<JudgedPoint> judge_points(const schedules::Space& space,
                                      const std::vector<schedules::Point>& points,
                                      const Target& target, const Seen& seen,
                                      const ScoringOptions& options);
/// Returns the candidates of judge_points(), one for each point; nullopt for a point that is not
/// new.
std::vector<std::optional<Candidate>> candidates_of(const schedules::Space& space,
                                                    const std::vector<schedules::Point>& points,
                                                    const Target& target, const Seen& seen,
                                                    const ScoringOptions& options);

/// Returns the candidate of a schedule that was given and not proposed by a search, for instance by
/// a user. If the schedule is no point of the space, the point of the candidate has no choices and
/// its configuration is empty. Fails with Invalid if the schedule is illegal, or keeps tensors in
/// other layouts than the problem asks for.
Result<Candidate> candidate_of(const schedules::Schedule& schedule, const schedules::Space& space,
                               const schedules::Problem& problem, int kernel_threads);

/// Returns a score that rates points by the model `prior`, without any trials. On GPUs, points
/// whose registers are expected to spill are illegal. The space must outlive the score.
Score score_before_trials(const schedules::Space& space, int kernel_threads, Prior prior,
                          const StopToken& stop);

/// Limits on the points that predicted_schedule() compares, and the model that rates them.
struct PredictionEffort {
  Descent descent;         ///< on GPUs, limits of the descent, which is the search there
  size_t most_points = 0;  ///< on processors, Known::most_points of the first proposal
  bool descends = true;    ///< on processors, true if a descent follows, from the best of these
                           ///< points
  Prior prior = Prior::Pretrained;
};
/// The effort for a single kernel. On GPUs the prediction takes seconds. `bench --optimum` compares
/// its results with thousands of random points.
inline constexpr PredictionEffort effort_of_kernel{
    .descent = {.samples = 512, .starts = 8, .mutations = 64, .perturbations = 16},
    .most_points = SIZE_MAX};
/// The effort for each of the many kernels of a network. On GPUs a prediction takes some tenths of
/// a second.
inline constexpr PredictionEffort effort_of_network{
    .descent = {.samples = 0, .starts = 1, .mutations = 0},
    .most_points = SIZE_MAX,
    .prior = Prior::Analytic};
/// The effort for schemes, the ways to run an operator of a network, of which only few are chosen.
/// On processors fewer points are compared than with effort_of_network.
inline constexpr PredictionEffort effort_of_scheme{.descent = effort_of_network.descent,
                                                   .most_points = 16,
                                                   .descends = false,
                                                   .prior = Prior::Analytic};

/// Says if a schedule (tw1 text) can be used, for example because it compiles. An empty function
/// accepts all schedules.
using Accepts = std::function<bool(const std::string& schedule)>;

/// Returns, as tw1 text, the schedule that a search prefers by the cost model alone, before
/// anything is measured. On GPUs the search is a descent (descent.h), and the result is the first
/// of its eight best points that `accepts` accepts, or the best one if it accepts none of them. On
/// processors the result is the first proposal of evolution, from which a descent follows if
/// effort.descends is true. If evolution proposes no legal point, the result is the default
/// schedule of the space. Deterministic. Fails with the errors of Space::derive(), and with that of
/// check_not_stopped() if the token has stopped.
Result<std::string> predicted_schedule(const schedules::Problem& problem, const Target& target,
                                       int kernel_threads, const StopToken& stop = {},
                                       const PredictionEffort& effort = effort_of_kernel,
                                       const Accepts& accepts = {});
/// As predicted_schedule() above, for a problem whose space was derived before.
Result<std::string> predicted_schedule(const schedules::Space& space, int kernel_threads,
                                       const StopToken& stop, const PredictionEffort& effort,
                                       const Accepts& accepts = {});

}  // namespace tw::tuner
