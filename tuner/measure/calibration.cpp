// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/isa.h"
#include "base/text.h"
#include "runtime/thread_pool.h"
#include "tuner/measure/loops.h"
#include "tuner/measure/peak.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {
namespace {

constexpr int64_t KiB = 1 << 10, MiB = 1 << 20;

// ---- one quantity ----

/// Number of undisturbed timings for each quantity.
constexpr size_t wanted_samples = 7;

/// Returns the lower quartile, which is used as the result of several timings in cycles. A timing
/// is too long if a timer interrupt hits it. It is too short if an interrupt hits the additions by
/// which the length of a cycle is measured. The lower quartile excludes both kinds.
double lower_quartile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct ProbeSample {
  double cycle_ns = 0;
  double cycles = 0;
  Moment moment = {};
};

class Calibrator {
 public:
  Calibrator(Bench& bench, Watch& watch, Clock clock, int64_t budget_ns)
      : bench_(bench),
        watch_(watch),
        clock_(std::move(clock)),
        budget_ns_(budget_ns),
        deadline_ns_(clock_() + budget_ns) {}

  bool has(Probe probe) const { return bench_.has(probe); }
  /// Returns the number of cycles of one operation.
  Result<double> cycles(Probe probe) {
    return cycles([&] { return bench_.operation_ns(probe); });
  }
  /// Returns the bytes per cycle that all threads together read from arrays of `footprint` bytes.
  Result<double> bytes_per_cycle(int64_t footprint, int threads) {
    TW_RETURN_IF_ERROR(bench_.lay_out(footprint, threads, deadline_ns_));
    TW_TRY(const double cycles_per_byte, cycles([&] { return bench_.byte_ns(); }));
    return 1 / cycles_per_byte;
  }
  /// The clock rate during the measurements. Requires: at least one measurement was made.
  double clock_ghz() const { return 1 / lower_quartile(cycle_ns_); }

 private:
  using Timing = std::function<double()>;

  Result<double> cycles(const Timing& timing) {
    std::vector<ProbeSample> samples;
    while (true) {
      // The watch learns more about the machine's undisturbed speed from every sample, so all
      // samples are judged again.
      std::vector<double> undisturbed;
      std::optional<std::string> objection;
      for (const ProbeSample& sample : samples) {
        objection = watch_.objection(sample.moment);
        if (!objection) undisturbed.push_back(sample.cycles);
      }
      if (undisturbed.size() >= wanted_samples) return lower_quartile(std::move(undisturbed));
      if (clock_() >= deadline_ns_) return too_late(objection);
      if (objection) watch_.rest();
      TW_TRY(const ProbeSample sample, take(timing));
      samples.push_back(sample);
    }
  }

  Result<ProbeSample> take(const Timing& timing) {
    ProbeSample sample;
    watch_.begin();
    sample.cycle_ns = bench_.operation_ns(Probe::Addition);
    const double ns = timing();
    sample.moment = watch_.end();
    if (!(sample.cycle_ns > 0 && ns > 0))
      return fail(ErrorCode::Environment,
                  "[calibration] the clock stood still while loops ran; its numbers are not used");
    sample.cycles = ns / sample.cycle_ns;
    cycle_ns_.push_back(sample.cycle_ns);
    return sample;
  }

  tl::unexpected<Error> too_late(const std::optional<std::string>& objection) const {
    return fail(ErrorCode::TryLater,
                fmt::format("[calibration] the processor was not measured within {} s{}; calibrate "
                            "it with `tilewright doctor --calibrate` when less else runs",
                            format_double(static_cast<double>(budget_ns_) * 1e-9),
                            objection ? ", as " + *objection : ""));
  }

