// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prints times for people to read: a single time in the unit that suits it, and the times of a
// table in a common unit. Pure functions, independent of the locale. Thread-safe.

#include <span>
#include <string>
#include <string_view>

namespace tw {

/// Returns the time in the largest of s, ms, µs and ns in which the number is at least 1: "235.1
/// µs". A time below 1 ns is given in ns. Returns "-" if the time is not positive or not a number.
std::string time_text(double ns);

/// A common unit for times that are to be compared, for example those of a table:
///
///   const TimeUnit unit(std::array{60'000.0, 230.0});
///   unit.text(60'000);  // "60.00 µs"
///   unit.text(230);     // "0.23 µs", and not "230.0 ns"
///
/// The unit is the one that time_text() would use for the geometric mean of the smallest and the
/// largest time. All texts of the unit have the same number of decimals: as many as show two digits
/// of the smallest time, but at least as many as time_text() shows in this unit, and at most three.
class TimeUnit {
 public:
  explicit TimeUnit(std::span<const double> times_ns);
  /// Returns the time in this unit; "-" if the time is not positive or not a number.
  std::string text(double ns) const;

 private:
  double unit_ns_;
  std::string_view name_;
  int decimals_;
};

}  // namespace tw
