// SPDX-License-Identifier: Apache-2.0
#include "base/time_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tw {
namespace {

struct Unit {
  double ns;
  std::string_view name;
  int decimals;  // digits after the point in time_text()
};
constexpr std::array units = {Unit{1, "ns", 1}, Unit{1e3, "µs", 1}, Unit{1e6, "ms", 2},
                              Unit{1e9, "s", 2}};
constexpr int most_decimals = 3;

/// Returns the largest unit that is not longer than the time, or ns if the time is below 1 ns.
const Unit& unit_of(double ns) {
  const Unit* chosen = &units[0];
  for (const Unit& unit : units)
    if (ns >= unit.ns) chosen = &unit;
  return *chosen;
}

std::string text_in(double ns, double unit_ns, std::string_view name, int decimals) {
  if (!(ns > 0)) return "-";
  return fmt::format("{:.{}f} {}", ns / unit_ns, decimals, name);
}

}  // namespace

std::string time_text(double ns) {
  const Unit& unit = unit_of(ns);
  return text_in(ns, unit.ns, unit.name, unit.decimals);
}

TimeUnit::TimeUnit(std::span<const double> times_ns) {
  double least = INFINITY, most = 0;
  for (const double ns : times_ns) {
    if (!(ns > 0) || std::isinf(ns)) continue;
    least = std::min(least, ns);
    most = std::max(most, ns);
  }
  const Unit& unit = unit_of(most > 0 ? std::sqrt(least * most) : 1);
  unit_ns_ = unit.ns;
  name_ = unit.name;
  decimals_ = unit.decimals;
  while (most > 0 && decimals_ < most_decimals && least / unit_ns_ < std::pow(10, 1 - decimals_))
    ++decimals_;
}

std::string TimeUnit::text(double ns) const { return text_in(ns, unit_ns_, name_, decimals_); }

}  // namespace tw
