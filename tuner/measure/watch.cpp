// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "tuner/measure/contention.h"
#include "tuner/measure/meeting.h"

namespace tw::tuner {
namespace {

/// A reading below this share of the undisturbed speed is taken as disturbed. Of 30,000 readings on
/// an undisturbed core, fewer than one in a hundred was lower. Another process on the core's
/// sibling thread slows the loop by 30 % or more.
constexpr double least_speed = 0.90;

/// The reading after a timing also serves as the reading before the next timing if it is at most
/// this old.
constexpr int64_t fresh_ns = 200'000;

/// Number of readings that warm up a core. After some milliseconds without work, the clock of a
/// core is 18 to 30 % lower for the first 1 to 2 ms of work. A reading takes 20 to 70 us, so 100
/// readings take longer than that.
constexpr int most_warming_readings = 100;

constexpr auto rest_time = std::chrono::milliseconds(4);

class ProcessorWatch final : public Watch {
 public:
  ProcessorWatch(Gauge& gauge, Clock clock) : gauge_(gauge), clock_(std::move(clock)) {
    for (int i = 0; i < most_warming_readings; ++i) (void)gauge_.read();
  }

  void begin() override {
    if (read_ns_ == 0 || clock_() - read_ns_ > fresh_ns) {
      gauge_.assemble(usual_patience_ns);
      before_ = warmed_up();
    }
    switches_ = switches();
  }

  Moment end() override {
    const int64_t switched = switches() - switches_;
    const double after = gauge_.read();
    const Moment moment = {std::min(before_, after), switched};
    before_ = after;
    read_ns_ = clock_();
    return moment;
  }

  std::optional<std::string> objection(const Moment& moment) const override {
    if (moment.switches > 0)
      return fmt::format("other processes took the processor {} times", moment.switches);
    const double share = moment.speed / gauge_.undisturbed();
    if (share >= least_speed) return std::nullopt;
    return fmt::format("the processor ran at {:.0f} % of the speed that it has shown", 100 * share);
  }

  void rest() override { std::this_thread::sleep_for(rest_time); }

 private:
  /// Returns the first reading that is about as fast as the undisturbed speed, or the last reading
  /// if none is.
  double warmed_up() {
    double speed = gauge_.read();
    for (int i = 1; i < most_warming_readings && speed < least_speed * gauge_.undisturbed(); ++i)
      speed = gauge_.read();
    return speed;
  }
  static int64_t switches() { return involuntary_switches().value_or(0); }

  Gauge& gauge_;
  Clock clock_;
  double before_ = 0;
  int64_t read_ns_ = 0, switches_ = 0;
};

}  // namespace

std::unique_ptr<Watch> watch_processor(Gauge& gauge, Clock clock) {
  return std::make_unique<ProcessorWatch>(gauge, std::move(clock));
}

}  // namespace tw::tuner
