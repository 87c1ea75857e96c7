// SPDX-License-Identifier: Apache-2.0
#include "tuner/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <regex>
#include <tuple>
#include <utility>

#include "base/isa.h"
#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/compile.h"
#include "tuner/calibration.h"
#include "tuner/device.h"
#include "tuner/experience.h"
#include "tuner/host_machine.h"
#include "tuner/reference.h"
#include "tuner/trial_record.h"

namespace tw::tuner {
namespace {

// Interleaved finals: more finalists cost more rounds than their small chance of winning is worth.
constexpr size_t most_finalists = 4;
// Time reserved to measure the winner again and to build and verify it whole.
constexpr double confirm_s = 0.4;
constexpr double minute_s = 60;
// Share of the time left that one proposal may take, and its lower bound. Proposals take
// milliseconds, except for the largest kernels of GPUs.
constexpr double scoring_share = 0.25, least_scoring_s = 0.5;
// Rate assumed before the first batch: one core builds eight candidates in a third of a second.
constexpr double usual_trials_per_s = 20;
// A plain nest runs at about 1 GFLOP/s: beyond this the reference is the default schedule instead.
constexpr double most_plain_flops = 1e9;
// After this many trials without a valid one, the next would fail too.
constexpr int64_t most_invalid_trials = 96;
// A neighbour's episode of half a second passes while the first candidate that it disturbs waits;
// where it lasts, the following ones wait less, and come again with later batches.
constexpr double patience_s = 0.6, short_patience_s = 0.1;
constexpr int most_attempts = 4;
// A slowdown that lasts longer is taken to be the machine's own speed. As long as Gauge::memory_ns.
constexpr double lasting_s = 30;
// The winner is measured in several stretches, which reach beyond a time slice or two.
constexpr int64_t confirming_stretches = 3;
constexpr double confirming_pause_s = 0.05;
// After this many builds in a row that fail for no fault of the candidates, the compiler or linker
// is broken.
constexpr int64_t most_broken_builds = 24;

double throughput_of(double latency_ns) { return latency_ns > 0 ? 1e9 / latency_ns : 0; }

/// The reply for a candidate whose machine code was measured for another schedule: what was found
/// for that one holds.
MeasureReply duplicate_of(const db::Record& twin) {
  MeasureReply reply{"duplicate", "the machine code of record " + twin.hash};
  if (!db::is_timed(twin)) {
    reply.reason += fmt::format(", which is {}", db::to_string(twin.status));
    return reply;
  }
  reply.latency_ns = twin.latency_ns;
  reply.low_ns = twin.latency_low_ns;
  reply.high_ns = twin.latency_high_ns;
  reply.verified_error = twin.verified_error;
  reply.noise = twin.noise;
  return reply;
}

/// Rounds of each comparison when `comparisons` have to fit into the time. A round is four batches
/// of a millisecond or one call; loading both kernels and filling their buffers takes as long as a
/// few rounds.
int rounds_within(double seconds, size_t comparisons, double latency_ns) {
  const double round_s = 4 * std::max(1e-3, latency_ns * 1e-9);
  const double rounds = seconds / (static_cast<double>(comparisons) * round_s) - 3;
  return static_cast<int>(
      std::clamp(rounds, static_cast<double>(least_rounds), static_cast<double>(most_rounds)));
}

}  // namespace

Result<std::unique_ptr<Shared>> Shared::start(const Target& target, const TuneOptions& options,
                                              db::Store& store, const Environment& environment,
                                              const OnProgress& on_progress) {
  TW_RETURN_IF_ERROR(check_max_isa());
  const int64_t started_ns = environment.clock();
  TW_TRY(Farm farm,
         Farm::start(target, options.threads, options.seed, environment, options.timeout_s));
  TW_TRY(Target machine, farm.machine());
  const double calibration_s =
      std::min(static_cast<double>(calibration_budget_ns) * 1e-9, options.budget_s / 2);
  HostMachine host = choose_machine(store, machine, [&] { return farm.calibrate(calibration_s); },
                                    {environment.program_version, environment.now_ms()});
  db::Recorder recorder(store, db::Spool(db::Spool::spool_path(store.path())),
                        {.batch = static_cast<size_t>(options.batch)});
  return std::unique_ptr<Shared>(new Shared{.target = std::move(host.target),
                                            .options = options,
                                            .store = &store,
                                            .environment = environment,
                                            .on_progress = on_progress,
                                            .farm = std::move(farm),
                                            .recorder = std::move(recorder),
                                            .started_ns = started_ns,
                                            .machine_note = std::move(host.note)});
}

double Shared::elapsed_s() const {
  return static_cast<double>(environment.clock() - started_ns) * 1e-9;
}

bool Shared::interrupted() const {
  return environment.interrupts && environment.interrupts->load() > 0;
}

double Shared::worth(double seconds) const {
  std::vector<Outlook> outlooks;
  for (const Session* session : sessions) outlooks.push_back(session->outlook(0));
  return tuner::worth(std::move(outlooks), seconds);
}

Result<std::optional<db::Record>> Shared::best_known(const dsl::Workload& workload) const {
  return tuner::best_known(*store, workload, target, options.threads);
}

void Shared::learn(std::vector<cost_model::Sample> more, bool at_once) {
  samples += more.size();
  std::move(more.begin(), more.end(), std::back_inserter(fresh_samples));
  // Refits cost tenths of a second: at every doubling, then every 128 samples, then every quarter.
  const size_t due = std::min(learned_at == 0 ? size_t{24} : 2 * learned_at,
                              learned_at + std::max<size_t>(128, learned_at / 4));
  if (fresh_samples.empty() || (samples < due && !at_once)) return;
  learned_at = samples;
  // If the model cannot be fitted, the draft model stays in charge.
  (void)model.update(fresh_samples);
  fresh_samples.clear();
}

Result<std::unique_ptr<Session>> Session::open(const Goal& goal, Shared& shared) {
  TW_TRY(std::unique_ptr<Search> search, make_search(shared.options.search));
  return std::unique_ptr<Session>(new Session(goal, shared, std::move(search)));
}

Session::Session(const Goal& goal, Shared& shared, std::unique_ptr<Search> search)
    : workload_(&goal.workload),
      key_(goal.workload.key()),
      name_(goal.name),
      weight_(goal.weight),
      shared_(shared),
      target_(shared.target),
      options_(shared.options),
      environment_(shared.environment),
      farm_(shared.farm),
      model_(shared.model),
      space_(schedules::Space::derive(goal.workload.compute, shared.target)),
      search_(std::move(search)),
      random_(shared.options.seed),
      flops_(dsl::count_flops(goal.workload.compute)) {
  progress_.flops = flops_;
  progress_.machine_note = shared.machine_note;
  progress_.bytes = dsl::compulsory_traffic(goal.workload.compute).bytes();
}

void Session::report() {
  const Progress& suite = shared_.suite;
  progress_.name = name_;
  progress_.goals = suite.goals;
  progress_.finished = suite.finished;
  progress_.budget_s = options_.budget_s;
  progress_.elapsed_s = shared_.elapsed_s();
  progress_.working_s = farm_.working_s();
  const double left_s = options_.budget_s - progress_.elapsed_s;
  progress_.next_gain.reset();
  if (trials_ > 0 && left_s > 0 && !ended())
    progress_.next_gain = shared_.worth(std::min(left_s, minute_s));
  progress_.model = to_string(model_.source());
  progress_.model_note = model_.quality().note;
  if (model_.source() == cost_model::Source::Learned)
    progress_.model += fmt::format(", rank correlation {:.2f}", model_.quality().learned.spearman);
  if (shared_.on_progress) shared_.on_progress(progress_);
}

std::string Session::reference_schedule() const {
  const schedules::Schedule plain(workload_->compute);
  if (flops_ <= most_plain_flops) return plain.to_string();
  const auto space = schedules::Space::derive(workload_->compute, host_target());
  const auto stops = [this] { return shared_.interrupted() || shared_.left_s() <= 0; };
  const schedules::Schedule tiled = space.schedule(space.default_point(stops));
  const auto program = tiled.program();
  return (program && codegen::check_limits(*program) ? tiled : plain).to_string();
}

Status Session::begin_reference() {
  report();
  TW_RETURN_IF_ERROR(check_fits_memory(*workload_, target_));
  reference_s_ = -shared_.elapsed_s();
  return farm_.begin_build(key_, {reference_schedule()}, {.packs = true, .reference = true});
}

Status Session::finish_reference(const std::vector<BuildOutcome>& built) {
  reference_ = ReferenceKernel(built[0].path, built[0].otherwise);
  if (reference_.path.empty())
    return shared_.interrupted()
               ? interrupted_at_start()
               : fail(built[0].status == "illegal" ? ErrorCode::Invalid : ErrorCode::Environment,
                      fmt::format("[tune] the reference kernel cannot be built: {}",
                                  built[0].reason));
  TW_TRY(reference_ns_, farm_.prepare(key_, reference_));
  reference_s_ += shared_.elapsed_s();
  // On a device the default schedule is another one, which nobody measures.
  if (!target_.is_gpu()) progress_.untuned_ns = reference_ns_;
  if (const Status peak = refresh_peak(); !peak && !shared_.interrupted()) return peak;
  report();
  return {};
}

Status Session::refresh_peak() {
  TW_TRY(progress_.peak_gflops, farm_.peak_gflops());
  return {};
}

std::function<bool()> Session::scoring_stops() const {
  return [this] { return shared_.interrupted() || shared_.elapsed_s() > scoring_ends_s_; };
}

std::vector<Guess> Session::score(const std::vector<schedules::Point>& points) {
  std::vector<Guess> guesses(points.size(), -std::numeric_limits<double>::infinity());
  // One thread: builders and the runner work meanwhile.
  auto candidates =
      candidates_of(space_, points, target_, seen_,
                    {.kernel_threads = options_.threads, .workers = 1, .stops = scoring_stops()});
  std::vector<std::vector<float>> rows;
  std::vector<size_t> places;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!candidates[i]) continue;
    rows.push_back(candidates[i]->features);
    places.push_back(i);
    scored_.insert_or_assign(points[i], std::move(*candidates[i]));
  }
  const cost_model::Scores scores = model_.predict(rows, progress_.known_trials + trials_);
  for (size_t k = 0; k < rows.size(); ++k) guesses[places[k]] = {scores.mean[k], scores.spread[k]};
  return guesses;
}

