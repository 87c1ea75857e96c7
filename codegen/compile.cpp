// SPDX-License-Identifier: Apache-2.0
#include "codegen/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <set>

#include "base/hash.h"
#include "codegen/abi.h"
#include "codegen/backend.h"
#include "codegen/elf.h"
#include "codegen/gpu/compile.h"
#include "codegen/inspect.h"
#include "schedules/program/pack.h"

namespace tw::codegen {
namespace {

using runtime::Artifact;
using runtime::KernelInfo;
using runtime::PhaseInfo;
using schedules::Argument;
using schedules::Program;

/// Symbols are named after what is compiled, so that a description does not depend on its batch.
std::string prefix_of(const KernelSpec& spec) {
  return "tw_" + short_hash(spec.workload + "\n" + spec.schedule);
}

bool needs_pack(const KernelSpec& spec, const Argument& argument) {
  return spec.packs && !argument.prepared && !argument.layout.is_row_major();
}

std::string pack_prefix(const KernelSpec& spec, size_t argument) {
  return prefix_of(spec) + "_a" + std::to_string(argument);
}

std::vector<PhaseInfo> phases_of(const Program& program, const std::string& prefix) {
  std::vector<PhaseInfo> phases;
  for (size_t i = 0; i < program.phases.size(); ++i)
    phases.push_back({phase_symbol(prefix, i), program.phases[i].tasks()});
  return phases;
}

runtime::ArgumentInfo argument_of(const Argument& argument) {
  runtime::ArgumentInfo info{argument.buffer.name,
                             argument.buffer.type,
                             argument.is_output,
                             argument.shape,
                             "",
                             argument.buffer.elements(),
                             ""};
  if (!argument.layout.is_row_major()) info.layout = argument.layout.to_string(argument.letters);
  info.only_prepares = argument.only_prepares;
  return info;
}

/// The preparation of a program, whose outputs are that program's prepared arguments, in order.
runtime::PreparationInfo preparation_of(const Program& program, const std::string& prefix) {
  const Program& preparation = *program.preparation;
  runtime::PreparationInfo info;
  for (const Argument& argument : preparation.arguments)
    if (!argument.is_output)
      info.inputs.push_back(
          static_cast<int>(std::ranges::find(program.arguments, argument.buffer.name,
                                             [](const Argument& a) { return a.buffer.name; }) -
                           program.arguments.begin()));
  for (const Argument& argument : program.arguments)
    if (argument.prepared) info.buffers.push_back(argument_of(argument));
  info.phases = phases_of(preparation, preparation_prefix(prefix));
  info.scratch_bytes = scratch_layout(preparation).bytes;
  return info;
}

KernelInfo info_of(const KernelSpec& spec, const Target& target, const std::string& toolchain) {
  KernelInfo info;
  info.workload = spec.workload;
  info.schedule = spec.schedule;
  info.target = target.to_string();
  info.toolchain = toolchain;
  info.codegen_abi = codegen_abi;
  info.phases = phases_of(spec.program, prefix_of(spec));
  info.scratch_bytes = scratch_layout(spec.program).bytes;
  info.flops = spec.flops;
  if (spec.program.preparation) info.preparation = preparation_of(spec.program, prefix_of(spec));
  for (size_t i = 0; i < spec.program.arguments.size(); ++i) {
    const Argument& argument = spec.program.arguments[i];
    if (argument.prepared) continue;
    runtime::ArgumentInfo entry = argument_of(argument);
    if (needs_pack(spec, argument)) {
      entry.pack = argument.buffer.name;
      info.packs[entry.pack] = phases_of(schedules::pack_program(argument), pack_prefix(spec, i));
    }
    info.arguments.push_back(std::move(entry));
  }
  return info;
}

std::vector<std::string> symbols_of(const KernelInfo& info) {
  std::vector<std::string> symbols;
  for (const PhaseInfo& phase : info.phases) symbols.push_back(phase.symbol);
  for (const auto& [name, phases] : info.packs)
    for (const PhaseInfo& phase : phases) symbols.push_back(phase.symbol);
  if (info.preparation)
    for (const PhaseInfo& phase : info.preparation->phases) symbols.push_back(phase.symbol);
  return symbols;
}

Result<Artifact> make_artifact(const KernelSpec& spec, std::string_view object,
                               const Target& target, const CompileOptions& options) {
  TW_TRY(const std::string compiler, toolchain(target, options));
  Artifact artifact{info_of(spec, target, compiler), ""};
  TW_TRY(artifact.object, link_shared(object, symbols_of(artifact.info), target, options.link));
  if (options.count_spills) {
    TW_TRY(const std::string text, disassemble(artifact.object, target));
    artifact.info.spills = count_spills(text, target.architecture);
  }
  TW_RETURN_IF_ERROR(runtime::check_info(artifact.info));
  return artifact;
}

/// The programs of several specs, including packs and preparations, and the spec of each program.
struct Batch {
  std::vector<NamedProgram> programs;
  std::vector<size_t> owners;
  std::deque<Program> packs;  ///< stable addresses

