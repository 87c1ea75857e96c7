// SPDX-License-Identifier: Apache-2.0
// Descriptions of networks in files.
#include "tools/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/time_text.h"
#include "codegen/command.h"
#include "schedules/schedule.h"
#include "tools/reports/gpu_network.h"
#include "tuner/targets.h"

namespace tw::tools {
namespace {

using runtime::ModelFile;
using runtime::ModelStep;
using runtime::ModelTensor;
using runtime::ModelVariant;

/// Returns the operator of a step's kernel, such as "conv2d". If a step of its schedule rewrites
/// the compute, the name of that step follows: "conv2d (winograd)". Returns "transform" for a copy
/// into another layout.
std::string kind_of(const ModelFile& model, const ModelStep& step) {
  const runtime::KernelInfo& kernel = model.kernels[static_cast<size_t>(step.kernel)].info;
  if (step.name.find(" -> ") != std::string::npos) return "transform";
  const std::string operation = kernel.workload.substr(0, kernel.workload.find(' '));
  const std::string algorithm = schedules::rewriting_text(kernel.schedule);
  if (algorithm.empty()) return operation;
  return fmt::format("{} ({})", operation, algorithm.substr(0, algorithm.find(' ')));
}

double total_ns(const ModelVariant& variant) {
  double total = 0;
  for (const ModelStep& step : variant.steps) total += step.predicted_ns;
  return total;
}

int64_t distinct_kernels(const ModelVariant& variant) {
  std::set<int> kernels;
  for (const ModelStep& step : variant.steps) kernels.insert(step.kernel);
  return std::ssize(kernels);
}

/// Returns a text about the bands of a variant (runtime::ModelBand): "2 bands of 2 to 4 chains side
/// by side".
std::string bands_text(const ModelVariant& variant) {
  const auto [least, most] = std::ranges::minmax(
      variant.bands, {}, [](const runtime::ModelBand& band) { return band.chains.size(); });
  const std::string range = least.chains.size() == most.chains.size()
                                ? std::to_string(most.chains.size())
                                : fmt::format("{} to {}", least.chains.size(), most.chains.size());
  return fmt::format("{} of {} chains side by side", counted(std::ssize(variant.bands), "band"),
                     range);
}

/// Returns a text about the number of threads: "2", or "2; 5 steps on fewer; 3 bands of 2 chains
/// side by side" if some steps run on fewer threads or the variant has bands.
std::string threads_text(const ModelFile& model, const ModelVariant& variant) {
  std::string text = std::to_string(model.threads);
  const auto limited = std::ranges::count_if(variant.steps, [&](const ModelStep& step) {
    return step.threads > 0 && step.threads < model.threads;
  });
  if (limited > 0) text += fmt::format("; {} on fewer", counted(limited, "step"));
  if (!variant.bands.empty()) text += "; " + bands_text(variant);
  return text;
}

/// Returns for each step a text about its place in the bands of a variant. Example: "2: chain 1"
/// for a step of the first chain of the second band. The text is empty for steps outside of bands.
std::vector<std::string> places_in_bands(const ModelVariant& variant) {
  std::vector<std::string> places(variant.steps.size());
  for (size_t band = 0; band < variant.bands.size(); ++band)
    for_each_chain(variant.bands[band], [&](size_t chain, size_t first, size_t end) {
      for (size_t step = first; step < end; ++step)
        places[step] = fmt::format("{}: chain {}", band + 1, chain + 1);
    });
  return places;
}

std::string type_text(const ModelTensor& tensor) {
  return fmt::format("{}[{}]{}", to_string(tensor.dtype), fmt::join(tensor.shape, ", "),
                     tensor.layout.empty() ? "" : " " + tensor.layout);
}

std::string ports(const ModelVariant& model, const std::vector<int>& tensors) {
  std::vector<std::string> texts;
  for (const int tensor : tensors) {
    const ModelTensor& port = model.tensors[static_cast<size_t>(tensor)];
    texts.push_back(port.name + ": " + type_text(port));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string arguments_text(const ModelVariant& variant, const ModelStep& step) {
  std::vector<std::string> arguments;
  for (const int argument : step.arguments)
    arguments.push_back(type_text(variant.tensors[static_cast<size_t>(argument)]));
  return join(arguments, ", ");
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : "-";
}

}  // namespace

bool is_file_operand(const std::string& operand) {
  return operand.find('/') != std::string::npos || operand.ends_with(".twart") ||
         operand.ends_with(".onnx") || runtime::is_model_file(operand);
}

int64_t runs_of(const ModelVariant& variant, size_t step) {
  for (const runtime::ModelLoop& loop : variant.loops)
    if (std::cmp_greater_equal(step, loop.first) && std::cmp_less(step, loop.first + loop.count))
      return loop.trips;
  return 1;
}

std::string name_with_runs(const ModelVariant& variant, size_t step) {
  const int64_t runs = runs_of(variant, step);
  const std::string& name = variant.steps[step].name;
  return runs == 1 ? name : fmt::format("{}, {} times", name, runs);
}

Facts facts_of(const ModelFile& model, size_t number) {
  const ModelVariant& variant = model.variants[number];
  Facts facts = {{"inputs", ports(variant, variant.inputs)},
                 {"outputs", ports(variant, variant.outputs)},
                 {"steps", fmt::format("{} of {}", counted(std::ssize(variant.steps), "step"),
                                       counted(distinct_kernels(variant), "distinct kernel"))},
                 {"constants", show_bytes(std::ssize(model.constants))},
                 {"arena", fmt::format("{}, lower bound {}", show_bytes(variant.arena_bytes),
                                       show_bytes(runtime::least_arena_bytes(model, variant)))}};
  for (const runtime::ModelLoop& loop : variant.loops)
    facts.emplace_back("loop", fmt::format("{}: {}, {}", loop.name, counted(loop.count, "step"),
                                           counted(loop.trips, "trip")));
  if (!tuner::names_gpu(model.target)) facts.emplace_back("threads", threads_text(model, variant));
  facts.emplace_back("target", model.target);
  return facts;
}

Table table_of_steps(const ModelFile& model, size_t number) {
  const ModelVariant& variant = model.variants[number];
  Table table{{"step", "computes", "time", "% of all", "arguments"}, {}};
  const double all = total_ns(variant);
  std::vector<double> times;
  for (const ModelStep& step : variant.steps) times.push_back(step.predicted_ns);
  const TimeUnit unit(times);
  for (size_t i = 0; i < variant.steps.size(); ++i) {
    const ModelStep& step = variant.steps[i];
    table.rows.push_back({name_with_runs(variant, i), kind_of(model, step),
                          unit.text(step.predicted_ns), share_text(step.predicted_ns, all),
                          arguments_text(variant, step)});
  }
  if (variant.bands.empty()) return table;
  const std::vector<std::string> places = places_in_bands(variant);
  constexpr ptrdiff_t behind_name = 1;
  table.header.insert(table.header.begin() + behind_name, "side by side");
  for (size_t i = 0; i < places.size(); ++i)
    table.rows[i].insert(table.rows[i].begin() + behind_name, places[i]);
  return table;
}

Table table_of_costs(const ModelFile& model, size_t number) {
  struct Sum {
    std::string kind;
    int64_t steps = 0;
    double ns = 0;
  };
  std::map<std::string, Sum> sums;
  for (const ModelStep& step : model.variants[number].steps) {
    Sum& sum = sums[kind_of(model, step)];
    ++sum.steps;
    sum.ns += step.predicted_ns;
  }
  std::vector<Sum> sorted;
  for (auto& [kind, sum] : sums) sorted.push_back({kind, sum.steps, sum.ns});
  std::ranges::stable_sort(sorted, [](const Sum& a, const Sum& b) { return a.ns > b.ns; });
  Table table{{"computes", "steps", "time", "% of all"}, {}};
  std::vector<double> times;
  for (const Sum& sum : sorted) times.push_back(sum.ns);
  const TimeUnit unit(times);
  for (const Sum& sum : sorted)
    table.rows.push_back({sum.kind, std::to_string(sum.steps), unit.text(sum.ns),
                          share_text(sum.ns, total_ns(model.variants[number]))});
  return table;
}

namespace {

nlohmann::json json_of_port(const ModelTensor& port) {
  return {{"name", port.name}, {"dtype", to_string(port.dtype)}, {"shape", port.shape}};
}

nlohmann::json json_of_ports(const ModelVariant& variant, const std::vector<int>& ports) {
  nlohmann::json list = nlohmann::json::array();
  for (const int port : ports)
    list.push_back(json_of_port(variant.tensors[static_cast<size_t>(port)]));
  return list;
}

nlohmann::json json_of_step(const ModelFile& model, const ModelVariant& variant,
                            const ModelStep& step) {
  const auto& kernel = model.kernels[static_cast<size_t>(step.kernel)].info;
  nlohmann::json arguments = nlohmann::json::array();
  for (const int argument : step.arguments) {
    const ModelTensor& tensor = variant.tensors[static_cast<size_t>(argument)];
    arguments.push_back({{"tensor", tensor.name},
                         {"dtype", to_string(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"layout", tensor.layout}});
  }
  return {{"name", step.name},
          {"workload", kernel.workload},
          {"schedule", kernel.schedule},
          {"algorithm_steps", schedules::algorithm_text(kernel.schedule)},
          {"threads", step.threads > 0 ? step.threads : model.threads},
          {"predicted_ns", step.predicted_ns},
          {"arguments", arguments}};
}

nlohmann::json json_of_variant(const ModelFile& model, const ModelVariant& variant) {
  nlohmann::json steps = nlohmann::json::array();
  for (size_t i = 0; i < variant.steps.size(); ++i) {
    steps.push_back(json_of_step(model, variant, variant.steps[i]));
    steps.back()["runs"] = runs_of(variant, i);
  }
  nlohmann::json bands = nlohmann::json::array();
  for (const runtime::ModelBand& band : variant.bands)
    bands.push_back({{"first_step", band.first}, {"chains", band.chains}});
  return {{"inputs", json_of_ports(variant, variant.inputs)},
          {"outputs", json_of_ports(variant, variant.outputs)},
          {"arena_bytes", variant.arena_bytes},
          {"least_arena_bytes", runtime::least_arena_bytes(model, variant)},
          {"bands", bands},
          {"steps", steps}};
}

/// Returns the document (as_json()) with an additional field `name`, which has the text `member` of
/// the first variant. If there are several variants, the entry of each variant gets the field too.
nlohmann::json with_texts(nlohmann::json document, const ModelFile& model, const char* name,
                          std::string ModelVariant::*member) {
  document[name] = model.variants.front().*member;
  if (model.variants.size() > 1)
    for (size_t number = 0; number < model.variants.size(); ++number)
      document["variants"][number][name] = model.variants[number].*member;
  return document;
}

/// Joins the texts that text(index) returns for all variants. If there are several variants, each
/// text gets a heading.
template <typename Text>
std::string of_each_variant(const ModelFile& model, const Text& text) {
  if (model.variants.size() == 1) return text(size_t{0});
  std::string all;
  for (size_t number = 0; number < model.variants.size(); ++number)
    all += fmt::format("{}{}\n\n{}", number == 0 ? "" : "\n", variant_heading(model, number),
                       text(number));
  return all;
}

}  // namespace

Table sheet_of_steps(const ModelFile& model) {
  const bool has_variants = model.variants.size() > 1;
  Table sheet{{"step", "computes", "predicted_ns", "share", "arguments"}, {}};
  if (has_variants) sheet.header.insert(sheet.header.begin(), "variant");
  for (size_t number = 0; number < model.variants.size(); ++number) {
    const ModelVariant& variant = model.variants[number];
    const double all = total_ns(variant);
    for (const ModelStep& step : variant.steps) {
      std::vector<std::string> row = {
          step.name, kind_of(model, step), format_double(step.predicted_ns),
          all > 0 ? format_double(step.predicted_ns / all) : "", arguments_text(variant, step)};
      if (has_variants) row.insert(row.begin(), std::to_string(number));
      sheet.rows.push_back(std::move(row));
    }
  }
  return sheet;
}

std::string variant_heading(const ModelFile& model, size_t number) {
  return fmt::format("variant {}: {}", number, runtime::show_inputs(model.variants[number]));
}

nlohmann::json as_json(const ModelFile& model) {
  nlohmann::json document = json_of_variant(model, model.variants.front());
  document["name"] = model.name;
  document["target"] = model.target;
  document["threads"] = model.threads;
  document["kernels"] = model.kernels.size();
  document["constant_bytes"] = model.constants.size();
  if (model.variants.size() > 1)
    for (const ModelVariant& variant : model.variants)
      document["variants"].push_back(json_of_variant(model, variant));
  return document;
}

/// Remembers for each part of the memory which node of the drawing has written it. The writers of a
/// tensor are found by its address, not by its name, because tensors may share memory. Example: the
/// memory of a reshape's result was written as another tensor, and that of a concatenation in place
/// as several tensors.
class MemoryWriters {
 public:
  explicit MemoryWriters(const ModelVariant& variant) {
    for (size_t i = 0; i < variant.steps.size(); ++i)
      for (const int tensor : variant.steps[i].arguments) {
        int64_t& trips = trips_[&variant.tensors[static_cast<size_t>(tensor)]];
        trips = std::max(trips, runs_of(variant, i));
      }
  }

  void write(const ModelTensor& tensor, const std::string& node) {
    std::erase_if(written_, [&](const Written& other) { return overlap(*other.tensor, tensor); });
    written_.push_back({&tensor, node});
  }
  std::vector<std::string> of(const ModelTensor& tensor) const {
    std::vector<std::string> nodes;
    for (const Written& other : written_)
      if (overlap(*other.tensor, tensor)) nodes.push_back(other.node);
    return nodes;
  }

 private:
  struct Written {
    const ModelTensor* tensor;
    std::string node;
  };

  bool overlap(const ModelTensor& a, const ModelTensor& b) const {
    if (a.place != b.place) return false;
    if (a.place != runtime::Place::Arena) return a.at == b.at;  // constants are not written
    const auto [a_begin, a_end] = bytes_of(a);
    const auto [b_begin, b_end] = bytes_of(b);
    return a_begin < b_end && b_begin < a_end;
  }

  /// Returns the range of bytes that the tensor occupies in any trip of its loop, as the first byte
  /// and one past the last byte.
  std::pair<int64_t, int64_t> bytes_of(const ModelTensor& tensor) const {
    const auto trips = trips_.find(&tensor);
    const int64_t most = trips == trips_.end() ? 1 : trips->second;
    const int64_t places = tensor.slide.period > 0 ? std::min(tensor.slide.period, most) : most;
    const int64_t first = tensor.at + tensor.slide.at(0),
                  last = tensor.at + tensor.slide.at(places - 1);
    return {std::min(first, last), std::max(first, last) + tensor.bytes};
  }

  /// For each tensor, the number of trips of the loop that uses it.
  std::map<const ModelTensor*, int64_t> trips_;
  std::vector<Written> written_;
};

namespace {

/// Returns a quoted label for an edge, with two spaces on each side. Fonts of viewers are wider
/// than the font with which dot computes the size of a label; without the spaces, the label would
/// overlap the arrow.
std::string edge_label(const std::string& text) { return graphviz_quoted("  " + text + "  "); }

/// Returns the nodes and edges of a variant. Names of nodes begin with `prefix`, so that nodes of
/// different variants have different names.
std::string dot_of_variant(const ModelFile& model, const ModelVariant& variant,
                           const std::string& prefix) {
  const auto node = [&](const std::string& name) { return graphviz_quoted(prefix + name); };
  std::string dot;
  MemoryWriters writers(variant);
  for (const int input : variant.inputs) {
    const ModelTensor& tensor = variant.tensors[static_cast<size_t>(input)];
    writers.write(tensor, tensor.name);
    dot += fmt::format("  {} [shape=ellipse, label={}];\n", node(tensor.name),
                       graphviz_quoted(tensor.name));
  }
  for (size_t number = 0; number < variant.steps.size(); ++number) {
    const ModelStep& step = variant.steps[number];
    const auto arguments =
        runtime::call_buffers(model.kernels[static_cast<size_t>(step.kernel)].info);
    const std::string label =
        fmt::format("{}\n{}\n{}", kind_of(model, step), name_with_runs(variant, number),
                    time_text(step.predicted_ns));
    dot += fmt::format("  {} [label={}];\n", node(step.name), graphviz_quoted(label));
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const ModelTensor& tensor = variant.tensors[static_cast<size_t>(step.arguments[i])];
      if (i < arguments.size() && arguments[i].is_output) {
        writers.write(tensor, step.name);
        continue;
      }
      for (const std::string& writer : writers.of(tensor))
        dot += fmt::format("  {} -> {} [label={}];\n", node(writer), node(step.name),
                           edge_label(type_text(tensor)));
    }
  }
  return dot;
}

// Limit on the time of Graphviz, which draws the largest standing models within seconds.
constexpr int64_t drawing_timeout_ns = 120'000'000'000;

Result<std::string> svg_of(const ModelFile& model) {
  if (!codegen::run_command({"dot", "-V"}, drawing_timeout_ns))
    return fail(ErrorCode::Environment,
                "[explain] --svg is drawn by the program `dot` of Graphviz, which cannot be "
                "started: install the package graphviz, as ./tw does, or draw what --dot prints "
                "elsewhere");
  TW_TRY(const auto file, codegen::MemoryFile::create("network.dot", dot_of(model)));
  return codegen::run_command({"dot", "-Tsvg", file.path()}, drawing_timeout_ns);
}

/// Returns the explanation of a network's kernels on a GPU: the GPU of this machine if it can run
/// the network, or else a GPU with the numbers that the table of machines has for the target.
/// nullopt if the network is for a processor, or for a GPU that this version of the program does
/// not know.
std::optional<GpuNetwork> gpu_network_here(const ModelFile& model, const Surroundings& here) {
  if (!tuner::names_gpu(model.target)) return std::nullopt;
  if (const auto chosen = tuner::chosen_target(model.target, here.environment))
    return gpu_network_of(model, chosen->target);
  const auto target = parse_target(model.target);
  return target ? std::optional(gpu_network_of(model, *target)) : std::nullopt;
}

std::string text_of(const GpuCall& call, const Surroundings& here) {
  return as_text(facts_of(call)) + "\n" + as_text(table_of_launches(call), here) + "\n" +
         as_text(table_of_limits(call), here);
}

Result<std::string> explanation_of(const ModelFile& model, Drawing drawing,
                                   const Surroundings& here) {
  if (drawing == Drawing::Dot) return dot_of(model);
  if (drawing == Drawing::Svg) return svg_of(model);
  const std::optional<GpuNetwork> network = gpu_network_here(model, here);
  return of_each_variant(model, [&](size_t number) {
    std::string text =
        model.variants[number].plan + "\n" + as_text(table_of_costs(model, number), here);
    if (network) text += "\n" + text_of(explain_call(model, number, *network), here);
    return text;
  });
}

/// Adds the explanation of a variant on a GPU to the JSON of the variant and of its steps.
void add_gpu(const GpuCall& call, nlohmann::json& variant) {
  variant["gpu"] = as_json(call);
  for (size_t i = 0; i < call.steps.size(); ++i)
    variant["steps"][i]["gpu"] = as_json(call.steps[i]);
}

nlohmann::json json_of_explanation(const ModelFile& model, const Surroundings& here) {
  nlohmann::json document = with_texts(as_json(model), model, "plan", &ModelVariant::plan);
  const std::optional<GpuNetwork> network = gpu_network_here(model, here);
  if (!network) return document;
  add_gpu(explain_call(model, 0, *network), document);
  if (model.variants.size() > 1)
    for (size_t number = 0; number < model.variants.size(); ++number)
      add_gpu(explain_call(model, number, *network), document["variants"][number]);
  return document;
}

}  // namespace

std::string dot_of(const ModelFile& model) {
  std::string dot = "digraph network {\n  node [shape=box];\n";
  if (model.variants.size() == 1)
    return dot + dot_of_variant(model, model.variants.front(), "") + "}\n";
  for (size_t number = 0; number < model.variants.size(); ++number)
    dot += fmt::format("  subgraph cluster_{} {{\n  label={};\n{}  }}\n", number,
                       graphviz_quoted(variant_heading(model, number)),
                       dot_of_variant(model, model.variants[number], fmt::format("{}: ", number)));
  return dot + "}\n";
}

Result<int> explain_model(const std::string& path, Drawing drawing, Format format,
                          const Surroundings& here) {
  TW_TRY(const ModelFile model, runtime::read_model(path));
  if (drawing == Drawing::None && format == Format::Json) {
    TW_RETURN_IF_ERROR(print_json("explain", json_of_explanation(model, here)));
    return 0;
  }
  if (drawing == Drawing::None && format == Format::Csv) {
    TW_RETURN_IF_ERROR(print_csv(sheet_of_steps(model)));
    return 0;
  }
  TW_TRY(const std::string text, explanation_of(model, drawing, here));
  TW_RETURN_IF_ERROR(print(text));
  return 0;
}

Result<int> show_model(const std::string& path, Format format, const Surroundings& here) {
  TW_TRY(const ModelFile model, runtime::read_model(path));
  if (format == Format::Json) {
    TW_RETURN_IF_ERROR(
        print_json("show", with_texts(as_json(model), model, "graph", &ModelVariant::graph)));
    return 0;
  }
  TW_RETURN_IF_ERROR(print(of_each_variant(model, [&](size_t number) {
    Facts facts = {{"network", model.name}};
    for (const auto& fact : facts_of(model, number)) facts.push_back(fact);
    return as_text(facts) + "\n" + as_text(table_of_steps(model, number), here);
  })));
  return 0;
}

}  // namespace tw::tools