std::vector<Candidate> Session::propose() {
  scored_.clear();
  scoring_ends_s_ =
      shared_.elapsed_s() + std::max(least_scoring_s, scoring_share * shared_.left_s());
  learn_from_database();
  if (shared_.interrupted()) return {};
  auto count = static_cast<size_t>(options_.batch);
  if (options_.trials > 0)
    count =
        static_cast<size_t>(std::clamp<int64_t>(options_.trials - proposed_, 0, options_.batch));
  std::vector<Candidate> batch;
  if (count == 0) return batch;
  // Where a candidate takes as long as the reference, more than fit into the time would be built in
  // vain, and nothing measured before all are.
  if (trials_ == 0 && reference_s_ > 0)
    count = static_cast<size_t>(
        std::clamp(shared_.left_s() / reference_s_, 1.0, static_cast<double>(count)));
  const auto points = search_->propose(
      space_, {history_, seeds_, scoring_stops()}, [this](const auto& p) { return score(p); },
      count, random_);
  seeds_.clear();
  for (const schedules::Point& point : points) {
    const auto found = scored_.find(point);
    if (found == scored_.end() || !seen_.schedules.insert(found->second.schedule).second) continue;
    // Scored apart, two points of a batch may still mean the same.
    if (seen_.programs.insert(found->second.program).second) batch.push_back(found->second);
  }
  proposed_ += static_cast<int64_t>(batch.size());
  return batch;
}

