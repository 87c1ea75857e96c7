// SPDX-License-Identifier: Apache-2.0
#include "tuner/host_machine.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/hash.h"
#include "db/calibration.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

constexpr std::string_view byte_tile_rate = "core.byte_tile_dots_per_cycle";

}  // namespace

Target with_machine(Target target, tw::Machine machine) {
  target.device = device_text(target);
  target.machine = std::move(machine);
  return target;
}

std::optional<tw::Machine> known_machine(db::Store& store, const Target& target) {
  const auto newest = db::newest_calibration(store, target.to_string(), device_text(target));
  if (!newest || !*newest) return std::nullopt;
  // A calibration of an older program lacks the speed of the processor's tensor tiles.
  if (target.has("amx_tile") && (*newest)->machine.find(byte_tile_rate) == std::string::npos)
    return std::nullopt;
  Result<tw::Machine> machine = parse_machine((*newest)->machine);
  return machine ? std::optional(std::move(*machine)) : std::nullopt;
}

Target with_known_machine(db::Store& store, Target target) {
  if (target.is_gpu()) return target;
  auto known = known_machine(store, target);
  return known ? with_machine(std::move(target), std::move(*known)) : target;
}

Status store_calibration(db::Store& store, const Target& target, const tw::Machine& machine,
                         const Measurer& measurer) {
  db::Calibration calibration;
  calibration.target = target.to_string();
  calibration.device = device_text(target);
  calibration.machine = to_string(machine);
  calibration.program_version = measurer.program_version;
  calibration.created_ms = measurer.now_ms;
  return db::add_calibration(store, std::move(calibration));
}

HostMachine choose_machine(db::Store& store, const Target& target,
                           const std::function<Result<tw::Machine>()>& calibrate,
                           const Measurer& measurer) {
  if (target.is_gpu()) return {target, {}};
  Target known = with_known_machine(store, target);
  if (!needs_calibration(known.machine)) return {std::move(known), {}};
  const Result<tw::Machine> measured = calibrate();
  if (!measured)
    return {target, fmt::format("{}; meanwhile it is taken for {}", measured.error().message,
                                describe(target.machine))};
  std::string note = fmt::format("{} was calibrated", measured->name);
  if (const Status stored = store_calibration(store, target, *measured, measurer); !stored)
    note += fmt::format(", for this run only: {}", stored.error().message);
  return {with_machine(target, *measured), std::move(note)};
}

std::string provenance(const tw::Machine& machine) {
  return fmt::format("{}; {}; {}", machine.name, to_string(machine.origin),
                     sha256_hex(to_string(machine)).substr(0, 16));
}

}  // namespace tw::tuner
