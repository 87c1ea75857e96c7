// SPDX-License-Identifier: Apache-2.0
#include "tuner/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/compile.h"
#include "cost_model/expected.h"
#include "schedules/space/find_point.h"
#include "tuner/measure/reference.h"
#include "tuner/search/experience.h"
#include "tuner/trial_record.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using schedules::Point;

// Largest number of finalists. With more finalists the comparisons would take longer than is worth
// the small chance that a slower finalist wins.
constexpr size_t most_finalists = 4;
// Limit of the time of a proposal on an ordinary machine: this share of the task's budget, but at
// least these seconds. Proposals take milliseconds, except for the largest kernels of GPUs.
constexpr double proposing_share = 0.25, least_proposing_s = 0.5;
// Work that an ordinary machine does in a second: the number of points that it scores, and the
// number of stored schedules that it lowers, both of weight 1 (schedules::weight()). Proposals are
// limited by these rates and not by a clock, so that the limits are equal on all machines.
constexpr double usual_points_per_s = 2500, usual_gpu_points_per_s = 400;
constexpr double usual_schedules_per_s = 2000;
// Number of points that a run with one task proposes before its own measurements influence
// proposals. These points depend only on the run's options, its target and the database, so that
// every run with the same seed begins with the same points. Two batches that are drawn without
// feedback show more of a space than one batch and its mutations.
constexpr int64_t points_before_feedback = 16;
// Trials per second that are assumed before the first batch. One core builds eight candidates in a
// third of a second.
constexpr double usual_trials_per_s = 20;
// Assumed speed of the plain loops as declared. If by this speed one run of them takes more than
// most_plain_share of the task's budget, or more than most_plain_s, the reference kernel has the
// default schedule instead.
constexpr double plain_flops_per_s = 1e9, most_plain_share = 0.05, most_plain_s = 1;
// Number of trials after which a task ends if none of them had a valid kernel, since further trials
// would fail too.
constexpr int64_t most_invalid_trials = 96;
// Seconds that the measurement of a candidate waits for the machine to become quiet. The first
// candidate waits patience_s, in which a disturbance of half a second passes. If the disturbance
// lasts longer, the next candidates wait only short_patience_s, and are measured again with later
// batches.
constexpr double patience_s = 0.6, short_patience_s = 0.1;
// Number of consecutive builds that fail because of the compiler or linker, after which these are
// taken to be broken and the run ends.
constexpr int64_t most_broken_builds = 24;
// Number of consecutive candidates that are dropped, for instance because they are lost with their
// workers, after which the machine or the farm is taken to be at fault and the run ends.
constexpr int64_t most_dropped_in_a_row = 8;

/// Returns the latency of a trial, converted from the peak of the machine that measured it to
/// `peak_gflops`: at twice the peak, half the latency. Unchanged if a peak is not known.
double at_peak(const db::Record& trial, double peak_gflops) {
  if (trial.peak_gflops <= 0 || peak_gflops <= 0) return trial.latency_ns;
  return trial.latency_ns * trial.peak_gflops / peak_gflops;
}

double throughput_of(double latency_ns) { return latency_ns > 0 ? 1e9 / latency_ns : 0; }

/// Returns the reply for a candidate whose machine code was measured before, for another schedule.
/// It has the result of that schedule.
MeasureReply duplicate_of(const db::Record& original) {
  MeasureReply reply{TrialStatus::Duplicate, "the machine code of record " + original.hash};
  if (!db::is_timed(original)) {
    reply.reason += fmt::format(", which is {}", db::to_string(original.status));
    return reply;
  }
  reply.latency_ns = original.latency_ns;
  reply.low_ns = original.latency_low_ns;
  reply.high_ns = original.latency_high_ns;
  reply.verified_error = original.verified_error;
  reply.noise = original.noise;
  return reply;
}

}  // namespace

void keep_fastest(std::vector<Finalist>& finalists) {
  std::stable_sort(finalists.begin(), finalists.end(), [](const Finalist& a, const Finalist& b) {
    return a.record.latency_ns < b.record.latency_ns;
  });
  if (finalists.size() > most_finalists) finalists.resize(most_finalists);
}

Result<std::unique_ptr<Task>> Task::open(const TaskSpec& spec, TuningRun& run) {
  TW_TRY(std::unique_ptr<Search> search, make_search(run.options.search));
  TW_TRY(schedules::Space space,
         schedules::Space::derive(schedules::problem_of(spec.workload, spec.most_error), run.target,
                                  run.stop()));
  std::unique_ptr<Task> task(new Task(spec, run, std::move(space), std::move(search)));
  if (!spec.schedule.empty()) TW_RETURN_IF_ERROR(task->begin_with_given_schedule());
  return task;
}

