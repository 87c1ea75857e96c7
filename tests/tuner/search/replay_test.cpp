// SPDX-License-Identifier: Apache-2.0
// Tests the cost model as a search uses it, on recorded trials. These are 240 uniform samples of
// each space of a ResNet-50 layer, measured on one thread of an AVX-512 machine (x86-64, one
// 512-bit multiply-add a cycle). The latency of a "hopeless" trial is from the samples before it
// was dropped.
#include "tuner/search/replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cost_model/features.h"
#include "cost_model/spearman.h"
#include "schedules/space/space.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using cost_model::CostModel;
using cost_model::Sample;

std::vector<Recording> recordings_of(const std::string& path) {
  std::ifstream file(path);
  auto parsed = read_recordings(file);
  if (!parsed) throw std::runtime_error(parsed.error().message + " of " + path);
  return std::move(*parsed);
}

const std::vector<Recording>& recordings() {
  static const std::vector<Recording> read = recordings_of(TW_REPLAY_DATA);
  return read;
}

/// Returns the rank correlation between the order of the trials by the analytic model and the
/// measured order.
double analytic_spearman(const Recording& recording) {
  std::vector<double> scores, throughputs;
  for (const Sample& trial : recording.trials) {
    scores.push_back(-cost_model::analytic_time_of(trial.features));
    throughputs.push_back(trial.throughput);
  }
  return cost_model::spearman(scores, throughputs).value_or(0);
}

/// Returns the best throughput after each of these numbers of guided trials, divided by that after
/// 64 random trials: geometric means over recordings and five seeds. If `taught`, the model has
/// learned from the trials of the other layers and learns nothing else. Otherwise it learns from
/// its own trials.
std::vector<double> ratios_to_random(bool taught, const std::vector<size_t>& trials) {
  constexpr uint64_t seeds = 5;
  std::vector<double> logs(trials.size(), 0.0);
  for (size_t i = 0; i < recordings().size(); ++i) {
    const CostModel teacher = taught ? taught_by_others(recordings(), i).value() : CostModel();
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      Random random(seed);
      const double baseline = replay_random(recordings()[i], 64, random).back();
      const auto best =
          replay_guided(recordings()[i], teacher, !taught, trials.back(), random).value();
      for (size_t k = 0; k < trials.size(); ++k)
        logs[k] += std::log(best[trials[k] - 1] / baseline);
    }
  }
  for (size_t k = 0; k < trials.size(); ++k) {
    logs[k] = std::exp(logs[k] / static_cast<double>(seeds * recordings().size()));
    fmt::print("[  ratio   ] {:.4f} of the best of 64 random trials after {} guided ones\n",
               logs[k], trials[k]);
  }
  return logs;
}

TEST(Replay, TheAnalyticModelOrdersTrials) {
  double sum = 0;
  for (const Recording& recording : recordings()) {
    const double correlation = analytic_spearman(recording);
    sum += correlation;
    fmt::print("[ analytic ] {:.2f} {} ({} trials)\n", correlation, recording.workload,
               recording.trials.size());
  }
  const double mean = sum / static_cast<double>(recordings().size());
  fmt::print("[ analytic ] {:.3f} mean rank correlation\n", mean);
  EXPECT_GE(mean, 0.82);
}

// 184 to 200 samples of each of eight layers, on an AVX2 machine with 16 registers. Nothing in the
// model is fitted to these trials; only their machine says that it is a Zen 3.
TEST(Replay, TheAnalyticModelOrdersTrialsOfASecondMachine) {
  const std::vector<Recording> zen3 = recordings_of(TW_REPLAY_ZEN3);
  ASSERT_EQ(zen3.size(), 8u);
  double sum = 0;
  for (const Recording& recording : zen3) sum += analytic_spearman(recording) / 8;
  const Replayed analytic = replay(zen3, Guide::Analytic, 64, {1, 2, 3, 4, 5}).value();
  fmt::print(
      "[ analytic ] {:.3f} mean rank correlation; of the best after 1, 2, 4, 8 trials: {:.3f} "
      "{:.3f} {:.3f} {:.3f}\n",
      sum, analytic.share(1), analytic.share(2), analytic.share(4), analytic.share(8));
  EXPECT_GE(sum, 0.82);
  EXPECT_GE(analytic.share(1), 0.87);
  EXPECT_GE(analytic.share(4), 0.93);
  EXPECT_GE(analytic.share(8), 0.97);
}