Status Session::begin_build(const std::vector<Candidate>& batch) {
  std::vector<std::string> texts;
  for (const Candidate& c : batch) texts.push_back(c.schedule);
  return farm_.begin_build(key_, texts, {});
}

Status Session::measure(const std::vector<Candidate>& batch,
                        const std::vector<BuildOutcome>& built) {
  if (shared_.interrupted()) return {};
  std::vector<Postponed> due = std::exchange(postponed_, {});
  for (size_t i = 0; i < batch.size(); ++i) due.push_back({batch[i], built[i]});
  return measure(std::move(due));
}

Status Session::measure(std::vector<Postponed> due) {
  TW_RETURN_IF_ERROR(farm_.prepare(key_, reference_));
  if (const Status peak = refresh_peak(); !peak && !shared_.interrupted()) return peak;
  for (Postponed& next : due) {
    if (shared_.interrupted()) break;
    // A slow kernel is measured for longer than most budgets: one has to be, the others do not.
    if (shared_.is_overdue() && !finalists_.empty()) break;
    const auto reply = reply_to(next.built);
    if (cut_short(reply)) break;
    if (!reply) return tl::unexpected<Error>(reply.error());
    heed(*reply);
    if (is_disturbed_ && ++next.attempts < most_attempts)
      postponed_.push_back(std::move(next));
    else
      TW_RETURN_IF_ERROR(keep(next, *reply));
    report();
  }
  return {};
}

