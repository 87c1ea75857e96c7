// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/gpu_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "codegen/backend.h"
#include "codegen/compile.h"
#include "codegen/elf.h"
#include "codegen/gpu/compile.h"
#include "codegen/gpu/emitter.h"

namespace tw::tools {
namespace {

using cost_model::GpuPhaseFacts;

constexpr double register_bytes = 4;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double percent(double share) { return 100 * share; }

/// Returns a text that compares the load of the busiest multiprocessor with the average load.
std::string tail_text(const GpuPhaseFacts& facts) {
  return facts.tail > 1.005
             ? fmt::format("the busiest multiprocessor has {:.2f} times the average", facts.tail)
             : "all multiprocessors have as much to do";
}

/// Returns the blocks of the launch, their threads and their shared memory.
std::string launch_text(const GpuPhase& phase, const Machine& machine) {
  const GpuPhaseFacts& f = phase.facts;
  std::string text = fmt::format("{} of {:.0f} threads",
                                 counted(static_cast<int64_t>(phase.blocks(machine)),
                                         f.is_persistent ? "persistent block" : "block"),
                                 f.block_threads());
  if (f.has_producers())
    text += fmt::format(", {:.0f} of them in producer warps", f.producer_threads);
  text +=
      fmt::format(", {} of shared memory each", show_bytes(static_cast<int64_t>(f.shared_bytes)));
  if (f.is_persistent)
    text += fmt::format(", for {}", counted(static_cast<int64_t>(f.blocks), "task"));
  return text;
}

Facts as_facts(const GpuPhase& phase, const GpuExplanation& all) {
  const GpuPhaseFacts& f = phase.facts;
  const Gpu& gpu = *all.machine.gpu;
  Facts facts = {
      {"launch", launch_text(phase, all.machine)},
      {"occupancy",
       fmt::format("{:.0f} % of {} threads: {} at once on a multiprocessor, limited by {}",
                   percent(phase.occupancy(gpu)), gpu.resident_threads,
                   counted(static_cast<int64_t>(phase.residency.blocks()), "block"),
                   phase.residency.limit())},
      {"waves", fmt::format("{:.2f}{} on {} multiprocessors; {}", phase.waves(all.machine),
                            f.is_persistent ? " of tasks" : "", all.machine.cores, tail_text(f))},
      {"registers",
       phase.compiled
           ? fmt::format("{} a thread, {} B spilled ({})", phase.compiled->registers,
                         phase.spilled_bytes.value_or(0), all.compiler)
           : fmt::format("about {:.0f} a thread, {} B spilled (an estimate: {})", f.registers,
                         phase.spilled_bytes.value_or(0), all.estimated_because)},
      {"coalescing",
       fmt::format("{:.2f} times the sectors that are needed, {:.0f} B an access of a thread, "
                   "{:.0f} % of the lanes active",
                   ratio(f.sectors, f.ideal_sectors), f.wide_bytes, percent(f.useful_lanes))}};
  if (const double cycles = phase.bank_cycles(); cycles > 0)
    facts.emplace_back(
        "shared memory",
        fmt::format("{:.2f} cycles of the banks an access; without conflicts 1, of 16 B a lane 4",
                    cycles));
  return facts;
}

nlohmann::json phase_json(const GpuPhase& phase, const Machine& machine) {
  const GpuPhaseFacts& f = phase.facts;
  const cost_model::Residency& r = phase.residency;
  return {{"blocks", phase.blocks(machine)},
          {"tasks", f.blocks},
          {"persistent", f.is_persistent},
          {"threads", f.block_threads()},
          {"producer_threads", f.producer_threads},
          {"shared_bytes", f.shared_bytes},
          {"barriers", f.barriers},
          {"occupancy", phase.occupancy(*machine.gpu)},
          {"resident_blocks", r.blocks()},
          {"limited_by", r.limit()},
          {"blocks_by",
           {{"threads", r.by_threads},
            {"registers", r.by_registers},
            {"shared_memory", r.by_shared_memory},
            {"slots", r.by_slots}}},
          {"waves", phase.waves(machine)},
          {"tail", f.tail},
          {"registers", phase.registers()},
          {"registers_estimated", !phase.compiled.has_value()},
          {"spilled_bytes",
           phase.spilled_bytes ? nlohmann::json(*phase.spilled_bytes) : nlohmann::json()},
          {"sectors", f.sectors},
          {"ideal_sectors", f.ideal_sectors},
          {"access_bytes", f.wide_bytes},
          {"active_lanes", f.useful_lanes},
          {"bank_cycles", phase.bank_cycles()},
          {"requested_bytes", f.requested_bytes},
          {"l2_bytes", f.l2_bytes},
          {"dram_bytes", f.dram_bytes}};
}

/// The facts of the compiler about a kernel.
struct Compiled {
  std::string compiler = {};
  std::vector<codegen::CudaFunctionFacts> functions = {};  ///< of each phase; empty: unknown
  std::string unknown_because = {};
  std::vector<std::string> advice = {};
  bool knows_spills = true;
};

GpuPhase explain_phase(const GpuPhaseFacts& facts, const codegen::CudaFunctionFacts* compiled,
                       bool knows_spills, const Gpu& gpu) {
  GpuPhase phase{facts, std::nullopt, register_bytes * facts.spills, {}};
  if (compiled) {
    phase.compiled = *compiled;
    phase.spilled_bytes = knows_spills
                              ? std::optional(static_cast<double>(compiled->spill_store_bytes))
                              : std::nullopt;
  }
  // Registers beyond the limit of a thread are spilled.
  const double registers = std::min(phase.registers(), double(gpu.registers_per_thread));
  phase.residency =
      cost_model::residency(facts.block_threads(), registers, facts.shared_bytes, gpu);
  return phase;
}

GpuExplanation explain(const cost_model::GpuFacts& facts, const Target& target, Compiled compiled) {
  GpuExplanation explanation{target.machine, "", "", std::move(compiled.advice), {}};
  const bool is_told = compiled.functions.size() == facts.phases.size();
  (is_told ? explanation.compiler : explanation.estimated_because) =
      std::move(is_told ? compiled.compiler : compiled.unknown_because);
  for (size_t i = 0; i < facts.phases.size(); ++i)
    explanation.phases.push_back(explain_phase(facts.phases[i],
                                               is_told ? &compiled.functions[i] : nullptr,
                                               compiled.knows_spills, *target.machine.gpu));
  return explanation;
}

constexpr const char* driver_compiles = "the driver compiles it";

}  // namespace

double GpuPhase::occupancy(const Gpu& gpu) const {
  return cost_model::occupancy(residency.blocks(), facts.block_threads(), gpu);
}

double GpuPhase::blocks(const Machine& machine) const {
  return facts.is_persistent ? std::min(facts.blocks, blocks_at_once(machine)) : facts.blocks;
}

double GpuPhase::blocks_at_once(const Machine& machine) const {
  return machine.cores * std::max(1.0, residency.blocks());
}

double GpuPhase::waves(const Machine& machine) const {
  return facts.blocks / blocks_at_once(machine);
}

double GpuPhase::bank_cycles() const { return ratio(facts.bank_cycles, facts.shared_accesses); }

double GpuExplanation::spilled_bytes() const {
  double bytes = 0;
  for (const GpuPhase& phase : phases) bytes += phase.spilled_bytes.value_or(0);
  return bytes;
}

Result<GpuExplanation> explain_gpu(const schedules::Program& program,
                                   const cost_model::GpuFacts& facts, const Target& target,
                                   const codegen::NvrtcOptions& nvrtc) {
  auto code = codegen::compile_for_gpu(program, "kernel", target, nvrtc);
  if (!code) {
    TW_RETURN_IF_ERROR(codegen::emit_gpu(program, "kernel", codegen::backend_of(target).dialect));
    return explain(facts, target, {.unknown_because = code.error().message});
  }
  codegen::CompileOptions compiling;
  compiling.nvrtc = nvrtc;
  return explain(facts, target,
                 {.compiler = codegen::toolchain(target, compiling).value_or(""),
                  .functions = std::move(code->functions),
                  .unknown_because = driver_compiles,
                  .advice = std::move(code->advice)});
}

GpuExplanation explain_gpu(const runtime::Artifact& artifact, const cost_model::GpuFacts& facts,
                           const Target& target) {
  const runtime::KernelInfo& info = artifact.info;
  Compiled compiled{.compiler = info.toolchain,
                    .unknown_because = target.architecture == Architecture::Cuda
                                           ? "the code does not tell its registers"
                                           : driver_compiles,
                    .knows_spills = info.spills == 0};
  const std::map<std::string, int> registers = codegen::registers_of_cubin(artifact.object);
  for (const runtime::PhaseInfo& phase : info.phases)
    if (const auto found = registers.find(phase.symbol); found != registers.end())
      compiled.functions.push_back({.name = phase.symbol, .registers = found->second});
  return explain(facts, target, std::move(compiled));
}

Facts as_facts(const GpuExplanation& explanation) {
  Facts all;
  const bool several = explanation.phases.size() > 1;
  for (size_t i = 0; i < explanation.phases.size(); ++i)
    for (auto& [name, text] : as_facts(explanation.phases[i], explanation))
      all.emplace_back(several ? fmt::format("phase {}: {}", i, name) : name, std::move(text));
  for (const std::string& advice : explanation.advice) all.emplace_back("compiler", advice);
  return all;
}

nlohmann::json as_json(const GpuExplanation& explanation) {
  nlohmann::json json = {{"architecture", explanation.machine.name},
                         {"multiprocessors", explanation.machine.cores},
                         {"compiler", explanation.compiler},
                         {"advice", explanation.advice},
                         {"phases", phases_json(explanation)}};
  if (!explanation.estimated_because.empty())
    json["estimated_because"] = explanation.estimated_because;
  return json;
}

nlohmann::json phases_json(const GpuExplanation& explanation) {
  nlohmann::json phases = nlohmann::json::array();
  for (const GpuPhase& phase : explanation.phases)
    phases.push_back(phase_json(phase, explanation.machine));
  return phases;
}

}  // namespace tw::tools
