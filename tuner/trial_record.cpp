// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial_record.h"

#include <algorithm>

#include "codegen/abi.h"
#include "schedules/nest.h"
#include "schedules/program/legality.h"
#include "schedules/program/tensor_tiles.h"
#include "tuner/host_machine.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

/// Returns the most GB/s that the loads and stores of the cores of `threads` threads can move; on a
/// GPU, the bandwidth of its L2 cache. Returns 0 if the machine's numbers are only assumed.
double most_gb_per_s(const Machine& machine, int threads) {
  if (machine.origin == MachineOrigin::Assumed) return 0;
  if (machine.gpu) return machine.gpu->l2_gbps;
  const Core& core = machine.core;
  return threads * core.clock_ghz * core.vector_bytes *
         (core.loads_per_cycle + core.stores_per_cycle);
}

/// Returns the rate of the target's tensor cores divided by the rate of f32 multiply-adds, if a
/// stage sums products of a type that the tensor cores multiply; otherwise 1.
double tensor_speed(const dsl::Workload& workload, const Target& target) {
  if (!target.machine.gpu) return 1;
  const Gpu& gpu = *target.machine.gpu;
  const schedules::Limits limits = schedules::limits_of(target);
  double most = 1;
  for (const schedules::TensorTile& tile : schedules::tensor_tiles()) {
    const bool multiplies =
        std::ranges::any_of(workload.compute.stages, [&](const dsl::Stage& stage) {
          return stage.combine == dsl::Combine::Sum && schedules::sums_products_of(stage, tile);
        });
    if (!multiplies || tile.input_error > schedules::exact_input_error ||
        !schedules::has_tile(tile, limits.gpu_architecture, limits.architecture_specific))
      continue;
    most = std::max(most, schedules::multiply_adds(tile, gpu) / gpu.fma_lanes);
  }
  return most;
}

}  // namespace

double peak_for(const dsl::Workload& workload, const Target& target, double f32_gflops) {
  const bool in_f64 = std::ranges::any_of(
      workload.compute.stages, [](const dsl::Stage& stage) { return stage.type == Float64; });
  return in_f64 ? f32_gflops / 2 : f32_gflops * tensor_speed(workload, target);
}

db::Record trial_record(const dsl::Workload& workload, const Target& target, int threads,
                        std::string_view toolchain, std::string_view schedule,
                        const MeasureReply& reply, double peak_gflops) {
  db::Record record;
  record.workload = workload.key();
  record.layouts = workload.asked();
  record.op = workload.op;
  record.target = target.to_string();
  record.device = device_text(target);
  record.machine = provenance(target.machine);
  record.toolchain = toolchain;
  record.codegen_abi = codegen::codegen_abi;
  record.threads = threads;
  record.schedule = schedule;
  record.status = reply.status;
  record.reason = reply.reason;
  record.samples_ns = reply.samples_ns;
  record.latency_ns = reply.latency_ns;
  record.latency_low_ns = reply.low_ns;
  record.latency_high_ns = reply.high_ns;
  record.flops = dsl::count_flops(workload.compute);
  record.peak_gflops = peak_gflops;
  record.bytes = dsl::compulsory_traffic(workload.compute).bytes();
  record.peak_gb_per_s = most_gb_per_s(target.machine, threads);
  record.noise = reply.noise;
  record.verified_error = reply.verified_error;
  return record;
}

}  // namespace tw::tuner