Status Session::keep(const Postponed& measured, const MeasureReply& reply) {
  const BuildOutcome& built = measured.built;
  TW_TRY(const db::Record trial, record(measured.candidate, reply));
  // The equal machine code of another schedule is timed anew where this one could not be.
  if (!built.code.empty() && trial.status != db::TrialStatus::Unstable)
    by_code_.try_emplace(built.code, trial);
  TW_RETURN_IF_ERROR(check_installation(built));
  if (trial.status == db::TrialStatus::Ok) finalists_.back().path = built.path;
  std::stable_sort(finalists_.begin(), finalists_.end(), [](const Finalist& a, const Finalist& b) {
    return a.record.latency_ns < b.record.latency_ns;
  });
  if (finalists_.size() > most_finalists) finalists_.resize(most_finalists);
  return {};
}

Result<MeasureReply> Session::reply_to(const BuildOutcome& built) {
  if (built.path.empty()) return MeasureReply{built.status, built.reason};
  if (const auto twin = by_code_.find(built.code); twin != by_code_.end())
    return duplicate_of(twin->second);
  MeasureJob job{.path = built.path, .patience_s = is_disturbed_ ? short_patience_s : patience_s};
  if (!finalists_.empty()) {
    job.incumbent = finalists_.front().path;
    job.incumbent_ns = pace_ / finalists_.front().pace * finalists_.front().record.latency_ns;
  }
  return farm_.measure(job);
}

/// When the incumbent itself has become slower, and stays so for longer than an episode of a busy
/// neighbour, the machine has become slower, and candidates are judged by its present speed.
void Session::heed(const MeasureReply& reply) {
  is_disturbed_ = reply.status == to_string(db::TrialStatus::Unstable);
  // Duplicates and candidates that failed were not timed and say nothing about the machine.
  const bool is_timed = reply.status == to_string(db::TrialStatus::Ok) ||
                        reply.status == to_string(db::TrialStatus::Hopeless);
  if (is_timed) slower_since_s_.reset();
  if (!is_disturbed_ || reply.incumbent_pace <= 1) return;
  const double now_s = shared_.elapsed_s();
  if (!slower_since_s_) slower_since_s_ = now_s;
  if (now_s - *slower_since_s_ <= lasting_s) return;
  pace_ *= reply.incumbent_pace;
  slower_since_s_.reset();
}

Status Session::check_installation(const BuildOutcome& built) {
  if (!built.path.empty()) broken_builds_ = 0;
  if (!built.installation || ++broken_builds_ < most_broken_builds) return {};
  TW_RETURN_IF_ERROR(shared_.recorder.flush());
  return fail(
      ErrorCode::Environment,
      fmt::format("[tune] {} candidates in a row could not be built, the last one because of: {}",
                  broken_builds_, built.reason));
}

