// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times for people: one time by itself, and the times of one table in one unit. Pure;
// locale-independent.

#include <span>
#include <string>
#include <string_view>

namespace tw {

/// "235.1 µs"; "-" for a time that is not positive or not a number.
std::string time_text(double ns);

/// The unit of times that are read against each other, as those of one table are:
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
  /// "-" for a time that is not positive or not a number.
  std::string text(double ns) const;

 private:
  double unit_ns_;
  std::string_view name_;
  int decimals_;
};

}  // namespace tw
