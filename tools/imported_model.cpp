// SPDX-License-Identifier: Apache-2.0
#include "tools/imported_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "graph/onnx/import.h"
#include "tools/flags/quote.h"
#include "tools/standing_models.h"
#include "tuner/network/passes_for_target.h"
#include "tuner/workers/notes.h"

namespace tw::tools {
namespace {

/// Parses the values of a text such as "batch=1,8".
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

Result<std::vector<tuner::Dimensions>> dimension_sets(const std::vector<std::string>& texts,
                                                      const std::string& verb) {
  std::vector<tuner::Dimensions> sets(1);
  for (const std::string& text : texts) {
    TW_TRY(const std::vector<int64_t> values, values_of(text, verb));
    const std::string name = text.substr(0, text.find('='));
    if (sets.front().contains(name))
      return fail(ErrorCode::Usage, fmt::format("[{}] --dim {}: the dimension is given twice; "
                                                "give all of its values at once, as in {}=1,8",
                                                verb, shell_quoted(text), name));
    std::vector<tuner::Dimensions> longer;
    for (const tuner::Dimensions& set : sets)
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

Result<tuner::NetworkVariant> read_network(const ImportFlags& flags, const PlaceFlags& place,
                                           const Surroundings& here) {
  const int64_t before = here.environment.clock();
  TW_TRY(const OnnxFile file, onnx_file_of(flags.model, flags.dimensions, place, here));
  TW_TRY(graph::OnnxModel model, graph::read_onnx(file.path, {.dimensions = file.dimensions,
                                                              .constants = flags.constants}));
  for (const std::string& warning : model.warnings)
    tuner::note(here.environment.notes, tuner::NoteKind::ModelDoubtful, warning);
  return tuner::NetworkVariant{flags.dimensions, std::move(model.graph),
                               static_cast<double>(here.environment.clock() - before) / 1e9};
}

std::string network_name(const std::string& model) {
  return std::filesystem::path(model).stem().string();
}

Result<ImportedModel> import_model(const ImportFlags& flags, const Target& target,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts) {
  TW_TRY(tuner::NetworkVariant read, read_network(flags, place, here));
  tuner::Environment environment = here.environment;
  environment.interrupts = &interrupts;
  TW_TRY(graph::Passed passed,
         tuner::apply_passes_for(target, std::move(read.graph), {}, environment));
  return ImportedModel{network_name(flags.model), std::move(passed.graph)};
}

}  // namespace tw::tools
