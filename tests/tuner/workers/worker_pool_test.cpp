// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/worker_pool.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "codegen/command.h"
#include "codegen/cpu_codegen.h"
#include "schedules/schedule.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using testing::HasSubstr;

class WorkerPool : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  }

  static std::string plain(const dsl::Workload& workload) {
    return schedules::Schedule(workload.compute).to_string();
  }
  /// Builds a kernel and returns the name of its artifact in the store.
  static std::string built(Workers& workers, const dsl::Workload& workload,
                           const std::string& schedule) {
    const auto outcome =
        build_one(*workers.builder, {.kernels = {{workload.key(), schedule}}, .packs = true});
    EXPECT_TRUE(outcome) << outcome.error().message;
    return outcome ? outcome->artifact : "";
  }

  /// Returns workers with the code generator that plant_code_generator() has put into the folder.
  /// They build kernels for one thread of a machine with `cores` cores.
  Workers planted_workers(int cores = host_target().machine.cores, double timeout_s = 10) const {
    Environment environment = test_environment();
    environment.code_generator = folder_.path();
    Target target = host_target();
    target.machine.cores = cores;
    auto workers = start_workers(target, 1, environment, timeout_s);
    if (!workers) throw std::runtime_error(workers.error().message);
    return std::move(*workers);
  }

  Folder folder_;
  dsl::Workload workload_ = workload_of(small);
};

TEST_F(WorkerPool, ARunnerRemembersReferences) {
  auto workers = start_workers(host_target(), 1, test_environment(), 10);
  ASSERT_TRUE(workers) << workers.error().message;
  const std::vector<dsl::Workload> workloads = {workload_of("dense m=16 n=32 k=24 f32 fast"),
                                                workload_of("dense m=32 n=32 k=24 f32 fast")};
  std::vector<std::string> references;
  for (const dsl::Workload& workload : workloads)
    references.push_back(built(*workers, workload, plain(workload)));
  const auto is_ready_for = [&](size_t i) {
    return workers->runner->prepare(workloads[i].key(), {references[i]}, Needed::No).has_value();
  };
  const auto measured = [&](size_t i) {
    return workers->runner->measure({.artifact = references[i], .verify_only = true}).value();
  };
  const auto status_of = [&](size_t i) { return measured(i).status; };
  ASSERT_TRUE(is_ready_for(0) && is_ready_for(1));
  EXPECT_EQ(status_of(1), TrialStatus::Ok);
  EXPECT_THAT(measured(0).reason, HasSubstr("of another workload: its input 'a' is f32[16, 24]"));
  const std::string file = workers->artifacts->directory() + "/" + references[0] + ".twart";
  std::filesystem::rename(file, file + ".kept");
  EXPECT_TRUE(is_ready_for(0)) << "it needs the file of a known reference";
  std::filesystem::rename(file + ".kept", file);
  EXPECT_EQ(status_of(0), TrialStatus::Ok);
  EXPECT_TRUE(is_ready_for(1));
  EXPECT_EQ(status_of(1), TrialStatus::Ok);
}

TEST_F(WorkerPool, AReferenceIsBuiltOnce) {
  auto workers = start_workers(host_target(), 1, test_environment(), 10);
  ASSERT_TRUE(workers) << workers.error().message;
  BuildRequest request{
      .kernels = {{workload_.key(), plain(workload_)}}, .packs = true, .is_reference = true};
  const std::string reference = build_one(*workers->builder, request).value().artifact;
  const double busy_s = workers->busy->seconds();
  EXPECT_EQ(build_one(*workers->builder, request).value().artifact, reference);
  EXPECT_EQ(workers->busy->seconds(), busy_s);
  request.is_reference = false;
  EXPECT_EQ(build_one(*workers->builder, request).value().artifact, reference);
  EXPECT_GT(workers->busy->seconds(), busy_s);
}

TEST_F(WorkerPool, TheFaultOfAnIncumbentIsNotTheCandidates) {
  auto workers = start_workers(host_target(), 1, test_environment(), 60);
  ASSERT_TRUE(workers) << workers.error().message;
  const std::string kernel = built(*workers, workload_, plain(workload_));
  ASSERT_TRUE(workers->runner->prepare(workload_.key(), {kernel}, Needed::No));
  const std::string absent(64, '0');
  const auto reply = workers->runner->measure(
      {.artifact = kernel, .incumbent_ns = 1e9, .incumbent = absent, .patience_s = 10});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_NE(reply->status, TrialStatus::Resource) << reply->reason;
  EXPECT_THAT(reply->incumbent_fault, HasSubstr(absent));
  EXPECT_EQ(reply->faulty_incumbent, absent);
  const auto without = workers->runner->measure({.artifact = kernel, .verify_only = true});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->incumbent_fault, "");
}

