// SPDX-License-Identifier: Apache-2.0
// tilewright run NET.twart: runs a network on arrays from .npy files, or on random arrays.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "base/time_text.h"
#include "runtime/model.h"
#include "runtime/private_file.h"
#include "tools/flags/quote.h"
#include "tools/model_files.h"
#include "tools/npy.h"
#include "tools/outputs.h"
#include "tuner/measure/sampling.h"
#include "tuner/network/race.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"
#include "tuner/workers/device_lock.h"

namespace tw::tools {
namespace {

using runtime::ArgumentInfo;
using runtime::Model;

constexpr double timing_s = 0.5;
constexpr int most_calls = 100, profiled_calls = 15;

/// A network, loaded on the device on which it runs.
struct PlacedModel {
  Model model;
  std::string device;  ///< the device's text, as in records; empty: the processor
};

Result<PlacedModel> open_placed(const ModelRunFlags& flags) {
  TW_TRY(const runtime::MappedModel file,
         runtime::map_model(flags.path, runtime::Trust::Own, host_target(),
                            runtime::Constants::Trusted));
  TW_TRY(const Target target, parse_target(file.model.target));
  if (!target.is_gpu()) {
    if (tuner::names_gpu(flags.target))
      return fail(ErrorCode::Usage, fmt::format("[run] --target {} contradicts the network, which "
                                                "is for {}: leave it out",
                                                flags.target, file.model.target));
    TW_TRY(Model model, Model::open(flags.path));
    return PlacedModel{std::move(model), ""};
  }
  TW_TRY(const auto device, tuner::device_for(target, flags.target));
  TW_TRY(Model model, Model::open(flags.path, {.device = device}));
  return PlacedModel{std::move(model),
                     tuner::device_text(tuner::with_facts(target, device->facts()))};
}

/// Paths of .npy files. The key is the name of the input or output whose array is in the file.
using ArrayFiles = std::map<std::string, std::string>;

std::vector<std::string> names_of(const Model& model, bool outputs) {
  std::vector<std::string> names;
  for (const ArgumentInfo& argument : model.arguments())
    if (argument.is_output == outputs) names.push_back(argument.name);
  return names;
}

/// Parses texts "name=path". If the network has only one input (or, with `outputs`, one output),
/// the path alone is enough. Fails with Usage if a name is unknown or given twice, or if a path is
/// empty.
Result<ArrayFiles> array_files(const std::vector<std::string>& texts, const Model& model,
                               bool outputs) {
  const std::string_view flag = outputs ? "--output" : "--input";
  const std::vector<std::string> names = names_of(model, outputs);
  ArrayFiles files;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string name = equals != std::string::npos ? text.substr(0, equals)
                             : names.size() == 1         ? names[0]
                                                         : "";
    if (std::ranges::find(names, name) == names.end())
      return fail(ErrorCode::Usage,
                  fmt::format("[run] {} {}: expected NAME=FILE with one of the names {}", flag,
                              shell_quoted(text), join(names, ", ")));
    const std::string path = equals == std::string::npos ? text : text.substr(equals + 1);
    if (path.empty())
      return fail(ErrorCode::Usage, fmt::format("[run] {} {}: the path is empty; give one", flag,
                                                shell_quoted(text)));
    if (!files.emplace(name, path).second)
      return fail(ErrorCode::Usage, fmt::format("[run] {}: '{}' is given twice", flag, name));
  }
  return files;
}

/// Arrays that the user gives for inputs. The key is the name of the input.
using GivenArrays = std::map<std::string, dsl::Array>;

Result<GivenArrays> read_arrays(const ArrayFiles& files) {
  GivenArrays arrays;
  for (const auto& [name, path] : files) {
    TW_TRY(arrays[name], read_npy(path));
  }
  return arrays;
}

bool takes(std::span<const ArgumentInfo> arguments, const GivenArrays& given) {
  return std::ranges::all_of(arguments, [&](const ArgumentInfo& argument) {
    const auto array = argument.is_output ? given.end() : given.find(argument.name);
    return array == given.end() || array->second.shape == argument.shape;
  });
}

/// Returns the index of the variant to run: `asked`, or if `asked` is negative, the first variant
/// whose inputs have the shapes of the given arrays. If there is no such variant, returns 0; the
/// call of the network will then fail and say what was expected. Fails with Usage if the variant
/// `asked` does not exist or its inputs have other shapes.
Result<size_t> variant_for(const Model& model, const GivenArrays& given, int64_t asked) {
  const size_t count = model.info().variants.size();
  if (asked >= std::ssize(model.info().variants))
    return fail(
        ErrorCode::Usage,
        fmt::format("[run] --variant {}: the network has variants 0 to {}", asked, count - 1));
  if (asked >= 0 && !takes(model.arguments(static_cast<size_t>(asked)), given))
    return fail(ErrorCode::Usage,
                fmt::format("[run] the inputs are not of the shapes of variant {}: leave --variant "
                            "out, or see `tilewright show` of the file",
                            asked));
  if (asked >= 0) return static_cast<size_t>(asked);
  for (size_t variant = 0; variant < count; ++variant)
    if (takes(model.arguments(variant), given)) return variant;
  return 0;
}

/// Makes arrays for all arguments of a variant: the given arrays, random arrays for the other
/// inputs, and arrays for the outputs.
Result<tuner::ModelArrays> arrays_for(const Model& model, size_t variant, GivenArrays given,
                                      int64_t seed) {
  TW_TRY(tuner::ModelArrays arrays,
         tuner::random_arrays(model, static_cast<uint64_t>(seed), variant));
  for (size_t i = 0; i < arrays.arrays.size(); ++i) {
    const ArgumentInfo& argument = model.arguments(variant)[i];
    const auto array = argument.is_output ? given.end() : given.find(argument.name);
    if (array != given.end()) arrays.arrays[i] = std::move(array->second);
  }
  return arrays;
}

Status write_outputs(const Model& model, const tuner::ModelArrays& arrays,
                     const ArrayFiles& files) {
  for (size_t i = 0; i < arrays.arrays.size(); ++i) {
    const ArgumentInfo& argument = model.arguments()[i];
    const auto file = argument.is_output ? files.find(argument.name) : files.end();
    if (file != files.end()) TW_RETURN_IF_ERROR(write_npy(file->second, arrays.arrays[i]));
  }
  return {};
}

struct ModelTimes {
  size_t variant = 0;
  double latency_ns = 0;  ///< median of the calls
  int calls = 0;
  std::vector<double> steps_ns;  ///< median time of each step; empty: not profiled
  runtime::ModelProfile latest_profile;
};

Result<ModelTimes> time_calls(const Model& model, const std::vector<runtime::Buffer>& buffers,
                              runtime::ThreadPool& pool, const tuner::Clock& clock) {
  TW_TRY(const tuner::ModelCall call, tuner::repeated_call(model, buffers, pool));
  TW_RETURN_IF_ERROR(call());
  std::vector<double> times;
  const int64_t started = clock();
  while (times.empty() || (std::ssize(times) < most_calls &&
                           static_cast<double>(clock() - started) < timing_s * 1e9)) {
    const int64_t before = clock();
    TW_RETURN_IF_ERROR(call());
    times.push_back(static_cast<double>(clock() - before));
  }
  ModelTimes result;
  result.calls = static_cast<int>(times.size());
  result.latency_ns = tuner::median(std::move(times));
  return result;
}

Status profile_calls(const Model& model, const std::vector<runtime::Buffer>& buffers,
                     runtime::ThreadPool& pool, ModelTimes& times) {
  std::vector<std::vector<double>> steps(model.info().variants[times.variant].steps.size());
  for (int call = 0; call < profiled_calls; ++call) {
    TW_TRY(times.latest_profile, model.profile(buffers, pool));
    const std::vector<double> ns = runtime::times_of_steps(model.info(), times.latest_profile);
    for (size_t step = 0; step < steps.size(); ++step) steps[step].push_back(ns[step]);
  }
  for (std::vector<double>& each : steps)
    times.steps_ns.push_back(each.empty() ? 0 : tuner::median(std::move(each)));
  return {};
}

Status write_trace(const std::string& path, const Model& model, const ModelTimes& times) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << runtime::to_trace(model.info(), times.latest_profile);
  file.close();
  if (file) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[run] {} cannot be written", shell_quoted(path)));
}

