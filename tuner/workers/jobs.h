// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between a tuning run and its workers. They are plain values, encoded as CBOR, one
// message in each frame. Kernels are named by the hash of their bytes (artifact_store.h); no job
// has a path.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "tuner/measure/sampling.h"

namespace tw::tuner {

/// Version of the messages. It is raised when jobs or replies change. Every message contains it, so
/// that the first message reveals a worker of another version, for instance if a new version is
/// installed during a run.
inline constexpr int64_t worker_protocol = 5;

/// A kernel to compile: the key of its workload, and its schedule (tw1 text).
struct KernelSource {
  std::string workload, schedule;
  friend auto operator<=>(const KernelSource&, const KernelSource&) = default;
};

/// Asks a builder to compile these kernels and to store them in the ArtifactStore.
struct BuildJob {
  std::string target;
  std::vector<KernelSource> kernels;
  bool packs = false;  ///< build packing kernels even if kernels of trials need none
                       ///< (keeps_arrays())
  /// Text of a second target; empty: none. If the compiler for `target` is not installed, the
  /// default schedule for the second target is built in place of the first kernel.
  std::string otherwise = {};
};
/// The outcome for one kernel: its name, or the reason why it was not built.
struct BuildOutcome {
  std::string artifact = {};  ///< name in the store; empty: the build failed
  db::TrialStatus status = db::TrialStatus::CompileError;
  std::string reason = {};
  bool installation = false;  ///< the compiler, the linker or the disk seems to be at fault
  std::string code = {};      ///< codegen::code_hash of the kernel
  bool otherwise = false;     ///< the kernel is for BuildJob::otherwise
  bool blameless = false;     ///< as MeasureReply::blameless
  double build_s = 0;  ///< time for this kernel, as a part of BuildReply::seconds; 0: not known
};
struct BuildReply {
  std::vector<BuildOutcome> outcomes;  ///< one for each kernel, in order
  double seconds = 0;                  ///< time that building took
  std::string toolchain = {};  ///< name of the compiler in records; empty: there is no compiler
};

/// Asks a runner to prepare for measuring kernels of this workload, and for verifying them against
/// this reference kernel.
struct PrepareJob {
  std::string workload;   ///< text of the workload, with the layouts that it asks for its arrays
  std::string reference;  ///< name of the reference kernel in the store
  int64_t threads = 1;
  /// True if the reference is a kernel of the device, false if of the processor.
  bool on_device = false;
  friend bool operator==(const PrepareJob&, const PrepareJob&) = default;
};
struct PrepareReply {
  std::string error = {};  ///< empty if the worker is prepared
  /// Error of the reference against the interpreter, relative to the largest element.
  double reference_error = 0;
  double reference_ns = 0;  ///< time of one call of the reference on one thread
};

/// Asks a runner to verify and time a kernel. If an incumbent is given, timing stops early when the
/// kernel is slower, after the incumbent was timed again (sample_beside()). Otherwise the kernel is
/// timed alone: in `stretches` parts, with pauses of `pause_s` between them (sample_spread()).
struct MeasureJob {
  std::string artifact;        ///< name in the store
  double incumbent_ns = 0;     ///< latency of the incumbent; not read if there is none
  std::string incumbent = {};  ///< name in the store; empty: none
  bool verify_only = false;
  int64_t stretches = 1;
  double pause_s = 0;
  double patience_s = 1;  ///< longest time spent on timings that do not count
                          ///< (Sampling::patience_ns)
};
struct MeasureReply {
  /// Unstable if the machine was disturbed until MeasureJob::patience_s was over. In this case
  /// `reason` names the disturbance, and `latency_ns` is from timings that do not count, or 0 if
  /// there are none.
  db::TrialStatus status = db::TrialStatus::Ok;
  std::string reason = {};
  std::vector<double> samples_ns = {};
  double latency_ns = 0, low_ns = 0, high_ns = 0;
  double verified_error = 0;
  double noise = 0;
  double incumbent_pace = 1;  ///< as Samples::incumbent_pace
  /// The reason why the incumbent could not be timed and the kernel was timed alone, and the name
  /// of that incumbent. Empty if the incumbent was timed, or if none was given.
  std::string incumbent_fault = {}, faulty_incumbent = {};
  double peak_gflops = 0;  ///< highest recent peak of the machine; 0: unknown
  /// Hash of the name of the farm's machine that measured; empty if this machine measured. Workers
  /// leave `host` empty; the run sets it.
  std::string host = {};
  /// True if the candidate had no part in the failure, for instance because a signal from outside
  /// ended the worker, or because memory was short. Such a failure is not recorded.
  bool blameless = false;
};
/// Returns a reply with the status Lost and this reason, in which the candidate is blameless.
MeasureReply blameless_loss(std::string reason);

/// Asks a runner to time two kernels by turns (compare_abba()).
struct CompareJob {
  std::string a, b;  ///< names in the store
  int64_t rounds = 15;
};
struct CompareReply {
  std::string error = {};
  /// The members of Comparison (measure/sampling.h). `ratio` is the least time of b divided by the
  /// least time of a, so a ratio above 1 means that a is faster.
  double ratio = 1, low = 1, high = 1, noise_floor = 0;
  Winner winner = Winner::Tie;
};

/// Asks a runner to measure the machine's peak rate of multiply-adds on the given number of
/// threads.
struct PeakJob {
  int64_t threads = 1;
};
struct PeakReply {
  std::string error;
  double gflops = 0;
};

/// Asks a runner to describe the device on which it measures.
struct DescribeJob {};
struct DescribeReply {
  std::string error = {}, name = {};
  int64_t multiprocessors = 0, l2_bytes = 0, memory_bytes = 0;  ///< as runtime::DeviceFacts
};

/// Asks a runner to measure the processor with the vectors of a target (measure/calibration.h).
/// `target` and `machine` are the texts of the target and of the Machine from which calibration
/// starts.
struct CalibrateJob {
  std::string target, machine;
  int64_t budget_ns = 0;
};
struct CalibrateReply {
  std::string error = {}, machine = {};  ///< text of the measured Machine
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
/// Decode replies. A worker's messages are not trusted: the functions fail with Invalid if the
/// bytes are no reply of that type, and with Environment if they have another protocol.
Status decode(std::string_view bytes, BuildReply& reply);
Status decode(std::string_view bytes, PrepareReply& reply);
Status decode(std::string_view bytes, MeasureReply& reply);
Status decode(std::string_view bytes, CompareReply& reply);
Status decode(std::string_view bytes, PeakReply& reply);
Status decode(std::string_view bytes, DescribeReply& reply);
Status decode(std::string_view bytes, CalibrateReply& reply);

}  // namespace tw::tuner