/// Returns the recordings with the corrections of the pretrained model shuffled among the trials of
/// each recording.
std::vector<Recording> with_shuffled_corrections(std::vector<Recording> recordings) {
  Random random(1);
  for (Recording& recording : recordings) {
    std::vector<double> corrections;
    for (const Sample& trial : recording.trials)
      corrections.push_back(cost_model::expected_time_of(trial.features) -
                            cost_model::analytic_time_of(trial.features));
    random.shuffle(corrections);
    for (size_t i = 0; i < corrections.size(); ++i) {
      std::vector<float>& row = recording.trials[i].features;
      cost_model::set_expected_time(
          row, static_cast<float>(cost_model::analytic_time_of(row) + corrections[i]));
    }
  }
  return recordings;
}

/// Means over recordings: the rank correlation of predicted and measured times, and the factor
/// between them (geometric mean).
struct Judged {
  double correlation = 0, factor = 1;
};

Judged judged(const std::vector<Recording>& recordings,
              double (*log2_time)(std::span<const float> features)) {
  const auto count = static_cast<double>(recordings.size());
  double correlation = 0, off = 0;
  for (const Recording& recording : recordings) {
    std::vector<double> times, measured;
    for (const Sample& trial : recording.trials) {
      times.push_back(log2_time(trial.features));
      measured.push_back(-std::log2(trial.throughput));
      off += std::abs(times.back() - measured.back()) /
             (static_cast<double>(recording.trials.size()) * count);
    }
    correlation += cost_model::spearman(times, measured).value_or(0) / count;
  }
  return {correlation, std::exp2(off)};
}

// The trials are of random workloads that no corpus of the pretrained model has, on a machine that
// one corpus is from. Each correction must suit its trial: shuffled corrections are worse. Within a
// workload, the order is no better than that of the analytic model; only the times are.
TEST(Replay, ThePretrainedModelIsRightAboutWorkloadsThatItHasNotSeen) {
  const std::vector<Recording> unseen = recordings_of(TW_REPLAY_UNSEEN);
  ASSERT_GE(unseen.size(), 30u);
  const Judged analytic = judged(unseen, cost_model::analytic_time_of),
               pretrained = judged(unseen, cost_model::expected_time_of),
               shuffled = judged(with_shuffled_corrections(unseen), cost_model::expected_time_of);
  fmt::print(
      "[pretrained] rank correlation {:.3f}, analytic {:.3f}, shuffled {:.3f}; times off by "
      "{:.3f}, analytic {:.3f}, shuffled {:.3f}\n",
      pretrained.correlation, analytic.correlation, shuffled.correlation, pretrained.factor,
      analytic.factor, shuffled.factor);
  EXPECT_GT(pretrained.correlation, shuffled.correlation);
  EXPECT_LT(pretrained.factor, 1.22);
  EXPECT_LT(pretrained.factor, 1 + 0.8 * (analytic.factor - 1));
  EXPECT_LT(pretrained.factor, shuffled.factor);
}

/// Returns the recordings of a Zen 3 as if they were of a Neoverse N1, i.e. of a machine of which
/// next to nothing is known.
std::vector<Recording> of_a_wrong_machine(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  for (std::string line; std::getline(file, line);) {
    if (const size_t name = line.find("Zen 3"); name != std::string::npos)
      line.replace(name, 5, "Neoverse N1");
    text << line << '\n';
  }
  return read_recordings(text).value();
}

/// Returns the mean over the recordings of the rank correlation between scores and throughputs. The
/// model learns the first `known` trials of a recording and scores all trials but the first `rest`.
/// Recordings with fewer than five trials to be ranked are left out.
double correlation_of_rest(const std::vector<Recording>& recordings, size_t known, size_t rest) {
  double sum = 0, count = 0;
  for (const Recording& recording : recordings) {
    const std::span<const Sample> trials = recording.trials;
    if (trials.size() < rest + 5) continue;
    ++count;
    CostModel model;
    EXPECT_TRUE(model.add(trials.first(known)));
    std::vector<std::vector<float>> rows;
    std::vector<double> throughputs;
    for (const Sample& trial : trials.subspan(rest)) {
      rows.push_back(trial.features);
      throughputs.push_back(trial.throughput);
    }
    const auto scores = model.for_group(trials.front().group).predict(rows);
    sum += cost_model::spearman(scores, throughputs).value_or(0);
  }
  return sum / count;
}

