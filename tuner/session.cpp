// SPDX-License-Identifier: Apache-2.0
#include "tuner/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include "codegen/abi.h"
#include "codegen/compile.h"
#include "tuner/device.h"
#include "tuner/experience.h"
#include "tuner/trial_record.h"

namespace tw::tuner {
namespace {

// Interleaved finals: more finalists cost more rounds than their small chance of winning is worth.
constexpr size_t most_finalists = 4;
constexpr int final_rounds = 11;
// Kept back from the budget for the finals.
constexpr double finals_s = 2.5;
// A plain nest runs at about 1 GFLOP/s: beyond this the reference is the default schedule instead.
constexpr double most_plain_flops = 1e9;
// Clocks move by 30 % within minutes on some machines: records carry the peak of their moment.
constexpr int64_t trials_per_peak = 32;
constexpr int peak_windows = 5;
// So many trials without a valid one: the next would fail too.
constexpr int64_t hopeless_trials = 96;
// So many builds in a row that fail for no fault of the candidates: the compiler or linker is
// broken.
constexpr int64_t most_broken_builds = 24;

double throughput_of(double latency_ns) { return latency_ns > 0 ? 1e9 / latency_ns : 0; }

}  // namespace

Result<Session> Session::open(const dsl::Workload& workload, const Target& target,
                              const TuneOptions& options, db::Store& store,
                              const Environment& environment, const OnProgress& on_progress) {
  TW_TRY(std::unique_ptr<Search> search, make_search(options.search));
  TW_TRY(Farm farm, Farm::start(workload, target, options.threads, options.seed, environment,
                                options.timeout_s));
  Session session(workload, target, options, store, environment, on_progress, std::move(farm));
  session.search_ = std::move(search);
  return session;
}

Session::Session(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                 db::Store& store, const Environment& environment, const OnProgress& on_progress,
                 Farm farm)
    : workload_(&workload),
      target_(target),
      options_(options),
      store_(&store),
      environment_(environment),
      on_progress_(on_progress),
      farm_(std::move(farm)),
      recorder_(std::make_unique<db::Recorder>(
          store, db::Spool(db::Spool::spool_path(store.path())),
          db::RecorderOptions{.batch = static_cast<size_t>(options.batch)})),
      space_(schedules::Space::derive(workload.compute, target)),
      random_(options.seed),
      started_ns_(environment.clock()),
      flops_(dsl::count_flops(workload.compute)) {
  progress_.budget_s = options.budget_s;
  progress_.flops = flops_;
}

double Session::elapsed_s() const {
  return static_cast<double>(environment_.clock() - started_ns_) * 1e-9;
}

bool Session::interrupted() const {
  return environment_.interrupts && environment_.interrupts->load() > 0;
}

void Session::report() {
  progress_.elapsed_s = elapsed_s();
  progress_.working_s = farm_.working_s();
  const double left_s = options_.budget_s - elapsed_s();
  progress_.next_gain.reset();
  if (trials_ > 0 && left_s > 0 && !ended()) progress_.next_gain = gain_of(std::min(left_s, 60.0));
  progress_.model = to_string(model_.source());
  progress_.model_note = model_.quality().note;
  if (model_.source() == cost_model::Source::Learned)
    progress_.model += fmt::format(", rank correlation {:.2f}", model_.quality().learned.spearman);
  if (on_progress_) on_progress_(progress_);
}

std::string Session::reference_schedule() const {
  const schedules::Schedule plain(workload_->compute);
  if (flops_ <= most_plain_flops) return plain.to_string();
  const schedules::Schedule tiled = space_.schedule(space_.default_point());
  return (tiled.program() ? tiled : plain).to_string();
}

Status Session::prepare() {
  report();
  TW_RETURN_IF_ERROR(farm_.prepare(reference_schedule()));
  TW_RETURN_IF_ERROR(refresh_peak());
  progress_.untuned_ns = farm_.reference_ns();
  learn_from_database();
  prepared_ns_ = environment_.clock();
  report();
  return {};
}

std::vector<Guess> Session::score(const std::vector<schedules::Point>& points) {
  std::vector<Guess> guesses(points.size(), -std::numeric_limits<double>::infinity());
  // One thread: builders and the runner work meanwhile.
  auto candidates = candidates_of(space_, points, target_, seen_,
                                  {.kernel_threads = options_.threads, .workers = 1});
  std::vector<std::vector<float>> rows;
  std::vector<size_t> places;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!candidates[i]) continue;
    rows.push_back(candidates[i]->features);
    places.push_back(i);
    scored_.insert_or_assign(points[i], std::move(*candidates[i]));
  }
  const cost_model::Scores scores = model_.predict(rows);
  for (size_t k = 0; k < rows.size(); ++k) guesses[places[k]] = {scores.mean[k], scores.spread[k]};
  return guesses;
}