Result<db::Record> Session::record(const Candidate& c, const MeasureReply& reply) {
  db::Record record =
      trial_record(*workload_, target_, options_.threads, farm_.toolchain(), c.schedule, reply,
                   std::max(progress_.peak_gflops, reply.peak_gflops));
  record.program_version = environment_.program_version;
  record.host = environment_.host;
  record.session = environment_.session;
  record.seed = static_cast<int64_t>(options_.seed);
  record.trial = trials_++;
  record.created_ms = environment_.now_ms();
  record = db::seal(std::move(record));

  digest(c, record);
  shared_.learned_records.insert(record.hash);
  TW_RETURN_IF_ERROR(shared_.recorder.add(record));
  return record;
}

/// Updates progress, search history, model samples and finalists with a trial.
void Session::digest(const Candidate& c, const db::Record& trial) {
  const bool valid = trial.status == db::TrialStatus::Ok;
  const bool timed = db::is_timed(trial);
  const std::string status(db::to_string(trial.status));
  ++progress_.trials[status];
  if (!timed && trial.status != db::TrialStatus::Duplicate)
    count_failure(status + ": " + trial.reason);
  // A disturbed measurement says nothing about the schedule.
  if (trial.status == db::TrialStatus::Unstable) return;
  history_.push_back({c.point, timed ? throughput_of(trial.latency_ns) : 0});
  cost_model::Sample sample;
  sample.features = c.features;
  sample.throughput = throughput_of(trial.latency_ns);
  sample.group = ranking_group(trial);
  sample.valid = timed;
  if (!c.features.empty()) fresh_samples_.push_back(std::move(sample));
  if (valid && (progress_.best_ns == 0 || trial.latency_ns < progress_.best_ns))
    progress_.best_ns = trial.latency_ns;
  gain_.add(valid ? trial.latency_ns : 0);
  if (valid) finalists_.push_back({"", trial, pace_});
}

/// Reasons that differ in numbers only count as the first of them.
void Session::count_failure(const std::string& reason) {
  static const std::regex numbers("(0x[0-9a-f]+|[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)");
  const auto [first, is_new] =
      first_reasons_.try_emplace(std::regex_replace(reason, numbers, "#"), reason);
  ++failures_[first->second];
}

/// An interrupt may end the wait for a candidate, which then has no fault.
bool Session::cut_short(const Result<MeasureReply>& reply) const {
  return shared_.interrupted() && (!reply || reply->status == "timeout");
}

void Session::learn() {
  if (!shared_.interrupted()) shared_.learn(std::exchange(fresh_samples_, {}), false);
}

void Session::learn_from_database() {
  if (std::exchange(recalled_, true)) return;
  Experience known = recall(
      *shared_.store, {workload_, &space_, target_, options_.threads, &shared_.learned_records,
                       [this] { return shared_.interrupted(); }, scoring_stops()});
  const auto best = shared_.best_known(*workload_);
  if (best && *best && (*best)->device != device_text(target_)) elsewhere_ = **best;
  progress_.known_trials = static_cast<int64_t>(known.tried.size());
  seen_.schedules.merge(known.tried);
  for (const double latency_ns : known.latencies_ns) gain_.add(latency_ns);
  history_ = std::move(known.parents);
  // One parent alone would only take the place of the default point: nothing is crossed with it.
  if (history_.size() == 1) history_.clear();
  seeds_ = std::move(known.seeds);
  shared_.learn(std::move(known.samples), true);
}

std::optional<Ended> Session::ended() const {
  if (shared_.interrupted()) return Ended::Interrupted;
  if (shared_.left_s() <= 0) return Ended::Budget;
  if (options_.trials > 0 && trials_ >= options_.trials) return Ended::Trials;
  if (trials_ >= most_invalid_trials && finalists_.empty()) return Ended::Plateau;
  if (trials_ > 0 && gain_of(minute_s) < least_gain(options_.effort)) return Ended::Plateau;
  return std::nullopt;
}

