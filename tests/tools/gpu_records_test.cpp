// SPDX-License-Identifier: Apache-2.0
// Records of a GPU that is elsewhere: the program lists, explains and compiles them on a machine
// without one.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/abi.h"
#include "codegen/nvrtc.h"
#include "cost_model/cost_model.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "schedules/space.h"

namespace tw::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;

template <typename T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

struct Done {
  int code = -1;
  std::string out;
};

constexpr const char* device = "NVIDIA H200; 66 multiprocessors; 143771 MiB; L2 51200 KiB";

class GpuRecords : public testing::Test {
 protected:
  void SetUp() override {
    home_ = (std::filesystem::temp_directory_path() / "tw_gpu_records_XXXXXX").string();
    ASSERT_NE(mkdtemp(home_.data()), nullptr);
    ::setenv("HOME", home_.c_str(), 1);
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
    auto store = value(db::Store::open(home_ + "/test.db", db::OpenMode::ReadWrite));
    const schedules::Space space = schedules::Space::derive(workload_.compute, target_);
    Random random(7);
    for (int i = 0; records_.size() < 2 && i < 1000; ++i) {
      const schedules::Schedule schedule = space.schedule(space.sample(random));
      if (!schedule.program(schedules::limits_of(target_))) continue;
      records_.push_back(record_of(schedule.to_string(), 20'000 + 5000.0 * records_.size()));
    }
    ASSERT_EQ(records_.size(), 2u);
    ASSERT_EQ(value(store.append(records_)).inserted, 2);
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  db::Record record_of(const std::string& schedule, double latency_ns) const {
    db::Record record;
    record.workload = workload_.key();
    record.op = workload_.op;
    record.target = target_.to_string();
    record.device = device;
    record.toolchain = "nvrtc-13.0";
    record.codegen_abi = codegen::codegen_abi;
    record.schedule = schedule;
    record.samples_ns = {latency_ns};
    record.latency_ns = record.latency_low_ns = record.latency_high_ns = latency_ns;
    record.flops = dsl::count_flops(workload_.compute);
    record.peak_gflops = 60'000;
    return db::seal(record);
  }

  Done run(const std::string& arguments) const {
    const std::string command =
        fmt::format("{} {} --db {}/test.db 2>&1", TW_TEST_PROGRAM, arguments, home_);
    Done done;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> piece = {};
    while (const size_t bytes = fread(piece.data(), 1, piece.size(), pipe))
      done.out.append(piece.data(), bytes);
    done.code = WEXITSTATUS(::pclose(pipe));
    return done;
  }

  json run_json(const std::string& arguments) const {
    const Done done = run(arguments + " --format json");
    EXPECT_EQ(done.code, 0) << done.out;
    const json document = json::parse(done.out, nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << done.out;
    return document;
  }

  static bool has_nvrtc() { return codegen::Nvrtc::open().has_value(); }
  std::string best_hash() const { return records_[0].hash.substr(0, 16); }

  Target target_ = value(parse_target("cuda:sm_90a"));
  dsl::Workload workload_ = value(dsl::parse_workload("dense m=256 n=256 k=128 f32 fast"));
  std::vector<db::Record> records_;  ///< the faster one first
  std::string home_;
};

constexpr const char* this_workload = "--op dense --shape m=256,n=256,k=128 --target cuda:sm_90a";

TEST_F(GpuRecords, AreListed) {
  EXPECT_EQ(run_json("db query").at("records").size(), 2u);
  EXPECT_THAT(run("show " + best_hash()).out, HasSubstr("NVIDIA H200"));
}

TEST_F(GpuRecords, AreExplainedByTheDeviceThatTheyAreOf) {
  for (const std::string& selection : {best_hash(), std::string(this_workload)}) {
    const json document = run_json("explain " + selection);
    EXPECT_EQ(document.at("target"), "cuda:sm_90a");
    EXPECT_GT(document.at("predicted_ns").get<double>(), 0);
    EXPECT_EQ(document.at("limited_by"), document.at("resources")[0].at("resource"));
    EXPECT_EQ(document.at("record").at("record"), records_[0].hash);
    EXPECT_EQ(document.at("best_other").at("record").at("record"), records_[1].hash);
    const json& gpu = document.at("gpu");
    EXPECT_EQ(gpu.at("multiprocessors"), 66);
    const json& phase = gpu.at("phases")[0];
    EXPECT_GT(phase.at("blocks"), 0);
    EXPECT_GT(phase.at("occupancy"), 0);
    EXPECT_LE(phase.at("occupancy"), 1);
    EXPECT_GT(phase.at("registers"), 0);
    EXPECT_EQ(phase.at("registers_estimated"), !has_nvrtc());
    EXPECT_EQ(gpu.at("compiler").get<std::string>().starts_with("nvrtc-"), has_nvrtc());
  }
}

TEST_F(GpuRecords, AreExplainedToPeople) {
  const std::string text = run("explain " + best_hash()).out;
  for (const char* words : {"limited by", "of what was measured", "occupancy", "multiprocessors",
                            "registers", "sectors", "best other", "66 multiprocessors"})
    EXPECT_THAT(text, HasSubstr(words));
}

TEST_F(GpuRecords, AreCompiledWithoutAGpu) {
  if (!has_nvrtc()) GTEST_SKIP() << "[SKIP] no NVRTC";
  const json compiled = run_json("compile " + best_hash());
  EXPECT_EQ(compiled.at("record"), records_[0].hash);
  EXPECT_EQ(compiled.at("verified"), false);
  EXPECT_TRUE(std::filesystem::exists(compiled.at("artifact").get<std::string>()));
}

TEST_F(GpuRecords, AreWhatCompileOnlyCompiles) {
  if (!has_nvrtc()) GTEST_SKIP() << "[SKIP] no NVRTC";
  const json result =
      run_json(fmt::format("tune {} --compile-only", this_workload)).at("results")[0];
  EXPECT_EQ(result.at("schedule"), records_[0].schedule);
  EXPECT_EQ(result.at("schedule_from"), records_[0].hash.substr(0, 16));
  const json unknown =
      run_json("tune --op dense --shape m=64,n=64,k=64 --target cuda:sm_90a --compile-only")
          .at("results")[0];
  EXPECT_EQ(unknown.at("schedule_from"), "cost model");
}

TEST_F(GpuRecords, KernelsOfOpenClAreExplainedToo) {
  const json document = run_json("explain --op dense --shape m=64,n=64,k=64 --target opencl");
  EXPECT_EQ(document.at("gpu").at("compiler"), "");
  EXPECT_EQ(document.at("gpu").at("phases")[0].at("registers_estimated"), true);
}

}  // namespace
}  // namespace tw::tools