TEST(Replay, TrialsCorrectWhatTheModelExpectsAndMendAWrongMachine) {
  struct Case {
    std::string name;
    std::vector<Recording> recordings;
    size_t few, many;                    ///< numbers of trials
    double least_by_few, least_by_many;  ///< gains of the rank correlation
  };
  for (const Case& c :
       {Case{"random workloads", recordings_of(TW_REPLAY_UNSEEN), 8, 8, 0.01, 0.01},
        Case{"Zen 4", recordings(), 16, 64, -0.002, 0.01},
        Case{"Zen 3", recordings_of(TW_REPLAY_ZEN3), 16, 64, 0, 0.015},
        Case{"Zen 3 described as another", of_a_wrong_machine(TW_REPLAY_ZEN3), 16, 64, 0, 0.03}}) {
    const double before = correlation_of_rest(c.recordings, 0, c.many),
                 few = correlation_of_rest(c.recordings, c.few, c.many),
                 many = correlation_of_rest(c.recordings, c.many, c.many);
    fmt::print(
        "[ corrected] {}: rank correlation {:.3f}, after {} trials {:.3f}, after {} {:.3f}\n",
        c.name, before, c.few, few, c.many, many);
    EXPECT_GT(few, before + c.least_by_few) << c.name;
    EXPECT_GT(many, before + c.least_by_many) << c.name;
  }
}

// The picks of a replay are good before the model has learned anything. Learning must not spoil
// them.
TEST(Replay, CorrectedPicksAreNoWorse) {
  struct Case {
    std::string name;
    std::vector<Recording> recordings;
  };
  for (const Case& c : {Case{"Zen 4", recordings()}, Case{"Zen 3", recordings_of(TW_REPLAY_ZEN3)},
                        Case{"Zen 3 described as another", of_a_wrong_machine(TW_REPLAY_ZEN3)}}) {
    const Replayed analytic = replay(c.recordings, Guide::Analytic, 64, {1, 2}).value(),
                   learned = replay(c.recordings, Guide::Learned, 64, {1, 2}).value();
    for (const size_t trials : {8, 16, 32, 64})
      fmt::print("[  learned ] {}, after {}: {:.4f}, analytic {:.4f}\n", c.name, trials,
                 learned.share(trials), analytic.share(trials));
    EXPECT_EQ(learned.share(8), analytic.share(8)) << "nothing is measured before";
    EXPECT_GE(learned.share(16), analytic.share(16) - 0.003) << c.name;
    EXPECT_GE(learned.share(32), analytic.share(32) - 0.003) << c.name;
  }
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

TEST(Replay, GuidesRepeatWithTheirSeedAndTheAnalyticModelLeadsChance) {
  const std::vector<Recording> two(recordings().begin(), recordings().begin() + 2);
  const auto chance = replay(two, Guide::Random, 16, {1, 2}).value();
  EXPECT_EQ(chance.shares, replay(two, Guide::Random, 16, {1, 2}).value().shares);
  EXPECT_NE(chance.shares, replay(two, Guide::Random, 16, {3, 4}).value().shares);
  const auto analytic = replay(two, Guide::Analytic, 16, {1, 2}).value();
  EXPECT_GT(analytic.share(8), chance.share(8));
  for (const auto& shares : {chance.shares, analytic.shares})
    for (const std::vector<double>& curve : shares) {
      ASSERT_EQ(curve.size(), 16u);
      EXPECT_TRUE(std::is_sorted(curve.begin(), curve.end()));
      EXPECT_LE(curve.back(), 1);
    }
}

TEST(Replay, AllTrialsFindTheBest) {
  const std::vector<Recording> one(recordings().begin(), recordings().begin() + 1);
  for (const Guide guide : {Guide::Random, Guide::Analytic})
    EXPECT_EQ(replay(one, guide, 1000, {1}).value().share(1000), 1) << to_string(guide);
}

db::Record trial(const std::string& schedule, db::TrialStatus status, double latency_ns) {
  db::Record record;
  record.schedule = schedule;
  record.status = status;
  record.latency_ns = latency_ns;
  return record;
}

TEST(Replay, ReadsWhatItWrote) {
  const dsl::Workload workload = workload_of("dense m=32 n=32 k=32 f32 fast");
  const Target target = host_target();
  const auto space = schedules::Space::derive(workload.compute, target);
  const std::string tiled = space.schedule(space.default_point()).to_string(),
                    plain = schedules::Schedule(workload.compute).to_string();
  std::stringstream text;
  write_recording(
      text, "dense_3", workload, target, 1,
      std::vector{trial(tiled, db::TrialStatus::Ok, 1000), trial(tiled, db::TrialStatus::Ok, 1100),
                  trial(plain, db::TrialStatus::Hopeless, 4000),
                  trial(plain + "unroll c m\n", db::TrialStatus::Wrong, 900)});
  const auto read = read_recordings(text);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 1u);
  const Recording& recording = read->front();
  EXPECT_EQ(recording.name, "dense_3");
  EXPECT_EQ(recording.workload, workload.text());
  EXPECT_EQ(recording.target.machine, target.machine);
  ASSERT_EQ(recording.trials.size(), 2u) << "each schedule once, and failed ones not at all";
  EXPECT_DOUBLE_EQ(recording.trials[1].throughput, 1 / 4000.0);
  EXPECT_DOUBLE_EQ(recording.best, 1 / 1000.0);
}