Outlook Session::outlook(int64_t under_way) const {
  const double latency_ns = progress_.best_ns > 0 ? progress_.best_ns : reference_ns_;
  return {gain_, weight_ * latency_ns,
          spent_s_ > 0 ? static_cast<double>(trials_) / spent_s_ : usual_trials_per_s,
          static_cast<double>(under_way)};
}

double Session::gain_of(double seconds) const { return worth({outlook(0)}, seconds); }

/// Measures what is still postponed, as no later batch will: up to most_attempts each, and once
/// when the time is up.
Status Session::measure_postponed(double seconds) {
  const double until_s = shared_.elapsed_s() + seconds;
  while (!postponed_.empty() && !shared_.interrupted()) {
    std::vector<Postponed> due = std::exchange(postponed_, {});
    if (shared_.elapsed_s() >= until_s)
      for (Postponed& last : due) last.attempts = most_attempts;
    TW_RETURN_IF_ERROR(measure(std::move(due)));
  }
  return {};
}

/// Measures the best schedule of another device here, as a trial like any other, unless it was one
/// already: its latency there says nothing about this device.
Status Session::try_from_elsewhere() {
  if (!elsewhere_ || seen_.schedules.contains(elsewhere_->schedule)) return {};
  const auto built = farm_.build(key_, elsewhere_->schedule, {});
  if (!built) return {};
  const auto reply = farm_.measure({.path = *built});
  if (cut_short(reply)) return {};
  TW_RETURN_IF_ERROR(reply);
  TW_TRY(const db::Record trial, record(Candidate{{}, elsewhere_->schedule, 0, {}}, *reply));
  if (trial.status == db::TrialStatus::Ok) finalists_.back().path = *built;
  return {};
}

/// Makes the best kernel of earlier runs on this device the first finalist, if it can still be
/// built and is correct; returns whether it did.
Result<bool> Session::defend_known() {
  TW_TRY(const auto known, shared_.best_known(*workload_));
  const bool is_new = known && known->device == device_text(target_) &&
                      std::none_of(finalists_.begin(), finalists_.end(), [&](const Finalist& f) {
                        return f.record.schedule == known->schedule;
                      });
  if (!is_new) return false;
  const auto built = farm_.build(key_, known->schedule, {});
  if (!built) return false;
  TW_TRY(const MeasureReply checked, farm_.measure({.path = *built, .verify_only = true}));
  if (checked.status != "ok") return false;
  finalists_.insert(finalists_.begin(), {*built, *known});
  return true;
}

/// A tie is decided in favour of the incumbent of earlier runs.
Status Session::choose_finalist(double seconds) {
  if (shared_.interrupted()) return {};
  const double until_s = shared_.elapsed_s() + seconds;
  bool defends = false;
  if (finalists_.empty() || shared_.elapsed_s() < options_.budget_s) {
    TW_RETURN_IF_ERROR(try_from_elsewhere());
    TW_TRY(defends, defend_known());
  }
  for (size_t i = 1; i < finalists_.size() && !shared_.interrupted(); ++i) {
    // The first comparison is made within what is kept back for the finals; later ones, of less
    // promise, as time allows.
    if (shared_.elapsed_s() >= (i > 1 ? until_s : options_.budget_s)) break;
    TW_TRY(const CompareReply c,
           farm_.compare(finalists_[0].path, finalists_[i].path,
                         rounds_within(until_s - shared_.elapsed_s(), finalists_.size() - i,
                                       finalists_[0].record.latency_ns)));
    if (!c.error.empty()) continue;
    // Within one run a tie may go either way; the best of earlier runs must be beaten
    // significantly.
    const bool beaten = defends ? c.winner == static_cast<int64_t>(Winner::B) : c.ratio < 1;
    if (beaten) std::swap(finalists_[0], finalists_[i]);
  }
  return {};
}

