// SPDX-License-Identifier: Apache-2.0
// Tests the use of records of a GPU that this machine does not have. The program lists, explains
// and compiles them, and it runs kernels from the cache on the fake driver.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codegen/abi.h"
#include "codegen/gpu/nvrtc.h"
#include "cost_model/cost_model.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "schedules/space/space.h"

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
  void TearDown() override {
    ::unsetenv("LD_LIBRARY_PATH");
    ::unsetenv("TW_FAKE_CUDA_KERNELS");
    std::filesystem::remove_all(home_);
  }

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

TEST_F(GpuRecords, AFasterOneThatIsNotTheBestIsExplained) {
  auto store = value(db::Store::open(home_ + "/test.db", db::OpenMode::Update));
  const auto add = [&](const std::string& session, int64_t trial, size_t schedule,
                       double latency_ns, double peak_gflops) {
    db::Record record = record_of(records_[schedule].schedule, latency_ns);
    record.session = session;
    record.trial = trial;
    record.peak_gflops = peak_gflops;
    const db::Record sealed = db::seal(std::move(record));
    EXPECT_EQ(value(store.append({&sealed, 1})).inserted, 1);
    return sealed.hash.substr(0, 16);
  };
  // The final comparison of a run measures its winner once more.
  add("s", 1, 1, 18'500, 60'000);
  const std::string winner = add("s", 9, 1, 18'400, 60'000);
  add("s", 2, 0, 18'000, 60'000);
  EXPECT_THAT(run("explain " + winner).out, HasSubstr("the finals of the run, interleaved"));
  const json document = run_json("explain " + winner);
  EXPECT_THAT(document.at("best_other").at("why_not_best"), HasSubstr("finals"));
  const std::string slow_moment = add("t", 1, 1, 17'500, 50'000);
  add("u", 1, 0, 17'000, 60'000);
  EXPECT_THAT(run("explain " + slow_moment).out, HasSubstr("the machine was faster then"));
  const json by_sessions = run_json("explain " + best_hash());
  EXPECT_THAT(by_sessions.at("best_other").at("why_not_best"),
              HasSubstr("the median of its schedule is"));
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

/// Returns C functions that replace the kernel's instructions, which the fake driver cannot run.
/// The last phase computes c = factor a b; the others do nothing.
std::string host_kernels(const runtime::KernelInfo& info, int factor) {
  std::string text;
  for (const runtime::PhaseInfo& phase : info.phases) {
    const bool last = phase.symbol == info.phases.back().symbol;
    text += fmt::format("int {0}_arguments = {2};\nvoid {0}(void* const* arguments) {{\n{1}}}\n",
                        phase.symbol,
                        last ? fmt::format(R"(
  const float *a = arguments[0], *b = arguments[1];
  float* c = arguments[2];
  for (int m = 0; m < 256; ++m)
    for (int n = 0; n < 256; ++n) {{
      float sum = 0;
      for (int k = 0; k < 128; ++k) sum += a[m * 128 + k] * b[k * 256 + n];
      c[m * 256 + n] = {} * sum;
    }}
)",
                                           factor)
                             : "",
                        4 + phase.maps.size());
  }
  return text;
}

TEST_F(GpuRecords, RunOnAGpuFromTheCache) {
  if (!has_nvrtc()) GTEST_SKIP() << "[SKIP] no NVRTC";
  const auto path = run_json("compile " + best_hash()).at("artifact").get<std::string>();
  const runtime::Artifact artifact = value(runtime::read_artifact_of_any_target(path));
  std::filesystem::create_symlink(TW_FAKE_CUDA, home_ + "/libcuda.so.1");
  const auto serve = [&](int factor) {
    std::ofstream(home_ + "/kernels.c") << host_kernels(artifact.info, factor);
    const std::string compile = fmt::format(
        "{0} -O1 -shared -fPIC -o {1}/new.so {1}/kernels.c && "
        "mv {1}/new.so {1}/kernels.so",
        TW_TEST_CC, home_);
    ASSERT_EQ(std::system(compile.c_str()), 0);
  };
  ::setenv("LD_LIBRARY_PATH", home_.c_str(), 1);
  const Done unknown = run("run " + best_hash());
  EXPECT_EQ(unknown.code, 5) << unknown.out;
  EXPECT_THAT(unknown.out, HasSubstr("the code has no kernel '" + artifact.info.phases[0].symbol));
  ::setenv("TW_FAKE_CUDA_KERNELS", (home_ + "/kernels.so").c_str(), 1);
  serve(1);
  for (const std::string& selection : {best_hash(), std::string(this_workload)}) {
    const json ran = run_json("run " + selection);
    EXPECT_EQ(ran.at("target"), "cuda:sm_90a");
    EXPECT_EQ(ran.at("record"), records_[0].hash);
    EXPECT_LT(ran.at("largest_error").get<double>(), 1e-5);
    EXPECT_GE(ran.at("checked_elements"), 2);
    EXPECT_GT(ran.at("latency_ns").get<double>(), 0);
  }
  EXPECT_THAT(run("run " + best_hash()).out,
              HasSubstr("Fake GPU; 132 multiprocessors; 1024 MiB; L2 51200 KiB"));
  serve(2);
  const Done wrong = run("run " + best_hash());
  EXPECT_EQ(wrong.code, 5) << wrong.out;
  EXPECT_THAT(wrong.out, HasSubstr("this kernel is wrong"));
  ::unsetenv("LD_LIBRARY_PATH");
}

TEST_F(GpuRecords, KernelsOfOpenClAreExplainedToo) {
  const json document = run_json("explain --op dense --shape m=64,n=64,k=64 --target opencl");
  EXPECT_EQ(document.at("gpu").at("compiler"), "");
  EXPECT_EQ(document.at("gpu").at("phases")[0].at("registers_estimated"), true);
}

// Without a kernel there is no time to explain.
TEST_F(GpuRecords, ProgramsWithoutAKernelForGpusAreNotExplained) {
  for (const char* workload :
       {"--op dense --dtype f64", "--op dense --shape m=999999999999,n=4,k=4"}) {
    const Done refused = run(std::string("explain --target cuda:sm_90a ") + workload);
    EXPECT_EQ(refused.code, 3) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr("[codegen] "));
  }
}

}  // namespace
}  // namespace tw::tools
