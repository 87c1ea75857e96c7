// SPDX-License-Identifier: Apache-2.0
#pragma once
// Replays searches on recorded trials in place of a machine, to see how soon a search finds the
// schedules that are known to be fast.
//
// A replayed search picks among the recorded trials of a workload, eight at a time, so its outcome
// needs no machine and no clock, and with one seed it is always the same. Free functions;
// thread-safe.
//
//   TW_TRY(const std::vector<Recording> recordings, read_recordings(file));
//   TW_TRY(const Replayed analytic, replay(recordings, Guide::Analytic, 64, {1, 2, 3}));
//   analytic.shares[0][7];   // of the best of the first recording, after eight trials
//
// A recording is text: a line {"workload", "target", "machine", "threads", "name"}, then a line a
// trial, {"ns": latency, "tw1": steps}. The machine is the name of a row of the table or a whole
// description (base/machine.h); without it, it is the target's generic one. Failed trials are left
// out.

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
  std::string name;      ///< of the workload, "conv_7"; empty where the recording has none
  std::string workload;  ///< its text
  Target target;         ///< with the machine that the trials were measured on
  std::vector<cost_model::Sample> trials;  ///< throughput in 1 / ns, with expected times
  double best = 0;                         ///< the largest throughput
};

/// Invalid, with the number of the line, for what is no recording or holds no trials.
Result<std::vector<Recording>> read_recordings(std::istream& in);

/// Appends what `records` say of the workload's latency: measured ones, each schedule once.
void write_recording(std::ostream& out, const std::string& name, const dsl::Workload& workload,
                     const Target& target, int threads, std::span<const db::Record> records);

/// Method by which a replayed search chooses its next trials.
/// - Random: at random.
/// - Analytic: by the analytic model.
/// - Learned: by the analytic model, corrected by the trials of this recording so far.
/// - Pretrained: by the expected times that the trials carry (cost_model/expected.h).
/// - Corrected: as Learned, but from these expected times on.
/// - Taught: as Pretrained, corrected by the trials of all other recordings, and by none of this
///   one.
enum class Guide { Random, Analytic, Learned, Pretrained, Corrected, Taught };
std::string_view to_string(Guide guide);  ///< "random", "analytic", ...

/// The best throughput after 1, 2, ... trials in random order, at most `count`.
std::vector<double> replay_random(const Recording& recording, size_t count, Random& random);

/// As replay_random(), but the model chooses the trials, eight at a time. It learns from each batch
/// if `learns`. Ties of the score are broken at random.
Result<std::vector<double>> replay_guided(const Recording& recording, cost_model::CostModel model,
                                          bool learns, size_t count, Random& random);

Result<cost_model::CostModel> taught_by_others(const std::vector<Recording>& recordings,
                                               size_t left_out);

struct Replayed {
  /// By recording: the share of its best after 1, 2, ... trials, geometric mean over the seeds.
  std::vector<std::vector<double>> shares;
  /// Geometric mean over the recordings; trials count from 1.
  double share(size_t trials) const;
};

Result<Replayed> replay(const std::vector<Recording>& recordings, Guide guide, size_t count,
                        const std::vector<uint64_t>& seeds);

}  // namespace tw::tuner