  Bench& bench_;
  Watch& watch_;
  Clock clock_;
  int64_t budget_ns_, deadline_ns_;
  std::vector<double> cycle_ns_;  ///< times of a cycle in all samples
};

// ---- a core ----

double rounded(double value) { return std::round(100 * value) / 100; }

/// Rounds a number of cycles, or of operations per cycle. Latencies are whole numbers of cycles,
/// and ports start a whole number of operations per cycle, or one every other cycle if they are
/// shared. So a value within 6 % of a multiple of one half becomes that multiple: 1.97 becomes 2.
double settled(double value) {
  const double half = std::round(2 * value) / 2;
  return std::abs(value - half) <= 0.06 * half ? half : rounded(value);
}

/// A dot product for which only some targets have instructions. `loop` times it and has
/// `operations` operations in a call; `rate` is the number in the machine description that is
/// measured.
struct DotProbe {
  Probe probe;
  void (*Loops::*loop)();
  double Loops::*operations;
  double Core::*rate;
  bool needs_tile_registers = false;
};
constexpr DotProbe dot_probes[] = {
    {Probe::ByteDot, &Loops::byte_dots, &Loops::dots, &Core::byte_dots_per_cycle},
    {Probe::WordDot, &Loops::word_dots, &Loops::dots, &Core::word_dots_per_cycle},
    {Probe::Bf16Dot, &Loops::bf16_dots, &Loops::dots, &Core::bf16_dots_per_cycle},
    {Probe::ByteTileDot, &Loops::byte_tiles, &Loops::tile_dots, &Core::byte_tile_dots_per_cycle,
     true},
    {Probe::Bf16TileDot, &Loops::bf16_tiles, &Loops::tile_dots, &Core::bf16_tile_dots_per_cycle,
     true},
};
const DotProbe* find_dot_probe(Probe probe) {
  const auto* found = std::ranges::find(dot_probes, probe, &DotProbe::probe);
  return found == std::end(dot_probes) ? nullptr : found;
}

Status measure_core(Calibrator& calibrator, Core& core) {
  const auto per_cycle = [&](Probe probe) -> Result<double> {
    TW_TRY(const double cycles, calibrator.cycles(probe));
    return settled(1 / cycles);
  };
  TW_TRY(core.fma_per_cycle, per_cycle(Probe::MultiplyAdd));
  TW_TRY(const double latency, calibrator.cycles(Probe::DependentMultiplyAdd));
  core.fma_latency_cycles = settled(latency);
  for (const DotProbe& dot : dot_probes) {
    core.*dot.rate = core.fma_per_cycle;
    if (calibrator.has(dot.probe)) {
      TW_TRY(core.*dot.rate, per_cycle(dot.probe));
    }
  }
  TW_TRY(core.loads_per_cycle, per_cycle(Probe::Load));
  TW_TRY(core.stores_per_cycle, per_cycle(Probe::Store));
  TW_TRY(core.instructions_per_cycle, per_cycle(Probe::Instruction));
  return {};
}

// ---- memory ----

// Size of the arrays by which memory is measured. A core reaches only the last-level cache of its
// own group of cores, which is 32 to 105 MiB on known processors, whatever a virtual machine
// reports. So arrays of this size show the speed of memory. Touching them takes about 10 ms, or 0.5
// s if a hypervisor still has to provide the memory.
constexpr int64_t memory_footprint = 128 * MiB;

/// Largest size of the arrays if all threads of a large machine measure memory together.
constexpr int64_t most_memory_footprint = 512 * MiB;

Status measure_memory_of_one(Calibrator& calibrator, tw::Machine& machine) {
  TW_TRY(const double rate, calibrator.bytes_per_cycle(memory_footprint, 1));
  machine.memory_bytes_per_cycle = rounded(rate);
  return {};
}

/// Returns the size in bytes of arrays that are twice as large as all caches that `threads` threads
/// use together, but at least memory_footprint.
int64_t uncached_bytes(const tw::Machine& machine, int threads) {
  int64_t cached = 0;
  for (const CacheLevel& cache : machine.caches)
    cached += cache.bytes * ((threads + cache.cores - 1) / cache.cores);
  return std::max(2 * cached, memory_footprint);
}

/// Memory limits the threads if their common rate is less than this share of (number of threads) x
/// (rate of one thread alone).
constexpr double shared_memory = 0.8;

/// Measures how many cores are enough to use the whole bandwidth of memory. It uses as many threads
/// as most_memory_footprint allows. If these do not use the whole bandwidth yet, the described
/// number stays, unless the threads show that more cores are needed. Requires:
/// memory_bytes_per_cycle and the caches were measured before.
Status measure_memory_of_all(Calibrator& calibrator, tw::Machine& machine) {
  int threads = 1;
  while (threads < machine.cores && uncached_bytes(machine, threads + 1) <= most_memory_footprint)
    ++threads;
  if (threads == 1) return {};
  TW_TRY(const double all, calibrator.bytes_per_cycle(uncached_bytes(machine, threads), threads));
  const double cores = std::max(1.0, all / machine.memory_bytes_per_cycle);
  const bool is_full = cores < shared_memory * threads;
  machine.cores_that_fill_memory =
      rounded(is_full ? cores : std::max(cores, machine.cores_that_fill_memory));
  return {};
}

// ---- caches ----

/// Read bandwidth of an array of one size.
struct LevelPoint {
  int64_t footprint;
  double bytes_per_cycle;
};

// Smallest array that is timed. In smaller arrays, calling the loop takes as long as reading.
constexpr int64_t least_footprint = 16 * KiB;

// Two levels can be told apart if the ratio of their speeds is at least this number.
constexpr double least_step = 1.15;

/// Returns the sizes of the arrays by which a cache is measured, smallest first. The cache is
/// reported to have `bytes` bytes; the levels below and above it have `below` and `above` bytes.
/// The sizes are 4, 2, 1, 1/2, 1/4 ... times `bytes`, from at least 2 * below to at most above / 2.
/// Sizes far below `bytes` are included because virtual machines report caches of which other
/// guests use a part. For example, an L2 of 1 MiB between 32 KiB and 32 MiB is measured with 64
/// KiB, 128 KiB ... 4 MiB.
std::vector<int64_t> footprints(int64_t bytes, int64_t below, int64_t above) {
  std::vector<int64_t> sizes;
  const int64_t least = std::max(2 * below, least_footprint);
  for (int64_t size = 4 * bytes; size >= least; size /= 2)
    if (2 * size <= above) sizes.insert(sizes.begin(), size);
  // There is no such size if a neighbouring level has nearly the size of this cache.
  if (sizes.empty()) sizes.push_back((below + bytes) / 2);
  return sizes;
}

/// Returns the size of a cache. `points` has the read speeds of arrays of growing size, and
/// `beyond` is the speed of the next level. The cache ends where the speed first falls below the
/// geometric mean of the first point's speed and `beyond`; its measured size is that of the last
/// array before. Returns `reported` instead if the measured size is within a factor of two of
/// `reported`, or if the first point's speed is too close to `beyond` (least_step).
int64_t size_seen(const std::vector<LevelPoint>& points, double beyond, int64_t reported) {
  const double within = points.front().bytes_per_cycle;
  if (within < least_step * beyond) return reported;
  int64_t seen = points.front().footprint;
  for (const LevelPoint& point : points) {
    if (point.bytes_per_cycle < std::sqrt(within * beyond)) break;
    seen = point.footprint;
  }
  return 2 * seen >= reported && seen <= 2 * reported ? reported : seen;
}

/// Measures the caches, the largest first, because the speed of the next level is needed to find
/// where a level ends.
Status measure_caches(Calibrator& calibrator, tw::Machine& machine) {
  double beyond = machine.memory_bytes_per_cycle;
  int64_t above = memory_footprint;
  for (size_t i = machine.caches.size(); i-- > 0;) {
    CacheLevel& cache = machine.caches[i];
    const int64_t below = i > 0 ? machine.caches[i - 1].bytes : 0;
    if (cache.bytes <= below) continue;
    std::vector<LevelPoint> points;
    for (const int64_t footprint : footprints(cache.bytes, below, above)) {
      TW_TRY(const double rate, calibrator.bytes_per_cycle(footprint, 1));
      points.push_back({footprint, rate});
    }
    above = cache.bytes;
    cache.bytes = size_seen(points, beyond, cache.bytes);
    beyond = points.front().bytes_per_cycle;
    cache.bytes_per_cycle = rounded(beyond);
  }
  // Loops over arrays that fit into L1 are too short to be timed, so the bandwidth of L1 is
  // computed from the core's rate of loads.
  machine.caches[0].bytes_per_cycle = machine.core.loads_per_cycle * machine.core.vector_bytes;
  return {};
}

// ---- the processor ----

/// operation_ns() times probe_windows windows and returns the time of the fastest. A window has
/// calls_per_probe_window calls of a loop and takes some 10 us.
constexpr int probe_windows = 3, calls_per_probe_window = 4;

/// Least and most bytes that a thread reads in one timing of byte_ns(). A timing takes 0.1 to 0.5
/// ms; longer timings are disturbed more often.
constexpr size_t least_read_bytes = 2 * MiB, most_read_bytes = 4 * MiB;

/// Bytes of new arrays that are written between two reads of the clock.
constexpr size_t touched_bytes = 4 * MiB;

class ProcessorBench final : public Bench {
 public:
  ProcessorBench(const Target& target, Clock clock)
      : loops_(loops_for(target)), clock_(std::move(clock)) {}

