// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/roofline.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "schedules/nest.h"
#include "schedules/program/dot_products.h"
#include "schedules/schedule.h"
#include "tuner/measure/bandwidth.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

// Arithmetic intensity, in operations per byte, below which a kernel counts as memory-bound if the
// peak or the bandwidth is unknown. The balance of a machine is its peak divided by its bandwidth.
// A core with one vector multiply-add of f32 and one vector load per cycle has a balance of half an
// operation per byte in L1, and a higher balance in every slower level.
constexpr double low_intensity = 1;
// Arithmetic intensity (operations per byte) below which a kernel counts as memory-bound, whatever
// was measured. On such a core the peak of f64 divided by the bandwidth of L1 is 1/4. The peak that
// is measured on a busy machine may be far too low.
constexpr double least_balance = 0.25;

std::string bandwidth_text(const Roofline& line) {
  const std::string bytes = fmt::format(
      "{} read and {} written once", show_bytes(static_cast<int64_t>(line.traffic.read_bytes)),
      show_bytes(static_cast<int64_t>(line.traffic.written_bytes)));
  const std::string from = line.level.empty() ? "" : " from " + line.level;
  if (line.level_gb_per_s <= 0)
    return fmt::format("{:.1f} GB/s{}: {}", line.gb_per_s(), from, bytes);
  return fmt::format("{:.1f} GB/s, {:.1f} % of {:.1f} GB/s{}: {}", line.gb_per_s(),
                     100 * line.level_share(), line.level_gb_per_s, from, bytes);
}

/// Returns the number of products that the sums of the compute add up.
double products_of(const dsl::Compute& compute) {
  double products = 0;
  for (const dsl::Stage& stage : compute.stages)
    if (stage.combine == dsl::Combine::Sum) products += dsl::evaluations_of(stage);
  return products;
}

/// Returns the text of the speed. The speed counts the operations of the declared compute, and the
/// text says "as if direct" if the kernel uses another algorithm.
std::string speed_text(const Roofline& line) {
  return fmt::format("{:.1f} GFLOP/s{}", line.gflops(),
                     line.algorithm.empty() ? "" : " as if direct");
}

}  // namespace

bool Roofline::is_memory_bound() const {
  const double done = products > 0 ? flops * products / declared_products : flops;
  if (done < least_balance * traffic.bytes()) return true;
  if (peak_gflops > 0 && level_gb_per_s > 0)
    return done / peak_gflops < traffic.bytes() / level_gb_per_s;
  return done < low_intensity * traffic.bytes();
}

Roofline roofline(const dsl::Workload& workload, const Target& target, int threads,
                  double latency_ns, double peak_gflops) {
  Roofline line;
  line.latency_ns = latency_ns;
  line.flops = dsl::count_flops(workload.compute);
  line.peak_gflops = peak_gflops * schedules::dot_speed(target, workload.compute);
  line.traffic = dsl::compulsory_traffic(workload.compute);
  line.level = tuner::level_of(static_cast<int64_t>(line.traffic.bytes()), target, threads).name;
  return line;
}

Roofline roofline(const db::Record& record, const dsl::Workload& workload, const Target& target) {
  Roofline line = roofline(workload, target, static_cast<int>(record.threads), record.latency_ns,
                           record.peak_gflops);
  if (!tuner::is_of_device(record, target)) line.level.clear();
  return with_algorithm(std::move(line), workload.compute, record.schedule);
}

Roofline with_algorithm(Roofline line, const dsl::Compute& compute, const std::string& schedule) {
  const auto parsed = schedules::parse_schedule(compute, schedule);
  if (!parsed) return line;
  line.algorithm = schedules::algorithm_text(parsed->steps());
  if (line.algorithm.empty()) return line;
  line.products = products_of(parsed->nest().compute);
  line.declared_products = products_of(compute);
  return line;
}

Roofline with_bandwidth(Roofline line, const Target& target, int threads,
                        const tuner::Clock& clock) {
  if (target.is_gpu() || line.level.empty() || line.latency_ns <= 0 || line.traffic.bytes() <= 0)
    return line;
  const auto measured =
      tuner::measure_bandwidth(static_cast<int64_t>(line.traffic.bytes()), threads, clock);
  if (measured)
    line.level_gb_per_s = measured->of(line.traffic.read_bytes, line.traffic.written_bytes);
  else
    note(measured.error().message);
  return line;
}

Facts speeds(const Roofline& line) {
  Facts arithmetic, memory = {{"bandwidth", bandwidth_text(line)}};
  if (line.flops > 0) arithmetic.emplace_back("speed", speed_text(line));
  if (line.flops > 0 && line.peak_gflops > 0)
    arithmetic.emplace_back("of the peak", fmt::format("{:.1f} % of {:.1f} GFLOP/s",
                                                       100 * line.peak_share(), line.peak_gflops));
  if (!line.algorithm.empty())
    arithmetic.emplace_back("algorithm",
                            fmt::format("{}: {:.1f} % of the direct one's products", line.algorithm,
                                        100 * line.products / line.declared_products));
  Facts& first = line.is_memory_bound() ? memory : arithmetic;
  Facts& second = line.is_memory_bound() ? arithmetic : memory;
  first.insert(first.end(), second.begin(), second.end());
  return std::move(first);
}

std::string leading_speed(const Roofline& line) {
  if (!line.is_memory_bound() && line.peak_gflops <= 0) return speed_text(line);
  if (!line.is_memory_bound())
    return fmt::format("{}, {:.1f} % of the peak", speed_text(line), 100 * line.peak_share());
  if (line.level_gb_per_s <= 0) return fmt::format("{:.1f} GB/s", line.gb_per_s());
  return fmt::format("{:.1f} GB/s, {:.1f} % of {}", line.gb_per_s(), 100 * line.level_share(),
                     line.level);
}

nlohmann::json memory_json(const Roofline& line) {
  nlohmann::json json = {{"read_bytes", static_cast<int64_t>(line.traffic.read_bytes)},
                         {"written_bytes", static_cast<int64_t>(line.traffic.written_bytes)},
                         {"level", line.level},
                         {"gb_per_s", line.gb_per_s()},
                         {"bounds", line.is_memory_bound()}};
  // These fields are absent if the bandwidth was not measured.
  if (line.level_gb_per_s > 0) {
    json["level_gb_per_s"] = line.level_gb_per_s;
    json["level_share"] = line.level_share();
  }
  return json;
}

nlohmann::json algorithm_json(const Roofline& line) {
  if (line.algorithm.empty()) return nullptr;
  return {{"steps", line.algorithm},
          {"products", line.products},
          {"declared_products", line.declared_products}};
}

}  // namespace tw::tools