/// The winner of the finals is measured once more, alone, and stored, where the budget is not used
/// up. What the database then calls the best of this device is the result, so that every later
/// question has the same answer.
Result<db::Record> Session::confirm_winner() {
  const Finalist winner = finalists_[0];
  const bool has_time = shared_.elapsed_s() < options_.budget_s;
  if (has_time && !shared_.interrupted()) {
    const auto again = farm_.measure(
        {.path = winner.path, .stretches = confirming_stretches, .pause_s = confirming_pause_s});
    if (!cut_short(again)) {
      TW_TRY(const MeasureReply reply, again);
      TW_TRY(std::ignore, record(Candidate{{}, winner.record.schedule, {}, {}}, reply));
    }
  }
  TW_RETURN_IF_ERROR(shared_.recorder.flush());
  TW_TRY(const auto known, shared_.best_known(*workload_));
  return known && known->device == device_text(target_) ? *known : winner.record;
}

Result<Tuned> Session::finish(Ended ended, double seconds) {
  auto tuned = result(ended, seconds);
  // What could not be done in the time that an interrupt leaves is nobody's fault.
  if (!tuned && shared_.interrupted())
    return finalists_.empty()
               ? interrupted_at_start()
               : fail(ErrorCode::Interrupted,
                      "[tune] interrupted before the winner was compiled; its trials are stored");
  return tuned;
}

Error Session::nothing_found(Ended ended) const {
  std::vector<std::pair<int64_t, std::string>> reasons;
  for (const auto& [reason, count] : failures_) reasons.emplace_back(-count, reason);
  std::sort(reasons.begin(), reasons.end());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, reasons.size()); ++i)
    text += fmt::format("{}{} x {}", i ? "; " : "", -reasons[i].first, reasons[i].second);
  const std::string why =
      trials_ > 0 ? fmt::format("none of {} candidates is valid: {}", trials_, text)
      : ended == Ended::Budget
          ? fmt::format(
                "no candidate was built within the budget of {} s; give more time "
                "(--budget)",
                format_double(options_.budget_s))
          : "nothing could be proposed";
  const auto disturbed = progress_.trials.find(std::string(to_string(db::TrialStatus::Unstable)));
  if (disturbed != progress_.trials.end() && disturbed->second == trials_)
    return {ErrorCode::TryLater, fmt::format("[tune] {}; try again when less else runs", why)};
  return {ErrorCode::NoCandidate, fmt::format("[tune] {}; the default schedule still runs", why)};
}

Result<Tuned> Session::result(Ended ended, double seconds) {
  Tuned tuned;
  tuned.next_minute_gain = trials_ > 0 ? gain_of(minute_s) : 0;
  TW_RETURN_IF_ERROR(shared_.recorder.flush());
  if (!reference_.path.empty()) TW_RETURN_IF_ERROR(farm_.prepare(key_, reference_, true));
  TW_RETURN_IF_ERROR(measure_postponed(seconds - confirm_s));
  TW_RETURN_IF_ERROR(choose_finalist(seconds - confirm_s));
  if (finalists_.empty()) return tl::unexpected<Error>(nothing_found(ended));
  TW_TRY(tuned.best, confirm_winner());
  // Trials carry no packing kernels: the winner is built once more, whole, and verified as it is.
  const auto built = farm_.build(key_, tuned.best.schedule, {.packs = true, .needed = true});
  if (!built)
    return fail(ErrorCode::Internal,
                "[tune] the winner cannot be rebuilt: " + built.error().message);
  TW_TRY(const MeasureReply checked, farm_.measure({.path = *built, .verify_only = true}));
  if (checked.status != "ok")
    return fail(ErrorCode::Internal, fmt::format("[tune] the winner, rebuilt, is {}: {}",
                                                 checked.status, checked.reason));
  TW_TRY(tuned.artifact, runtime::read_artifact(*built, runtime::Trust::Own, target_));
  tuned.ended = ended;
  tuned.failures = failures_;
  tuned.spent_s = spent_s_;
  progress_.best_ns = tuned.best.latency_ns;
  report();
  tuned.progress = progress_;
  return tuned;
}

}  // namespace tw::tuner
