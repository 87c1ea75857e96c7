// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/gpu_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text.h"
#include "dsl/workload.h"
#include "tools/model_files.h"

namespace tw::tools {
namespace {

using runtime::ArgumentInfo;
using runtime::KernelInfo;
using runtime::ModelFile;
using runtime::ModelStep;
using runtime::ModelVariant;

double quotient(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Returns the bytes that one call of a kernel reads. The traffic of the compute counts the inputs
/// that only the preparation reads, but not the results of the preparation, which the kernel reads
/// instead.
double read_bytes_of(const KernelInfo& info, const dsl::Traffic& traffic) {
  double bytes = traffic.read_bytes;
  for (const ArgumentInfo& argument : info.arguments)
    if (argument.only_prepares) bytes -= static_cast<double>(runtime::logical_bytes(argument));
  if (info.preparation)
    for (const ArgumentInfo& buffer : info.preparation->buffers)
      bytes += static_cast<double>(runtime::storage_bytes(buffer));
  return bytes;
}

Result<GpuKernel> explain_kernel(const runtime::Artifact& artifact, const Target& target) {
  const KernelInfo& info = artifact.info;
  TW_TRY(const dsl::Workload workload, dsl::parse_workload(info.workload));
  TW_TRY(const schedules::Program program, program_of(workload, info.schedule, target));
  GpuKernel kernel;
  TW_TRY(kernel.limits, kernel_limits(program, workload, target, 1));
  if (program.phases.size() != info.phases.size())
    return fail(ErrorCode::Unsupported,
                fmt::format("[explain] the kernel of '{}' has {} phases, and this version of the "
                            "program makes {}",
                            info.workload, info.phases.size(), program.phases.size()));
  kernel.gpu = explain_gpu(artifact, *kernel.limits.facts.gpu, target);
  const dsl::Traffic traffic = dsl::compulsory_traffic(workload.compute);
  kernel.read_bytes = read_bytes_of(info, traffic);
  kernel.written_bytes = traffic.written_bytes;
  return kernel;
}

/// Returns the bytes of inputs that a step passes to its kernel more than once. For example, a
/// product of a tensor with itself reads the tensor once.
double repeated_bytes(const ModelStep& step, const KernelInfo& info) {
  double bytes = 0;
  std::set<int> seen;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    const ArgumentInfo& argument = info.arguments[i];
    if (argument.is_output || argument.only_prepares) continue;
    if (!seen.insert(step.arguments[i]).second)
      bytes += static_cast<double>(runtime::logical_bytes(argument));
  }
  return bytes;
}

GpuStep explain_step(const ModelFile& model, const ModelVariant& variant, size_t number,
                     const GpuNetwork& network) {
  const ModelStep& step = variant.steps[number];
  const auto index = static_cast<size_t>(step.kernel);
  const Result<GpuKernel>& explanation = network.kernels[index];
  const KernelInfo& info = model.kernels[index].info;
  const int64_t runs = runs_of(variant, number);
  GpuStep explained{name_with_runs(variant, number), {}, step.predicted_ns, &explanation};
  GpuSums& sums = explained.sums;
  sums.launches = runs * std::ssize(info.phases);
  if (!explanation) return explained;
  const GpuKernel& kernel = *explanation;
  const auto times = static_cast<double>(runs);
  sums.read_bytes = times * std::max(0.0, kernel.read_bytes - repeated_bytes(step, info));
  sums.written_bytes = times * kernel.written_bytes;
  sums.dram_bytes = times * kernel.limits.memory_bytes();
  sums.analytic_ns = times * kernel.limits.analytic_ns;
  sums.launch_ns = times * kernel.limits.dispatch_ns;
  return explained;
}

void add(const GpuSums& step, GpuSums& sums) {
  sums.launches += step.launches;
  sums.read_bytes += step.read_bytes;
  sums.written_bytes += step.written_bytes;
  sums.dram_bytes += step.dram_bytes;
  sums.analytic_ns += step.analytic_ns;
  sums.launch_ns += step.launch_ns;
}

constexpr const char* no_graphs = "OpenCL has no graphs";

bool is_graph(const GpuCall& call) { return call.target.architecture == Architecture::Cuda; }

std::string launches_text(const GpuCall& call) {
  const std::string launches =
      fmt::format("{} launch{}", call.sums.launches, call.sums.launches == 1 ? "" : "es");
  if (is_graph(call)) return fmt::format("one CUDA graph of {}", launches);
  return fmt::format("{}, submitted one by one: {}", launches, no_graphs);
}

/// Returns the name of the GPU, if it is known, followed by its architecture and its number of
/// multiprocessors.
std::string gpu_name(const Target& target) {
  return fmt::format("{}{} with {}", target.cpu.empty() ? "" : target.cpu + ", ",
                     describe(target.machine), counted(target.machine.cores, "multiprocessor"));
}

std::string bytes_text(double bytes) { return show_bytes(std::llround(bytes)); }

/// Returns a text that compares the arrays of the network with L2. The model considers each kernel
/// alone, and expects the kernel's arrays in L2 if they fit there.
std::string dram_text(const GpuCall& call) {
  const int64_t l2 = call.target.machine.l2_bytes();
  const std::string sizes = fmt::format("constants and arena have {}, L2 has {}",
                                        show_bytes(call.array_bytes), show_bytes(l2));
  if (call.array_bytes <= l2)
    return fmt::format("{} expected; {}", bytes_text(call.sums.dram_bytes), sizes);
  return fmt::format(
      "{} expected if each step finds its arrays in L2; {}, so a call reads more from DRAM",
      bytes_text(call.sums.dram_bytes), sizes);
}

/// Returns the number of the steps that cannot be explained, and the first reason.
std::pair<int64_t, std::string> unexplained(const GpuCall& call) {
  std::pair<int64_t, std::string> result;
  for (const GpuStep& step : call.steps)
    if (!*step.kernel && ++result.first == 1) result.second = step.kernel->error().message;
  return result;
}

/// True if the time of a step in the file differs from the time that the model predicts. There are
/// three reasons: steps were measured; measurements of other kernels corrected predictions; or a
/// predicted kernel spilled registers, so that the kernel of the default schedule replaced it.
bool has_other_times(const GpuCall& call) {
  constexpr double tolerance = 1e-3;
  return std::ranges::any_of(call.steps, [&](const GpuStep& step) {
    return std::abs(step.time_ns - step.sums.analytic_ns) > tolerance * step.time_ns;
  });
}

/// Returns the texts of the phases. They are joined by commas unless all are equal.
template <typename Text>
std::string of_phases(const GpuExplanation& gpu, const Text& text) {
  std::vector<std::string> texts;
  for (const GpuPhase& phase : gpu.phases) texts.push_back(text(phase));
  if (std::ranges::all_of(texts, [&](const std::string& each) { return each == texts.front(); }))
    texts.resize(std::min<size_t>(texts.size(), 1));
  return join(texts, ", ");
}

std::string limit_text(const KernelLimits& limits) {
  return fmt::format("{} {}", limits.limited_by(),
                     show_share(quotient(limits.resources.front().ns, limits.analytic_ns)));
}

/// Returns the cells of the table that follow the name, the launches and the times of a step.
std::vector<std::string> cells_of(const GpuStep& step) {
  if (!*step.kernel) return {"-", "-", "-", "-", "-", "-", "-"};
  const GpuKernel& kernel = **step.kernel;
  const Machine& machine = kernel.gpu.machine;
  return {limit_text(kernel.limits),
          bytes_text(step.sums.read_bytes),
          bytes_text(step.sums.written_bytes),
          bytes_text(step.sums.dram_bytes),
          of_phases(kernel.gpu,
                    [&](const GpuPhase& p) {
                      return fmt::format("{:.0f}", 100 * p.occupancy(*machine.gpu));
                    }),
          of_phases(kernel.gpu, [](const GpuPhase& p) { return std::string(p.residency.limit()); }),
          of_phases(kernel.gpu,
                    [&](const GpuPhase& p) { return fmt::format("{:.2f}", p.waves(machine)); })};
}

/// The steps that one resource limits.
struct LimitSum {
  std::string resource;
  int64_t steps = 0;
  double analytic_ns = 0;
};

std::vector<LimitSum> sums_by_limit(const GpuCall& call) {
  std::map<std::string, LimitSum> sums;
  for (const GpuStep& step : call.steps) {
    if (!*step.kernel) continue;
    LimitSum& sum = sums[(*step.kernel)->limits.limited_by()];
    ++sum.steps;
    sum.analytic_ns += step.sums.analytic_ns;
  }
  std::vector<LimitSum> sorted;
  for (const auto& [resource, sum] : sums) sorted.push_back({resource, sum.steps, sum.analytic_ns});
  std::ranges::stable_sort(sorted, std::ranges::greater(), &LimitSum::analytic_ns);
  return sorted;
}

nlohmann::json json_of_sums(const GpuSums& sums) {
  return {{"launches", sums.launches},           {"read_bytes", sums.read_bytes},
          {"written_bytes", sums.written_bytes}, {"dram_bytes", sums.dram_bytes},
          {"analytic_ns", sums.analytic_ns},     {"launch_ns", sums.launch_ns}};
}

}  // namespace

GpuNetwork gpu_network_of(const ModelFile& model, const Target& target) {
  GpuNetwork network{target, {}};
  for (const runtime::Artifact& artifact : model.kernels)
    network.kernels.push_back(explain_kernel(artifact, target));
  return network;
}

GpuCall explain_call(const ModelFile& model, size_t number, const GpuNetwork& network) {
  const ModelVariant& variant = model.variants[number];
  GpuCall call;
  call.target = network.target;
  call.array_bytes = std::ssize(model.constants) + variant.arena_bytes;
  for (size_t i = 0; i < variant.steps.size(); ++i) {
    call.steps.push_back(explain_step(model, variant, i, network));
    add(call.steps.back().sums, call.sums);
  }
  return call;
}

Facts facts_of(const GpuCall& call) {
  const GpuSums& sums = call.sums;
  Facts facts = {
      {"call", launches_text(call)},
      {"expected",
       fmt::format("{} by the analytic model of {}; launches take {}, {} of it",
                   time_text(sums.analytic_ns), gpu_name(call.target), time_text(sums.launch_ns),
                   show_share(quotient(sums.launch_ns, sums.analytic_ns)))},
      {"bytes", fmt::format("{} read and {} written by the steps", bytes_text(sums.read_bytes),
                            bytes_text(sums.written_bytes))},
      {"DRAM", dram_text(call)}};
  if (const auto [steps, reason] = unexplained(call); steps > 0)
    facts.emplace_back("left out", fmt::format("{}: {}", counted(steps, "step"), reason));
  return facts;
}

Table table_of_launches(const GpuCall& call) {
  const bool has_times = has_other_times(call);
  Table table{{"step", "launches", "expected", "limited by", "read", "written", "DRAM",
               "occupancy %", "occupancy limit", "waves"},
              {}};
  constexpr ptrdiff_t behind_launches = 2;
  if (has_times) table.header.insert(table.header.begin() + behind_launches, "time");
  std::vector<double> times;
  for (const GpuStep& step : call.steps) {
    times.push_back(step.sums.analytic_ns);
    if (has_times) times.push_back(step.time_ns);
  }
  const TimeUnit unit(times);
  for (const GpuStep& step : call.steps) {
    std::vector<std::string> row = {step.name, std::to_string(step.sums.launches)};
    if (has_times) row.push_back(unit.text(step.time_ns));
    row.push_back(unit.text(step.sums.analytic_ns));
    std::ranges::move(cells_of(step), std::back_inserter(row));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table table_of_limits(const GpuCall& call) {
  const std::vector<LimitSum> sums = sums_by_limit(call);
  std::vector<double> times;
  for (const LimitSum& sum : sums) times.push_back(sum.analytic_ns);
  const TimeUnit unit(times);
  Table table{{"limited by", "steps", "expected", "% of all"}, {}};
  for (const LimitSum& sum : sums)
    table.rows.push_back(
        {sum.resource, std::to_string(sum.steps), unit.text(sum.analytic_ns),
         fmt::format("{:.1f}", 100 * quotient(sum.analytic_ns, call.sums.analytic_ns))});
  return table;
}

nlohmann::json as_json(const GpuCall& call) {
  nlohmann::json json = json_of_sums(call.sums);
  json["architecture"] = call.target.machine.name;
  json["multiprocessors"] = call.target.machine.cores;
  json["l2_bytes"] = call.target.machine.l2_bytes();
  json["array_bytes"] = call.array_bytes;
  json["is_graph"] = is_graph(call);
  if (!is_graph(call)) json["no_graph_because"] = no_graphs;
  json["launch_share"] = quotient(call.sums.launch_ns, call.sums.analytic_ns);
  json["limits"] = nlohmann::json::array();
  for (const LimitSum& sum : sums_by_limit(call))
    json["limits"].push_back(
        {{"limited_by", sum.resource}, {"steps", sum.steps}, {"analytic_ns", sum.analytic_ns}});
  return json;
}

nlohmann::json as_json(const GpuStep& step) {
  if (!*step.kernel)
    return {{"launches", step.sums.launches}, {"unexplained", step.kernel->error().message}};
  const GpuKernel& kernel = **step.kernel;
  nlohmann::json json = json_of_sums(step.sums);
  json["limited_by"] = kernel.limits.limited_by();
  for (const auto& [resource, ns] : kernel.limits.resources)
    json["resources"].push_back({{"resource", resource}, {"ns", ns}});
  json["compiler"] = kernel.gpu.compiler;
  if (!kernel.gpu.estimated_because.empty())
    json["estimated_because"] = kernel.gpu.estimated_because;
  json["phases"] = phases_json(kernel.gpu);
  return json;
}

}  // namespace tw::tools
