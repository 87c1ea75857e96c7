// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/bandwidth.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "tuner/measure/crew.h"
#include "tuner/measure/loops.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {
namespace {

// ---- arrays ----

// Largest size of all arrays together. A core reaches only the last-level cache of its own group of
// cores, which is 32 to 96 MiB on known processors, so arrays of this size show the speed of
// memory. Touching the arrays takes about 10 ms.
constexpr int64_t most_bytes = int64_t{128} << 20;

class Arrays {
 public:
  explicit Arrays(size_t bytes) : bytes_((bytes + huge_page_bytes - 1) & ~(huge_page_bytes - 1)) {
    void* mapped = ::mmap(nullptr, bytes_ + huge_page_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    mapped_ = mapped;
    ::madvise(mapped_, bytes_ + huge_page_bytes, MADV_HUGEPAGE);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  ~Arrays() {
    if (mapped_) ::munmap(mapped_, bytes_ + huge_page_bytes);
  }

  std::byte* data() const {
    if (!mapped_) return nullptr;
    const auto address = reinterpret_cast<uintptr_t>(mapped_);
    return reinterpret_cast<std::byte*>((address + huge_page_bytes - 1) & ~(huge_page_bytes - 1));
  }

 private:
  size_t bytes_;
  void* mapped_ = nullptr;
};

// ---- threads ----

/// Bytes that a thread reads and writes between two checks of the stop flag. If the bytes are in
/// main memory, this takes some microseconds.
constexpr size_t step_bytes = size_t{64} << 10;

/// The part of the arrays that one thread reads or copies, again and again from begin to end.
struct alignas(64) Part {
  std::byte* data = nullptr;
  size_t bytes = 0;  ///< an even number of blocks of loop_block_bytes
  size_t at = 0;     ///< offset of the next access
  std::atomic<int64_t> moved{0};
  uint64_t sink = 0;
};

/// Reads or copies the next bytes of a part: at most `most` bytes, and not beyond the end of the
/// part. Returns the number of bytes read plus the number of bytes written.
using Step = std::function<size_t(Part& part, size_t most)>;

Step reading(const Loops& loops) {
  return [loops](Part& part, size_t most) {
    const size_t bytes = std::min(most, part.bytes - part.at);
    part.sink += loops.read(part.data + part.at, bytes);
    part.at = (part.at + bytes) % part.bytes;
    return bytes;
  };
}

/// Copies the first half of a part into the second one.
Step copying(const Loops& loops) {
  return [loops](Part& part, size_t most) {
    const size_t half = part.bytes / 2;
    const size_t bytes = std::min(most / 2, half - part.at);
    loops.copy(part.data + part.at, part.data + half + part.at, bytes);
    part.at = (part.at + bytes) % half;
    return 2 * bytes;
  };
}

void work(Part& part, const Step& step) {
  size_t moved = 0;
  while (moved < step_bytes) moved += step(part, step_bytes - moved);
  part.moved.fetch_add(static_cast<int64_t>(moved), std::memory_order_relaxed);
}

/// Returns the rate in GB/s at which all threads together run `step`. It is the rate of the fastest
/// window of Crew::rates(), since disturbances only slow a window down.
Result<double> measure(std::byte* data, size_t part_bytes, int threads, const Step& step,
                       const Clock& clock, int64_t budget_ns) {
  std::vector<Part> parts(static_cast<size_t>(threads));
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].data = data + i * part_bytes;
    parts[i].bytes = part_bytes;
  }
  const auto moved = [&] {
    int64_t sum = 0;
    for (const Part& part : parts) sum += part.moved.load(std::memory_order_relaxed);
    return sum;
  };
  Crew crew(threads, [&](size_t thread) { work(parts[thread], step); });
  TW_RETURN_IF_ERROR(crew.start("bandwidth"));
  // First each thread reads or copies its whole part once, so that the part lies in the fastest
  // memory level that holds it.
  while (std::any_of(parts.begin(), parts.end(), [](const Part& part) {
    return part.moved.load() < static_cast<int64_t>(part.bytes);
  }))
    work(parts[0], step);
  const std::vector<double> rates = crew.rates(moved, clock, budget_ns);
  return rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
}

}  // namespace

std::vector<MemoryLevel> memory_levels(const Target& target, int threads) {
  const MemoryLevel memory = {"memory", std::numeric_limits<int64_t>::max()};
  std::vector<MemoryLevel> caches;
  if (target.is_gpu())
    caches = {{"L2", target.machine.l2_bytes()}};
  else
    caches = {{"L1", threads * target.machine.l1_bytes()},
              {"L2", threads * target.machine.l2_bytes()},
              {"L3", target.machine.l3_bytes()}};
  std::vector<MemoryLevel> levels;
  for (const MemoryLevel& cache : caches)
    if (cache.bytes > (levels.empty() ? 0 : levels.back().bytes)) levels.push_back(cache);
  levels.push_back(memory);
  return levels;
}

MemoryLevel level_of(int64_t footprint, const Target& target, int threads) {
  const std::vector<MemoryLevel> levels = memory_levels(target, threads);
  return *std::find_if(levels.begin(), levels.end(),
                       [&](const MemoryLevel& level) { return footprint <= level.bytes; });
}

double Bandwidth::of(double read_bytes, double written_bytes) const {
  if (read_gb_per_s <= 0 || copy_gb_per_s <= 0 || read_bytes + written_bytes <= 0) return 0;
  const double only_read = std::max(read_bytes - written_bytes, 0.0);
  const double others = read_bytes + written_bytes - only_read;
  return (only_read + others) / (only_read / read_gb_per_s + others / copy_gb_per_s);
}

Result<Bandwidth> measure_bandwidth(int64_t footprint, int threads, const Clock& clock,
                                    int64_t budget_ns) {
  TW_CHECK(threads > 0);
  const auto parts = static_cast<size_t>(threads);
  const auto bytes = static_cast<size_t>(std::clamp<int64_t>(footprint, 0, most_bytes));
  const size_t part_bytes =
      std::max(bytes / parts / (2 * loop_block_bytes), size_t{1}) * 2 * loop_block_bytes;
  const Arrays arrays(parts * part_bytes);
  if (!arrays.data())
    return fail(ErrorCode::Environment,
                fmt::format("[bandwidth] the system refuses {} bytes", parts * part_bytes));
  // Pages that were never written all share one page of zeros, which would lie in L1.
  std::memset(arrays.data(), 1, parts * part_bytes);
  const Loops loops = loops_for(host_target());
  Bandwidth bandwidth;
  TW_TRY(bandwidth.copy_gb_per_s,
         measure(arrays.data(), part_bytes, threads, copying(loops), clock, budget_ns));
  TW_TRY(bandwidth.read_gb_per_s,
         measure(arrays.data(), part_bytes, threads, reading(loops), clock, budget_ns));
  return bandwidth;
}

}  // namespace tw::tuner
