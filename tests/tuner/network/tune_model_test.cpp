// SPDX-License-Identifier: Apache-2.0
// Tests tuning from the graph of a network to a model that runs. Most tests use Effort::None, with
// which only a refresh measures anything.
#include "tuner/network/tune_model.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/model.h"
#include "tests/tuner/networks.h"
#include "tuner/network/difference.h"
#include "tuner/network/join_models.h"
#include "tuner/network/refresh.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

class TuneModel : public testing::Test {
 protected:
  TuneModel() {
    options_.tuning.effort = Effort::None;
    options_.tuning.budget_s = 20;
    source_.variants.push_back({.graph = two_convolutions()});
  }

  Result<TunedModel> run() {
    return tune_model(source_, host_target(), options_, store_, environment_);
  }

  Folder folder_;
  db::Store store_ = open_store(folder_ / "t.db");
  NetworkSource source_{"pair", {}};
  ModelOptions options_;
  Environment environment_ = test_environment();
};

TEST_F(TuneModel, WithoutAPathTheModelIsAValue) {
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->file.name, "pair");
  EXPECT_EQ(tuned->path, "");
  ASSERT_THAT(tuned->runs, SizeIs(1));
  EXPECT_THAT(tuned->runs[0].source, SizeIs(64));
  ASSERT_THAT(tuned->demands, SizeIs(1));
  EXPECT_EQ(tuned->demands[0].name, "pair");
  EXPECT_TRUE(runtime::Model::load(tuned->file));
}

TEST_F(TuneModel, PlansOnlyBuildsNothing) {
  options_.only_plans = true;
  options_.path = folder_ / "net.twart";
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_FALSE(tuned->runs[0].tuned.plans.empty());
  EXPECT_THAT(tuned->file.variants, SizeIs(0));
  EXPECT_THAT(tuned->demands, SizeIs(0));
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

TEST_F(TuneModel, APathThatCannotBeWrittenIsToldFirst) {
  options_.path = folder_ / "absent/net.twart";
  const auto tuned = run();
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Environment);
  EXPECT_THAT(tuned.error().message, HasSubstr("there is no directory"));
}

TEST_F(TuneModel, TheListenerHearsOfEachVariant) {
  source_.variants.push_back({.dimensions = {{"batch", 2}}, .graph = two_convolutions()});
  std::vector<std::string> heard;
  options_.listen = [&](const ModelRun& run) -> OnProgress {
    heard.push_back(dimensions_text(run.dimensions));
    return {};
  };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(heard, (std::vector<std::string>{"", "batch=2"}));
  EXPECT_THAT(tuned->file.variants, SizeIs(2));
  EXPECT_EQ(tuned->demands.at(1).name, "pair batch=2");
}

TEST_F(TuneModel, OptionsThatContradictEachOtherAreToldFirst) {
  options_.refresh = true;
  EXPECT_EQ(run().error().code, ErrorCode::Usage);
  options_.refresh = false;
  source_.variants.clear();
  EXPECT_EQ(run().error().code, ErrorCode::Usage);
}

TEST_F(TuneModel, ABudgetThatReadingUsesUpLeavesTheNetworkThatIsKnown) {
  options_.tuning.effort = Effort::Normal;
  options_.tuning.budget_s = 1;
  source_.variants[0].reading_s = 5;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->runs[0].tuned.ended, Ended::Budget);
  EXPECT_EQ(tuned->runs[0].tuned.measured, 0u);
  EXPECT_TRUE(runtime::Model::load(tuned->file));
}

