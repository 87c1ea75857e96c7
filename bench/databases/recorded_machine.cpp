// SPDX-License-Identifier: Apache-2.0
#include "bench/databases/recorded_machine.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "codegen/abi.h"
#include "cost_model/expected.h"
#include "schedules/schedule.h"

namespace tw::bench {
namespace {

constexpr double largest_share = 0.05;  // of a latency that the text of the schedule can add to it
constexpr double reference_ns = 1e8;
constexpr double peak_of_recording = 118;  // GFLOP/s

/// Returns a number in [0, 1) that depends only on the text. The numbers of many texts are
/// uniformly distributed.
double share_of(const std::string& schedule) {
  return static_cast<double>(std::stoul(sha256_hex(schedule).substr(0, 8), nullptr, 16)) /
         4294967296.0;
}

std::vector<double> scales_of(const tuner::Recording& recording) {
  const size_t features = recording.trials.front().features.size();
  const auto count = static_cast<double>(recording.trials.size());
  std::vector<double> scales;
  for (size_t i = 0; i < features; ++i) {
    double sum = 0, squares = 0;
    for (const cost_model::Sample& trial : recording.trials) {
      const double value = trial.features[i];
      sum += value;
      squares += value * value;
    }
    const double variance = squares / count - (sum / count) * (sum / count);
    scales.push_back(variance > 1e-12 ? 1 / std::sqrt(variance) : 0);
  }
  return scales;
}

/// The texts of the schedules that were "built", by the names of their kernels.
using Schedules = std::map<std::string, std::string>;

/// Returns the arguments of the kernel without schedule steps. They only describe the kernel, which
/// is never called.
std::vector<runtime::ArgumentInfo> arguments_of(const dsl::Compute& compute) {
  std::vector<runtime::ArgumentInfo> arguments;
  const auto program = schedules::Schedule(compute).program();
  if (!program) return arguments;
  for (const schedules::Argument& a : program->arguments)
    arguments.push_back(
        {a.buffer.name, a.buffer.type, a.is_output, a.shape, "", a.buffer.elements(), ""});
  return arguments;
}

class RecordedBuilder final : public tuner::Builder {
 public:
  RecordedBuilder(std::shared_ptr<const tuner::ArtifactStore> artifacts,
                  std::shared_ptr<Schedules> schedules, const dsl::Compute& compute,
                  const Target& target)
      : artifacts_(std::move(artifacts)),
        schedules_(std::move(schedules)),
        arguments_(arguments_of(compute)),
        target_(target.to_string()) {}

  Status begin(const tuner::BuildRequest& request) override {
    begun_.push_back(request);
    return {};
  }

  std::vector<tuner::BuildOutcome> finish() override {
    const tuner::BuildRequest request = std::move(begun_.front());
    begun_.pop_front();
    std::vector<tuner::BuildOutcome> outcomes;
    for (const tuner::KernelSource& source : request.kernels) outcomes.push_back(put(source));
    return outcomes;
  }

  std::string toolchain() const override { return "recorded-1"; }

 private:
  tuner::BuildOutcome put(const tuner::KernelSource& source) {
    runtime::Artifact artifact;
    artifact.info.workload = source.workload;
    artifact.info.schedule = source.schedule;
    artifact.info.target = target_;
    artifact.info.toolchain = toolchain();
    artifact.info.codegen_abi = codegen::codegen_abi;
    artifact.info.phases = {{"kernel_p0", 1}};
    artifact.info.arguments = arguments_;
    artifact.object = source.schedule;
    const auto name = artifacts_->put(artifact);
    if (!name) return {"", db::TrialStatus::CompileError, name.error().message};
    (*schedules_)[*name] = source.schedule;
    return {*name, db::TrialStatus::Ok};
  }

