// SPDX-License-Identifier: Apache-2.0
#include "tuner/pace.h"

#include <algorithm>

namespace tw::tuner {
namespace {

// Time in seconds after which a slowdown is taken for the machine's own speed. Equal to
// Gauge::memory_ns.
constexpr double lasting_s = 30;
// Share of the incumbent's expected time. If the incumbent takes less than this share, the machine
// is faster again. Timings of one kernel in different buffers differ by 2-4 %.
constexpr double clearly_faster = 1 / 1.08;

}  // namespace

void Pace::note(const MeasureReply& reply, double now_s) {
  is_disturbed_ = reply.status == db::TrialStatus::Unstable;
  // Duplicates and failed candidates were not timed, so they do not show the speed of the machine.
  const bool is_timed =
      reply.status == db::TrialStatus::Ok || reply.status == db::TrialStatus::Hopeless;
  if (is_timed) slower_since_s_.reset();
  if (reply.incumbent_pace < clearly_faster) {
    factor_ = std::max(1.0, factor_ * reply.incumbent_pace);
    slower_since_s_.reset();
  }
  if (!is_disturbed_ || reply.incumbent_pace <= 1) return;
  if (!slower_since_s_) slower_since_s_ = now_s;
  if (now_s - *slower_since_s_ <= lasting_s) return;
  factor_ *= reply.incumbent_pace;
  slower_since_s_.reset();
}

}  // namespace tw::tuner
