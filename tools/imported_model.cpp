// SPDX-License-Identifier: Apache-2.0
#include "tools/imported_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/text.h"
#include "graph/onnx/import.h"
#include "tools/quote.h"
#include "tools/standing_models.h"

namespace tw::tools {
namespace {

Result<std::map<std::string, int64_t>> dimensions_of(const ImportFlags& flags,
                                                     const std::string& verb) {
  std::map<std::string, int64_t> dimensions;
  for (const std::string& text : flags.dimensions) {
    const size_t equals = text.find('=');
    const auto value =
        equals == std::string::npos ? std::nullopt : parse_int(text.substr(equals + 1));
    if (equals == 0 || !value || *value < 1)
      return fail(ErrorCode::Usage,
                  fmt::format("[{}] --dim {}: expected NAME=VALUE, such as batch=1", verb,
                              shell_quoted(text)));
    dimensions[text.substr(0, equals)] = *value;
  }
  return dimensions;
}

}  // namespace

Result<ImportedModel> import_model(const ImportFlags& flags, const std::string& verb,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts) {
  TW_TRY(const auto dimensions, dimensions_of(flags, verb));
  TW_TRY(const std::string path, onnx_file_of(flags.model, place, here));
  TW_TRY(graph::Graph graph, graph::read_onnx(path, {.dimensions = dimensions}));
  graph::PassOptions options;
  options.disabled = {flags.left_out.begin(), flags.left_out.end()};
  options.stops = [&] { return interrupts.load() > 0; };
  options.clock_s = [&] { return static_cast<double>(here.environment.clock()) / 1e9; };
  TW_TRY(graph::Passed passed, graph::apply_passes(std::move(graph), options));
  return ImportedModel{std::filesystem::path(path).stem().string(), std::move(passed.graph),
                       std::move(passed.runs)};
}

}  // namespace tw::tools
