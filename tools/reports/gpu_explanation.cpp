// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/gpu_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "codegen/compile.h"
#include "codegen/gpu/compile.h"

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

Facts as_facts(const GpuPhase& phase, const GpuExplanation& all) {
  const GpuPhaseFacts& f = phase.facts;
  const Gpu& gpu = *all.machine.gpu;
  Facts facts = {
      {"launch", fmt::format("{} of {:.0f} threads, {} of shared memory each",
                             counted(static_cast<int64_t>(f.blocks), "block"), f.threads,
                             show_bytes(static_cast<int64_t>(f.shared_bytes)))},
      {"occupancy",
       fmt::format("{:.0f} % of {} threads: {} at once on a multiprocessor, limited by {}",
                   percent(phase.occupancy(gpu)), gpu.resident_threads,
                   counted(static_cast<int64_t>(phase.residency.blocks()), "block"),
                   phase.residency.limit())},
      {"waves", fmt::format("{:.2f} on {} multiprocessors; {}", phase.waves(all.machine),
                            all.machine.cores, tail_text(f))},
      {"registers", phase.compiled
                        ? fmt::format("{} a thread, {} B spilled ({})", phase.compiled->registers,
                                      phase.spilled_bytes(), all.compiler)
                        : fmt::format("about {:.0f} a thread, {} B spilled (an estimate: {})",
                                      f.registers, phase.spilled_bytes(), all.estimated_because)},
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
  return {{"blocks", f.blocks},
          {"threads", f.threads},
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
          {"spilled_bytes", phase.spilled_bytes()},
          {"sectors", f.sectors},
          {"ideal_sectors", f.ideal_sectors},
          {"access_bytes", f.wide_bytes},
          {"active_lanes", f.useful_lanes},
          {"bank_cycles", phase.bank_cycles()},
          {"requested_bytes", f.requested_bytes},
          {"l2_bytes", f.l2_bytes},
          {"dram_bytes", f.dram_bytes}};
}

}  // namespace

double GpuPhase::spilled_bytes() const {
  if (!compiled) return register_bytes * facts.spills;
  return static_cast<double>(compiled->spill_store_bytes);
}

double GpuPhase::occupancy(const Gpu& gpu) const {
  return residency.blocks() * facts.warps * warp_threads / gpu.resident_threads;
}

double GpuPhase::waves(const Machine& machine) const {
  return facts.blocks / (machine.cores * std::max(1.0, residency.blocks()));
}

double GpuPhase::bank_cycles() const {
  return ratio(facts.shared_cycles, facts.instructions.shared);
}

double GpuExplanation::spilled_bytes() const {
  double bytes = 0;
  for (const GpuPhase& phase : phases) bytes += phase.spilled_bytes();
  return bytes;
}

GpuExplanation explain_gpu(const schedules::Program& program, const cost_model::GpuFacts& facts,
                           const Target& target, const codegen::NvrtcOptions& nvrtc) {
  GpuExplanation explanation{target.machine, "", "", {}, {}};
  const auto compiled = codegen::compile_for_gpu(program, "kernel", target, nvrtc);
  const bool is_told = compiled && compiled->functions.size() == facts.phases.size();
  if (is_told) {
    codegen::CompileOptions compiling;
    compiling.nvrtc = nvrtc;
    explanation.compiler = codegen::toolchain(target, compiling).value_or("");
    explanation.advice = compiled->advice;
  } else {
    explanation.estimated_because = compiled ? "the driver compiles it" : compiled.error().message;
  }
  for (size_t i = 0; i < facts.phases.size(); ++i) {
    GpuPhase phase{facts.phases[i], std::nullopt, {}};
    if (is_told) phase.compiled = compiled->functions[i];
    // Registers beyond the limit of a thread are spilled.
    const double registers =
        std::min(phase.registers(), double(target.machine.gpu->registers_per_thread));
    phase.residency = cost_model::residency(phase.facts.threads, registers,
                                            phase.facts.shared_bytes, *target.machine.gpu);
    explanation.phases.push_back(std::move(phase));
  }
  return explanation;
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
                         {"phases", nlohmann::json::array()}};
  if (!explanation.estimated_because.empty())
    json["estimated_because"] = explanation.estimated_because;
  for (const GpuPhase& phase : explanation.phases)
    json["phases"].push_back(phase_json(phase, explanation.machine));
  return json;
}

}  // namespace tw::tools