TEST_F(TuneModel, AnInterruptLeavesTheNetworkThatIsKnown) {
  std::atomic<int> interrupts = 0, later = 0;
  Notes notes;
  environment_.interrupts = &interrupts;
  environment_.later_interrupts = &later;
  environment_.notes = &notes;
  options_.tuning.effort = Effort::Normal;
  options_.listen = [&](const ModelRun&) -> OnProgress {
    interrupts = 1;
    return {};
  };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->runs[0].tuned.ended, Ended::Interrupted);
  EXPECT_TRUE(runtime::Model::load(tuned->file));
  EXPECT_THAT(notes.all(), Contains(Field(&Note::kind, NoteKind::ClosingEarly)));

  interrupts = 0;
  later = 2;
  const auto stopped = run();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Interrupted);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(TuneModel, AnInterruptBeforeTheFirstMeasurementKeepsTheFile) {
  std::atomic<int> interrupts = 0, later = 0;
  environment_.interrupts = &interrupts;
  environment_.later_interrupts = &later;
  options_.tuning.effort = Effort::Normal;
  options_.path = folder_ / "net.twart";
  options_.listen = [&](const ModelRun&) -> OnProgress {
    interrupts = 1;
    return {};
  };
  // If there is no file, the network is written as it is known so far.
  const auto written = run();
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_FALSE(written->runs[0].has_measured);
  EXPECT_TRUE(runtime::Model::open(options_.path));
  std::ofstream(options_.path) << "a better network";
  interrupts = 0;
  const auto kept = run();
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, ErrorCode::Interrupted);
  EXPECT_THAT(kept.error().message, HasSubstr(options_.path + " stays as it was"));
  EXPECT_EQ(text_of(options_.path), "a better network");
}

TEST_F(TuneModel, AnInterruptAfterTheFirstMeasurementReplacesTheFile) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  std::atomic<int> interrupts = 0, later = 0;
  environment_.interrupts = &interrupts;
  environment_.later_interrupts = &later;
  options_.tuning.effort = Effort::Normal;
  options_.tuning.budget_s = 600;  // the interrupt comes much earlier
  options_.path = folder_ / "net.twart";
  std::ofstream(options_.path) << "an older network";
  options_.listen = [&](const ModelRun&) -> OnProgress {
    return [&](const Progress& progress) {
      if (progress.trials.contains("ok")) interrupts = 1;
    };
  };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_TRUE(tuned->runs[0].has_measured);
  EXPECT_TRUE(runtime::Model::open(options_.path));
}

TEST_F(TuneModel, ANetworkThatCannotBeAssembledIsToldFirst) {
  source_.variants[0].graph = graph::recurrence(3);
  options_.only_plans = true;
  options_.runs_here = false;
  bool is_planned = false;
  options_.listen = [&](const ModelRun&) -> OnProgress {
    is_planned = true;
    return {};
  };
  const auto tuned =
      tune_model(source_, parse_target("cuda:sm_90a").value(), options_, store_, environment_);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(tuned.error().message, HasSubstr("slices of 24 bytes"));
  EXPECT_FALSE(is_planned);
}

TEST_F(TuneModel, ARefreshKeepsTheSameNetwork) {
  std::atomic<int64_t> readings = 0;
  environment_.clock = [&readings, clock = environment_.clock] {
    ++readings;
    return clock();
  };
  options_.path = folder_ / "net.twart";
  options_.refresh = true;
  options_.tuning.budget_s = 0.001;
  const auto first = run();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->refresh);
  const int64_t without_race = readings.exchange(0);
  const auto again = run();
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(again->refresh);
  EXPECT_TRUE(again->refresh->is_kept);
  EXPECT_EQ(again->refresh->reason, "it is the same network");
  EXPECT_TRUE(again->refresh->is_measured);
  EXPECT_GT(again->refresh->former_ns, 0);
  EXPECT_EQ(again->refresh->former_ns, again->refresh->latency_ns);
  // Planning uses up the budget. The network is called many times all the same.
  EXPECT_GE(readings - without_race, 100);
}

/// Returns two 1 x 1 convolutions of x that are concatenated, and the mean of an elementwise
/// result. The passes merge_siblings and fuse_prologues change this graph.
graph::Graph siblings_and_mean(int64_t batch) {
  const std::vector<int64_t> image = {batch, 8, 4, 4};
  const std::string size = "n=" + std::to_string(batch);
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, image}}};
  graph.constants = {{"v", weights_of({8, 8, 1, 1}, 1, 8)}, {"w", weights_of({8, 8, 1, 1}, 2, 8)}};
  const std::string conv = "conv2d " + size + " c=8 h=4 w=4 k=8 r=1 s=1 f32 fast";
  graph.operators = {
      graph::named(conv, {"x", "v"}, "a"), graph::named(conv, {"x", "w"}, "b"),
      joined({"a", "b"}, {image, image}, 1, "y"),
      graph::from_text("input a: f32[" + std::to_string(batch) + ", 8, 4, 4]\nout: f32[n=" +
                           std::to_string(batch) + ", c=8, h=4, w=4] = max(a[n, c, h, w], 0.0)",
                       {"x"}, {"r"}),
      graph::named("global_avg_pool " + size + " c=8 h=4 w=4 f32 fast", {"r"}, "mean")};
  graph.outputs = {"y", "mean"};
  return graph;
}