std::vector<Candidate> Session::propose() {
  scored_.clear();
  if (interrupted()) return {};
  auto count = static_cast<size_t>(options_.batch);
  if (options_.trials > 0)
    count = static_cast<size_t>(std::clamp<int64_t>(
        options_.trials - static_cast<int64_t>(seen_.size()) + progress_.known_trials, 0,
        options_.batch));
  std::vector<Candidate> batch;
  if (count == 0) return batch;
  const auto points = search_->propose(
      space_, {history_, seeds_}, [this](const auto& p) { return score(p); }, count, random_);
  seeds_.clear();
  for (const schedules::Point& point : points) {
    const auto found = scored_.find(point);
    if (found == scored_.end() || !seen_.insert(found->second.schedule).second) continue;
    batch.push_back(found->second);
  }
  return batch;
}

Status Session::begin_build(const std::vector<Candidate>& batch) {
  std::vector<std::string> texts;
  for (const Candidate& c : batch) texts.push_back(c.schedule);
  return farm_.begin_build(texts);
}

std::vector<BuildOutcome> Session::finish_build() { return farm_.finish_build(); }

Status Session::measure(const std::vector<Candidate>& batch,
                        const std::vector<BuildOutcome>& built) {
  if (const Status peak = refresh_peak(); !peak && !interrupted()) return peak;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (interrupted()) break;
    MeasureReply reply{built[i].status, built[i].reason};
    if (!built[i].path.empty()) {
      const double incumbent = finalists_.empty() ? 0 : finalists_.front().record.latency_ns;
      const auto measured = farm_.measure({built[i].path, incumbent, false});
      if (cut_short(measured)) break;
      TW_TRY(reply, measured);
    }
    TW_RETURN_IF_ERROR(record(batch[i], reply));
    TW_RETURN_IF_ERROR(check_installation(built[i]));
    if (reply.status == "ok") finalists_.back().path = built[i].path;
    std::stable_sort(finalists_.begin(), finalists_.end(),
                     [](const Finalist& a, const Finalist& b) {
                       return a.record.latency_ns < b.record.latency_ns;
                     });
    if (finalists_.size() > most_finalists) finalists_.resize(most_finalists);
    report();
  }
  return {};
}

Status Session::check_installation(const BuildOutcome& built) {
  if (!built.path.empty()) broken_builds_ = 0;
  if (!built.installation || ++broken_builds_ < most_broken_builds) return {};
  TW_RETURN_IF_ERROR(recorder_->flush());
  return fail(
      ErrorCode::Environment,
      fmt::format("[tune] {} candidates in a row could not be built, the last one because of: {}",
                  broken_builds_, built.reason));
}

Status Session::record(const Candidate& c, const MeasureReply& reply) {
  db::Record record =
      trial_record(*workload_, target_, options_.threads, c.schedule, reply, peak_gflops_);
  record.program_version = environment_.program_version;
  record.host = environment_.host;
  record.session = environment_.session;
  record.seed = static_cast<int64_t>(options_.seed);
  record.trial = trials_++;
  record.created_ms = environment_.now_ms();
  record = db::seal(std::move(record));

  digest(c, record);
  return recorder_->add(std::move(record));
}

