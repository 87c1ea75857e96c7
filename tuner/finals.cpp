// SPDX-License-Identifier: Apache-2.0
// Runs the end of a task, called its finals: the fastest kernels are compared by turns; the winner
// is measured again, built with its packing code, and verified.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/text.h"
#include "tuner/measure/verify.h"
#include "tuner/task.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;

// Time in seconds that is reserved to measure the winner again, and to build it with its packing
// code and verify it.
constexpr double confirm_s = 0.4;
// Limit of the time for building and verifying the winner, as a multiple of the time that the
// reference kernel took. With large weights, packing and checking them takes equally long for both.
constexpr double most_winner_per_reference = 3;
// The winner is measured in several stretches, separated by pauses. Together these last longer than
// a time slice or two of the operating system's scheduler.
constexpr int64_t confirming_stretches = 3;
constexpr double confirming_pause_s = 0.05;
// Time between two queries of the database that ask if another run still compares the fastest
// kernels.
constexpr std::chrono::milliseconds between_looks_at_finals(200);
// Seconds beyond the budget at which TuningRun::Phase::Comparing ends.
constexpr double comparing_grace_s = 1;
// The time that a step needs, counted in calls of a kernel that is so slow that a batch consists of
// one call. calls_of_confirmation is for measuring the winner again: verifying, warming up and
// sampling. calls_of_comparison is for comparing two kernels with the fewest rounds: a round has
// four calls, and loading counts as three rounds.
constexpr int calls_of_confirmation = 30, calls_of_comparison = 4 * (least_rounds + 3);

/// Returns the number of rounds of each comparison, if `comparisons` comparisons have to fit into
/// `seconds`. A round has four batches, each of a millisecond, or of one call if a call takes
/// longer. Loading both kernels and filling their buffers counts as three rounds.
int rounds_within(double seconds, size_t comparisons, double latency_ns) {
  const double round_s = 4 * std::max(1e-3, latency_ns * 1e-9);
  const double rounds = seconds / (static_cast<double>(comparisons) * round_s) - 3;
  return static_cast<int>(
      std::clamp(rounds, static_cast<double>(least_rounds), static_cast<double>(most_rounds)));
}

}  // namespace

Result<Tuned> Task::finish(Ended ended, double seconds) {
  auto tuned = result(ended, seconds);
  if (!tuned) run_.store_all();  // the trials that were measured before the error
  // After an interrupt any error is reported as Interrupted, because its cause may be the short
  // time that the interrupt leaves.
  if (!tuned && run_.interrupted())
    return finalists_.empty()
               ? interrupted_at_start()
               : fail(ErrorCode::Interrupted,
                      "[tune] interrupted before the winner was compiled; its trials are stored");
  if (!tuned && run_.is_of_stop(tuned.error())) return tl::unexpected<Error>(out_of_time());
  return tuned;
}

Error Task::out_of_time() const {
  if (finalists_.empty()) return run_.no_candidate_in_time();
  return {ErrorCode::TryLater,
          fmt::format("[tune] the budget of {} s ended before the winner was compiled; its trials "
                      "are stored: run again, or give more time (--budget)",
                      format_double(run_.options.budget_s))};
}

