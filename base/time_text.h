// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times for people: one time by itself, and the times of one table in one unit. Pure functions,
// independent of the locale. Thread-safe.

#include <span>
#include <string>
#include <string_view>

namespace tw {

/// The time in the largest unit of which it is at least one: "235.1 µs". "-" for a time that is not
/// positive or not a number.
std::string time_text(double ns);

/// One unit for times that are read against each other, as in a table:
///
///   const TimeUnit unit(std::array{60'000.0, 230.0});
///   unit.text(60'000);  // "60.00 µs"
///   unit.text(230);     // "0.23 µs", and not "230.0 ns"
///
/// The unit is that of the geometric mean of the smallest and the largest time. Every text has the
/// same number of decimals: as many as show two digits of the smallest time, at most three.
class TimeUnit {
 public:
  explicit TimeUnit(std::span<const double> times_ns);
  /// The time in the unit; "-" for a time that is not positive or not a number.
  std::string text(double ns) const;

 private:
  double unit_ns_;
  std::string_view name_;
  int decimals_;
};

}  // namespace tw