Table profile_table(const Model& model, const ModelTimes& times) {
  Table table{{"step", "time", "% of all", "predicted"}, {}};
  double all = 0;
  for (const double ns : times.steps_ns) all += ns;
  const std::vector<runtime::ModelStep>& steps = model.info().variants[times.variant].steps;
  std::vector<double> shown = times.steps_ns;
  for (const runtime::ModelStep& step : steps) shown.push_back(step.predicted_ns);
  const TimeUnit unit(shown);
  for (size_t i = 0; i < times.steps_ns.size(); ++i) {
    const runtime::ModelStep& step = steps[i];
    table.rows.push_back({name_with_runs(model.info().variants[times.variant], i),
                          unit.text(times.steps_ns[i]),
                          fmt::format("{:.1f}", all > 0 ? 100 * times.steps_ns[i] / all : 0),
                          unit.text(step.predicted_ns)});
  }
  return table;
}

double predicted_ns(const runtime::ModelVariant& variant) {
  double sum = 0;
  for (const runtime::ModelStep& step : variant.steps) sum += step.predicted_ns;
  return sum;
}

Status print_run_as_json(const ModelRunFlags& flags, const PlacedModel& placed,
                         const ModelTimes& times, const ArrayFiles& outputs) {
  const Model& model = placed.model;
  const runtime::ModelVariant& variant = model.info().variants[times.variant];
  nlohmann::json steps = nlohmann::json::array();
  for (size_t i = 0; i < times.steps_ns.size(); ++i)
    steps.push_back({{"name", variant.steps[i].name},
                     {"runs", runs_of(variant, i)},
                     {"ns", times.steps_ns[i]},
                     {"predicted_ns", variant.steps[i].predicted_ns}});
  return print_json("run", {{"artifact", flags.path},
                            {"network", model.info().name},
                            {"variant", times.variant},
                            {"threads", model.info().threads},
                            {"device", placed.device},
                            {"latency_ns", times.latency_ns},
                            {"calls", times.calls},
                            {"predicted_ns", predicted_ns(variant)},
                            {"constant_bytes", model.constant_bytes()},
                            {"call_bytes", model.call_bytes(times.variant)},
                            {"outputs", outputs},
                            {"steps", steps}});
}