TEST_F(WorkerPool, Fault36_AKernelThatTheSystemDoesNotLoadIsNotAtFault) {
  auto workers = start_workers(host_target(), 1, test_environment(), 60);
  ASSERT_TRUE(workers) << workers.error().message;
  const std::string reference = built(*workers, workload_, plain(workload_));
  ASSERT_TRUE(workers->runner->prepare(workload_.key(), {reference}, Needed::No));
  // A socket cannot be opened as a file, so the system does not load this kernel.
  const std::string kernel(64, '0');
  const std::string path = workers->artifacts->directory() + "/" + kernel + ".twart";
  ASSERT_EQ(::mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  const auto reply = workers->runner->measure({.artifact = kernel, .verify_only = true});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, TrialStatus::Resource) << reply->reason;
  EXPECT_TRUE(reply->blameless);
}

TEST_F(WorkerPool, AKernelIsNamedByItsBytes) {
  auto workers = start_workers(host_target(), 1, test_environment(), 10);
  ASSERT_TRUE(workers) << workers.error().message;
  const std::string first = built(*workers, workload_, plain(workload_)),
                    again = built(*workers, workload_, plain(workload_));
  EXPECT_EQ(first, again);
  const auto bytes = workers->artifacts->get(first);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(sha256_hex(*bytes), first);
  const auto artifact = workers->artifacts->load(first, host_target());
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(artifact->info.workload, workload_.key());
}

TEST_F(WorkerPool, Fault31_AnInterruptEndsAMeasurementAsNobodysFault) {
  const std::atomic<int> interrupts = 2;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  auto workers = start_workers(host_target(), 1, environment, 60);
  ASSERT_TRUE(workers) << workers.error().message;
  const auto reply = workers->runner->measure({.artifact = std::string(64, '0')});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::Interrupted) << reply.error().message;
}

/// Returns workers whose runner loses `times` jobs of the kind `job`, in the way `how`
/// (tuning_worker.cpp).
Workers losing(const Folder& folder, const std::string& how, const std::string& job, int times) {
  std::ofstream(folder / "losses") << times;
  auto workers = start_workers(
      host_target(), 1, test_environment({TW_TUNING_WORKER, "losing", how, job, folder / "losses"}),
      60);
  if (!workers) throw std::runtime_error(workers.error().message);
  return std::move(*workers);
}

TEST(LostWorkers, Fault84_AMeasurementIsRepeatedWhereItsWorkerIsToldToEnd) {
  for (const char* signal : {"15", "2", "1"}) {
    Folder folder;
    const MeasureReply reply = losing(folder, signal, "measure", 1).runner->measure({"a"}).value();
    EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
    const MeasureReply lost = losing(folder, signal, "measure", 2).runner->measure({"a"}).value();
    EXPECT_EQ(lost.status, TrialStatus::Lost) << lost.reason;
    EXPECT_TRUE(lost.blameless);
  }
}

TEST(LostWorkers, Fault85_AReplyThatDoesNotDecodeIsNobodysFault) {
  for (const char* how : {"garbled", "renamed"}) {
    Folder folder;
    const MeasureReply reply = losing(folder, how, "measure", 1).runner->measure({"a"}).value();
    EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
    const MeasureReply lost = losing(folder, how, "measure", 2).runner->measure({"a"}).value();
    EXPECT_EQ(lost.status, TrialStatus::Lost) << lost.reason;
    EXPECT_TRUE(lost.blameless);
  }
}

TEST(LostWorkers, Fault86_WhereAWorkerIsKilledItsJobIsRepeatedOnce) {
  Folder folder;
  const MeasureReply reply = losing(folder, "9", "measure", 1).runner->measure({"a"}).value();
  EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
  const MeasureReply lost = losing(folder, "9", "measure", 2).runner->measure({"a"}).value();
  EXPECT_EQ(lost.status, TrialStatus::Lost) << lost.reason;
  EXPECT_FALSE(lost.blameless) << "the candidate may have taken the memory";
  const Workers workers = losing(folder, "9", "prepare", 1);
  EXPECT_TRUE(workers.runner->prepare(small, {"r"}, Needed::ForResult));
}

TEST(LostWorkers, Fault88_AWorkerThatDiesWhileThePeakIsMeasuredIsStartedAgain) {
  for (const char* signal : {"15", "9", "11"}) {
    Folder folder;
    const auto peak = losing(folder, signal, "peak", 2).runner->peak_gflops();
    EXPECT_TRUE(peak) << peak.error().message;
    const auto machine = losing(folder, signal, "calibrate", 1).runner->calibrate(1);
    ASSERT_FALSE(machine);
    EXPECT_EQ(machine.error().code, ErrorCode::TryLater) << "it answers that it cannot";
  }
}