Result<Tuned> Task::result(Ended ended, double seconds) {
  Tuned tuned;
  tuned.next_minute_gain = counts_.total() > 0 ? next_minute_gain() : 0;
  run_.store_all();
  run_.enter(TuningRun::Phase::Comparing);
  TW_TRY(const bool has_finals, has_something_to_compare());
  if (!has_finals) return tl::unexpected<Error>(nothing_found(ended));
  if (!reference_.artifact.empty()) {
    const auto prepared =
        run_.workers.runner->prepare(workload().text(), reference_, Needed::ForResult);
    // If there is no time left to prepare the reference kernel, the fastest kernel is the result
    // without a comparison.
    if (!prepared && (finalists_.empty() || !run_.is_of_stop(prepared.error())))
      return tl::unexpected<Error>(prepared.error());
  }
  progress_.finishing = "comparing the fastest";
  report();
  TW_RETURN_IF_ERROR(measure_postponed(seconds - confirm_s));
  admit_disturbed();
  TW_TRY(const bool has_winner, take_winner_of_others(seconds - confirm_s));
  if (has_winner) {
    run_.store_all();
    tuned.best = finalists_.front().record;
  } else {
    TW_RETURN_IF_ERROR(choose_finalist(seconds - confirm_s));
    if (finalists_.empty()) return tl::unexpected<Error>(nothing_found(ended));
    TW_TRY(tuned.best, confirm_winner());
  }
  others_.end_claims();
  if (run_.options.builds_winners) {
    progress_.finishing = "building the winner";
    report();
    // If the reference kernel took long to build and verify, for instance because of weights of 64
    // MiB, the winner takes long too.
    run_.enter(TuningRun::Phase::BuildingWinner, most_winner_per_reference * reference_s_);
    TW_TRY(tuned.artifact, built_whole(tuned.best));
  } else if (const std::string name = artifact_of(tuned.best); !name.empty()) {
    TW_TRY(tuned.artifact, run_.workers.artifacts->load(name, run_.target));
  }
  tuned.ended = ended;
  tuned.unstored = run_.unstored;
  tuned.failures = counts_.failures();
  tuned.spent_s = spent_s_;
  progress_.best_ns = tuned.best.latency_ns;
  report();
  tuned.progress = progress_;
  return tuned;
}

/// If another run compares the fastest kernels of the workload, waits until it has done so or
/// `seconds` have passed. Then reads the database's best kernel of this device. If this kernel is
/// correct here, makes it the first finalist and returns true. Returns false if this run has to
/// compare the kernels itself.
Result<bool> Task::take_winner_of_others(double seconds) {
  if (others_.claim_finals()) return false;
  const double until_s = run_.budget.elapsed_s() + seconds;
  while (!run_.stop().is_stopped() && run_.budget.elapsed_s() < until_s && others_.are_comparing())
    std::this_thread::sleep_for(between_looks_at_finals);
  TW_TRY(const auto known, run_.best_known(spec_));
  if (!known || !is_of_device(*known, run_.target) || known->status != TrialStatus::Ok)
    return false;
  if (is_finalist(known->schedule)) {
    const auto own = std::ranges::find(finalists_, known->schedule, [](const Finalist& finalist) {
      return finalist.record.schedule;
    });
    std::rotate(finalists_.begin(), own, own + 1);
    finalists_.front().record = *known;
    return true;
  }
  const auto built = build_one(*run_.workers.builder, {.kernels = {{key_, known->schedule}}});
  if (!built) return false;
  const auto reply =
      run_.workers.runner->measure({.artifact = built->artifact, .verify_only = true});
  if (!reply && run_.stop().is_stopped()) return false;
  TW_RETURN_IF_ERROR(reply);
  if (reply->status != TrialStatus::Ok) {
    unusable_ = known->schedule;
    return false;
  }
  finalists_.insert(finalists_.begin(), {built->artifact, *known});
  return true;
}

/// True if there is a kernel that could be the result: a kernel that this run has timed, or a
/// record of the database.
Result<bool> Task::has_something_to_compare() const {
  if (!finalists_.empty() || !disturbed_.empty() || !postponed_.empty() || elsewhere_) return true;
  TW_TRY(const auto known, run_.best_known(spec_));
  return known.has_value();
}

/// True if `calls` calls of a kernel with this latency end before the comparisons have to end. At
/// that time the worker is stopped, and loses everything that it has prepared.
bool Task::fits(double latency_ns, int calls) const {
  const double left_s = run_.budget.total_s() + comparing_grace_s - run_.budget.elapsed_s();
  return latency_ns * 1e-9 * calls < left_s;
}

