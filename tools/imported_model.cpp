// SPDX-License-Identifier: Apache-2.0
#include "tools/imported_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "graph/onnx/import.h"
#include "schedules/program/dot_products.h"
#include "tools/flags/quote.h"
#include "tools/standing_models.h"
#include "tuner/evaluation.h"
#include "tuner/workers/notes.h"

namespace tw::tools {
namespace {

/// The values of "batch=1,8".
Result<std::vector<int64_t>> values_of(const std::string& text, const std::string& verb) {
  std::vector<int64_t> values;
  const size_t equals = text.find('=');
  const auto wrong = fail(
      ErrorCode::Usage,
      fmt::format("[{}] --dim {}: expected NAME=VALUE or NAME=VALUE,VALUE with different values, "
                  "such as batch=1",
                  verb, shell_quoted(text)));
  if (equals == 0 || equals == std::string::npos) return wrong;
  for (const std::string& part : split(text.substr(equals + 1), ',')) {
    const auto value = parse_int(part);
    if (!value || *value < 1 || std::ranges::find(values, *value) != values.end()) return wrong;
    values.push_back(*value);
  }
  return values;
}

}  // namespace

Result<std::vector<Dimensions>> dimension_sets(const std::vector<std::string>& texts,
                                               const std::string& verb) {
  std::vector<Dimensions> sets(1);
  for (const std::string& text : texts) {
    TW_TRY(const std::vector<int64_t> values, values_of(text, verb));
    const std::string name = text.substr(0, text.find('='));
    if (sets.front().contains(name))
      return fail(ErrorCode::Usage, fmt::format("[{}] --dim {}: the dimension is given twice; "
                                                "give all of its values at once, as in {}=1,8",
                                                verb, shell_quoted(text), name));
    std::vector<Dimensions> longer;
    for (const Dimensions& set : sets)
      for (const int64_t value : values) {
        longer.push_back(set);
        longer.back()[name] = value;
      }
    sets = std::move(longer);
  }
  return sets;
}

Result<Constants> pinned_inputs(const std::vector<std::string>& texts, const std::string& verb) {
  Constants constants;
  for (const std::string& text : texts) {
    const auto wrong = [&](std::string_view why) {
      return fail(ErrorCode::Usage,
                  fmt::format("[{}] --constant {}: {}", verb, shell_quoted(text), why));
    };
    constexpr std::string_view expected =
        "expected NAME=VALUE, or NAME=VALUE,VALUE for an input of several elements, such as "
        "sr=16000";
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) return wrong(expected);
    std::vector<double> values;
    for (const std::string& part : split(text.substr(equals + 1), ',')) {
      const auto value = parse_double(part);
      if (!value) return wrong(expected);
      values.push_back(*value);
    }
    if (!constants.emplace(text.substr(0, equals), std::move(values)).second)
      return wrong("the input is given twice");
  }
  return constants;
}

Result<ImportedModel> import_model(const ImportFlags& flags, const Target& target,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts) {
  TW_TRY(const OnnxFile file, onnx_file_of(flags.model, flags.dimensions, place, here));
  TW_TRY(graph::OnnxModel model, graph::read_onnx(file.path, {.dimensions = file.dimensions,
                                                              .constants = flags.constants}));
  for (const std::string& warning : model.warnings)
    tuner::note(here.environment.notes, tuner::NoteKind::ModelDoubtful, warning);
  graph::PassOptions options;
  options.disabled = {flags.left_out.begin(), flags.left_out.end()};
  options.accuracy = flags.accuracy;
  options.stop = stop_on_interrupt(&interrupts);
  // Tensor tiles read floats of 16 bits.
  if (target.is_gpu()) options.disabled.insert("widen_factors");
  options.precision = flags.precision;
  for (const DType type : {Float16, BFloat16, UInt8, Int8})
    if (schedules::multiplies(target, type)) options.multiplied.insert(type);
  tuner::Evaluator evaluator(host_target());
  options.evaluate = [&](const dsl::Workload& workload, const dsl::Arrays& inputs) {
    return evaluator.outputs(workload, inputs);
  };
  options.clock_s = [&] { return static_cast<double>(here.environment.clock()) / 1e9; };
  TW_TRY(graph::Passed passed, graph::apply_passes(std::move(model.graph), options));
  return ImportedModel{std::filesystem::path(flags.model).stem().string(), std::move(passed.graph),
                       std::move(passed.runs)};
}

}  // namespace tw::tools