  bool has(Probe probe) const override {
    const DotProbe* dot = find_dot_probe(probe);
    if (!dot) return true;
    return loops_.*dot->loop && (!dot->needs_tile_registers || request_tile_registers());
  }

  double operation_ns(Probe probe) override {
    const auto [call, operations] = loop_of(probe);
    double fastest = 0;
    for (int window = 0; window < probe_windows; ++window) {
      const int64_t from = clock_();
      for (int i = 0; i < calls_per_probe_window; ++i) call();
      const auto elapsed = static_cast<double>(clock_() - from);
      fastest = window == 0 ? elapsed : std::min(fastest, elapsed);
    }
    return fastest / (calls_per_probe_window * operations);
  }

  Status lay_out(int64_t footprint, int threads, int64_t deadline_ns) override {
    const auto count = static_cast<size_t>(threads);
    const size_t bytes =
        std::max(static_cast<size_t>(footprint) / count / loop_block_bytes, size_t{1}) *
        loop_block_bytes;
    if (!arrays_ || arrays_->size() < bytes * count) {
      arrays_.reset();
      TW_TRY(arrays_,
             GuardedBuffer::make(bytes * count,
                                 {.align = Align::Begin, .alignment = 64, .huge_pages = true}));
      TW_RETURN_IF_ERROR(touch(deadline_ns));
    }
    if (threads > 1 && (!pool_ || pool_->threads() != threads)) {
      runtime::PoolOptions options;
      options.threads = threads;
      pool_ = std::make_unique<runtime::ThreadPool>(options);
    }
    part_bytes_ = bytes;
    parts_.assign(count, {});
    for (size_t i = 0; i < count; ++i) parts_[i].data = arrays_->data() + i * bytes;
    read(bytes);
    return {};
  }