Status Task::begin_with_given_schedule() {
  TW_TRY(const schedules::Schedule given,
         schedules::parse_schedule(workload().compute, spec_.schedule));
  TW_TRY(Candidate first,
         candidate_of(given, proposer_.space(), schedules::problem_of(workload(), spec_.most_error),
                      run_.options.threads));
  std::optional<Point> nearest;
  if (first.configuration.empty()) {
    TW_TRY(nearest, schedules::nearest_point(proposer_.space(), given, run_.stop()));
  }
  given_ = first.schedule;
  proposer_.begin_with(std::move(first), std::move(nearest));
  return {};
}

Task::Task(const TaskSpec& spec, TuningRun& run, schedules::Space space,
           std::unique_ptr<Search> search)
    : spec_(spec),
      key_(spec.workload.key()),
      group_(ranking_group(spec.workload, run.target)),
      run_(run),
      proposer_(std::move(space), std::move(search), run.options.threads, run.options.seed),
      others_(*run.store, database_key(spec.workload, run.target, run.options.threads),
              run.environment.session, run.environment.host, run.environment.notes) {
  progress_.name = spec.name;
  progress_.machine_note = run.machine_note;
  progress_.flops = dsl::count_flops(spec.workload.compute);
  progress_.bytes = dsl::compulsory_traffic(spec.workload.compute).bytes();
}

void Task::report() {
  progress_.tasks = run_.tasks;
  progress_.finished = run_.finished;
  progress_.budget_s = run_.options.budget_s;
  progress_.elapsed_s = run_.budget.elapsed_s();
  progress_.working_s = run_.workers.busy->seconds();
  progress_.trials = counts_.by_status();
  const double left_s = progress_.budget_s - progress_.elapsed_s;
  progress_.next_gain.reset();
  if (progress_.finishing.empty() && counts_.total() > 0 && left_s > 0 && !ended())
    progress_.next_gain = run_.expected_gain(std::min(left_s, minute_s));
  progress_.model = cost_model::expectation_name(run_.target);
  const cost_model::LeaveOneOut& judged = model_.leave_one_out();
  if (judged.before && judged.corrected)
    progress_.model += fmt::format(", corrected by {}: rank correlation {:.2f} (without {:.2f})",
                                   counted(static_cast<int64_t>(judged.trials), "trial"),
                                   *judged.corrected, *judged.before);
  run_.report(progress_);
}

// ---- the reference --------------------------------------------------------------------------

Batch Task::reference_batch() {
  reference_proposed_ = true;
  return {.task = this};
}

Result<std::string> Task::reference_schedule() const {
  const schedules::Schedule plain(workload().compute);
  const double share_s = run_.budget.total_s() / static_cast<double>(run_.tasks);
  const double plain_s = progress_.flops / plain_flops_per_s;
  if (plain_s <= std::min(most_plain_share * share_s, most_plain_s)) return plain.to_string();
  const StopToken stop = run_.stop();
  TW_TRY(const auto space, schedules::Space::derive({workload().compute}, host_target(), stop));
  TW_TRY(const Point first, space.default_point(stop));
  const schedules::Schedule tiled = space.schedule(first);
  const auto program = tiled.program();
  return (program && codegen::check_limits(*program) ? tiled : plain).to_string();
}

Status Task::prepare(const Batch& reference) {
  const BuildOutcome& built = reference.built[0];
  reference_ = {built.artifact, built.otherwise};
  if (reference_.artifact.empty())
    return run_.stop().is_stopped()
               ? interrupted_at_start()
               : fail(built.status == TrialStatus::Illegal ? ErrorCode::Invalid
                      : built.status == TrialStatus::Lost  ? ErrorCode::TryLater
                                                           : ErrorCode::Environment,
                      fmt::format("[tune] the reference kernel cannot be built: {}", built.reason));
  const double before_s = run_.budget.elapsed_s();
  TW_TRY(reference_ns_, run_.workers.runner->prepare(workload().text(), reference_, Needed::No));
  reference_s_ = built.build_s + run_.budget.elapsed_s() - before_s;
  // On a GPU the default schedule differs from that of the reference kernel, and is not measured.
  if (!run_.target.is_gpu()) progress_.untuned_ns = reference_ns_;
  TW_RETURN_IF_ERROR(prepare_runner(Needed::No));
  report();
  return {};
}

