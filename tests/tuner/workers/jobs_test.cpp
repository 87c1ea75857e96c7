// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/jobs.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace tw::tuner {
namespace {

template <typename T>
T round_trip(const T& job) {
  const auto decoded = decode_job(encode(Job(job)));
  EXPECT_TRUE(decoded) << decoded.error().message;
  return std::get<T>(*decoded);
}

TEST(Jobs, SurviveTheWay) {
  const std::vector<KernelSource> kernels = {
      {"dense m=1", "tw1"}, {"dense m=1", "tw1\nsplit c m 4"}, {"", ""}};
  const BuildJob build = round_trip(BuildJob{"x86-64", kernels, true, "opencl"});
  EXPECT_EQ(build.target, "x86-64");
  EXPECT_EQ(build.kernels, kernels);
  EXPECT_TRUE(build.packs);
  EXPECT_EQ(build.otherwise, "opencl");
  const MeasureJob measure = round_trip(
      MeasureJob{.artifact = "a b", .incumbent_ns = 1.5, .incumbent = "q", .verify_only = true});
  EXPECT_EQ(measure.artifact, "a b");
  EXPECT_EQ(measure.incumbent_ns, 1.5);
  EXPECT_EQ(measure.incumbent, "q");
  EXPECT_TRUE(measure.verify_only);
  EXPECT_EQ(round_trip(CompareJob{"a", "b", 5}).rounds, 5);
  EXPECT_EQ(round_trip(PeakJob{2}).threads, 2);
  (void)round_trip(DescribeJob{});
  const CalibrateJob calibrate = round_trip(CalibrateJob{"x86-64-linux", "name x\ncores 2\n", 5});
  EXPECT_EQ(calibrate.target, "x86-64-linux");
  EXPECT_EQ(calibrate.machine, "name x\ncores 2\n");
  EXPECT_EQ(calibrate.budget_ns, 5);
}

TEST(Jobs, RepliesSurviveTheWay) {
  MeasureReply reply;
  const MeasureReply sent{db::TrialStatus::Ok, "", {1.25, 3}, 2, 1, 3, 1e-7, 0.01};
  ASSERT_TRUE(decode(encode(sent), reply));
  EXPECT_EQ(reply.samples_ns, sent.samples_ns);
  EXPECT_EQ(reply.verified_error, 1e-7);
  const MeasureReply alone{.incumbent_fault = "why", .faulty_incumbent = "q"};
  ASSERT_TRUE(decode(encode(alone), reply));
  EXPECT_EQ(reply.incumbent_fault, "why");
  EXPECT_EQ(reply.faulty_incumbent, "q");
  MeasureReply infinite{.verified_error = std::numeric_limits<double>::infinity()};
  ASSERT_TRUE(decode(encode(infinite), reply));
  EXPECT_EQ(reply.verified_error, infinite.verified_error);
  CompareReply compared;
  ASSERT_TRUE(decode(encode(CompareReply{.winner = Winner::B}), compared));
  EXPECT_EQ(compared.winner, Winner::B);
  DescribeReply described;
  ASSERT_TRUE(decode(encode(DescribeReply{"", "GPU", 132, 1 << 20, int64_t{1} << 40}), described));
  EXPECT_EQ(described.name, "GPU");
  EXPECT_EQ(described.memory_bytes, int64_t{1} << 40);
  CalibrateReply calibrated;
  ASSERT_TRUE(decode(encode(CalibrateReply{.machine = "name x\n"}), calibrated));
  EXPECT_EQ(calibrated.machine, "name x\n");
  EXPECT_FALSE(decode(encode(CalibrateReply{}), described));
  BuildReply built;
  ASSERT_TRUE(
      decode(encode(BuildReply{{{.artifact = "x", .status = db::TrialStatus::Ok, .build_s = 0.5},
                                {"", db::TrialStatus::Illegal, "why", true}},
                               1,
                               "nvrtc-13.0"}),
             built));
  EXPECT_EQ(built.outcomes.size(), 2u);
  EXPECT_EQ(built.outcomes[0].status, db::TrialStatus::Ok);
  EXPECT_EQ(built.outcomes[0].build_s, 0.5);
  EXPECT_EQ(built.outcomes[1].status, db::TrialStatus::Illegal);
  EXPECT_TRUE(built.outcomes[1].installation);
  EXPECT_EQ(built.toolchain, "nvrtc-13.0");
}

TEST(Jobs, WordsOfAWorkerThatAreNoneAreRefused) {
  MeasureReply measured;
  BuildReply built;
  EXPECT_FALSE(decode("", measured));
  EXPECT_FALSE(decode("garbage", measured));
  EXPECT_FALSE(decode(encode(BuildReply{}), measured));
  EXPECT_FALSE(decode(encode(MeasureReply{}), built));
  EXPECT_FALSE(decode_job(encode(MeasureReply{})));
  EXPECT_FALSE(decode_job(""));
}

TEST(Jobs, EveryStatusSurvivesTheWayAndNoOtherTextIsOne) {
  for (int i = 0;
       const auto status = db::parse_trial_status(db::to_string(static_cast<db::TrialStatus>(i)));
       ++i) {
    MeasureReply reply;
    ASSERT_TRUE(decode(encode(MeasureReply{*status, "why"}), reply));
    EXPECT_EQ(reply.status, *status);
    if (*status == db::TrialStatus::Duplicate) break;
  }
  std::string bytes = encode(MeasureReply{db::TrialStatus::Hopeless, "why"});
  const size_t at = bytes.find("hopeless");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'H';
  MeasureReply reply;
  EXPECT_FALSE(decode(bytes, reply));
}

TEST(Jobs, NoBytesBreakTheReader) {
  Random random(1);
  const std::string whole =
      encode(MeasureReply{db::TrialStatus::Ok, "because", {1, 2, 3}, 2, 1, 3, 0, 0});
  for (int i = 0; i < 20000; ++i) {
    std::string bytes =
        whole.substr(0, static_cast<size_t>(random.below(static_cast<int64_t>(whole.size()) + 1)));
    for (int k = 0; k < 3 && !bytes.empty(); ++k)
      bytes[static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())))] =
          static_cast<char>(random.below(256));
    MeasureReply reply;
    (void)decode(bytes, reply);  // returns a result or an error and does not crash
    (void)decode_job(bytes);
  }
}

}  // namespace
}  // namespace tw::tuner