Status print_run(const ModelRunFlags& flags, const PlacedModel& placed, const ModelTimes& times,
                 const ArrayFiles& outputs, const Surroundings& here) {
  if (flags.format == Format::Json) return print_run_as_json(flags, placed, times, outputs);
  const Model& model = placed.model;
  const runtime::ModelVariant& variant = model.info().variants[times.variant];
  Facts facts = {
      {"network", model.info().name},
      {"inputs", runtime::show_inputs(variant)},
      {"latency",
       fmt::format("{}, median of {}", time_text(times.latency_ns), counted(times.calls, "call"))},
      {"predicted", time_text(predicted_ns(variant))},
      placed.device.empty() ? Facts::value_type{"threads", std::to_string(model.info().threads)}
                            : Facts::value_type{"device", placed.device},
      {"memory", fmt::format("{} of constants, {} a call", show_bytes(model.constant_bytes()),
                             show_bytes(model.call_bytes(times.variant)))}};
  for (const auto& [name, path] : outputs) facts.emplace_back(name, shell_quoted(path));
  const std::string table =
      flags.profile ? "\n" + as_text(profile_table(model, times), here) : std::string();
  return print(as_text(facts) + table);
}

}  // namespace

Result<int> run_model(const ModelRunFlags& flags, const Surroundings& here) {
  TW_TRY(const PlacedModel placed, open_placed(flags));
  const Model& model = placed.model;
  TW_TRY(const ArrayFiles inputs, array_files(flags.inputs, model, false));
  TW_TRY(const ArrayFiles outputs, array_files(flags.outputs, model, true));
  std::vector<std::string> read = {flags.path}, written;
  for (const auto& [name, path] : inputs) read.push_back(path);
  for (const auto& [name, path] : outputs) written.push_back(path);
  if (!flags.trace.empty()) written.push_back(flags.trace);
  for (const std::string& path : written) TW_RETURN_IF_ERROR(runtime::check_output(path));
  TW_RETURN_IF_ERROR(check_separate(read, written));
  TW_TRY(GivenArrays given, read_arrays(inputs));
  TW_TRY(const size_t variant, variant_for(model, given, flags.variant));
  TW_TRY(tuner::ModelArrays arrays, arrays_for(model, variant, std::move(given), flags.seed));
  const std::vector<runtime::Buffer> buffers = arrays.buffers();
  runtime::PoolOptions options;
  options.threads = model.info().threads;
  runtime::ThreadPool pool(options);
  TW_RETURN_IF_ERROR(model.call(buffers, pool));
  TW_RETURN_IF_ERROR(write_outputs(model, arrays, outputs));
  tuner::DeviceTurn turn;
  if (model.device()) {
    TW_TRY(turn, tuner::turn_on(*model.device(), here.environment.clock));
  }
  TW_TRY(ModelTimes times, time_calls(model, buffers, pool, here.environment.clock));
  times.variant = variant;
  if (flags.profile || !flags.trace.empty())
    TW_RETURN_IF_ERROR(profile_calls(model, buffers, pool, times));
  if (!flags.trace.empty()) TW_RETURN_IF_ERROR(write_trace(flags.trace, model, times));
  TW_RETURN_IF_ERROR(print_run(flags, placed, times, outputs, here));
  return 0;
}

}  // namespace tw::tools