/// Makes a code generator in the folder. It calls the real one, but runs the C code `does` first if
/// the C condition `aborts_if` holds.
void plant_code_generator(const Folder& folder, const std::string& aborts_if,
                          const std::string& does = "abort()") {
  std::string real;
  for (const std::string& directory : codegen::plugin_directories())
    if (real.empty() && std::filesystem::exists(directory + "/libtw_halide.so"))
      real = directory + "/libtw_halide.so";
  std::ofstream(folder / "plugin.c") << R"(
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int tw_halide_version(void) { return )"
                                     << codegen::plugin_version << R"(; }
const char* tw_halide_toolchain(void) { return "planted"; }
void tw_halide_compile(const void* programs, size_t count, const void* target, void* result) {
  if ()" << aborts_if << R"() )" << does
                                     << R"(;
  void (*real)(const void*, size_t, const void*, void*) =
      (void (*)(const void*, size_t, const void*, void*))dlsym(dlopen(")"
                                     << real << R"(", RTLD_NOW), "tw_halide_compile");
  real(programs, count, target, result);
}
)";
  const auto compiled = codegen::run_command(
      {"cc", "-shared", "-fPIC", folder / "plugin.c", "-o", folder / "libtw_halide.so", "-ldl"},
      60'000'000'000);
  ASSERT_TRUE(compiled) << compiled.error().message;
}

TEST_F(WorkerPool, Fault43_ABuilderThatAbortsIsGivenItsShareOneByOne) {
  // One builder gets three of five schedules. Once the file `broken` exists, its code generator
  // aborts if it is given three at once.
  plant_code_generator(folder_,
                       "count == 3 && access(\"" + (folder_ / "broken") + "\", F_OK) == 0");
  const Workers workers = planted_workers(3);
  const schedules::Schedule plain(workload_.compute);
  std::vector<KernelSource> different;
  for (int64_t factor = 2; factor <= 6; ++factor)
    different.push_back(
        {workload_.key(), plain.split(workload_.compute.stages[0].name, "m", factor).to_string()});
  const auto statuses = [&] {
    EXPECT_TRUE(workers.builder->begin({.kernels = different}));
    std::vector<TrialStatus> found;
    for (const BuildOutcome& outcome : workers.builder->finish()) found.push_back(outcome.status);
    return found;
  };
  EXPECT_THAT(statuses(), testing::Each(TrialStatus::Ok));
  std::ofstream(folder_ / "broken") << "now";
  EXPECT_THAT(statuses(), testing::Each(TrialStatus::Ok));
}

TEST_F(WorkerPool, Fault84_SchedulesWhoseBuilderIsToldToEndAreBuiltOnceMore) {
  for (const char* signal : {"SIGTERM", "SIGKILL"}) {
    // Each schedule can be built alone. Once the file `always` exists, every build loses the
    // builder.
    std::filesystem::remove(folder_ / "always");
    plant_code_generator(folder_,
                         "count > 1 || access(\"" + (folder_ / "always") + "\", F_OK) == 0",
                         std::string("raise(") + signal + ")");
    Environment environment = test_environment();
    environment.code_generator = folder_.path();
    auto workers = start_workers(host_target(), host_target().machine.cores, environment, 60);
    ASSERT_TRUE(workers) << workers.error().message;
    const std::string plain = schedules::Schedule(workload_.compute).to_string();
    const auto build = [&](size_t count) {
      EXPECT_TRUE(workers->builder->begin(
          {.kernels = std::vector<KernelSource>(count, {workload_.key(), plain})}));
      return workers->builder->finish();
    };
    for (const BuildOutcome& outcome : build(2 * 4))
      EXPECT_EQ(outcome.status, TrialStatus::Ok) << outcome.reason;
    std::ofstream(folder_ / "always") << "now";
    const BuildOutcome lost = build(1)[0];
    EXPECT_EQ(lost.status, TrialStatus::Lost) << lost.reason;
    EXPECT_EQ(lost.blameless, std::string(signal) == "SIGTERM");
  }
}

/// Returns three kernels of the workload, and makes a code generator that runs the C code `does` if
/// it is given the second kernel.
std::vector<KernelSource> kernels_with_culprit(const dsl::Workload& workload, const Folder& folder,
                                               const std::string& does = "abort()") {
  const schedules::Schedule plain(workload.compute);
  std::vector<KernelSource> different;
  for (int64_t factor = 2; factor <= 4; ++factor)
    different.push_back(
        {workload.key(), plain.split(workload.compute.stages[0].name, "m", factor).to_string()});
  // The first member of a program's entry is its prefix, which is a hash of workload and schedule.
  plant_code_generator(
      folder,
      fmt::format("({{ int culprit = 0; for (size_t i = 0; i < count; ++i) culprit |= "
                  "!strcmp(*(char**)((char*)programs + {} * i), \"tw_{}\"); culprit; }})",
                  sizeof(codegen::NamedProgram),
                  short_hash(workload.key() + "\n" + different[1].schedule)),
      does);
  return different;
}

