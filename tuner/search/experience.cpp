// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/experience.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "codegen/abi.h"
#include "cost_model/expected.h"
#include "db/recall.h"
#include "schedules/schedule.h"
#include "schedules/space/find_point.h"
#include "tuner/search/network_error.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

// Most parents: twice as many as evolution uses.
constexpr size_t most_parents = 24;
// Most points that are constructed to find the point of a schedule, so that a run starts quickly.
constexpr int most_constructions = 300;
// Most neighbours (groups of trials of similar workloads), and most samples of each. Lowering the
// schedule of a record takes half a millisecond, so all samples take a quarter of a second.
constexpr size_t most_neighbours = 12, most_samples_each = 40;
// Most trials that are read of the run's own place, and of another place. A place is a workload, a
// target, a device and layouts. If a place has more trials, only a part of them is read, so that a
// run starts as quickly with a large database as with a small one.
constexpr int64_t most_own_trials = 1024, most_trials_of_another = 256;
// Most places that are compared with the workload. They are the places whose numbers of operations
// are just below or just above that of the workload.
constexpr int64_t most_places = 256;
constexpr size_t seeding_neighbours = 4, seeds_each = 2, tries_each = 4;
// Distances that are added to distance() for trials of another device or instruction set, with
// other layouts, or in another state of the caches. Trials of another device teach the model as
// much as those of a shape with one extent of twice the size. The value of trials with other
// layouts was not measured; it is assumed to be equal. A kernel that is fast in one state of the
// caches is mostly fast in another.
constexpr double distance_of_devices = 1, distance_of_layouts = 1, distance_of_states = 0.5;

/// True if no more schedules may be turned into points or samples.
bool is_enough(const Question& q, const Experience& known) {
  return known.schedules >= q.most_schedules || q.stop.is_stopped();
}

bool is_here(const Question& q, const db::Record& record) { return is_of_device(record, q.target); }

double throughput_of(const db::Record& record) {
  return record.latency_ns > 0 ? 1e9 / record.latency_ns : 0;
}

/// Returns the point of the run's space that stands for the schedule of a record; nullopt if there
/// is none. The record's configuration gives the point if it means the same steps in this space. It
/// also gives the point if the record has other layouts or another target, for which the steps
/// differ anyway. Otherwise the point is searched for by the steps.
std::optional<schedules::Point> point_of(const Question& q, const db::Record& record) {
  const bool differs =
      record.layouts != q.workload->asked() || record.target != q.target.to_string();
  const auto point = q.space->parse(record.configuration);
  if (point && q.space->allowed(*point) &&
      (differs || q.space->schedule(*point).to_string() == record.schedule))
    return point;
  const auto schedule = schedules::parse_schedule(q.workload->compute, record.schedule);
  return schedule ? schedules::point_of(*q.space, *schedule, most_constructions) : std::nullopt;
}

/// Adds the sample of a record, and returns its features. They are empty if the record has no
/// sample, or if the model has learned from it before. `target` has the description of the machine
/// that measured the record.
std::vector<float> add_sample(const dsl::Workload& workload, const db::RecalledTrial& known,
                              const Target& target, const Question& q, Experience& out) {
  if (db::is_listed(known.doubt)) return {};
  const db::Record& record = known.record;
  if (q.learned && !q.learned->insert(record.hash).second) return {};
  ++out.schedules;
  auto sample = sample_of(workload, record, target, q.threads);
  if (!sample) return {};
  sample->same_machine = is_here(q, record);
  out.samples.push_back(std::move(*sample));
  return out.samples.back().features;
}

/// True if the kernel of the trial is correct, and its latency is not in doubt.
bool is_usable(const db::RecalledTrial& trial) {
  return trial.record.status == db::TrialStatus::Ok && trial.doubt == db::Doubt::None;
}

db::Place place_of(const dsl::Workload& workload, const Target& target) {
  return {workload.key(), target.to_string(), device_text(target), workload.asked()};
}

size_t group_of(const db::Place& place) {
  return mix(std::hash<std::string>()(place.workload + place.layouts),
             std::hash<std::string>()(place.target + place.device));
}

/// True if the trial could be the result of the run.
bool is_result(const Question& q, const db::RecalledTrial& trial) {
  return is_usable(trial) && is_exact_enough(*q.workload, trial.record, q.most_error);
}

/// Adds the latencies of the trials. The trials that were not read are put first, with the latency
/// 0: none of them is the best, and the curve of gains depends mostly on the last trials.
void add_latencies(const Question& q, db::RecalledTrials recalled, Experience& out) {
  std::ranges::stable_sort(recalled.trials, {}, [](const db::RecalledTrial& trial) {
    return std::pair(trial.record.created_ms, trial.record.trial);
  });
  out.latencies_ns.assign(static_cast<size_t>(recalled.known - std::ssize(recalled.trials)), 0);
  for (const db::RecalledTrial& trial : recalled.trials)
    if (!db::proves_nothing(trial.record.status))
      out.latencies_ns.push_back(is_result(q, trial) ? trial.record.latency_ns : 0);
}