  void add(const KernelSpec& spec, size_t owner) {
    programs.push_back({prefix_of(spec), &spec.program});
    owners.push_back(owner);
    if (const Program* const preparation = spec.program.preparation.get()) {
      programs.push_back({preparation_prefix(prefix_of(spec)), preparation});
      owners.push_back(owner);
    }
    for (size_t i = 0; i < spec.program.arguments.size(); ++i) {
      if (!needs_pack(spec, spec.program.arguments[i])) continue;
      packs.push_back(schedules::pack_program(spec.program.arguments[i]));
      programs.push_back({pack_prefix(spec, i), &packs.back()});
      owners.push_back(owner);
    }
  }
};

using Results = std::vector<Result<Artifact>>;

Result<Results> compile_batch(std::span<const KernelSpec> specs, const Target& target,
                              const CompileOptions& options);

Result<Artifact> make_gpu_artifact(const KernelSpec& spec, const Target& target,
                                   const CompileOptions& options) {
  TW_TRY(GpuCompiled compiled,
         compile_for_gpu(spec.program, prefix_of(spec), target, options.nvrtc));
  KernelSpec plain = spec;
  plain.packs = false;
  TW_TRY(const std::string compiler, toolchain(target, options));
  Artifact artifact{info_of(plain, target, compiler), std::move(compiled.object),
                    std::move(compiled.ptx)};
  artifact.info.phases = std::move(compiled.phases);
  if (artifact.info.preparation)
    artifact.info.preparation->phases = std::move(compiled.preparation_phases);
  artifact.info.spills = compiled.spills;
  TW_RETURN_IF_ERROR(runtime::check_info(artifact.info));
  return artifact;
}

Result<Results> compile_all_for_gpu(std::span<const KernelSpec> specs, const Target& target,
                                    const CompileOptions& options) {
  Results results;
  for (const KernelSpec& spec : specs) {
    auto artifact = make_gpu_artifact(spec, target, options);
    if (!artifact && artifact.error().code == ErrorCode::Environment)
      return tl::unexpected<Error>(artifact.error());
    results.push_back(std::move(artifact));
  }
  return results;
}

/// One by one, so that only the culprit fails.
Result<Results> compile_alone(std::span<const KernelSpec> specs, const Target& target,
                              const CompileOptions& options) {
  Results results;
  for (const KernelSpec& spec : specs) {
    TW_TRY(Results one, compile_batch({&spec, 1}, target, options));
    results.push_back(std::move(one[0]));
  }
  return results;
}

/// Compiles the kernels with strict float operations in one batch and the others in another one.
/// Strict operations change the instructions of all kernels of a batch (CompiledObjects::strict).
Result<Results> compile_apart(std::span<const KernelSpec> specs, const std::vector<bool>& strict,
                              const Target& target, const CompileOptions& options) {
  std::vector<KernelSpec> groups[2];
  for (size_t i = 0; i < specs.size(); ++i) groups[strict[i]].push_back(specs[i]);
  TW_TRY(Results plain_ones, compile_batch(groups[0], target, options));
  TW_TRY(Results strict_ones, compile_batch(groups[1], target, options));
  Results results;
  for (size_t i = 0, next_plain = 0, next_strict = 0; i < specs.size(); ++i)
    results.push_back(std::move(strict[i] ? strict_ones[next_strict++] : plain_ones[next_plain++]));
  return results;
}

/// Requires: no two specs are the same.
Result<Results> compile_batch(std::span<const KernelSpec> specs, const Target& target,
                              const CompileOptions& options) {
  Batch batch;
  for (size_t i = 0; i < specs.size(); ++i) batch.add(specs[i], i);
  auto compiled = compile_cpu(batch.programs, target, options.cpu);
  if (!compiled) {
    const Error& error = compiled.error();
    if (error.code == ErrorCode::Environment) return tl::unexpected<Error>(error);
    if (specs.size() > 1) return compile_alone(specs, target, options);
    return Results{tl::unexpected<Error>(error)};
  }
  std::vector<Status> statuses(specs.size());
  std::vector<bool> strict(specs.size());
  for (size_t i = 0; i < batch.programs.size(); ++i) {
    const size_t owner = batch.owners[i];
    if (!compiled->programs[i] && statuses[owner]) statuses[owner] = compiled->programs[i];
    if (compiled->strict[i]) strict[owner] = true;
  }
  // A kernel that failed counts as strict if any kernel is strict: it does not split the batch.
  const bool any = std::ranges::find(strict, true) != strict.end();
  for (size_t i = 0; i < specs.size(); ++i) strict[i] = strict[i] || (any && !statuses[i]);
  if (std::ranges::adjacent_find(strict, std::not_equal_to()) != strict.end())
    return compile_apart(specs, strict, target, options);
  Results results;
  for (size_t i = 0; i < specs.size(); ++i)
    results.push_back(statuses[i] ? make_artifact(specs[i], compiled->object, target, options)
                                  : tl::unexpected<Error>(statuses[i].error()));
  return results;
}

/// OpenCL C without the names of its kernels.
std::string nameless(const Artifact& artifact) {
  std::string text = artifact.object;
  const std::vector<std::string> symbols = symbols_of(artifact.info);
  for (size_t i = 0; i < symbols.size(); ++i) {
    const std::string& symbol = symbols[i];
    const std::string number = fmt::format("p{}", i);
    for (size_t at = text.find(symbol); at != std::string::npos;
         at = text.find(symbol, at + number.size()))
      text.replace(at, symbol.size(), number);
  }
  return text;
}

/// For the hash of a kernel.
std::string text_of(const PhaseInfo& phase) {
  std::string text = fmt::format("phase {} {} {} {}\n", phase.tasks, phase.threads,
                                 phase.shared_bytes, phase.persistent);
  for (const runtime::TensorMap& map : phase.maps)
    text += fmt::format("map {} {} {} {} of {} by {}, {}\n", map.argument, map.offset,
                        to_string(map.type), fmt::join(map.box, "x"), fmt::join(map.extents, "x"),
                        fmt::join(map.strides, " "), map.swizzle);
  return text;
}

/// For the hash of a kernel.
std::string text_of(const runtime::PreparationInfo& preparation) {
  std::string text = fmt::format("preparation {}\n", preparation.scratch_bytes);
  for (const int input : preparation.inputs) text += fmt::format("input {}\n", input);
  for (const runtime::ArgumentInfo& buffer : preparation.buffers)
    text += fmt::format("buffer {} {} {}\n", buffer.name, buffer.layout, buffer.storage_elements);
  for (const PhaseInfo& phase : preparation.phases) text += text_of(phase);
  return text;
}

}  // namespace

std::string code_hash(const Artifact& artifact) {
  const KernelInfo& info = artifact.info;
  std::string text = fmt::format("{} {}\n", info.target, info.scratch_bytes);
  for (const PhaseInfo& phase : info.phases) text += text_of(phase);
  for (const runtime::ArgumentInfo& argument : info.arguments)
    text += fmt::format("argument {} {} {} {}\n", argument.name, argument.layout,
                        argument.storage_elements, argument.pack);
  for (const auto& [name, phases] : info.packs) {
    text += fmt::format("pack {}\n", name);
    for (const PhaseInfo& phase : phases) text += fmt::format("phase {}\n", phase.tasks);
  }
  if (info.preparation) text += text_of(*info.preparation);
  for (const std::string& name : imports_of(artifact.object)) text.append(name).append("\n");
  const auto target = parse_target(info.target);
  const bool is_text = target && backend_of(*target).is_text;
  return sha256_hex(text + (is_text ? nameless(artifact) : loaded_contents(artifact.object)));
}

Result<RelocatableKernel> compile_relocatable(const KernelSpec& spec, const Target& target,
                                              const CompileOptions& options) {
  if (target.is_gpu())
    return fail(ErrorCode::Unsupported,
                fmt::format("[compile] expected a kernel of a processor, not one of {}",
                            target.to_string()));
  Batch batch;
  batch.add(spec, 0);
  TW_TRY(CompiledObjects compiled, compile_cpu(batch.programs, target, options.cpu));
  for (const Status& status : compiled.programs) TW_RETURN_IF_ERROR(status);
  TW_TRY(const std::string compiler, toolchain(target, options));
  RelocatableKernel kernel{info_of(spec, target, compiler), std::move(compiled.object)};
  TW_RETURN_IF_ERROR(runtime::check_info(kernel.info));
  return kernel;
}

Result<std::string> toolchain(const Target& target, const CompileOptions& options) {
  return backend_of(target).toolchain(options);
}

Result<Results> compile(std::span<const KernelSpec> specs, const Target& target,
                        const CompileOptions& options) {
  if (backend_of(target).gpu_code) return compile_all_for_gpu(specs, target, options);
  const auto batch = static_cast<size_t>(std::max(1, options.batch));
  Results results;
  while (!specs.empty()) {
    // A batch ends early where a kernel comes again: symbols are unique in an object.
    std::set<std::string> prefixes;
    size_t count = 0;
    while (count < std::min(batch, specs.size()) && prefixes.insert(prefix_of(specs[count])).second)
      ++count;
    TW_TRY(Results part, compile_batch(specs.first(count), target, options));
    std::move(part.begin(), part.end(), std::back_inserter(results));
    specs = specs.subspan(count);
  }
  return results;
}

}  // namespace tw::codegen
