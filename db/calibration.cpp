// SPDX-License-Identifier: Apache-2.0
#include "db/calibration.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/hash.h"
#include "base/machine.h"
#include "base/target.h"
#include "db/exchange/json_fields.h"
#include "db/fields.h"
#include "db/record.h"

namespace tw::db {
namespace {

using Json = nlohmann::ordered_json;

constexpr int calibration_version = 1;
constexpr int depth_of_calibration = 1;  // a calibration is one object with numbers and texts

constexpr int64_t year_9999_ms = 253'402'300'799'999;
constexpr int64_t max_generation = int64_t{1} << 62;  // add_calibration() can still add 1

std::string problem_of_machine(const std::string& text) {
  const Result<Machine> machine = parse_machine(text);
  if (!machine) return machine.error().message;
  if (machine->gpu) return "its machine is a GPU";
  if (machine->origin != MachineOrigin::Calibrated)
    return fmt::format("its machine is {}, not calibrated", to_string(machine->origin));
  return {};
}

std::string problem_of(const Calibration& calibration) {
  for (const auto& [name, text] : {std::pair("device", &calibration.device),
                                   std::pair("program_version", &calibration.program_version)})
    if (text->size() > max_text_bytes || !is_valid_text(*text))
      return fmt::format("{} is not UTF-8 text of at most {} bytes", name, max_text_bytes);
  const Result<Target> target = parse_target(calibration.target);
  if (!target || target->to_string() != calibration.target)
    return "target is not the canonical text of a target";
  if (calibration.machine.size() > max_text_bytes) return "machine is too long";
  if (calibration.created_ms < 0 || calibration.created_ms > year_9999_ms)
    return fmt::format("created_ms is {}", calibration.created_ms);
  if (calibration.generation < 1 || calibration.generation > max_generation)
    return fmt::format("generation is {}", calibration.generation);
  if (calibration.hash != sha256_hex(canonical_text(calibration)))
    return "its hash is not that of its content";
  return problem_of_machine(calibration.machine);
}

Error invalid(std::string_view what, std::string_view expected) {
  return {ErrorCode::Invalid, fmt::format("[calibration] {}; {}", what, expected)};
}

Calibration calibration_from(const Json& object) {
  const int64_t version = integer_field(object, "calibration");
  if (version != calibration_version)
    throw std::invalid_argument(fmt::format("another calibration version: {}", version));
  return {text_field(object, "target"),        text_field(object, "device"),
          text_field(object, "machine"),       text_field(object, "program_version"),
          integer_field(object, "generation"), integer_field(object, "created_ms"),
          text_field(object, "hash")};
}

}  // namespace

std::string canonical_text(const Calibration& calibration) {
  std::string text = fmt::format("tilewright-calibration {}\n", calibration_version);
  append_field(text, "target", calibration.target);
  append_field(text, "device", calibration.device);
  append_field(text, "machine", calibration.machine);
  append_field(text, "program_version", calibration.program_version);
  append_field(text, "generation", std::to_string(calibration.generation));
  append_field(text, "created_ms", std::to_string(calibration.created_ms));
  return text;
}

Calibration seal(Calibration calibration) {
  calibration.hash = sha256_hex(canonical_text(calibration));
  return calibration;
}

Status check(const Calibration& calibration) {
  const std::string problem = problem_of(calibration);
  if (problem.empty()) return {};
  return tl::unexpected(invalid(
      problem,
      "no processor is like that, so it was changed or damaged; measure it again with `tilewright "
      "doctor --calibrate`"));
}

std::string to_json(const Calibration& calibration) {
  const Json object = {{"calibration", calibration_version},
                       {"target", calibration.target},
                       {"device", calibration.device},
                       {"machine", calibration.machine},
                       {"program_version", calibration.program_version},
                       {"generation", calibration.generation},
                       {"created_ms", calibration.created_ms},
                       {"hash", calibration.hash}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Calibration> calibration_from_json(std::string_view line) {
  constexpr std::string_view expected =
      "a line written by `tilewright db export` was expected; export it again";
  if (line.size() > max_line_bytes)
    return tl::unexpected(invalid("the line is longer than 1 MiB", expected));
  try {
    return calibration_from(parse_object(line, depth_of_calibration));
  } catch (const std::exception& error) {
    return tl::unexpected(invalid(error.what(), expected));
  }
}

}  // namespace tw::db