/// Prepares the runner for this workload, and reads the present peak of the machine.
Status Task::prepare_runner(Needed needed) {
  TW_RETURN_IF_ERROR(run_.workers.runner->prepare(workload().text(), reference_, needed));
  const auto peak = run_.workers.runner->peak_gflops();
  if (peak)
    progress_.peak_gflops = peak_for(workload(), run_.target, *peak);
  else if (!run_.stop().is_stopped())
    return tl::unexpected<Error>(peak.error());
  return {};
}

// ---- propose, predict, choose, build --------------------------------------------------------

void Task::learn_from_database(const StopToken& stop) {
  if (std::exchange(recalled_, true)) return learn_from_others(stop);
  others_.begin();
  Experience known = warm_start(*run_.store, question(stop));
  const auto best = run_.best_known(spec_);
  if (best && *best && !is_of_device(**best, run_.target)) elsewhere_ = **best;
  const auto claim = run_.unconfirmed(workload());
  const bool is_of_other_host = best && *best && (*best)->host != run_.environment.host;
  finals_trials_ = (is_of_other_host ? 1 : 0) + (claim && *claim ? 1 : 0);
  progress_.known_trials = known.known;
  for (const double latency_ns : known.latencies_ns) gain_.add(latency_ns);
  run_.learner.learn(std::exchange(known.samples, {}), run_.environment.notes);
  proposer_.learn(std::move(known));
}

Question Task::question(const StopToken& stop) const {
  return {&workload(),
          &proposer_.space(),
          run_.target,
          run_.options.threads,
          &run_.learner.records(),
          stop,
          most_in_a_proposal(usual_schedules_per_s),
          run_.environment.host,
          run_.environment.notes,
          spec_.most_error};
}

/// Learns from the trials that other runs of this workload have stored since the previous call.
/// Their latencies are converted to this machine's peak.
void Task::learn_from_others(const StopToken& stop) {
  const Question here = question(stop);
  for (const db::Record& trial : others_.new_trials()) {
    if (db::proves_nothing(trial.status) || proposer_.has_seen(trial.schedule)) continue;
    // A schedule that failed on another host may work here, so it may still be tried.
    if (!db::proves_wrong(trial.status) || trial.host == run_.environment.host)
      proposer_.note_tried(trial.schedule);
    ++progress_.known_trials;
    const double latency_ns = is_result(trial) ? at_peak(trial, progress_.peak_gflops) : 0;
    gain_.add(latency_ns);
    if (latency_ns > 0 && (progress_.best_ns == 0 || latency_ns < progress_.best_ns))
      progress_.best_ns = latency_ns;
    TrialOfOthers known = trial_of_others(here, trial);
    if (known.point)
      fresh_points_.push_back({*known.point, throughput_of(latency_ns),
                               known.sample ? known.sample->features : std::vector<float>()});
    if (known.sample && run_.learner.records().insert(trial.hash).second)
      fresh_samples_.push_back(std::move(*known.sample));
  }
}

/// Returns the number of points or schedules that a proposal may handle. `per_second` is the number
/// of those of weight 1 that an ordinary machine handles in a second.
size_t Task::most_in_a_proposal(double per_second) const {
  const double share_s = run_.options.budget_s / static_cast<double>(run_.tasks);
  const double seconds = std::max(least_proposing_s, proposing_share * share_s);
  return static_cast<size_t>(seconds * per_second / schedules::weight(proposer_.space()));
}

bool Task::is_guided() const { return run_.tasks > 1 || proposed_ >= points_before_feedback; }

/// Replaces the task's model by the run's present model, if the latter has learned since the last
/// replacement.
void Task::renew_model() {
  const size_t samples = run_.learner.samples();
  if (model_samples_ == samples) return;
  model_ = run_.learner.for_group(group_);
  model_samples_ = samples;
}

