// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between a tuning run and its workers: plain values, encoded as CBOR in one frame each.
// Kernels are named by the hash of their bytes (artifact_store.h); no job carries a path.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "tuner/measure/sampling.h"

namespace tw::tuner {

/// Raised when jobs or replies change. Every message names it, so that the first message shows a
/// worker of another version, as when a new version is installed during a run.
inline constexpr int64_t worker_protocol = 4;

/// A kernel to compile: the key of its workload, and its schedule (tw1 text).
struct KernelSource {
  std::string workload, schedule;
  friend auto operator<=>(const KernelSource&, const KernelSource&) = default;
};

/// Compile these kernels and put them into the store.
struct BuildJob {
  std::string target;
  std::vector<KernelSource> kernels;
  bool packs = false;  ///< with packing kernels, also where trials go without (keeps_arrays)
  /// Another target: where the compiler for `target` is not installed, its default schedule is
  /// built in place of the first kernel. Empty: none.
  std::string otherwise = {};
};
/// The outcome of one kernel: its name, or the reason why there is none.
struct BuildOutcome {
  std::string artifact = {};  ///< name in the store; empty: the build failed
  db::TrialStatus status = db::TrialStatus::CompileError;
  std::string reason = {};
  bool installation = false;  ///< the compiler or linker is at fault, as far as can be told
  std::string code = {};      ///< codegen::code_hash of the kernel
  bool otherwise = false;     ///< the kernel is for the job's other target
  bool blameless = false;     ///< of a Lost outcome, as MeasureReply::blameless
  double build_s = 0;         ///< its part of BuildReply::seconds, where that is known
};
struct BuildReply {
  std::vector<BuildOutcome> outcomes;  ///< one a kernel, in order
  double seconds = 0;                  ///< time that building took
  std::string toolchain = {};  ///< what compiled, as records name it; empty: there is no compiler
};

/// From now on measure kernels of this workload against this reference kernel.
struct PrepareJob {
  std::string workload;   ///< text, as the layouts that it asks for are how arrays are kept
  std::string reference;  ///< name of the reference kernel in the store
  int64_t threads = 1;
  bool on_device = false;  ///< the reference is a kernel of the device, not of the processor
  friend bool operator==(const PrepareJob&, const PrepareJob&) = default;
};
struct PrepareReply {
  std::string error = {};  ///< empty: ready
  /// Error of the reference against the interpreter, relative to the largest element.
  double reference_error = 0;
  double reference_ns = 0;  ///< one call of the reference on one thread
};

/// Verify and time a kernel: beside the incumbent if one is given, else alone in `stretches`
/// stretches with pauses in between.
struct MeasureJob {
  std::string artifact;        ///< name in the store
  double incumbent_ns = 0;     ///< 0: no early end
  std::string incumbent = {};  ///< name in the store
  bool verify_only = false;
  int64_t stretches = 1;
  double pause_s = 0;
  double patience_s = 1;  ///< longest time to wait for disturbances to pass
};
struct MeasureReply {
  /// Unstable if the machine was disturbed until MeasureJob::patience_s ran out. `reason` then
  /// names the disturbance, and `latency_ns` comes from timings that do not count, or is 0.
  db::TrialStatus status = db::TrialStatus::Ok;
  std::string reason = {};
  std::vector<double> samples_ns = {};
  double latency_ns = 0, low_ns = 0, high_ns = 0;
  double verified_error = 0;
  double noise = 0;
  double incumbent_pace = 1;  ///< as Samples
  /// The reason why the incumbent could not be timed, so that the kernel was timed alone. Empty if
  /// the incumbent was timed, or if none was given.
  std::string incumbent_fault = {};
  double peak_gflops = 0;  ///< highest peak that the machine has shown lately; 0: unknown
  /// Hash of the name of the machine that measured, where a farm measured; empty: this machine.
  /// Workers leave it empty.
  std::string host = {};
  /// For a Lost reply: the candidate had no part in the loss, as where a signal from outside ended
  /// the worker. A blameless loss makes no record.
  bool blameless = false;
};
/// A Lost and blameless reply with that reason.
MeasureReply blameless_loss(std::string reason);

/// Time two kernels by turns.
struct CompareJob {
  std::string a, b;  ///< names in the store
  int64_t rounds = 15;
};
struct CompareReply {
  std::string error = {};
  double ratio = 1, low = 1, high = 1, noise_floor = 0;  ///< as Comparison: above 1, a is faster
  Winner winner = Winner::Tie;
};

/// Measure the peak of the machine on so many threads.
struct PeakJob {
  int64_t threads = 1;
};
struct PeakReply {
  std::string error;
  double gflops = 0;
};

/// Describe the device that you measure on.
struct DescribeJob {};
struct DescribeReply {
  std::string error = {}, name = {};
  int64_t multiprocessors = 0, l2_bytes = 0, memory_bytes = 0;  ///< as runtime::DeviceFacts
};

/// Measure the processor for the vectors of a target (measure/calibration.h); the texts of the
/// target and of its machine.
struct CalibrateJob {
  std::string target, machine;
  int64_t budget_ns = 0;
};
struct CalibrateReply {
  std::string error = {}, machine = {};  ///< the text of a Machine
};

using Job =
    std::variant<BuildJob, PrepareJob, MeasureJob, CompareJob, PeakJob, DescribeJob, CalibrateJob>;

std::string encode(const Job& job);
Result<Job> decode_job(std::string_view bytes);

std::string encode(const BuildReply& reply);
std::string encode(const PrepareReply& reply);
std::string encode(const MeasureReply& reply);
std::string encode(const CompareReply& reply);
std::string encode(const PeakReply& reply);
std::string encode(const DescribeReply& reply);
std::string encode(const CalibrateReply& reply);
/// Invalid when the bytes are no such reply: the worker's word is not trusted.
Status decode(std::string_view bytes, BuildReply& reply);
Status decode(std::string_view bytes, PrepareReply& reply);
Status decode(std::string_view bytes, MeasureReply& reply);
Status decode(std::string_view bytes, CompareReply& reply);
Status decode(std::string_view bytes, PeakReply& reply);
Status decode(std::string_view bytes, DescribeReply& reply);
Status decode(std::string_view bytes, CalibrateReply& reply);

}  // namespace tw::tuner
