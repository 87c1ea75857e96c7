// SPDX-License-Identifier: Apache-2.0
#pragma once
// Replays searches on recorded trials instead of a machine, to see how soon a search finds the
// schedules that are known to be fast.
//
// A replayed search picks among the recorded trials of a workload, eight at a time. It needs no
// machine and no clock, and its result depends on the seed only. Free functions; thread-safe.
//
//   TW_TRY(const std::vector<Recording> recordings, read_recordings(file));
//   TW_TRY(const Replayed analytic, replay(recordings, Guide::Analytic, 64, {1, 2, 3}));
//   analytic.shares[0][7];   // speed of the best of eight trials over the first recording's best
//
// A recording is text: a line {"workload", "target", "machine", "threads", "name"}, then a line for
// each trial, {"ns": latency, "tw1": steps}. The machine is the name of a row of the table or a
// whole description (base/machine.h); if it is missing, the target's generic machine is used.
// Failed trials are not recorded.

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/target.h"
#include "cost_model/cost_model.h"
#include "db/record.h"
#include "dsl/workload.h"

namespace tw::tuner {

struct Recording {
  std::string name;      ///< name of the workload, "conv_7"; empty if the recording has none
  std::string workload;  ///< text of the workload
  Target target;         ///< target with the machine on which the trials were measured
  std::vector<cost_model::Sample> trials;  ///< each with a throughput in 1 / ns and an expected
                                           ///< time
  double best = 0;                         ///< largest throughput of a trial
};

/// Reads recordings. Recordings without a trial are left out. Fails with Invalid if a line cannot
/// be read (the message has its number) or if no recording has a trial.
Result<std::vector<Recording>> read_recordings(std::istream& in);

/// Writes a recording of the records to `out`. Only records with a timed kernel are written, and
/// each schedule once. `name` names the recording.
void write_recording(std::ostream& out, const std::string& name, const dsl::Workload& workload,
                     const Target& target, int threads, std::span<const db::Record> records);

/// Method by which a replayed search chooses the next trials:
/// - Random: in random order.
/// - Analytic: by the analytic model.
/// - Learned: by the analytic model, corrected by the trials of this recording so far.
/// - Pretrained: by the expected times that the trials carry (cost_model/expected.h).
/// - Corrected: by the pretrained model's expected times, corrected by the trials of this recording
///   so far.
/// - Taught: by the pretrained model's expected times, corrected by the trials of all other
///   recordings.
enum class Guide { Random, Analytic, Learned, Pretrained, Corrected, Taught };
std::string_view to_string(Guide guide);  ///< "random", "analytic", ...

/// Returns a vector whose element i is the best throughput of the first i + 1 trials, in a random
/// order. It has at most `count` elements, and no more than the recording has trials.
std::vector<double> replay_random(const Recording& recording, size_t count, Random& random);

/// As replay_random(), but the model chooses the next trials, eight at a time, by their predicted
/// speed. If `learns` is true, the model learns from each eight. The order of trials with equal
/// predictions is random.
Result<std::vector<double>> replay_guided(const Recording& recording, cost_model::CostModel model,
                                          bool learns, size_t count, Random& random);

/// Returns a cost model that has learned from all recordings except the one with the index
/// `left_out`.
Result<cost_model::CostModel> taught_by_others(const std::vector<Recording>& recordings,
                                               size_t left_out);

struct Replayed {
  /// For each seed, the best throughput of the first i + 1 trials of recording r is divided by the
  /// recording's best throughput. shares[r][i] is the geometric mean of these quotients over the
  /// seeds.
  std::vector<std::vector<double>> shares;
  /// Geometric mean, over all recordings, of the shares after `trials` trials. Requires: trials >=
  /// 1.
  double share(size_t trials) const;
};

Result<Replayed> replay(const std::vector<Recording>& recordings, Guide guide, size_t count,
                        const std::vector<uint64_t>& seeds);

}  // namespace tw::tuner