std::vector<Point> Task::propose(const Score& predict) {
  if (!ahead_.empty()) return {};
  const StopToken stop = run_.stop();
  const bool is_gpu = run_.target.is_gpu();
  proposer_.begin(stop, most_in_a_proposal(is_gpu ? usual_gpu_points_per_s : usual_points_per_s));
  learn_from_database(stop);
  if (stop.is_stopped()) return {};
  // The number of proposed points depends only on the options and the target. The remaining time
  // decides how many of them are in a batch.
  const double share_s = run_.options.budget_s / static_cast<double>(run_.tasks);
  const auto count = static_cast<int64_t>(
      std::clamp(usual_trials_per_s * share_s, 1.0, static_cast<double>(run_.batch)));
  const int64_t most =
      run_.options.trials > 0 ? std::max<int64_t>(most_search_trials() - proposed_, 0) : count;
  if (most == 0) return {};
  const int64_t first = proposer_.has_first() ? 1 : 0;
  if (std::min(count, most) == first) return {};
  if (is_guided() || !model_samples_) renew_model();
  std::vector<Point> points = proposer_.propose(predict, static_cast<size_t>(count - first));
  // If only few trials are left, a full batch is proposed even so, and its first points are taken.
  // So the points are chosen from an equally large pool.
  if (std::ssize(points) > most - first)
    points.erase(points.begin() + (most - first), points.end());
  return points;
}

std::vector<Prediction> Task::predict(const std::vector<Point>& points) {
  return proposer_.predict(points, model_);
}

/// Returns the number of candidates that fit into the remaining time, at least 1. A builder answers
/// only when all candidates of a batch are built, so the kernels of a larger batch would not be
/// measured in time.
int64_t Task::fitting() const {
  const auto trials = static_cast<double>(counts_.total());
  const double each_s = trials > 0 ? spent_s_ / trials : reference_s_;
  double most = static_cast<double>(run_.batch);
  if (each_s > 0) most = std::min(most, run_.budget.left_s() / each_s);
  if (batches_.proposed == 0) most = std::min(most, usual_trials_per_s * first_batch_s_);
  return static_cast<int64_t>(std::max(most, 1.0));
}

Batch Task::choose(const std::vector<Point>& points) {
  std::vector<Candidate> chosen = proposer_.choose(points);
  proposed_ += std::ssize(chosen);
  std::ranges::move(chosen, std::back_inserter(ahead_));
  Batch batch{.task = this};
  for (int64_t left = fitting(); left > 0 && !ahead_.empty(); --left) {
    batch.candidates.push_back(std::move(ahead_.front()));
    ahead_.pop_front();
  }
  const auto wanted = std::ssize(batch.candidates);
  const bool was_alone = !others_.have_refused();
  batch.candidates = others_.claim(std::move(batch.candidates), spec_.insists ? given_ : "");
  proposed_ -= wanted - std::ssize(batch.candidates);
  batch.was_refused = wanted > 0 && batch.candidates.empty();
  // The refused points were probably proposed by a run with the same seed, whose next proposals
  // would also be the same as here. So the search draws other random numbers from now on.
  if (was_alone && others_.have_refused())
    proposer_.draw_otherwise(std::hash<std::string>()(run_.environment.session));
  if (batch.was_refused) {
    ++batches_.refused;
    return batch;
  }
  ++batches_.proposed;
  batches_.under_way += std::ssize(batch.candidates);
  return batch;
}

Status Task::begin_build(const Batch& batch) {
  if (batch.is_reference()) {
    report();
    TW_RETURN_IF_ERROR(check_tunable(workload(), run_.target));
    TW_TRY(std::string schedule, reference_schedule());
    return run_.workers.builder->begin(
        {.kernels = {{key_, std::move(schedule)}}, .packs = true, .is_reference = true});
  }
  BuildRequest request;
  for (const Candidate& candidate : batch.candidates)
    request.kernels.push_back({key_, candidate.schedule});
  return run_.workers.builder->begin(request);
}

// ---- verify, measure, record, learn ---------------------------------------------------------

Status Task::begin_measuring(const Batch& batch) {
  batches_.under_way -= static_cast<int64_t>(batch.candidates.size());
  // Trials that were not measured for lack of time are dropped, but postponed trials are kept.
  due_.remove_if([](const Trial& trial) { return trial.attempts == 0; });
  due_.splice(due_.end(), postponed_);
  for (size_t i = 0; i < batch.candidates.size(); ++i)
    due_.push_back({batch.candidates[i], batch.built[i]});
  if (run_.stop().is_stopped()) return {};
  TW_RETURN_IF_ERROR(prepare_runner(Needed::No));
  return announce_measurements();
}