/// Measures the postponed trials, because there is no later batch with which they could be
/// measured. A trial is measured until it is undisturbed or has had most_attempts disturbed
/// measurements. Once `seconds` have passed, each trial is measured only once more. Trials for
/// which there is no time are stored as disturbed.
Status Task::measure_postponed(double seconds) {
  const double until_s = run_.budget.elapsed_s() + seconds;
  due_.remove_if([](const Trial& trial) { return trial.attempts == 0; });
  bool is_time = true;
  while (is_time && !run_.stop().is_stopped() && !(postponed_.empty() && due_.empty())) {
    TW_RETURN_IF_ERROR(begin_measuring({.task = this}));
    if (run_.budget.elapsed_s() >= until_s)
      for (Trial& last : due_) last.attempts = most_attempts;
    while (const Trial* next = next_trial()) {
      const auto reply = measure(*next);
      if (!reply && run_.stop().is_stopped()) break;
      TW_RETURN_IF_ERROR(reply);
      TW_RETURN_IF_ERROR(record(*reply));
    }
    is_time = due_.empty();
  }
  store_postponed();
  return {};
}

void Task::store_postponed() {
  due_.splice(due_.end(), postponed_);
  for (const Trial& trial : std::exchange(due_, {}))
    if (trial.attempts > 0) add_trial(trial.candidate, trial.latest, trial.built.artifact);
}

/// If there are no finalists, makes finalists of the kernels that were timed only while the machine
/// was disturbed. They are compared by turns, so that disturbances affect all of them alike.
void Task::admit_disturbed() {
  if (!finalists_.empty()) return;
  finalists_ = std::exchange(disturbed_, {});
  keep_fastest(finalists_);
}

/// Returns the outcome for a known schedule that cannot be used here, and adds a note with the
/// reason.
Retrial Task::unusable(const db::Record& known, const std::string& why) {
  note(run_.environment.notes, NoteKind::KnownUnusable,
       fmt::format("record {}: {}", known.hash.substr(0, 16), why));
  return {.is_unusable = true};
}

/// Builds and verifies a schedule of the database. If another host or another device has measured
/// it, the kernel is also timed here, as a trial.
Result<Retrial> Task::try_again(const db::Record& known) {
  const bool is_own = is_of_device(known, run_.target) && known.host == run_.environment.host;
  if (!is_own && used_its_trials()) return Retrial{};
  const auto built = build_one(*run_.workers.builder, {.kernels = {{key_, known.schedule}}});
  if (!built)
    return run_.stop().is_stopped() || built.error().code == ErrorCode::TryLater
               ? Retrial{}
               : unusable(known, built.error().message);
  const auto reply =
      run_.workers.runner->measure({.artifact = built->artifact, .verify_only = is_own});
  if (!reply && run_.stop().is_stopped()) return Retrial{};
  TW_RETURN_IF_ERROR(reply);
  if (reply->blameless) return Retrial{};
  Finalist finalist{built->artifact, known};
  if (!used_its_trials() && (!is_own || reply->status != TrialStatus::Ok)) {
    const Candidate candidate{{}, known.schedule, 0, {}, known.configuration};
    db::Record trial = add_trial(candidate, *reply, built->artifact);
    if (is_result(trial)) finalist = {built->artifact, std::move(trial), pace_.factor()};
  }
  if (reply->status == TrialStatus::Ok || reply->status == TrialStatus::Unstable)
    return Retrial{std::move(finalist)};
  if (reply->status == TrialStatus::Lost) return Retrial{};
  return unusable(known, fmt::format("{}: {}", db::to_string(reply->status), reply->reason));
}

/// True if a finalist has this schedule.
bool Task::is_finalist(const std::string& schedule) const {
  return std::ranges::any_of(
      finalists_, [&](const Finalist& finalist) { return finalist.record.schedule == schedule; });
}

