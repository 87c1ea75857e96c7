// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/farm_jobs.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "codegen/abi.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

using testing::HasSubstr;

FarmJob example() {
  FarmJob job{.target = "x86-64-linux-avx2-fma",
              .processor = "x86-64-linux-avx2",
              .threads = 2,
              .timeout_s = 2.5,
              .is_reference = true};
  job.prepared = {"dense m=1", "reference", 2, true};
  job.kernels = {std::string("\0\xff\x80 bytes", 9), ""};
  job.job = MeasureJob{.artifact = "a", .incumbent_ns = 3, .incumbent = "b", .patience_s = 0.5};
  return job;
}

TEST(FarmJobs, ComeBackAsTheyWent) {
  const FarmJob job = example();
  const auto read = decode_farm_job(encode(job));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->target, job.target);
  EXPECT_EQ(read->processor, job.processor);
  EXPECT_EQ(read->threads, 2);
  EXPECT_EQ(read->timeout_s, 2.5);
  EXPECT_TRUE(read->is_reference);
  EXPECT_EQ(read->prepared, job.prepared);
  EXPECT_EQ(read->kernels, job.kernels);
  ASSERT_TRUE(std::holds_alternative<MeasureJob>(read->job));
  EXPECT_EQ(std::get<MeasureJob>(read->job).incumbent, "b");
}

TEST(FarmJobs, RepliesCarryBytesOrTheirError) {
  const FarmReply full{.reply = std::string("\0\xfe", 2), .kernels = {"k"}, .host = "h"};
  const auto read = decode_farm_reply(encode(full));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->reply, full.reply);
  EXPECT_EQ(read->kernels, full.kernels);
  EXPECT_EQ(read->host, "h");
  EXPECT_FALSE(read->error);
  const auto failed =
      decode_farm_reply(encode(FarmReply{.error = Error{ErrorCode::TryLater, "no"}}));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, (Error{ErrorCode::TryLater, "no"}));
}

TEST(FarmJobs, ADescribedDeviceIsTheSameDevice) {
  Target target = host_target();
  target.device = "another machine; 4 cores";
  const auto description = decode_farm_description(encode(describe(target, "9.9")));
  ASSERT_TRUE(description) << description.error().message;
  const auto there = described_target(*description);
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(there->to_string(), target.to_string());
  EXPECT_EQ(device_text(*there), device_text(target));
  EXPECT_EQ(to_string(there->machine), to_string(target.machine));
  EXPECT_EQ(device_resource(*there), device_resource(target));
  EXPECT_NE(device_resource(*there), device_resource(host_target()));
}

TEST(FarmJobs, AMemberThatMakesOtherKernelsIsRefused) {
  FarmDescription description = describe(host_target(), "9.9");
  description.codegen_abi = codegen::codegen_abi + 1;
  const auto there = described_target(description);
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().code, ErrorCode::Environment);
  EXPECT_THAT(there.error().message, HasSubstr("runs tilewright 9.9"));
  FarmJob job = example();
  ++job.protocol;
  EXPECT_THAT(decode_farm_job(encode(job)).error().message,
              HasSubstr("protocol " + std::to_string(farm_protocol + 1)));
}

TEST(FarmJobs, Fault68_NoBytesBreakTheReaders) {
  Random random(1);
  for (const std::string& whole : {encode(example()), encode(FarmReply{.kernels = {"bytes"}}),
                                   encode(describe(host_target(), "1"))})
    for (int i = 0; i < 5000; ++i) {
      std::string bytes = whole.substr(
          0, static_cast<size_t>(random.below(static_cast<int64_t>(whole.size()) + 1)));
      for (int k = 0; k < 3 && !bytes.empty(); ++k)
        bytes[static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())))] =
            static_cast<char>(random.below(256));
      // Each call returns a message or an error and does not crash.
      (void)decode_farm_job(bytes);
      (void)decode_farm_reply(bytes);
      (void)decode_farm_description(bytes);
    }
}

}  // namespace
}  // namespace tw::tuner