/// Tells the runner which kernels it will measure next. Kernels with equal machine code are
/// announced once.
Status Task::announce_measurements() {
  std::vector<MeasureJob> jobs;
  std::set<std::string> codes;
  for (const Trial& trial : due_) {
    const BuildOutcome& built = trial.built;
    if (built.artifact.empty() || by_code_.contains(built.code)) continue;
    if (built.code.empty() || codes.insert(built.code).second)
      jobs.push_back(measurement_of(trial));
  }
  return run_.workers.runner->begin(jobs);
}

MeasureJob Task::measurement_of(const Trial& trial) const {
  MeasureJob job{.artifact = trial.built.artifact,
                 .patience_s = pace_.is_disturbed() ? short_patience_s : patience_s};
  if (!finalists_.empty()) {
    const Finalist& incumbent = finalists_.front();
    job.incumbent = incumbent.artifact;
    job.incumbent_ns = pace_.factor() / incumbent.pace * incumbent.record.latency_ns;
  }
  return job;
}

Trial* Task::next_trial() {
  if (due_.empty() || run_.stop().is_stopped() || run_.unstored) return nullptr;
  // Measuring a slow kernel may take longer than the budget. One kernel is measured even so, so
  // that there is a result; the others are not measured after the budget.
  if (run_.budget.is_overdue() && !finalists_.empty()) return nullptr;
  return &due_.front();
}

Result<MeasureReply> Task::measure(const Trial& trial) {
  const BuildOutcome& built = trial.built;
  if (built.artifact.empty()) {
    MeasureReply reply{built.status, built.reason};
    reply.blameless = built.blameless;
    return reply;
  }
  if (const auto original = by_code_.find(built.code); original != by_code_.end())
    return duplicate_of(original->second);
  return run_.workers.runner->measure(measurement_of(trial));
}

Status Task::record(const MeasureReply& reply) {
  TW_CHECK(!due_.empty());
  if (reply.blameless) return drop(reply);
  dropped_in_a_row_ = 0;
  Trial& trial = due_.front();
  pace_.note(reply, run_.budget.elapsed_s());
  if (!reply.incumbent_fault.empty()) drop_incumbent(reply);
  if (pace_.is_disturbed() && ++trial.attempts < most_attempts) {
    trial.latest = reply;
    postponed_.splice(postponed_.end(), due_, due_.begin());
  } else {
    const Trial measured = std::move(trial);
    due_.pop_front();
    const BuildOutcome& built = measured.built;
    const db::Record record = add_trial(measured.candidate, reply, built.artifact);
    // If this trial was disturbed or lost, another schedule with equal machine code is measured
    // anew.
    if (!built.code.empty() && !db::proves_nothing(record.status))
      by_code_.try_emplace(built.code, record);
    TW_RETURN_IF_ERROR(check_installation(built));
    keep_fastest(finalists_);
  }
  report();
  return {};
}

/// Drops the candidate of next_trial(), which is not to blame for its failure. It leaves no record.
/// The search proposes another candidate in its place, and never the same one again. So a run ends
/// even if every candidate is dropped.
Status Task::drop(const MeasureReply& reply) {
  const BuildOutcome built = std::move(due_.front().built);
  due_.pop_front();
  --proposed_;
  counts_.add_lost(reply.reason);
  report();
  if (run_.interrupted()) return {};
  note(run_.environment.notes, NoteKind::LostTrial, reply.reason);
  TW_RETURN_IF_ERROR(check_installation(built));
  if (built.installation || ++dropped_in_a_row_ < most_dropped_in_a_row) return {};
  run_.store_all();
  return fail(ErrorCode::TryLater,
              fmt::format("[tune] {} candidates in a row were not measured, through no fault of "
                          "theirs, the last one because of: {}; what was measured is stored: try "
                          "again",
                          dropped_in_a_row_, reply.reason));
}

/// Drops an incumbent that cannot be loaded any more, for instance because memory is short, so that
/// candidates are not compared with it. The reply names the incumbent that failed, because a runner
/// may have begun the measurement before the present incumbent was found.
void Task::drop_incumbent(const MeasureReply& reply) {
  const auto dropped = std::erase_if(finalists_, [&](const Finalist& finalist) {
    return finalist.artifact == reply.faulty_incumbent;
  });
  if (dropped > 0) counts_.add_failure("the fastest kernel so far: " + reply.incumbent_fault);
}

Status Task::check_installation(const BuildOutcome& built) {
  if (!built.artifact.empty()) broken_builds_ = 0;
  if (!built.installation || ++broken_builds_ < most_broken_builds) return {};
  run_.store_all();
  return fail(
      ErrorCode::Environment,
      fmt::format("[tune] {} candidates in a row could not be built, the last one because of: {}",
                  broken_builds_, built.reason));
}

