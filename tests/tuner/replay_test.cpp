// SPDX-License-Identifier: Apache-2.0
// The cost model as a search uses it, on recorded trials: 240 uniform samples each of the spaces of
// ResNet-50 layers, measured on one thread of an AVX-512 machine (x86-64, one 512-bit multiply-add
// a cycle). A replayed search picks among the recorded trials only, so its result needs no machine
// and no clock.
//
// data/replay.jsonl: a line {"workload", "target"} begins a layer; its trials follow, one a line,
// {"ns": latency, "tw1": steps}, with "hopeless" latencies from the samples before they were
// dropped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/random.h"
#include "cost_model/cost_model.h"
#include "cost_model/quality.h"
#include "schedules/schedule.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using cost_model::CostModel;
using cost_model::Sample;

struct Layer {
  std::string workload;
  std::vector<Sample> trials;  ///< throughput in 1 / ns
  double best = 0;
};

std::vector<Layer> read_layers() {
  std::ifstream file(TW_REPLAY_DATA);
  std::vector<Layer> layers;
  std::optional<dsl::Workload> workload;
  Target target;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("workload")) {
      workload = workload_of(json["workload"].get<std::string>());
      target = parse_target(json["target"].get<std::string>()).value();
      layers.push_back({workload->key(), {}, 0});
      continue;
    }
    const auto schedule =
        schedules::parse_schedule(workload->compute, "tw1\n" + json["tw1"].get<std::string>());
    const auto program = schedule ? schedule->program() : tl::unexpected<Error>(schedule.error());
    if (!program) throw std::runtime_error(program.error().message);
    Sample sample;
    sample.features = cost_model::extract_features(*program, target, 1).value();
    sample.throughput = 1 / json["ns"].get<double>();
    sample.group = layers.size();
    layers.back().trials.push_back(std::move(sample));
    layers.back().best = std::max(layers.back().best, layers.back().trials.back().throughput);
  }
  return layers;
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> read = read_layers();
  if (read.empty()) throw std::runtime_error("no trials in " TW_REPLAY_DATA);
  return read;
}

double best_of_random(const Layer& layer, size_t count, Random& random) {
  std::vector<size_t> order(layer.trials.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  random.shuffle(order);
  double best = 0;
  for (size_t i = 0; i < std::min(count, order.size()); ++i)
    best = std::max(best, layer.trials[order[i]].throughput);
  return best;
}

/// The best throughput after each number of trials, the model asked for eight at a time and, where
/// it `learns`, told of the outcome at every doubling. Ties of the score fall by the seed.
std::vector<double> guided(const Layer& layer, CostModel& model, bool learns, size_t count,
                           Random& random) {
  std::vector<const Sample*> left;
  for (const Sample& trial : layer.trials) left.push_back(&trial);
  random.shuffle(left);
  std::vector<double> best;
  std::vector<Sample> fresh;
  size_t due = 8;
  while (best.size() < count && !left.empty()) {
    std::vector<std::vector<float>> rows;
    for (const Sample* trial : left) rows.push_back(trial->features);
    const std::vector<double> scores = model.predict(rows);
    std::vector<size_t> order(left.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min<size_t>(8, order.size()));
    for (const size_t i : order) {
      fresh.push_back(*left[i]);
      best.push_back(std::max(best.empty() ? 0 : best.back(), left[i]->throughput));
    }
    std::sort(order.rbegin(), order.rend());
    for (const size_t i : order) left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    if (!learns || best.size() < due) continue;
    due *= 2;
    EXPECT_TRUE(model.update(fresh));
    fresh.clear();
  }
  return best;
}

double draft_spearman(const Layer& layer) {
  std::vector<double> scores, throughputs;
  for (const Sample& trial : layer.trials) {
    scores.push_back(-cost_model::draft_of(trial.features));
    throughputs.push_back(trial.throughput);
  }
  return cost_model::spearman(scores, throughputs).value_or(0);
}

CostModel taught_by_others(size_t left_out) {
  CostModel model;
  std::vector<Sample> samples;
  for (size_t i = 0; i < layers().size(); ++i)
    if (i != left_out)
      samples.insert(samples.end(), layers()[i].trials.begin(), layers()[i].trials.end());
  EXPECT_TRUE(model.update(samples));
  return model;
}

/// Geometric means over layers and five seeds: the best after so many guided trials over that of 64
/// random ones. Taught: by the trials of the other layers, and by nothing else.
std::vector<double> ratios_to_random(bool taught, const std::vector<size_t>& trials) {
  constexpr uint64_t seeds = 5;
  std::vector<double> logs(trials.size(), 0.0);
  for (size_t i = 0; i < layers().size(); ++i) {
    CostModel teacher = taught ? taught_by_others(i) : CostModel();
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      Random random(seed);
      const double baseline = best_of_random(layers()[i], 64, random);
      CostModel pupil;
      const auto best =
          guided(layers()[i], taught ? teacher : pupil, !taught, trials.back(), random);
      for (size_t k = 0; k < trials.size(); ++k)
        logs[k] += std::log(best[trials[k] - 1] / baseline);
    }
  }
  for (size_t k = 0; k < trials.size(); ++k) {
    logs[k] = std::exp(logs[k] / static_cast<double>(seeds * layers().size()));
    fmt::print("[  ratio   ] {:.4f} of the best of 64 random trials after {} guided ones\n",
               logs[k], trials[k]);
  }
  return logs;
}

TEST(Replay, TheDraftModelOrdersTrials) {
  double sum = 0;
  for (const Layer& layer : layers()) {
    const double correlation = draft_spearman(layer);
    sum += correlation;
    fmt::print("[  draft   ] {:.2f} {} ({} trials)\n", correlation, layer.workload,
               layer.trials.size());
  }
  const double mean = sum / static_cast<double>(layers().size());
  fmt::print("[  draft   ] {:.3f} mean rank correlation\n", mean);
  EXPECT_GE(mean, 0.5);
}

TEST(Replay, EightGuidedTrialsAgainstSixtyFourRandomOnes) {
  const auto ratios = ratios_to_random(false, {1, 8, 16, 32});
  EXPECT_GE(ratios[1], 0.998);
  EXPECT_GE(ratios[3], ratios[1]);
}

TEST(Replay, AModelThatKnowsOtherLayersPicksWellAtOnce) {
  const auto ratios = ratios_to_random(true, {1, 8});
  EXPECT_GE(ratios[1], 0.998);
}

}  // namespace
}  // namespace tw::tuner