TEST_F(WorkerPool, Fault43_OnlyTheCulpritOfALostBatchIsBlamed) {
  const std::vector<KernelSource> different = kernels_with_culprit(workload_, folder_);
  const Workers workers = planted_workers();
  ASSERT_TRUE(workers.builder->begin({.kernels = different}));
  const std::vector<BuildOutcome> built = workers.builder->finish();
  ASSERT_EQ(built.size(), 3u);
  EXPECT_EQ(built[0].status, TrialStatus::Ok) << built[0].reason;
  EXPECT_EQ(built[1].status, TrialStatus::CompileError);
  EXPECT_THAT(built[1].reason, HasSubstr("SIGABRT"));
  EXPECT_EQ(built[2].status, TrialStatus::Ok) << built[2].reason;
}

TEST_F(WorkerPool, Fault43_OnlyTheCulpritOfABatchThatHangsIsBlamed) {
  const std::vector<KernelSource> different =
      kernels_with_culprit(workload_, folder_, "for (;;) sleep(1)");
  const Workers workers = planted_workers(2, 3);  // one builder
  ASSERT_TRUE(workers.builder->begin({.kernels = different}));
  const std::vector<BuildOutcome> built = workers.builder->finish();
  ASSERT_EQ(built.size(), 3u);
  EXPECT_EQ(built[0].status, TrialStatus::Ok) << built[0].reason;
  EXPECT_EQ(built[1].status, TrialStatus::CompileError);
  EXPECT_THAT(built[1].reason, HasSubstr("no answer before the deadline"));
  EXPECT_EQ(built[2].status, TrialStatus::Ok) << built[2].reason;
}

// All requests are with one builder when it dies.
TEST_F(WorkerPool, Fault43_RequestsThatWaitBehindTheCulpritAreBuiltAllTheSame) {
  const std::vector<KernelSource> different = kernels_with_culprit(workload_, folder_);
  const Workers workers = planted_workers(2);
  Builder& builder = *workers.builder;
  const BuildRequest reference{.kernels = {{workload_.key(), plain(workload_)}},
                               .is_reference = true};
  ASSERT_TRUE(builder.begin(reference));
  for (const KernelSource& kernel : different) ASSERT_TRUE(builder.begin({.kernels = {kernel}}));
  ASSERT_TRUE(builder.begin(reference));
  const BuildOutcome first = builder.finish().at(0);
  EXPECT_EQ(first.status, TrialStatus::Ok) << first.reason;
  for (size_t i = 0; i < different.size(); ++i) {
    const BuildOutcome outcome = builder.finish().at(0);
    if (i == 1) {
      EXPECT_EQ(outcome.status, TrialStatus::CompileError);
      EXPECT_THAT(outcome.reason, HasSubstr("SIGABRT"));
      continue;
    }
    ASSERT_EQ(outcome.status, TrialStatus::Ok) << outcome.reason;
    const auto artifact = workers.artifacts->load(outcome.artifact, host_target());
    ASSERT_TRUE(artifact) << artifact.error().message;
    EXPECT_EQ(artifact->info.schedule, different[i].schedule);
  }
  EXPECT_EQ(builder.finish().at(0).artifact, first.artifact);
}

TEST_F(WorkerPool, Fault43_AnAbortInTheCodeGeneratorLosesItsBatchOnly) {
  plant_code_generator(folder_, "access(\"" + (folder_ / "broken") + "\", F_OK) == 0");
  const Workers workers = planted_workers();
  const KernelSource plain = {workload_.key(), schedules::Schedule(workload_.compute).to_string()};
  const auto build = [&] {
    EXPECT_TRUE(workers.builder->begin({.kernels = {plain, plain}}));
    return workers.builder->finish();
  };
  EXPECT_EQ(build()[1].status, TrialStatus::Ok);
  std::ofstream(folder_ / "broken") << "now";
  for (const BuildOutcome& outcome : build()) {
    EXPECT_EQ(outcome.status, TrialStatus::CompileError);
    EXPECT_THAT(outcome.reason, HasSubstr("SIGABRT"));
  }
  std::filesystem::remove(folder_ / "broken");
  EXPECT_EQ(build()[0].status, TrialStatus::Ok);
}

}  // namespace
}  // namespace tw::tuner