void recall_own(db::Store& store, const Question& q, Experience& out) {
  const db::Key place = database_key(*q.workload, q.target, q.threads);
  Result<db::TriedSchedules> tried = db::tried(store, place, q.host);
  Result<db::RecalledTrials> recalled = db::recall(store, place, most_own_trials);
  for (const Error* error :
       {tried ? nullptr : &tried.error(), recalled ? nullptr : &recalled.error()})
    if (error) note(q.notes, NoteKind::WarmStartUnread, error->message);
  if (!tried || !recalled || q.stop.is_stopped()) return;
  out.known = tried->known;
  out.tried = std::move(tried->settled);
  std::set<std::string_view> taken;  // the winner of a run is stored twice
  for (const db::RecalledTrial& trial : recalled->trials) {
    if (is_enough(q, out)) break;
    if (!out.tried.contains(db::schedule_key(trial.record.schedule))) continue;
    if (!taken.insert(trial.record.schedule).second) continue;
    std::vector<float> features = add_sample(*q.workload, trial, q.target, q, out);
    if (!is_result(q, trial) || out.parents.size() == most_parents) continue;
    if (const auto point = point_of(q, trial.record))
      out.parents.push_back({*point, throughput_of(trial.record), std::move(features)});
  }
  add_latencies(q, std::move(*recalled), out);
}

/// A group of trials from which the run learns. These are the trials of another place than the
/// run's own, or the trials of the run's own place that are in layers of the database.
struct Neighbour {
  dsl::Workload workload;
  double distance;
  Target target;  ///< target with the description of the machine that measured
  std::vector<db::RecalledTrial> trials;  ///< sorted by latency
};

/// Returns the distance between what was asked for a record's kernels and what is asked for this
/// workload: layouts and a state of the caches. `other` is the record's text of both. The distance
/// is infinite if the text cannot be parsed.
double distance_of_asked(const dsl::Workload& workload, const std::string& other) {
  const auto asked = dsl::parse_asked(other);
  if (!asked) return std::numeric_limits<double>::infinity();
  return (asked->layouts == workload.layouts ? 0 : distance_of_layouts) +
         (asked->state == workload.state ? 0 : distance_of_states);
}

/// Returns the distance between the trials of a place, whose workload is `workload`, and the trials
/// of the run. It is infinite if the run cannot learn from them.
double distance_of(const db::Place& place, const dsl::Workload& workload, const Question& q) {
  const auto target = parse_target(place.target);
  if (!target || target->architecture != q.target.architecture)
    return std::numeric_limits<double>::infinity();
  const bool is_here =
      place.device == device_text(q.target) && place.target == q.target.to_string();
  return (place.workload == q.workload->key() ? 0 : distance(workload, *q.workload)) +
         (is_here ? 0 : distance_of_devices) + distance_of_asked(*q.workload, place.layouts);
}

/// Returns the trials of a place in the database and its layers, sorted by latency. For the run's
/// own place it returns only the trials in the layers, which were measured on other machines, even
/// if the device of such a machine is like this one.
std::vector<db::RecalledTrial> trials_at(db::Store& store, const db::Place& place,
                                         const Question& q) {
  const db::Key key = {place.workload, place.target,         place.device,
                       q.threads,      codegen::codegen_abi, place.layouts};
  std::vector<db::RecalledTrial> trials =
      db::recall_below(store, key, most_trials_of_another).trials;
  if (place == place_of(*q.workload, q.target)) return trials;
  Result<db::RecalledTrials> own = db::recall(store, key, most_trials_of_another);
  if (!own) {
    note(q.notes, NoteKind::WarmStartUnread, own.error().message);
    return trials;
  }
  std::set<std::string> hashes;  // a record in a layer may have been merged into the database too
  for (const db::RecalledTrial& trial : own->trials) hashes.insert(trial.record.hash);
  for (db::RecalledTrial& trial : trials)
    if (!hashes.contains(trial.record.hash)) own->trials.push_back(std::move(trial));
  std::ranges::sort(own->trials, [](const db::RecalledTrial& a, const db::RecalledTrial& b) {
    return std::tie(a.record.latency_ns, a.record.hash) <
           std::tie(b.record.latency_ns, b.record.hash);
  });
  return std::move(own->trials);
}

