// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>

#include "cost_model/expected.h"
#include "cost_model/features.h"
#include "schedules/schedule.h"
#include "tuner/search/batch_size.h"

namespace tw::tuner {

using cost_model::CostModel;
using cost_model::Sample;
using cost_model::WorkloadModel;

namespace {

constexpr std::string_view language = "tw1";

/// The first line of a recording: the name, workload, target and number of threads of the trials
/// that follow.
struct Heading {
  std::string name;
  dsl::Workload workload;
  Target target;
  int threads = 1;
};

/// Returns the text of a target's machine in a recording. It is the name of the machine if the
/// table has exactly this machine. Otherwise it is the whole description, because the caches and
/// cores that a system reports may differ from the table.
std::string machine_text(const Target& target) {
  if (!target.is_gpu()) {
    const auto row = machine_by_name(target.machine.name, vector_sizes(target));
    return row && *row == target.machine ? target.machine.name : to_string(target.machine);
  }
  return target.machine.origin == MachineOrigin::Table ? target.machine.name
                                                       : to_string(target.machine);
}

Result<tw::Machine> parse_recorded_machine(const std::string& text, const Target& target) {
  const bool is_name = text.find('\n') == std::string::npos;
  if (is_name && !target.is_gpu()) return machine_by_name(text, vector_sizes(target));
  Result<tw::Machine> machine = parse_machine(text);
  if (auto row = gpu_machine(text)) machine = std::move(*row);
  if (machine && machine->gpu.has_value() != target.is_gpu())
    return fail(ErrorCode::Invalid,
                fmt::format("{} is no machine for {}", machine->name, target.to_string()));
  return machine;
}

Result<Heading> parse_heading(const nlohmann::json& json) {
  TW_TRY(dsl::Workload workload, dsl::parse_workload(json.at("workload").get<std::string>()));
  TW_TRY(Target target, parse_target(json.at("target").get<std::string>()));
  if (json.contains("machine")) {
    TW_TRY(target.machine, parse_recorded_machine(json.at("machine").get<std::string>(), target));
  }
  return Heading{json.value("name", ""), std::move(workload), std::move(target),
                 json.value("threads", 1)};
}

Result<Sample> parse_trial(const nlohmann::json& json, const Heading& heading) {
  const std::string text = fmt::format("{}\n{}", language, json.at("tw1").get<std::string>());
  TW_TRY(const auto schedule, schedules::parse_schedule(heading.workload.compute, text));
  TW_TRY(auto program, schedule.program(schedules::limits_of(heading.target)));
  Sample sample;
  TW_TRY(sample.features, cost_model::features_with_expected_time(
                              std::move(program), schedules::problem_of(heading.workload),
                              heading.target, heading.threads));
  const double ns = json.at("ns").get<double>();
  if (!(ns > 0)) return fail(ErrorCode::Invalid, fmt::format("a latency of {} ns", ns));
  sample.throughput = 1 / ns;
  return sample;
}

Status read_line(const std::string& line, std::optional<Heading>& heading,
                 std::vector<Recording>& recordings) {
  const auto json = nlohmann::json::parse(line);
  if (json.contains("workload")) {
    TW_TRY(heading, parse_heading(json));
    recordings.push_back({heading->name, heading->workload.text(), heading->target, {}, 0});
    return {};
  }
  if (!heading) return fail(ErrorCode::Invalid, "a trial without a workload before it");
  TW_TRY(Sample sample, parse_trial(json, *heading));
  Recording& recording = recordings.back();
  sample.group = recordings.size();
  recording.best = std::max(recording.best, sample.throughput);
  recording.trials.push_back(std::move(sample));
  return {};
}

/// Returns the indices of up to usual_batch_size trials with the highest scores, best first.
std::vector<size_t> best_scored(const std::vector<const Sample*>& trials,
                                const WorkloadModel& model) {
  std::vector<std::vector<float>> rows;
  for (const Sample* trial : trials) rows.push_back(trial->features);
  const std::vector<double> scores = model.predict(rows);
  std::vector<size_t> order(trials.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min<size_t>(usual_batch_size, order.size()));
  return order;
}

/// True if the guide begins with the expected times of the pretrained model, which recordings have.
bool begins_with_expected_times(Guide guide) {
  return guide == Guide::Pretrained || guide == Guide::Corrected || guide == Guide::Taught;
}

/// Returns the recording with the expected times of the analytic model.
Recording as_the_analytic_model_expects(Recording recording) {
  for (Sample& trial : recording.trials)
    cost_model::set_expected_time(trial.features,
                                  static_cast<float>(cost_model::analytic_time_of(trial.features)));
  return recording;
}

Result<std::vector<double>> replay_one(const Recording& recording, Guide guide,
                                       const CostModel& teacher, size_t count, uint64_t seed) {
  Random random(seed);
  if (guide == Guide::Random) return replay_random(recording, count, random);
  const bool learns = guide == Guide::Learned || guide == Guide::Corrected;
  return replay_guided(recording, teacher, learns, count, random);
}

}  // namespace

Result<std::vector<Recording>> read_recordings(std::istream& in) {
  std::vector<Recording> recordings;
  std::optional<Heading> heading;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto bad = [&](std::string_view why) {
      return fail(ErrorCode::Invalid, fmt::format("[replay] line {}: {}", number, why));
    };
    try {
      if (const Status read = read_line(line, heading, recordings); !read)
        return bad(read.error().message);
    } catch (const nlohmann::json::exception& error) {
      return bad(error.what());
    }
  }
  std::erase_if(recordings, [](const Recording& recording) { return recording.trials.empty(); });
  if (recordings.empty()) return fail(ErrorCode::Invalid, "[replay] there are no recorded trials");
  return recordings;
}

