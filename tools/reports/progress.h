// SPDX-License-Identifier: Apache-2.0
#pragma once
// Progress display of a tuning run, on standard error. On a terminal it is one line that is
// redrawn, elsewhere a new line every five seconds. A thread of its own draws it, so that it stays
// up to date during a long step of the run.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "tools/surroundings.h"
#include "tuner/tune.h"

namespace tw::tools {

/// "best 235.1 µs, 983 GFLOP/s, 81 % of peak, 38x untuned | 72 s left | expected gain of the next
/// minute: 0.4 % | 48 trials (45 ok, 3 pruned) | model analytic"
/// Leaves out the least important parts where the line would exceed `columns` characters (0: no
/// limit). The best latency and the time left always stay.
std::string progress_text(const tuner::Progress& progress, int columns = 0);

class ProgressDisplay {
 public:
  /// `title` names what is tuned.
  ProgressDisplay(const Surroundings& here, std::string title);
  /// Ends the line, so that what follows begins a new one.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// Sets the progress to draw. Any thread may call it; cheap.
  void update(const tuner::Progress& progress);

 private:
  void tick();
  void draw();

  const Surroundings* here_;
  std::string title_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable stopping_;
  bool stop_ = false;
  bool drawn_ = false;
  tuner::Progress progress_;
  int64_t updated_ns_ = 0;
  std::thread ticker_;
};

}  // namespace tw::tools
