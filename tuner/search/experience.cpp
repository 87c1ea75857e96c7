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
#include "schedules/schedule.h"
#include "tuner/search/network_error.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

// Twice as many as evolution draws from.
constexpr size_t most_parents = 24;
// A point that takes longer to find is not worth the start of a run.
constexpr int most_constructions = 300;
// Limits for other workloads: lowering a record's schedule takes half a millisecond, so their
// samples take a quarter of a second.
constexpr size_t most_neighbours = 12, most_samples_each = 40;
constexpr size_t seeding_neighbours = 4, seeds_each = 2, tries_each = 4;
// Trials of another device, or for another instruction set, teach as much as those of a shape with
// an extent of twice the size. What those under other layouts teach was not measured: they are
// taken to be as far. A kernel that is fast in one state of the caches is mostly among the fast
// ones in another.
constexpr double distance_of_devices = 1, distance_of_layouts = 1, distance_of_states = 0.5;

/// True where no more schedules may be turned into points or samples.
bool is_enough(const Question& q, const Experience& known) {
  return known.schedules >= q.most_schedules || q.stop.is_stopped();
}

bool is_here(const Question& q, const db::Record& record) { return is_of_device(record, q.target); }

double throughput_of(const db::Record& record) {
  return record.latency_ns > 0 ? 1e9 / record.latency_ns : 0;
}

/// The point of the run's space with the schedule of a record. It is the record's configuration if
/// that means the same steps in this space, or if the record is for other layouts or another
/// target; else it is found by the steps. nullopt if there is none.
std::optional<schedules::Point> point_of(const Question& q, const db::Record& record) {
  const bool differs =
      record.layouts != q.workload->asked() || record.target != q.target.to_string();
  const auto point = q.space->parse(record.configuration);
  if (point && q.space->allowed(*point) &&
      (differs || q.space->schedule(*point).to_string() == record.schedule))
    return point;
  const auto schedule = schedules::parse_schedule(q.workload->compute, record.schedule);
  return schedule ? q.space->point_of(*schedule, most_constructions) : std::nullopt;
}

/// A record, and whether the database's rule of trust has a doubt of it. Doubtful timings teach
/// nothing, and no search begins from their schedules.
struct Known {
  db::Record record;
  db::Doubt doubt;
};

/// `group`: every record of one place.
std::vector<Known> judged(std::vector<db::Record> group) {
  const std::vector<db::Judgement> judgements = db::judge_records(group);
  std::vector<Known> known;
  for (size_t i = 0; i < group.size(); ++i)
    known.push_back({std::move(group[i]), judgements[i].doubt});
  return known;
}

/// Adds the sample of a record, if it has one. `target` has the machine that measured it.
void add_sample(const dsl::Workload& workload, const Known& known, const Target& target,
                const Question& q, Experience& out) {
  if (db::is_listed(known.doubt)) return;
  const db::Record& record = known.record;
  if (q.learned && !q.learned->insert(record.hash).second) return;
  ++out.schedules;
  auto sample = sample_of(workload, record, target, q.threads);
  if (!sample) return;
  sample->same_machine = is_here(q, record);
  out.samples.push_back(std::move(*sample));
}

/// True if the schedule is known to be right, and its latency is not in doubt.
bool is_usable(const Known& trial) {
  return trial.record.status == db::TrialStatus::Ok && trial.doubt == db::Doubt::None;
}

/// Adds a note where reading failed.
void note_unread(const Question& q, const Status& read) {
  if (!read) note(q.notes, NoteKind::WarmStartUnread, read.error().message);
}

/// The sessions and hosts that prove a schedule wrong.
struct Accusers {
  std::set<std::string_view> sessions, hosts;
};

std::map<std::string_view, Accusers> accusers_of(const std::vector<Known>& group) {
  std::map<std::string_view, Accusers> accusers;
  for (const Known& trial : group) {
    if (!db::proves_wrong(trial.record.status)) continue;
    Accusers& of_schedule = accusers[trial.record.schedule];
    of_schedule.sessions.insert(trial.record.session);
    of_schedule.hosts.insert(trial.record.host);
  }
  return accusers;
}

/// True where a trial is reason enough not to try its schedule again. A proof that the schedule is
/// wrong counts where this host or two sessions have one.
bool settles(const Known& trial, const Question& q,
             const std::map<std::string_view, Accusers>& accusers) {
  if (db::proves_nothing(trial.record.status)) return false;
  if (!db::proves_wrong(trial.record.status) || q.host.empty()) return true;
  const Accusers& found = accusers.at(trial.record.schedule);
  return found.sessions.size() > 1 || found.hosts.contains(q.host);
}

db::Place place_of(const dsl::Workload& workload, const Target& target) {
  return {workload.key(), target.to_string(), device_text(target), workload.asked()};
}

size_t group_of(const db::Place& place) {
  return mix(std::hash<std::string>()(place.workload + place.layouts),
             std::hash<std::string>()(place.target + place.device));
}

db::Filter trials_of(const dsl::Workload& workload, const Target& target, int threads) {
  db::Filter own;
  own.workload = workload.key();
  own.target = target.to_string();
  own.device = device_text(target);
  own.threads = threads;
  own.codegen_abi = codegen::codegen_abi;
  own.layouts = workload.asked();
  own.order = db::Order::Fastest;
  return own;
}

/// True if the trial could be the result of the run.
bool is_result(const Question& q, const Known& trial) {
  return is_usable(trial) && is_exact_enough(*q.workload, trial.record, q.most_error);
}