/// Stores the outcome of a candidate as a record, and learns from it.
db::Record Task::add_trial(const Candidate& candidate, const MeasureReply& reply,
                           const std::string& artifact) {
  db::Record record = trial_record(
      workload(), run_.target, run_.options.threads, run_.workers.builder->toolchain(),
      candidate.schedule, reply,
      std::max(progress_.peak_gflops, peak_for(workload(), run_.target, reply.peak_gflops)));
  record.configuration = candidate.configuration;
  record.program_version = run_.environment.program_version;
  record.host = reply.host.empty() ? run_.environment.host : reply.host;
  record.session = run_.environment.session;
  record.seed = static_cast<int64_t>(run_.options.seed);
  record.trial = counts_.total();
  record.created_ms = run_.environment.now_ms();
  record = db::seal(std::move(record));

  digest(candidate, record);
  if (is_result(record)) {
    finalists_.push_back({artifact, record, pace_.factor()});
    if (progress_.finishing.empty()) run_.enter(TuningRun::Phase::SearchingWithResult);
  }
  if (record.status == TrialStatus::Unstable && record.latency_ns > 0 && is_exact(record))
    disturbed_.push_back({artifact, record, pace_.factor()});
  run_.learner.records().insert(record.hash);
  run_.store_record(record);
  return record;
}

/// Adds a trial to the counts, to the trials for the search and to the samples for the model.
void Task::digest(const Candidate& candidate, const db::Record& trial) {
  const bool is_valid = is_result(trial);
  const bool is_timed = db::is_timed(trial);
  counts_.add(trial);
  if (is_timed && !is_exact(trial)) counts_.add_failure("its error is larger than asked for");
  if (db::proves_nothing(trial.status)) return;
  if (candidate.point.choices.size() == proposer_.space().decisions().size())
    fresh_points_.push_back({candidate.point,
                             is_timed && is_exact(trial) ? throughput_of(trial.latency_ns) : 0,
                             candidate.features});
  cost_model::Sample sample;
  sample.features = candidate.features;
  sample.throughput = throughput_of(trial.latency_ns);
  sample.group = group_;
  sample.valid = is_timed;
  if (!candidate.features.empty()) fresh_samples_.push_back(std::move(sample));
  if (is_valid && (progress_.best_ns == 0 || trial.latency_ns < progress_.best_ns))
    progress_.best_ns = trial.latency_ns;
  if (is_valid && progress_.given_ns == 0 && trial.schedule == given_)
    progress_.given_ns = trial.latency_ns;
  gain_.add(is_valid ? trial.latency_ns : 0);
}

void Task::learn() {
  // Stores the trials now, so that other runs see them.
  if (others_.is_shared()) run_.store_all();
  if (run_.interrupted()) return;
  run_.learner.learn(std::exchange(fresh_samples_, {}), run_.environment.notes);
  if (!is_guided()) return;
  for (Tried& tried : std::exchange(fresh_points_, {}))
    proposer_.learn(tried.point, tried.throughput, std::move(tried.features));
}

// ---- stop? ----------------------------------------------------------------------------------

/// Returns the number of trials that the search may make, at least 1. The remaining trials are for
/// records of other hosts, which are measured at the end of the task.
int64_t Task::most_search_trials() const {
  return std::max<int64_t>(run_.options.trials - finals_trials_, 1);
}

std::optional<Ended> Task::ended() const {
  const int64_t trials = counts_.total();
  if (run_.interrupted()) return Ended::Interrupted;
  if (run_.unstored) return Ended::Unstored;
  if (run_.options.trials > 0 && trials >= most_search_trials()) return Ended::Trials;
  if (run_.budget.left_s() <= 0) return Ended::Budget;
  if (trials >= most_invalid_trials && progress_.best_ns == 0) return Ended::Plateau;
  if (trials > 0 && next_minute_gain() < least_gain(run_.options.effort)) return Ended::Plateau;
  return std::nullopt;
}

SharedSearch Task::state(int64_t committed) const {
  const double latency_ns = progress_.best_ns > 0 ? progress_.best_ns : reference_ns_;
  const auto trials = static_cast<double>(counts_.total());
  return {gain_, spec_.weight * latency_ns, spent_s_ > 0 ? trials / spent_s_ : usual_trials_per_s,
          static_cast<double>(committed)};
}

}  // namespace tw::tuner
