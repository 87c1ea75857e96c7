// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/contention.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/text.h"

namespace tw::tuner {
namespace {

/// Returns the words of the first line whose first word is `label`; none if there is no such line.
std::vector<std::string> line_of(const std::string& path, std::string_view label) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> parts = words(line);
    if (!parts.empty() && parts[0] == label) return parts;
  }
  return {};
}

/// Returns the time taken by the hypervisor, from the line "cpu user nice system idle iowait irq
/// softirq steal ...", whose numbers are clock ticks. nullopt if the file has no such line.
std::optional<int64_t> steal_ns(const std::string& path) {
  const auto parts = line_of(path, "cpu");
  if (parts.size() < 9) return std::nullopt;
  const auto ticks = parse_int(parts[8]);
  if (!ticks) return std::nullopt;
  return *ticks * (1'000'000'000 / std::max(::sysconf(_SC_CLK_TCK), 1L));
}

/// Returns the time in which some task waited, from the line "some avg10=0.00 avg60=0.00
/// avg300=0.00 total=123456", whose total is in microseconds. nullopt if the file has no such line.
std::optional<int64_t> pressure_ns(const std::string& path) {
  constexpr std::string_view label = "total=";
  for (const std::string& part : line_of(path, "some")) {
    if (!part.starts_with(label)) continue;
    if (const auto us = parse_int(std::string_view(part).substr(label.size()))) return *us * 1000;
  }
  return std::nullopt;
}

std::optional<double> increase(const std::optional<int64_t>& before,
                               const std::optional<int64_t>& after) {
  if (!before || !after) return std::nullopt;
  return static_cast<double>(*after - *before);
}

}  // namespace

std::optional<int64_t> involuntary_switches() {
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  return usage.ru_nivcsw;
}

Counters read_counters(const CounterSources& sources) {
  return {involuntary_switches(), steal_ns(sources.stat), pressure_ns(sources.pressure)};
}

std::optional<std::string> contention(const Counters& before, const Counters& after,
                                      int64_t elapsed_ns, const Tolerance& tolerance) {
  const auto elapsed = static_cast<double>(std::max<int64_t>(elapsed_ns, 1));
  const auto switches = increase(before.involuntary_switches, after.involuntary_switches);
  if (switches && *switches >= static_cast<double>(tolerance.least_switches) &&
      *switches * 1e9 / elapsed > tolerance.switches_per_second)
    return fmt::format("{:.0f} involuntary context switches in {:.0f} ms", *switches,
                       elapsed / 1e6);
  const auto steal = increase(before.steal_ns, after.steal_ns);
  if (steal && *steal / elapsed > tolerance.steal_share)
    return fmt::format("{:.0f} % of a processor taken by the hypervisor", 100 * *steal / elapsed);
  const auto pressure = increase(before.pressure_ns, after.pressure_ns);
  if (pressure && *pressure / elapsed > tolerance.pressure_share)
    return fmt::format("tasks waited for a processor {:.0f} % of the time",
                       100 * *pressure / elapsed);
  return std::nullopt;
}

std::optional<std::string> drift(double speed_before, double speed_after,
                                 const Tolerance& tolerance) {
  if (!(speed_before > 0) || !(speed_after > 0)) return "the machine's speed could not be measured";
  const double change = speed_after / speed_before - 1;
  if (std::abs(change) <= tolerance.drift) return std::nullopt;
  return fmt::format("the machine's speed changed by {:+.1f} %", 100 * change);
}

}  // namespace tw::tuner
