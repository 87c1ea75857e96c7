// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/machine_findings.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/text.h"
#include "db/calibration.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"
#include "tools/reports/report.h"
#include "tuner/host_machine.h"
#include "tuner/measure/calibration.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

Finding core(const Core& core) {
  return {"core",
          fmt::format("{} GHz; per cycle {} multiply-adds, {} loads and {} stores of {} "
                      "bytes, {} instructions; a multiply-add takes {} cycles",
                      format_double(core.clock_ghz), format_double(core.fma_per_cycle),
                      format_double(core.loads_per_cycle), format_double(core.stores_per_cycle),
                      core.vector_bytes, format_double(core.instructions_per_cycle),
                      format_double(core.fma_latency_cycles))};
}

Finding dot_products(const Target& host, const Core& core) {
  std::vector<std::string> rates;
  for (const schedules::DotInstruction* row : schedules::dot_instructions(host))
    rates.push_back(fmt::format("{} {}", format_double(core.*row->per_cycle), row->name));
  return {"dot products", rates.empty() ? "none" : fmt::format("per cycle {}", join(rates, ", "))};
}

/// Returns a finding about the tensor tiles of the processor: for each kind of tile, the number of
/// dot products per cycle. A tile instruction computes 16 * 16 dot products.
Finding core_tiles(const Target& host, const Core& core) {
  std::vector<std::string> rates;
  for (const schedules::TensorTile& tile : schedules::tensor_tiles())
    if (schedules::has_core_tile(tile, host))
      rates.push_back(
          fmt::format("{} of {}", format_double(schedules::dots_per_cycle(tile, core)), tile.name));
  return {"tiles",
          rates.empty() ? "none" : fmt::format("dot products per cycle {}", join(rates, ", "))};
}

Finding caches(const Machine& machine) {
  std::vector<std::string> levels;
  for (size_t i = 0; i < machine.caches.size(); ++i) {
    const CacheLevel& cache = machine.caches[i];
    if (cache.bytes == 0) continue;
    levels.push_back(fmt::format("L{} {}, {} bytes per cycle", i + 1, show_bytes(cache.bytes),
                                 format_double(cache.bytes_per_cycle)));
  }
  return {"caches", join(levels, "; ")};
}

Finding memory(const Machine& machine) {
  return {"memory",
          fmt::format("{} bytes per cycle ({:.0f} GB/s) from one core; {} cores use all of it",
                      format_double(machine.memory_bytes_per_cycle),
                      machine.memory_bytes_per_cycle * machine.core.clock_ghz,
                      format_double(machine.cores_that_fill_memory))};
}

/// Returns a finding about the calibration of the machine: the date of the newest calibration in
/// the database. Without a calibration, the finding names the commands that calibrate.
Finding calibration(const Target& host, db::Store* store) {
  Result<std::optional<db::Calibration>> newest = std::optional<db::Calibration>();
  if (store) newest = db::newest_calibration(*store, host.to_string(), tuner::device_text(host));
  if (newest && *newest)
    return {"calibration",
            fmt::format("of {:%Y-%m-%d}, by version {}", fmt::gmtime((*newest)->created_ms / 1000),
                        (*newest)->program_version)};
  return {"calibration",
          needs_calibration(host.machine)
              ? "none yet: the next `tune`, or `doctor --calibrate`, makes one"
              : "none, as the microarchitecture is known; `doctor --calibrate` makes "
                "one"};
}

}  // namespace

Status calibrate(const Target& host, db::Store* store, const Surroundings& here) {
  if (!store)
    return fail(ErrorCode::Database,
                "[calibration] there is no database that keeps it: see what `doctor` says of it");
  TW_TRY(const Machine measured, tuner::calibrate_processor(host, here.environment.clock));
  return tuner::store_calibration(*store, host, measured,
                                  {here.environment.program_version, here.environment.now_ms()});
}

std::vector<Finding> machine_findings(const Target& host, db::Store* store,
                                      const Status& calibrated) {
  Machine machine = host.machine;
  if (store) machine = tuner::known_machine(*store, host).value_or(std::move(machine));
  Finding origin = calibration(host, store);
  if (!calibrated)
    origin = {"calibration",
              fmt::format("{}; used is {}", calibrated.error().message, describe(machine)),
              std::nullopt, false};
  return {{"microarchitecture", describe(machine)},
          core(machine.core),
          dot_products(host, machine.core),
          core_tiles(host, machine.core),
          caches(machine),
          memory(machine),
          std::move(origin)};
}

Finding round_trip_finding(const Result<double>& ns) {
  const std::string name = "round trip";
  if (!ns)
    return ns.error().code == ErrorCode::TryLater ? absent(name, ns.error())
                                                  : failed(name, ns.error());
  return {
      name,
      fmt::format("{:.0f} ns for a cache line from one core to another and back, right now", *ns)};
}

}  // namespace tw::tools