TEST(Replay, FeaturesAreOfTheStateOfTheCaches) {
  const auto features = [](const std::string& state) {
    const dsl::Workload workload = workload_of("dense m=64 n=512 k=512 f32 fast" + state);
    std::stringstream text;
    write_recording(text, "", workload, host_target(), 1,
                    std::vector{trial("tw1\n", db::TrialStatus::Ok, 1000)});
    return read_recordings(text).value().front().trials.front().features;
  };
  EXPECT_NE(features(""), features(" {network:memory}"));
}

TEST(Replay, FeaturesAreOfTheMachineThatIsNamed) {
  const auto features = [](const std::string& machine) {
    std::istringstream in(R"({"workload": "dense m=4 n=4 k=4 f32 fast", "target": "x86-64-v3")" +
                          machine + "}\n" + R"({"ns": 1, "tw1": ""})");
    return read_recordings(in).value().front().trials.front().features;
  };
  const std::string calibrated =
      nlohmann::json(to_string(machine_by_name("Zen 2", {32, 16}).value())).dump();
  EXPECT_NE(features(""), features(R"(, "machine": "Zen 2")"));
  EXPECT_EQ(features(R"(, "machine": "Zen 2")"), features(R"(, "machine": )" + calibrated));
}

TEST(Replay, BadLinesAreNamed) {
  const std::string heading =
      R"({"workload": "dense m=4 n=4 k=4 f32 fast", "target": "x86-64-linux"})";
  const std::map<std::string, std::string> bad = {
      {"", "no recorded trials"},
      {heading, "no recorded trials"},
      {R"({"ns": 1, "tw1": ""})", "line 1: a trial without a workload"},
      {"{", "line 1"},
      {R"({"workload": "dense m=4 n=4 k=4 f32 fast", "target": "x86-64-linux", "machine": "Zen"})",
       "line 1: [machine] 'Zen' is no microarchitecture"},
      {R"({"workload": "dense m=4 n=4 k=4 f32 fast", "target": "opencl", "machine": "Zen 4"})",
       "line 1: [machine] "},
      {heading + "\n" + R"({"ns": 0, "tw1": ""})", "line 2: a latency of 0"},
      {heading + "\n" + R"({"ns": 1, "tw1": "fly away"})", "line 2"},
      {heading + "\n" + R"({"ns": 1})", "line 2"}};
  for (const auto& [text, message] : bad) {
    std::istringstream in(text);
    const auto read = read_recordings(in);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::Invalid);
    EXPECT_NE(read.error().message.find(message), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace tw::tuner
