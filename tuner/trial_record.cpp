// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial_record.h"

#include "codegen/abi.h"
#include "tuner/device.h"
#include "tuner/host_machine.h"

namespace tw::tuner {

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
  record.noise = reply.noise;
  record.verified_error = reply.verified_error;
  return record;
}

}  // namespace tw::tuner