/// What progress, search and model take from a trial.
void Session::digest(const Candidate& c, const db::Record& trial) {
  const bool valid = trial.status == db::TrialStatus::Ok;
  const bool timed = valid || trial.status == db::TrialStatus::Hopeless;
  const std::string status(db::to_string(trial.status));
  ++progress_.trials[status];
  if (!timed) count_failure(status + ": " + trial.reason);
  history_.push_back({c.point, timed ? throughput_of(trial.latency_ns) : 0});
  cost_model::Sample sample;
  sample.features = c.features;
  sample.throughput = throughput_of(trial.latency_ns);
  sample.group = std::hash<std::string>()(trial.workload);
  sample.valid = timed && trial.latency_ns > 0;
  fresh_samples_.push_back(std::move(sample));
  if (valid && (progress_.best_ns == 0 || trial.latency_ns < progress_.best_ns))
    progress_.best_ns = trial.latency_ns;
  gain_.add(valid ? trial.latency_ns : 0);
  if (valid) finalists_.push_back({"", trial});
}

/// Reasons that differ in numbers only count as the first of them.
void Session::count_failure(const std::string& reason) {
  static const std::regex numbers("(0x[0-9a-f]+|[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)");
  const auto [first, is_new] =
      first_reasons_.try_emplace(std::regex_replace(reason, numbers, "#"), reason);
  ++failures_[first->second];
}

Status Session::refresh_peak() {
  if (trials_ < peak_due_) return {};
  // The fastest of several windows of 10 ms: on a busy machine one of them alone may lose its core,
  // and against so low a peak every trial would look impossible.
  double fastest = 0;
  for (int window = 0; window < peak_windows; ++window) {
    TW_TRY(const double gflops, farm_.peak_gflops());
    fastest = std::max(fastest, gflops);
  }
  peak_gflops_ = fastest;
  progress_.peak_gflops = peak_gflops_;
  peak_due_ = trials_ + trials_per_peak;
  return {};
}

/// An interrupt may end the wait for a candidate, which then has no fault.
bool Session::cut_short(const Result<MeasureReply>& reply) const {
  return interrupted() && (!reply || reply->status == "timeout");
}

void Session::learn() {
  if (interrupted()) return;
  // Refits cost tenths of a second: at every doubling, then every 128 trials.
  const size_t due = std::min(learned_at_ == 0 ? size_t{24} : 2 * learned_at_, learned_at_ + 128);
  const auto trials = static_cast<size_t>(trials_);
  if (trials < due || fresh_samples_.empty()) return;
  learned_at_ = trials;
  (void)model_.update(
      fresh_samples_);  // what cannot be learned from leaves the draft model in charge
  fresh_samples_.clear();
}

void Session::learn_from_database() {
  Experience known = recall(
      *store_, {workload_, &space_, target_, options_.threads, [this] { return interrupted(); }});
  progress_.known_trials = static_cast<int64_t>(known.tried.size());
  seen_.merge(known.tried);
  for (const double latency_ns : known.latencies_ns) gain_.add(latency_ns);
  history_ = std::move(known.parents);
  // One parent alone would only take the place of the default point: nothing is crossed with it.
  if (history_.size() == 1) history_.clear();
  seeds_ = std::move(known.seeds);
  if (!known.samples.empty()) (void)model_.update(known.samples);
}

std::optional<Ended> Session::ended() const {
  if (interrupted()) return Ended::Interrupted;
  if (elapsed_s() >= options_.budget_s - std::min(finals_s, 0.1 * options_.budget_s))
    return Ended::Budget;
  if (options_.trials > 0 && trials_ >= options_.trials) return Ended::Trials;
  if (trials_ >= hopeless_trials && finalists_.empty()) return Ended::Plateau;
  if (trials_ > 0 && gain_of(60) < least_gain(options_.effort)) return Ended::Plateau;
  return std::nullopt;
}

double Session::gain_of(double seconds) const {
  const double spent_s = static_cast<double>(environment_.clock() - prepared_ns_) * 1e-9;
  return gain_.next(seconds * static_cast<double>(trials_) / spent_s);
}