  double byte_ns() override {
    const size_t bytes = std::clamp(part_bytes_, least_read_bytes, most_read_bytes);
    read(0);  // wakes the threads up
    const int64_t from = clock_();
    read(bytes);
    const auto elapsed = static_cast<double>(clock_() - from);
    return elapsed / static_cast<double>(bytes * parts_.size());
  }

 private:
  /// A function that calls the loop of a probe once, and the number of operations in that call.
  struct LoopCall {
    std::function<void()> call;
    double operations;
  };

  LoopCall loop_of(Probe probe) {
    if (const DotProbe* dot = find_dot_probe(probe))
      return {loops_.*dot->loop, loops_.*dot->operations};
    switch (probe) {
      case Probe::Addition:
        return {addition_chain, chained_additions};
      case Probe::MultiplyAdd:
        return {[this] { loops_.fma(&seed_); }, loops_.fmas};
      case Probe::DependentMultiplyAdd:
        return {[this] { loops_.fma_chain(&seed_); }, loops_.chained_fmas};
      case Probe::Load:
        return {[this] { loops_.load(window_); }, loops_.window_accesses};
      case Probe::Store:
        return {[this] { loops_.store(window_); }, loops_.window_accesses};
      case Probe::Instruction:
        return {[this] { instruction_mix(window_); }, mixed_instructions};
      default:
        break;
    }
    return {};
  }

