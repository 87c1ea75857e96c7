// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/preparing.h"

#include <utility>

#include "codegen/compile.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "tuner/measure/packing.h"

namespace tw::tuner {
namespace {

bool runs_here(const runtime::KernelInfo& kernel) {
  const auto target = parse_target(kernel.target);
  return target && !target->is_gpu() && runtime::check_target(kernel.target, host_target());
}

/// Compiles the preparation as a kernel for this processor. The outputs of this kernel are the
/// prepared buffers.
Result<runtime::Artifact> compile_here(const runtime::KernelInfo& kernel,
                                       const dsl::Workload& workload) {
  TW_TRY(const Target target, parse_target(kernel.target));
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(workload.compute, kernel.schedule));
  TW_TRY(const schedules::Program program, schedule.program(schedules::limits_of(target)));
  TW_CHECK(program.preparation, "the kernel has a preparation");
  codegen::KernelSpec spec{kernel.workload, kernel.schedule, *program.preparation};
  spec.packs = false;
  TW_TRY(auto artifacts, codegen::compile({&spec, 1}, host_target()));
  return std::move(artifacts[0]);
}

}  // namespace

Result<Preparer> Preparer::make(const runtime::Artifact& artifact, const dsl::Workload& workload) {
  const runtime::KernelInfo& info = artifact.info;
  const bool is_own = runs_here(info);
  runtime::Artifact code = artifact;
  if (!is_own) {
    TW_TRY(code, compile_here(info, workload));
  }
  TW_TRY(runtime::Kernel kernel, runtime::Kernel::load(std::move(code)));
  Preparer preparer(std::move(kernel), info, is_own);
  for (const int input : info.preparation->inputs) {
    TW_TRY(preparer.layouts_.emplace_back(),
           layout_of(info.arguments[static_cast<size_t>(input)], workload));
  }
  return preparer;
}

Result<std::vector<std::vector<std::byte>>> Preparer::run(std::span<const dsl::Array* const> inputs,
                                                          runtime::ThreadPool& pool) const {
  const runtime::PreparationInfo& preparation = *of_.preparation;
  TW_CHECK(inputs.size() == preparation.inputs.size(), "an array for each input");
  std::vector<std::vector<std::byte>> read, made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    read.emplace_back(packed_bytes(layouts_[i], *inputs[i]));
    pack(layouts_[i], *inputs[i], read.back().data());
  }
  for (const runtime::ArgumentInfo& buffer : preparation.buffers)
    made.emplace_back(static_cast<size_t>(runtime::storage_bytes(buffer)));
  std::vector<void*> pointers(is_own_ ? of_.arguments.size() : inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    pointers[is_own_ ? static_cast<size_t>(preparation.inputs[i]) : i] = read[i].data();
  for (std::vector<std::byte>& bytes : made) pointers.push_back(bytes.data());
  TW_RETURN_IF_ERROR(is_own_ ? kernel_.prepare(pointers, pool) : kernel_.run(pointers, pool));
  return made;
}

}  // namespace tw::tuner