std::vector<Neighbour> neighbours(db::Store& store, const Question& q) {
  struct Near {
    double distance;
    dsl::Workload workload;
    db::Place place;
  };
  std::vector<Near> near;
  const auto places = db::places(store, q.workload->op, q.threads, codegen::codegen_abi,
                                 dsl::count_flops(q.workload->compute), most_places);
  if (!places) {
    note(q.notes, NoteKind::WarmStartUnread, places.error().message);
    return {};
  }
  for (const db::Place& place : *places) {
    auto workload = dsl::parse_workload(place.workload);
    if (!workload) continue;
    const double apart = distance_of(place, *workload, q);
    if (std::isfinite(apart)) near.push_back({apart, std::move(*workload), place});
  }
  std::ranges::stable_sort(near, {}, &Near::distance);
  std::vector<Neighbour> result;
  for (Near& next : near) {
    if (result.size() == most_neighbours || q.stop.is_stopped()) break;
    std::vector<db::RecalledTrial> trials = trials_at(store, next.place, q);
    if (trials.empty()) continue;
    const db::Record& any = trials.front().record;
    auto target = is_here(q, any) ? q.target : target_of(any);
    if (!target) continue;
    result.push_back(
        {std::move(next.workload), next.distance, std::move(*target), std::move(trials)});
  }
  return result;
}

/// Adds samples of a neighbour's trials, evenly spaced from the fastest to the slowest, so that the
/// model learns what makes the difference.
void learn_from(const Neighbour& neighbour, const Question& q, Experience& out) {
  const size_t count = std::min(neighbour.trials.size(), most_samples_each);
  for (size_t i = 0; i < count && !is_enough(q, out); ++i) {
    const db::RecalledTrial& trial = neighbour.trials[i * neighbour.trials.size() / count];
    add_sample(neighbour.workload, trial, neighbour.target, q, out);
  }
}

void seed_from(const Neighbour& neighbour, const Question& q, Experience& out) {
  size_t found = 0, tries = 0;
  for (const db::RecalledTrial& trial : neighbour.trials) {
    if (found == seeds_each || tries == tries_each || is_enough(q, out)) return;
    if (!is_usable(trial)) continue;
    ++tries;
    ++out.schedules;
    const auto point = point_of(q, trial.record);
    if (!point || std::find(out.seeds.begin(), out.seeds.end(), *point) != out.seeds.end())
      continue;
    out.seeds.push_back(*point);
    ++found;
  }
}

}  // namespace

double distance(const dsl::Workload& a, const dsl::Workload& b) {
  if (a.op != b.op || a.attributes.empty() || a.dtype != b.dtype)
    return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const auto& [name, value] : a.attributes) {
    const auto other = b.attributes.find(name);
    if (other == b.attributes.end()) return std::numeric_limits<double>::infinity();
    sum += std::fabs(
        std::log2((1.0 + static_cast<double>(value)) / (1.0 + static_cast<double>(other->second))));
  }
  return sum;
}

std::optional<cost_model::Sample> sample_of(const dsl::Workload& workload, const db::Record& record,
                                            const Target& target, int threads) {
  if (db::proves_nothing(record.status)) return std::nullopt;
  const auto schedule = schedules::parse_schedule(workload.compute, record.schedule);
  if (!schedule) return std::nullopt;
  auto program = schedule->program(schedules::limits_of(target));
  if (!program) return std::nullopt;
  const auto asked = dsl::parse_asked(record.layouts);
  if (!asked) return std::nullopt;
  schedules::Problem problem = schedules::problem_of(workload);
  problem.layouts = asked->layouts;
  problem.state = asked->state;
  auto features =
      cost_model::features_with_expected_time(std::move(*program), problem, target, threads);
  if (!features) return std::nullopt;
  cost_model::Sample sample;
  sample.features = std::move(*features);
  sample.throughput = throughput_of(record);
  sample.group = group_of({record.workload, record.target, record.device, record.layouts});
  sample.valid = db::is_timed(record);
  return sample;
}

size_t ranking_group(const dsl::Workload& workload, const Target& target) {
  return group_of(place_of(workload, target));
}

TrialOfOthers trial_of_others(const Question& question, const db::Record& trial) {
  TrialOfOthers known{point_of(question, trial),
                      sample_of(*question.workload, trial, question.target, question.threads)};
  if (known.sample) known.sample->same_machine = is_here(question, trial);
  return known;
}

Result<int64_t> count_known(db::Store& store, const dsl::Workload& workload, const Target& target,
                            int threads) {
  TW_TRY(const db::TriedSchedules tried,
         db::tried(store, database_key(workload, target, threads), {}));
  return tried.known;
}

Experience warm_start(db::Store& store, const Question& question) {
  Experience experience;
  recall_own(store, question, experience);
  const std::vector<Neighbour> known = neighbours(store, question);
  for (const Neighbour& neighbour : known) learn_from(neighbour, question, experience);
  for (size_t i = 0; i < std::min(known.size(), seeding_neighbours); ++i)
    seed_from(known[i], question, experience);
  std::ranges::reverse(experience.samples);
  return experience;
}

}  // namespace tw::tuner