  /// Writes the arrays once, because pages that were never written all share one page of zeros,
  /// which would lie in L1. If the deadline passes, frees the arrays and fails with TryLater.
  Status touch(int64_t deadline_ns) {
    for (size_t at = 0; at < arrays_->size(); at += touched_bytes) {
      if (clock_() >= deadline_ns) {
        arrays_.reset();
        return fail(ErrorCode::TryLater, "[calibration] the system was too slow to give memory");
      }
      std::memset(arrays_->data() + at, 1, std::min(touched_bytes, arrays_->size() - at));
    }
    return {};
  }

  /// The part of the arrays that one thread reads, again and again from begin to end.
  struct alignas(64) Part {
    std::byte* data = nullptr;
    size_t at = 0;  ///< offset of the next read
    uint64_t sink = 0;
  };

  /// Lets every thread read `bytes` bytes of its part. A thread starts where its last read ended.
  /// At the end of the part it continues at the beginning.
  void read(size_t bytes) {
    struct Job {
      ProcessorBench* bench;
      size_t bytes;
    } job = {this, bytes};
    const auto run = [](void* context, int32_t thread) noexcept -> int32_t {
      const auto* j = static_cast<const Job*>(context);
      j->bench->read(j->bench->parts_[static_cast<size_t>(thread)], j->bytes);
      return 0;
    };
    const auto count = static_cast<int>(parts_.size());
    if (count == 1)
      run(&job, 0);
    else
      pool_->parallel_for(count, run, &job, count, runtime::Distribution::Static);
  }

  void read(Part& part, size_t bytes) const {
    while (bytes > 0) {
      const size_t run = std::min(bytes, part_bytes_ - part.at);
      part.sink += loops_.read(part.data + part.at, run);
      part.at = (part.at + run) % part_bytes_;
      bytes -= run;
    }
  }

  Loops loops_;
  Clock clock_;
  volatile float seed_ = 1.0f;
  alignas(64) std::byte window_[loop_window_bytes] = {};
  std::optional<GuardedBuffer> arrays_;
  std::unique_ptr<runtime::ThreadPool> pool_;
  std::vector<Part> parts_;
  size_t part_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Bench> processor_bench(const Target& target, Clock clock) {
  return std::make_unique<ProcessorBench>(target, std::move(clock));
}

Result<tw::Machine> calibrate(const tw::Machine& described, Bench& bench, Watch& watch,
                              const Clock& clock, int64_t budget_ns) {
  Calibrator calibrator(bench, watch, clock, budget_ns);
  tw::Machine machine = described;
  TW_RETURN_IF_ERROR(measure_core(calibrator, machine.core));
  TW_RETURN_IF_ERROR(measure_memory_of_one(calibrator, machine));
  TW_RETURN_IF_ERROR(measure_caches(calibrator, machine));
  TW_RETURN_IF_ERROR(measure_memory_of_all(calibrator, machine));
  machine.core.clock_ghz = rounded(calibrator.clock_ghz());
  machine.origin = MachineOrigin::Calibrated;
  if (is_plausible(machine)) return machine;
  return fail(
      ErrorCode::Environment,
      fmt::format("[calibration] no processor is like what was measured, which is not used: "
                  "{}",
                  join(split(to_string(machine), '\n'), "; ")));
}

Result<tw::Machine> calibrate_processor(const Target& target, const Clock& clock,
                                        int64_t budget_ns) {
  tw::Machine described = target.machine;
  const std::string cpu = host_target().cpu;
  if (described.origin == MachineOrigin::Assumed && !cpu.empty()) described.name = cpu;
  runtime::PoolOptions options;
  options.threads = 1;
  runtime::ThreadPool pool(options);
  Gauge gauge(pool, 1, clock, target);
  const std::unique_ptr<Watch> watch = watch_processor(gauge, clock);
  const std::unique_ptr<Bench> bench = processor_bench(target, clock);
  return calibrate(described, *bench, *watch, clock, budget_ns);
}

}  // namespace tw::tuner
