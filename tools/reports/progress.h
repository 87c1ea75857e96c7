// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shows the progress of a tuning run on standard error. On a terminal, one line is redrawn every
// half second; otherwise a new line is printed every five seconds. The display has a thread that
// draws, so that the display stays up to date during a long step of the run.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "tools/surroundings.h"
#include "tuner/tune.h"

namespace tw::tools {

/// Returns the line of the display: "best 235.1 µs, 983 GFLOP/s, 81 % of peak, 38x untuned | 72 s
/// left | expected gain of the next minute: 0.4 % | 48 trials (45 ok, 3 pruned) | model analytic".
/// If the line would exceed `columns` characters (0: no limit), the least important parts are left
/// out. The best latency and the time left are always shown.
std::string progress_text(const tuner::Progress& progress, int columns = 0);

class ProgressDisplay {
 public:
  /// Prints `title`, the name of the workload or network, on a line of its own, and begins to draw.
  ProgressDisplay(const Surroundings& here, std::string title);
  /// Draws the last state and ends the line, so that later output begins on a new line.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// Sets the progress to draw. Any thread may call this function. It is cheap.
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
