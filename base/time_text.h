// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times as text for people: a single time, and the times of a table in one unit. Pure functions,
// independent of the locale. Thread-safe.

#include <span>
#include <string>
#include <string_view>

namespace tw {

/// The time in the largest unit that does not exceed it: "235.1 µs". "-" if the time is not
/// positive or not a number.
std::string time_text(double ns);

/// A common unit for times that readers compare, as in a table:
///
///   const TimeUnit unit(std::array{60'000.0, 230.0});
///   unit.text(60'000);  // "60.00 µs"
///   unit.text(230);     // "0.23 µs", and not "230.0 ns"
///
/// The unit is the one that time_text() would use for the geometric mean of the smallest and the
/// largest time. Every text has the same number of decimals, at most three: enough to show two
/// digits of the smallest time.
class TimeUnit {
 public:
  explicit TimeUnit(std::span<const double> times_ns);
  /// The time in this unit; "-" if the time is not positive or not a number.
  std::string text(double ns) const;

 private:
  double unit_ns_;
  std::string_view name_;
  int decimals_;
};

}  // namespace tw