/// The incumbent of earlier runs defends its place; a tie is decided in its favour.
Status Session::choose_finalist() {
  if (interrupted()) return {};
  TW_TRY(const auto known, best_known(*store_, *workload_, target_, options_.threads));
  const bool is_new =
      known && std::none_of(finalists_.begin(), finalists_.end(), [&](const Finalist& f) {
        return f.record.schedule == known->schedule;
      });
  if (is_new) {
    TW_RETURN_IF_ERROR(farm_.begin_build({known->schedule}));
    const auto built = farm_.finish_build();
    if (!built[0].path.empty()) {
      TW_TRY(const MeasureReply checked, farm_.measure({built[0].path, 0, true}));
      if (checked.status == "ok") finalists_.insert(finalists_.begin(), {built[0].path, *known});
    }
  }
  for (size_t i = 1; i < finalists_.size() && !interrupted(); ++i) {
    TW_TRY(const CompareReply c,
           farm_.compare(finalists_[0].path, finalists_[i].path, final_rounds));
    if (!c.error.empty()) continue;
    // Between trials of one run the faster of a tie is as good; an incumbent must be beaten.
    const bool beaten = is_new ? c.winner == static_cast<int64_t>(Winner::B) : c.ratio < 1;
    if (beaten) std::swap(finalists_[0], finalists_[i]);
  }
  return {};
}

/// The winner of the finals is measured once more, alone, and stored. What the database then calls
/// the best is the result, so that every later question has the same answer.
Result<db::Record> Session::confirm_winner() {
  const Finalist winner = finalists_[0];
  if (!interrupted()) {
    const auto again = farm_.measure({winner.path, 0, false});
    if (!cut_short(again)) {
      TW_TRY(const MeasureReply reply, again);
      TW_RETURN_IF_ERROR(record(Candidate{{}, winner.record.schedule, {}}, reply));
    }
  }
  TW_RETURN_IF_ERROR(recorder_->flush());
  TW_TRY(const auto known, best_known(*store_, *workload_, target_, options_.threads));
  return known.value_or(winner.record);
}

Result<Tuned> Session::finish(Ended ended) {
  auto tuned = result(ended);
  // What could not be done in the time that an interrupt leaves is nobody's fault.
  if (!tuned && interrupted())
    return fail(ErrorCode::Interrupted,
                finalists_.empty()
                    ? "[tune] interrupted before any candidate was measured"
                    : "[tune] interrupted before the winner was compiled; its trials are stored");
  return tuned;
}

Result<Tuned> Session::result(Ended ended) {
  const double next_minute_gain = trials_ > 0 ? gain_of(60) : 0;
  TW_RETURN_IF_ERROR(recorder_->flush());
  TW_RETURN_IF_ERROR(choose_finalist());
  if (finalists_.empty()) {
    std::vector<std::pair<int64_t, std::string>> reasons;
    for (const auto& [reason, count] : failures_) reasons.emplace_back(-count, reason);
    std::sort(reasons.begin(), reasons.end());
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(3, reasons.size()); ++i)
      text += fmt::format("{}{} x {}", i ? "; " : "", -reasons[i].first, reasons[i].second);
    return fail(
        ErrorCode::NoCandidate,
        fmt::format("[tune] none of {} candidates is valid: {}; the default schedule still runs",
                    trials_, text.empty() ? "nothing could be proposed" : text));
  }
  TW_TRY(const db::Record best, confirm_winner());
  Tuned tuned;
  // Trials carry no packing kernels: the winner is built once more, whole, and verified as it is.
  TW_RETURN_IF_ERROR(farm_.begin_build({best.schedule}, true));
  const auto built = farm_.finish_build();
  if (built[0].path.empty())
    return fail(ErrorCode::Internal,
                fmt::format("[tune] the winner cannot be rebuilt: {}", built[0].reason));
  TW_TRY(const MeasureReply checked, farm_.measure({built[0].path, 0, true}));
  if (checked.status != "ok")
    return fail(ErrorCode::Internal, fmt::format("[tune] the winner, rebuilt, is {}: {}",
                                                 checked.status, checked.reason));
  TW_TRY(tuned.artifact, runtime::read_artifact(built[0].path));
  tuned.best = best;
  tuned.ended = ended;
  tuned.next_minute_gain = next_minute_gain;
  tuned.failures = failures_;
  progress_.best_ns = tuned.best.latency_ns;
  report();
  tuned.progress = progress_;
  return tuned;
}

}  // namespace tw::tuner
