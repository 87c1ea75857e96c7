// SPDX-License-Identifier: Apache-2.0
#include "tuner/evaluation.h"

#include <utility>

#include "codegen/compile.h"
#include "schedules/program/legality.h"
#include "schedules/space/default_schedule.h"

namespace tw::tuner {

Result<dsl::Arrays> Evaluator::outputs(const dsl::Workload& workload, const dsl::Arrays& inputs) {
  TW_TRY(const runtime::Kernel* kernel, kernel_of(workload));
  dsl::Arrays results;
  std::vector<runtime::Buffer> buffers;
  for (const dsl::Input& input : workload.compute.inputs) {
    const dsl::Array& array = inputs.at(input.name);
    // A kernel only reads its inputs.
    buffers.push_back({const_cast<std::byte*>(array.data.data()), array.type, array.shape});
  }
  for (const std::string& name : workload.compute.outputs) {
    TW_TRY(dsl::Array made,
           dsl::Array::make(workload.compute.type_of(name), workload.compute.shape_of(name)));
    dsl::Array& array = results.emplace(name, std::move(made)).first->second;
    buffers.push_back({array.data.data(), array.type, array.shape});
  }
  TW_RETURN_IF_ERROR(kernel->call(buffers, pool_));
  return results;
}

Result<const runtime::Kernel*> Evaluator::kernel_of(const dsl::Workload& workload) {
  dsl::Workload strict = workload;
  strict.accuracy = dsl::Accuracy::Strict;
  const std::string key = strict.key();
  if (const auto known = kernels_.find(key); known != kernels_.end()) return &known->second;
  TW_TRY(const schedules::Schedule schedule, schedules::default_schedule(strict, target_));
  TW_TRY(schedules::Program program, schedule.program(schedules::limits_of(target_)));
  const codegen::KernelSpec spec{key, schedule.to_string(), std::move(program)};
  TW_TRY(auto artifacts, codegen::compile({&spec, 1}, target_));
  TW_TRY(runtime::Artifact artifact, std::move(artifacts[0]));
  TW_TRY(runtime::Kernel kernel, runtime::Kernel::load(std::move(artifact)));
  return &kernels_.emplace(key, std::move(kernel)).first->second;
}

}  // namespace tw::tuner