/// Tries the best schedule of another device, unless this run has tried it before. It has to be
/// timed here, because its latency on the other device says little about this device.
Status Task::try_from_elsewhere() {
  if (!elsewhere_ || proposer_.has_seen(elsewhere_->schedule)) return {};
  TW_RETURN_IF_ERROR(try_again(*elsewhere_));
  return {};
}

/// Tries a schedule that one host only has measured, and that is far faster than all others by this
/// measurement. The database trusts the record once a second host has confirmed it.
Status Task::try_unconfirmed() {
  TW_TRY(const auto claim, run_.unconfirmed(workload()));
  if (claim && !is_finalist(claim->schedule)) TW_RETURN_IF_ERROR(try_again(*claim));
  return {};
}

/// Makes the best kernel of earlier runs on this device the first finalist and returns true, if the
/// kernel can still be built and is correct; otherwise returns false. If another host measured the
/// kernel, this run measures it too and stores the trial, since the clock rate of that host may
/// differ, or its record may be wrong.
Result<bool> Task::defend_known() {
  TW_TRY(const auto known, run_.best_known(spec_));
  const bool is_new = known && is_of_device(*known, run_.target) &&
                      known->status == db::TrialStatus::Ok && !is_finalist(known->schedule);
  if (!is_new) return false;
  TW_TRY(Retrial retrial, try_again(*known));
  if (run_.stop().is_stopped()) return false;
  if (retrial.is_unusable) unusable_ = known->schedule;
  if (!retrial.finalist) return false;
  std::erase_if(finalists_, [&](const Finalist& finalist) {
    return finalist.record.schedule == known->schedule;
  });
  finalists_.insert(finalists_.begin(), std::move(*retrial.finalist));
  return true;
}

/// Compares the finalists and puts the winner first. The best kernel of earlier runs loses only
/// against a finalist that is significantly faster.
Status Task::choose_finalist(double seconds) {
  if (run_.stop().is_stopped()) return {};
  const double until_s = run_.budget.elapsed_s() + seconds;
  bool defends = false;
  if (finalists_.empty() || !run_.budget.is_over()) {
    TW_RETURN_IF_ERROR(try_from_elsewhere());
    TW_RETURN_IF_ERROR(try_unconfirmed());
    TW_TRY(defends, defend_known());
  }
  for (size_t i = 1; i < finalists_.size() && !run_.stop().is_stopped(); ++i) {
    // The first comparison may use the whole budget. Later comparisons are less likely to change
    // the winner, and are made only in the time for this task.
    const double now_s = run_.budget.elapsed_s();
    if (now_s >= (i > 1 ? until_s : run_.budget.total_s())) break;
    if (!fits(finalists_[i].record.latency_ns, calls_of_comparison)) break;
    const auto compared = run_.workers.runner->compare(
        {finalists_[0].artifact, finalists_[i].artifact,
         rounds_within(until_s - now_s, finalists_.size() - i, finalists_[0].record.latency_ns)});
    if (!compared && run_.is_of_stop(compared.error())) break;
    TW_TRY(const CompareReply c, compared);
    if (!c.error.empty()) continue;
    // If both kernels are of this run, the one with the better ratio wins, even if the difference
    // is not significant. The best kernel of earlier runs is replaced only by a significantly
    // faster kernel.
    const bool is_beaten = defends ? c.winner == Winner::B : c.ratio < 1;
    if (is_beaten) std::swap(finalists_[0], finalists_[i]);
  }
  return {};
}