void recall_own(db::Store& store, const Question& q, Experience& out) {
  std::vector<db::Record> records;
  note_unread(
      q, store.for_each(trials_of(*q.workload, q.target, q.threads), [&](const db::Record& record) {
        records.push_back(record);
        return !q.stop.is_stopped();
      }));
  std::vector<Known> group = judged(std::move(records));
  const std::map<std::string_view, Accusers> accusers = accusers_of(group);
  std::set<std::string_view> known;
  for (const Known& trial : group) {
    const db::Record& record = trial.record;
    if (q.stop.is_stopped()) return;
    known.insert(record.schedule);
    if (!settles(trial, q, accusers)) continue;
    if (!out.tried.insert(record.schedule).second) continue;  // a winner is stored twice
    if (is_enough(q, out)) continue;
    add_sample(*q.workload, trial, q.target, q, out);
    if (!is_result(q, trial) || out.parents.size() == most_parents) continue;
    if (const auto point = point_of(q, record))
      out.parents.push_back({*point, throughput_of(record)});
  }
  out.known = std::ssize(known);
  std::ranges::stable_sort(group, {}, [](const Known& trial) {
    return std::pair(trial.record.created_ms, trial.record.trial);
  });
  for (const Known& trial : group)
    if (!db::proves_nothing(trial.record.status))
      out.latencies_ns.push_back(is_result(q, trial) ? trial.record.latency_ns : 0);
}

/// The trials of a place other than that of the run, or those that layers have of the place of the
/// run.
struct Neighbour {
  dsl::Workload workload;
  double distance;
  Target target;              ///< with the machine that measured
  std::vector<Known> trials;  ///< sorted by latency
};

/// Distance between what a record's kernels were asked for (`other`: layouts and state of the
/// caches, as text) and what the workload asks for; infinite if the text does not parse.
double distance_of_asked(const dsl::Workload& workload, const std::string& other) {
  const auto asked = dsl::parse_asked(other);
  if (!asked) return std::numeric_limits<double>::infinity();
  return (asked->layouts == workload.layouts ? 0 : distance_of_layouts) +
         (asked->state == workload.state ? 0 : distance_of_states);
}

/// Distance between the trials of a place, whose workload is `workload`, and those of the run;
/// infinite if they teach the run nothing.
double distance_of(const db::Place& place, const dsl::Workload& workload, const Question& q) {
  const auto target = parse_target(place.target);
  if (!target || target->architecture != q.target.architecture)
    return std::numeric_limits<double>::infinity();
  const bool is_here =
      place.device == device_text(q.target) && place.target == q.target.to_string();
  return (place.workload == q.workload->key() ? 0 : distance(workload, *q.workload)) +
         (is_here ? 0 : distance_of_devices) + distance_of_asked(*q.workload, place.layouts);
}

/// Records of a place in the database and its layers, sorted by latency. For the place of the run,
/// only the records of the layers: they were measured on other machines, even if on a device like
/// this one.
std::vector<db::Record> trials_at(db::Store& store, const db::Place& place, const Question& q) {
  db::Filter filter;
  filter.workload = place.workload;
  filter.target = place.target;
  filter.device = place.device;
  filter.layouts = place.layouts;
  filter.threads = q.threads;
  filter.codegen_abi = codegen::codegen_abi;
  std::vector<db::Record> records;
  std::set<std::string> hashes;  // a layer may hold records that were merged too
  const auto add = [&](const db::Record& record) {
    if (hashes.insert(record.hash).second) records.push_back(record);
    return !q.stop.is_stopped();
  };
  if (place != place_of(*q.workload, q.target)) note_unread(q, store.for_each(filter, add));
  store.for_each_below(filter, add);
  std::ranges::sort(records, [](const db::Record& a, const db::Record& b) {
    return std::tie(a.latency_ns, a.hash) < std::tie(b.latency_ns, b.hash);
  });
  return records;
}

std::vector<Neighbour> neighbours(db::Store& store, const Question& q) {
  struct Near {
    double distance;
    dsl::Workload workload;
    db::Place place;
  };
  std::vector<Near> near;
  const auto places = store.places(q.workload->op, q.threads, codegen::codegen_abi);
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
    std::vector<db::Record> records = trials_at(store, next.place, q);
    if (records.empty()) continue;
    auto target = is_here(q, records.front()) ? q.target : target_of(records.front());
    if (!target) continue;
    result.push_back(
        {std::move(next.workload), next.distance, std::move(*target), judged(std::move(records))});
  }
  return result;
}

/// Evenly from the fastest to the slowest: the model is to learn what makes the difference.
void learn_from(const Neighbour& neighbour, const Question& q, Experience& out) {
  const size_t count = std::min(neighbour.trials.size(), most_samples_each);
  for (size_t i = 0; i < count && !is_enough(q, out); ++i) {
    const Known& trial = neighbour.trials[i * neighbour.trials.size() / count];
    add_sample(neighbour.workload, trial, neighbour.target, q, out);
  }
}

void seed_from(const Neighbour& neighbour, const Question& q, Experience& out) {
  size_t found = 0, tries = 0;
  for (const Known& trial : neighbour.trials) {
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

Result<int64_t> count_known(db::Store& store, const dsl::Workload& workload, const Target& target,
                            int threads) {
  std::set<std::string> tried;
  TW_RETURN_IF_ERROR(
      store.for_each(trials_of(workload, target, threads), [&](const db::Record& record) {
        tried.insert(record.schedule);
        return true;
      }));
  return static_cast<int64_t>(tried.size());
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
