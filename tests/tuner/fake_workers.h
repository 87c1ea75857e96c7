// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fake workers: a builder whose kernels have no code, and a runner that replies what a test says.
// With them, tests of the tuning loop start no process.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/abi.h"
#include "schedules/schedule.h"
#include "tests/tuner/tuning.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

/// Scripted answers of fake workers, and a log of the requests that they received.
struct FakeWork {
  Target target = host_target();
  /// Answers jobs that time a kernel. By default each new kernel is 1 us faster than the one
  /// before, beginning at 1 ms.
  std::function<Result<MeasureReply>(const MeasureJob& job)> measure = {};
  /// Answers jobs that only verify a kernel. By default the kernel is correct.
  std::function<MeasureReply(const MeasureJob& job)> verify = {};
  /// Log of calls, for example "begin 4" (a batch of 4 kernels) and "finish" of the builder, and
  /// "prepare", "measure" and "verify" of the runner.
  std::vector<std::string> events = {};
  std::vector<std::string> prepared = {};  ///< workloads that the runner was readied for
  std::vector<std::vector<MeasureJob>> announced = {};  ///< batches passed to Runner::begin()
  std::vector<MeasureJob> timed = {};                   ///< jobs that time a kernel
  std::map<std::string, std::string> schedules = {};    ///< by artifact
  std::map<std::string, double> latencies_ns = {};      ///< of default answers, by artifact
};

inline MeasureReply timed_reply(double latency_ns, db::TrialStatus status = db::TrialStatus::Ok) {
  MeasureReply reply{.status = status};
  reply.latency_ns = reply.low_ns = reply.high_ns = latency_ns;
  reply.samples_ns = {latency_ns};
  return reply;
}

class FakeBuilder : public Builder {
 public:
  FakeBuilder(std::shared_ptr<const ArtifactStore> artifacts, FakeWork& work)
      : artifacts_(std::move(artifacts)), work_(work) {}

  Status begin(const BuildRequest& request) override {
    work_.events.push_back("begin " + std::to_string(request.kernels.size()));
    begun_.push_back(request);
    return {};
  }
  std::vector<BuildOutcome> finish() override {
    work_.events.emplace_back("finish");
    const BuildRequest request = std::move(begun_.front());
    begun_.pop_front();
    std::vector<BuildOutcome> outcomes;
    for (const KernelSource& source : request.kernels) {
      const std::string name = artifacts_->put(kernel(source, request.packs)).value();
      work_.schedules[name] = source.schedule;
      outcomes.push_back({name, db::TrialStatus::Ok});
    }
    return outcomes;
  }
  std::string toolchain() const override { return "fake-1.0"; }

 private:
  /// Returns an artifact that can be read but not run.
  runtime::Artifact kernel(const KernelSource& source, bool packs) const {
    const dsl::Workload workload = workload_of(source.workload);
    runtime::Artifact artifact;
    artifact.info.workload = source.workload;
    artifact.info.schedule = source.schedule;
    artifact.info.target = work_.target.to_string();
    artifact.info.toolchain = toolchain();
    artifact.info.codegen_abi = codegen::codegen_abi;
    artifact.info.phases = {{"kernel_p0", 1, work_.target.is_gpu() ? 32 : 0}};
    const auto program = schedules::Schedule(workload.compute).program();
    for (const schedules::Argument& a : program->arguments)
      artifact.info.arguments.push_back(
          {a.buffer.name, a.buffer.type, a.is_output, a.shape, "", a.buffer.elements(), ""});
    artifact.object = packs ? "whole" : "trial";
    return artifact;
  }

  std::shared_ptr<const ArtifactStore> artifacts_;
  FakeWork& work_;
  std::deque<BuildRequest> begun_;
};

class FakeRunner : public Runner {
 public:
  explicit FakeRunner(FakeWork& work) : work_(work) {}

  Result<double> prepare(const std::string& workload, const ReferenceKernel&, Needed) override {
    work_.events.emplace_back("prepare");
    work_.prepared.push_back(workload);
    return 2e6;
  }
  Status begin(const std::vector<MeasureJob>& jobs) override {
    work_.announced.push_back(jobs);
    return {};
  }
  Result<MeasureReply> measure(const MeasureJob& job) override {
    work_.events.emplace_back(job.verify_only ? "verify" : "measure");
    if (job.verify_only) return work_.verify ? work_.verify(job) : MeasureReply{};
    work_.timed.push_back(job);
    if (work_.measure) return work_.measure(job);
    const double next_ns = 1e6 - 1e3 * static_cast<double>(work_.latencies_ns.size());
    return timed_reply(work_.latencies_ns.try_emplace(job.artifact, next_ns).first->second);
  }
  Result<CompareReply> compare(const CompareJob&) override { return CompareReply{}; }
  Result<Target> machine() override { return work_.target; }
  Result<Machine> calibrate(double) override {
    return fail(ErrorCode::TryLater, "[calibration] this machine is a table");
  }
  Result<double> peak_gflops() override { return 1e3; }

 private:
  FakeWork& work_;
};

/// Returns workers that answer from `work` and keep artifacts in `folder`. Both must outlive the
/// workers.
inline Workers fake_workers(const Folder& folder, FakeWork& work) {
  const auto artifacts = std::make_shared<const ArtifactStore>(folder.path());
  return {artifacts, std::make_unique<FakeBuilder>(artifacts, work),
          std::make_unique<FakeRunner>(work), std::make_shared<const BusyTime>()};
}

}  // namespace tw::tuner
