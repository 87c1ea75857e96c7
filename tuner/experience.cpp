// SPDX-License-Identifier: Apache-2.0
#include "tuner/experience.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "codegen/abi.h"
#include "schedules/schedule.h"
#include "tuner/device.h"

namespace tw::tuner {
namespace {

// Twice as many as evolution draws from.
constexpr size_t most_parents = 24;
// A point that takes longer to find is not worth the start of a run.
constexpr int most_constructions = 300;
// Others: lowering a record's schedule takes half a millisecond, so these are a quarter of a
// second.
constexpr size_t most_neighbours = 12, most_samples_each = 40;
constexpr size_t seeding_neighbours = 4, seeds_each = 2, tries_each = 4;
// Trials of another device teach as much as those of a shape with an extent of twice the size. What
// those under other layouts teach was not measured: they are taken to be as far. A kernel that is
// fast in one state of the caches is mostly among the fast ones in another.
constexpr double distance_of_devices = 1, distance_of_layouts = 1, distance_of_states = 0.5;

bool is_late(const Question& q) { return q.interrupted() || (q.late && q.late()); }

double throughput_of(const db::Record& record) {
  return record.latency_ns > 0 ? 1e9 / record.latency_ns : 0;
}

/// By the configuration of the record, where that means the same steps in this space, or the same
/// but for other layouts; else by the steps.
std::optional<schedules::Point> point_of(const Question& q, const db::Record& record) {
  const bool has_other_layouts = record.layouts != q.workload->asked();
  const auto point = q.space->parse(record.configuration);
  if (point && q.space->allowed(*point) &&
      (has_other_layouts || q.space->schedule(*point).to_string() == record.schedule))
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

void add_sample(const dsl::Workload& workload, const Known& known, const Question& q,
                Experience& out) {
  if (db::is_listed(known.doubt)) return;
  const db::Record& record = known.record;
  if (q.learned && !q.learned->insert(record.hash).second) return;
  if (auto sample = sample_of(workload, record, q.target, q.threads))
    out.samples.push_back(std::move(*sample));
}

/// Its schedule is known to be right, and its latency to be what it says.
bool is_usable(const Known& trial) {
  return trial.record.status == db::TrialStatus::Ok && trial.doubt == db::Doubt::None;
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

void recall_own(db::Store& store, const Question& q, Experience& out) {
  std::vector<db::Record> records;
  (void)store.for_each(trials_of(*q.workload, q.target, q.threads), [&](const db::Record& record) {
    records.push_back(record);
    return !q.interrupted();
  });
  std::vector<Known> group = judged(std::move(records));
  std::set<std::string_view> known;
  for (const Known& trial : group) {
    const db::Record& record = trial.record;
    if (q.interrupted()) return;
    known.insert(record.schedule);
    // A schedule that could not be timed undisturbed may be tried again.
    if (record.status == db::TrialStatus::Unstable) continue;
    if (!out.tried.insert(record.schedule).second) continue;  // a winner is stored twice
    if (is_late(q)) continue;
    add_sample(*q.workload, trial, q, out);
    if (!is_usable(trial) || out.parents.size() == most_parents) continue;
    if (const auto point = point_of(q, record))
      out.parents.push_back({*point, throughput_of(record)});
  }
  out.known = std::ssize(known);
  std::ranges::stable_sort(group, {}, [](const Known& trial) {
    return std::pair(trial.record.created_ms, trial.record.trial);
  });
  for (const Known& trial : group)
    if (trial.record.status != db::TrialStatus::Unstable)
      out.latencies_ns.push_back(is_usable(trial) ? trial.record.latency_ns : 0);
}

/// What trials are of; latencies of one place compare.
struct Place {
  std::string workload, device, layouts;
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// The trials of a place that is not that of the run.
struct Neighbour {
  dsl::Workload workload;
  double distance;
  std::vector<Known> trials;  ///< fastest first
};

/// How unlike what was asked of the kernels of a record is to what is asked now.
double distance_of_asked(const dsl::Workload& workload, const std::string& other) {
  const auto asked = dsl::parse_asked(other);
  if (!asked) return std::numeric_limits<double>::infinity();
  return (asked->layouts == workload.layouts ? 0 : distance_of_layouts) +
         (asked->state == workload.state ? 0 : distance_of_states);
}

/// As a query orders them: the records of several databases are merged.
std::vector<db::Record> fastest_first(std::vector<db::Record> records) {
  std::ranges::sort(records, [](const db::Record& a, const db::Record& b) {
    return std::tie(a.latency_ns, a.hash) < std::tie(b.latency_ns, b.hash);
  });
  return records;
}

std::vector<Neighbour> neighbours(db::Store& store, const Question& q) {
  db::Filter same_operator;
  same_operator.op = q.workload->op;
  same_operator.target = q.target.to_string();
  same_operator.threads = q.threads;
  same_operator.codegen_abi = codegen::codegen_abi;
  same_operator.order = db::Order::Fastest;
  const Place own = {q.workload->key(), device_text(q.target), q.workload->asked()};
  std::map<Place, std::vector<db::Record>> by_place;
  std::set<std::string> hashes;  // a layer may hold records that were merged too
  const auto add = [&](const Place& place, const db::Record& record) {
    if (hashes.insert(record.hash).second) by_place[place].push_back(record);
    return !q.interrupted();
  };
  (void)store.for_each(same_operator, [&](const db::Record& record) {
    const Place place = {record.workload, record.device, record.layouts};
    return place == own ? !q.interrupted() : add(place, record);
  });
  // Those of layers were measured elsewhere, also where the device is one like this.
  store.for_each_below(same_operator, [&](const db::Record& record) {
    return add({record.workload, record.device, record.layouts}, record);
  });
  std::vector<Neighbour> result;
  for (auto& [place, records] : by_place) {
    auto workload = dsl::parse_workload(place.workload);
    if (!workload) continue;
    const double apart = (place.workload == own.workload ? 0 : distance(*workload, *q.workload)) +
                         (place.device == own.device ? 0 : distance_of_devices) +
                         distance_of_asked(*q.workload, place.layouts);
    if (std::isfinite(apart))
      result.push_back({std::move(*workload), apart, judged(fastest_first(std::move(records)))});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Neighbour& a, const Neighbour& b) { return a.distance < b.distance; });
  if (result.size() > most_neighbours) result.erase(result.begin() + most_neighbours, result.end());
  return result;
}

/// Evenly from the fastest to the slowest: the model is to learn what makes the difference.
void learn_from(const Neighbour& neighbour, const Question& q, Experience& out) {
  const size_t count = std::min(neighbour.trials.size(), most_samples_each);
  for (size_t i = 0; i < count && !is_late(q); ++i)
    add_sample(neighbour.workload, neighbour.trials[i * neighbour.trials.size() / count], q, out);
}

void seed_from(const Neighbour& neighbour, const Question& q, Experience& out) {
  size_t found = 0, tries = 0;
  for (const Known& trial : neighbour.trials) {
    if (found == seeds_each || tries == tries_each || is_late(q)) return;
    if (!is_usable(trial)) continue;
    ++tries;
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
  if (record.status == db::TrialStatus::Unstable) return std::nullopt;
  const auto schedule = schedules::parse_schedule(workload.compute, record.schedule);
  if (!schedule) return std::nullopt;
  const auto program = schedule->program(schedules::limits_of(target));
  if (!program) return std::nullopt;
  const auto asked = dsl::parse_asked(record.layouts);
  if (!asked) return std::nullopt;
  auto features = cost_model::extract_features(*program, target, threads, asked->state);
  if (!features) return std::nullopt;
  cost_model::Sample sample;
  sample.features = std::move(*features);
  sample.throughput = throughput_of(record);
  sample.group = ranking_group(record);
  sample.valid = db::is_timed(record);
  sample.same_machine = record.device == device_text(target);
  return sample;
}

size_t ranking_group(const db::Record& record) {
  return mix(std::hash<std::string>()(record.workload + record.layouts),
             std::hash<std::string>()(record.device));
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
  return experience;
}

}  // namespace tw::tuner