  std::shared_ptr<const tuner::ArtifactStore> artifacts_;
  std::shared_ptr<Schedules> schedules_;
  const std::vector<runtime::ArgumentInfo> arguments_;
  const std::string target_;
  std::deque<tuner::BuildRequest> begun_;
};

class RecordedRunner final : public tuner::Runner {
 public:
  RecordedRunner(const RecordedLatencies& latencies, std::shared_ptr<Schedules> schedules,
                 Target target, double trial_s)
      : latencies_(latencies),
        schedules_(std::move(schedules)),
        target_(std::move(target)),
        trial_s_(trial_s) {}

  Result<double> prepare(const std::string&, const tuner::ReferenceKernel&,
                         tuner::Needed) override {
    return reference_ns;
  }

  Result<tuner::MeasureReply> measure(const tuner::MeasureJob& job) override {
    if (job.verify_only) return tuner::MeasureReply{};
    std::this_thread::sleep_for(std::chrono::duration<double>(trial_s_));
    TW_TRY(const double ns, latency_of(job.artifact));
    tuner::MeasureReply reply;
    reply.latency_ns = reply.low_ns = reply.high_ns = ns;
    reply.samples_ns = {ns};
    reply.peak_gflops = peak_of_recording;
    return reply;
  }

  Result<tuner::CompareReply> compare(const tuner::CompareJob& job) override {
    TW_TRY(const double a, latency_of(job.a));
    TW_TRY(const double b, latency_of(job.b));
    tuner::CompareReply reply;
    reply.ratio = b / a;
    reply.winner = a < b ? tuner::Winner::A : b < a ? tuner::Winner::B : tuner::Winner::Tie;
    return reply;
  }

  Result<Target> machine() override { return target_; }
  Result<Machine> calibrate(double) override {
    return fail(ErrorCode::TryLater, "[calibration] this machine is a recording");
  }
  Result<double> peak_gflops() override { return peak_of_recording; }

 private:
  Result<double> latency_of(const std::string& artifact) const {
    const auto schedule = schedules_->find(artifact);
    if (schedule == schedules_->end())
      return fail(ErrorCode::Internal, "[bench] a kernel that was not built is to be measured");
    return latencies_.latency_ns(schedule->second);
  }

  const RecordedLatencies& latencies_;
  std::shared_ptr<Schedules> schedules_;
  const Target target_;
  const double trial_s_;
};

}  // namespace

RecordedLatencies::RecordedLatencies(const tuner::Recording& recording, dsl::Workload workload)
    : recording_(recording), workload_(std::move(workload)), scales_(scales_of(recording)) {}

Result<double> RecordedLatencies::latency_ns(const std::string& schedule) const {
  TW_TRY(const auto parsed, schedules::parse_schedule(workload_.compute, schedule));
  TW_TRY(auto program, parsed.program(schedules::limits_of(recording_.target)));
  TW_TRY(const std::vector<float> features,
         cost_model::features_with_expected_time(
             std::move(program), schedules::problem_of(workload_), recording_.target, 1));
  double nearest = std::numeric_limits<double>::infinity(), ns = 0;
  for (const cost_model::Sample& trial : recording_.trials) {
    double distance = 0;
    for (size_t i = 0; i < features.size(); ++i) {
      const double apart = (static_cast<double>(features[i]) - trial.features[i]) * scales_[i];
      distance += apart * apart;
    }
    if (distance >= nearest) continue;
    nearest = distance;
    ns = 1 / trial.throughput;
  }
  return ns * (1 + largest_share * share_of(schedule));
}

tuner::Workers recorded_workers(const RecordedLatencies& latencies, const Target& target,
                                const std::string& folder, double trial_s) {
  const auto artifacts = std::make_shared<const tuner::ArtifactStore>(folder);
  const auto schedules = std::make_shared<Schedules>();
  return {
      artifacts,
      std::make_shared<RecordedBuilder>(artifacts, schedules, latencies.workload().compute, target),
      std::make_shared<RecordedRunner>(latencies, schedules, target, trial_s),
      std::make_shared<const tuner::BusyTime>()};
}

}  // namespace tw::bench