void write_recording(std::ostream& out, const std::string& name, const dsl::Workload& workload,
                     const Target& target, int threads, std::span<const db::Record> records) {
  const nlohmann::json heading = {{"name", name},
                                  {"workload", workload.text()},
                                  {"target", target.to_string()},
                                  {"machine", machine_text(target)},
                                  {"threads", threads}};
  out << heading.dump() << '\n';
  std::set<std::string_view> written;
  for (const db::Record& record : records) {
    if (!db::is_timed(record) || !record.schedule.starts_with(language) ||
        !written.insert(record.schedule).second)
      continue;
    const size_t steps = std::min(record.schedule.size(), language.size() + 1);
    const nlohmann::json trial = {{"ns", std::llround(record.latency_ns)},
                                  {"tw1", record.schedule.substr(steps)}};
    out << trial.dump() << '\n';
  }
}

std::string_view to_string(Guide guide) {
  switch (guide) {
    case Guide::Random:
      return "random";
    case Guide::Analytic:
      return "analytic";
    case Guide::Learned:
      return "learned";
    case Guide::Pretrained:
      return "pretrained";
    case Guide::Corrected:
      return "corrected";
    case Guide::Taught:
      break;
  }
  return "taught";
}

std::vector<double> replay_random(const Recording& recording, size_t count, Random& random) {
  std::vector<size_t> order(recording.trials.size());
  std::iota(order.begin(), order.end(), size_t{0});
  random.shuffle(order);
  order.resize(std::min(count, order.size()));
  std::vector<double> best;
  for (const size_t i : order)
    best.push_back(std::max(best.empty() ? 0 : best.back(), recording.trials[i].throughput));
  return best;
}

Result<std::vector<double>> replay_guided(const Recording& recording, CostModel model, bool learns,
                                          size_t count, Random& random) {
  std::vector<const Sample*> left;
  for (const Sample& trial : recording.trials) left.push_back(&trial);
  random.shuffle(left);
  const uint64_t group = recording.trials.front().group;
  WorkloadModel known = model.for_group(group);
  std::vector<double> best;
  while (best.size() < count && !left.empty()) {
    std::vector<size_t> picked = best_scored(left, known);
    std::vector<Sample> fresh;
    for (const size_t i : picked) {
      fresh.push_back(*left[i]);
      best.push_back(std::max(best.empty() ? 0 : best.back(), left[i]->throughput));
    }
    std::sort(picked.rbegin(), picked.rend());
    for (const size_t i : picked) left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    if (!learns) continue;
    TW_RETURN_IF_ERROR(model.add(fresh));
    known = model.for_group(group);
  }
  best.resize(std::min(count, best.size()));
  return best;
}

Result<CostModel> taught_by_others(const std::vector<Recording>& recordings, size_t left_out) {
  CostModel model;
  std::vector<Sample> samples;
  for (size_t i = 0; i < recordings.size(); ++i) {
    if (i == left_out) continue;
    for (Sample trial : recordings[i].trials) {
      trial.same_machine =
          recordings[i].target.machine.name == recordings[left_out].target.machine.name;
      samples.push_back(std::move(trial));
    }
  }
  TW_RETURN_IF_ERROR(model.add(samples));
  return model;
}

double Replayed::share(size_t trials) const {
  double sum = 0;
  for (const std::vector<double>& recording : shares)
    sum += std::log(recording[std::min(trials, recording.size()) - 1]);
  return std::exp(sum / static_cast<double>(shares.size()));
}

Result<Replayed> replay(const std::vector<Recording>& recordings, Guide guide, size_t count,
                        const std::vector<uint64_t>& seeds) {
  Replayed replayed;
  for (size_t i = 0; i < recordings.size(); ++i) {
    CostModel teacher;
    if (guide == Guide::Taught) {
      TW_TRY(teacher, taught_by_others(recordings, i));
    }
    std::optional<Recording> changed;
    if (!begins_with_expected_times(guide)) changed = as_the_analytic_model_expects(recordings[i]);
    const Recording& recording = changed ? *changed : recordings[i];
    std::vector<double> logs(std::min(count, recording.trials.size()), 0.0);
    for (const uint64_t seed : seeds) {
      TW_TRY(const auto best, replay_one(recording, guide, teacher, count, seed));
      for (size_t k = 0; k < logs.size(); ++k)
        logs[k] += std::log(best[k] / recording.best) / static_cast<double>(seeds.size());
    }
    for (double& share : logs) share = std::exp(share);
    replayed.shares.push_back(std::move(logs));
  }
  return replayed;
}

}  // namespace tw::tuner