/// Measures the winner once more, alone, and stores the trial, unless the budget or the number of
/// trials is used up. Returns the record that the database then has as the best of this device, so
/// that later queries have the same answer. The winner's own record is returned instead in three
/// cases: the kernel of the database's record failed here; that record is much slower than the
/// winner, because the database waits for another host to confirm the winner; or trials could not
/// be stored.
Result<db::Record> Task::confirm_winner() {
  const Finalist winner = finalists_[0];
  double winner_ns = winner.record.latency_ns;
  if (!run_.budget.is_over() && !run_.stop().is_stopped() && !used_its_trials() &&
      fits(winner_ns, calls_of_confirmation)) {
    const auto again = run_.workers.runner->measure({.artifact = winner.artifact,
                                                     .stretches = confirming_stretches,
                                                     .pause_s = confirming_pause_s});
    if (again || !run_.is_of_stop(again.error())) {
      TW_TRY(const MeasureReply reply, again);
      const Candidate candidate{{}, winner.record.schedule, 0, {}, winner.record.configuration};
      if (!reply.blameless) add_trial(candidate, reply, winner.artifact);
      winner_ns = std::max(winner_ns, reply.latency_ns);
    }
  }
  run_.store_all();
  if (run_.unstored) return winner.record;
  TW_TRY(const auto known, run_.best_known(spec_));
  const bool is_answer = known && is_of_device(*known, run_.target) &&
                         (unusable_.empty() || known->schedule != unusable_) &&
                         known->latency_ns <= db::session_agreement * winner_ns;
  return is_answer ? *known : winner.record;
}

/// Returns the name of the artifact of the finalist with the record's schedule; empty if there is
/// no such finalist.
std::string Task::artifact_of(const db::Record& record) const {
  const auto same = std::ranges::find(finalists_, record.schedule, [](const Finalist& finalist) {
    return finalist.record.schedule;
  });
  return same == finalists_.end() ? "" : same->artifact;
}

/// Returns the artifact of the winner with its packing code. Candidates of a named operator are
/// built without packing code, so the winner is built once more and verified. Candidates of an
/// expression (dsl::keeps_arrays()) are built with packing code, so the artifact of the trial is
/// returned.
Result<runtime::Artifact> Task::built_whole(const db::Record& winner) {
  if (const std::string name = artifact_of(winner); keeps_arrays(workload()) && !name.empty())
    return run_.workers.artifacts->load(name, run_.target);
  const auto built =
      build_one(*run_.workers.builder,
                {.kernels = {{key_, winner.schedule}}, .packs = true, .needed = Needed::ForResult});
  if (!built && run_.stop().is_stopped()) return tl::unexpected<Error>(out_of_time());
  if (!built)
    return fail(
        built.error().code == ErrorCode::TryLater ? ErrorCode::TryLater : ErrorCode::Internal,
        "[tune] the winner cannot be rebuilt: " + built.error().message);
  TW_TRY(const MeasureReply checked,
         run_.workers.runner->measure({.artifact = built->artifact, .verify_only = true}));
  if (checked.status != TrialStatus::Ok)
    return fail(checked.blameless || checked.status == TrialStatus::Lost ? ErrorCode::TryLater
                                                                         : ErrorCode::Internal,
                fmt::format("[tune] the winner, rebuilt, is {}: {}", db::to_string(checked.status),
                            checked.reason));
  return run_.workers.artifacts->load(built->artifact, run_.target);
}

Error Task::nothing_found(Ended ended) const {
  const int64_t trials = counts_.total();
  // If the time ended during a proposal, the search looks as if it had no more points.
  const bool has_no_time = ended == Ended::Budget || run_.budget.left_s() <= 0;
  if (trials == 0 && !counts_.prove_nothing() && has_no_time) return run_.no_candidate_in_time();
  const std::string why = trials > 0 || counts_.prove_nothing()
                              ? fmt::format("none of {} candidates is valid: {}", trials,
                                            counts_.most_frequent_failures())
                              : "nothing could be proposed";
  if (counts_.prove_nothing())
    return {ErrorCode::TryLater, fmt::format("[tune] {}; try again when less else runs", why)};
  return {ErrorCode::NoCandidate, fmt::format("[tune] {}; the default schedule still runs", why)};
}

}  // namespace tw::tuner