TEST_F(TuneModel, ARefreshLeavesOutThePassesThatEachVariantDoesWithout) {
  const std::vector<std::vector<std::string>> left_out = {{"fuse_prologues"},
                                                          {"fuse_prologues", "merge_siblings"}};
  NetworkSource both{"pair", {}};
  std::vector<runtime::ModelFile> files;
  for (size_t i = 0; i < left_out.size(); ++i) {
    const int64_t batch = static_cast<int64_t>(i) + 1;
    source_.variants[0] = {.dimensions = {{"batch", batch}}, .graph = siblings_and_mean(batch)};
    both.variants.push_back(source_.variants[0]);
    options_.left_out = left_out[i];
    const auto tuned = run();
    ASSERT_TRUE(tuned) << tuned.error().message;
    files.push_back(tuned->file);
  }
  options_.path = folder_ / "net.twart";
  const std::vector<const runtime::ModelFile*> models = {&files[0], &files[1]};
  ASSERT_TRUE(runtime::write_model(options_.path, join_models(models)));
  source_ = both;
  options_.left_out = {};
  options_.refresh = true;
  const auto refreshed = run();
  ASSERT_TRUE(refreshed) << refreshed.error().message;
  for (size_t i = 0; i < left_out.size(); ++i)
    EXPECT_THAT(refreshed->runs[i].left_out, UnorderedElementsAreArray(left_out[i]));
}

TEST_F(TuneModel, ARefreshComparesWithTheFile) {
  options_.path = folder_ / "net.twart";
  const auto first = run();
  ASSERT_TRUE(first) << first.error().message;
  runtime::ModelFile former = first->file;
  former.variants[0].steps[0].predicted_ns += 1;
  ASSERT_TRUE(runtime::write_model(options_.path, former));
  options_.refresh = true;
  const auto again = run();
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(again->refresh);
  EXPECT_TRUE(again->refresh->is_measured);
  EXPECT_GT(again->refresh->former_ns, 0);
  EXPECT_EQ(again->refresh->reason, "");
  EXPECT_THAT(again->demands, SizeIs(again->refresh->is_kept ? 0 : 1));

  options_.tuning.threads = 2;
  const auto for_two = run();
  ASSERT_FALSE(for_two);
  EXPECT_EQ(for_two.error().code, ErrorCode::Invalid);
  EXPECT_THAT(for_two.error().message, HasSubstr("is for 1 thread: give --threads 1"));

  options_.tuning.threads = 1;
  source_.variants[0].graph.constants["w1"] =
      graph::make_constant(graph::normal_array({32, 32, 3, 3}, 3));
  const auto other = run();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::Invalid);
  EXPECT_THAT(other.error().message, HasSubstr("holds another network than pair"));
  EXPECT_TRUE(runtime::read_model(options_.path));
}

runtime::ModelFile two_variants() {
  runtime::ModelFile model;
  model.variants.resize(2);
  for (runtime::ModelVariant& variant : model.variants) {
    variant.plan = std::to_string(&variant - model.variants.data());
    variant.steps.push_back({"a", 0, {}, 1, 100});
  }
  return model;
}

TEST(Refresh, ReplacesWhatIsClearlySlower) {
  const auto keeps = [](double former_ns, double latency_ns) {
    Refresh refresh{former_ns, latency_ns};
    decide(refresh);
    return refresh.is_kept;
  };
  EXPECT_FALSE(keeps(100, 98));
  EXPECT_TRUE(keeps(100, 99.5));
  EXPECT_TRUE(keeps(100, 100));
  EXPECT_TRUE(keeps(100, 120));
}

TEST(Refresh, VariantsAreComparedOneByOne) {
  const runtime::ModelFile model = two_variants();
  const runtime::ModelFile second = only_variant(model, 1);
  ASSERT_EQ(second.variants.size(), 1u);
  EXPECT_EQ(second.variants[0].plan, "1");
  EXPECT_EQ(planned_ns(second), planned_ns(model) / 2);
}

TEST(Refresh, AFileThatIsNotThereIsNoFormerNetwork) {
  EXPECT_FALSE(former_model("/there/is/no/such.twart").value().has_value());
}

}  // namespace
}  // namespace tw::tuner
