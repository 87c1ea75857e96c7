// SPDX-License-Identifier: Apache-2.0
#include "cost_model/gpu_architecture.h"

#include <algorithm>
#include <iterator>

namespace tw::cost_model {
namespace {

// Threads, blocks, registers and shared memory: CUDA's programming guide, "Technical Specifications
// per Compute Capability". Sizes and clocks: the white papers of a large chip of each (TU102, A100,
// GA102, Orin, AD102, H200, B200, GB202). DRAM: 0.9 of the data sheet's, what copies reach (4.3
// of 4.8 TB/s on an H200). Tensor: summed in f32, as the white papers say; by mma.sync an H100
// reaches about 0.62 of its peak (arXiv 2402.13499), and Blackwell no more than that. L2: about 32
// bytes a cycle and multiprocessor, of 64 nominal.
constexpr GpuArchitecture rows[] = {
    // clang-format off
    // name      SMs   GHz  FMA tensor thr.  bl. registers  shared      L1          L2         L2    DRAM
    {"sm_75",    72, 1.70,  64,  512, 1024, 16, 64 << 10,  64 << 10,  96 << 10,   6 << 20, 2000,  600},
    {"sm_80",   108, 1.41,  64, 1024, 2048, 32, 64 << 10, 164 << 10, 192 << 10,  40 << 20, 4500, 1400},
    {"sm_86",    84, 1.70, 128,  256, 1536, 16, 64 << 10, 100 << 10, 128 << 10,   6 << 20, 3000,  840},
    {"sm_87",    16, 1.30, 128,  512, 1536, 16, 64 << 10, 164 << 10, 192 << 10,   4 << 20,  600,  180},
    {"sm_89",   142, 2.40, 128,  512, 1536, 24, 64 << 10, 100 << 10, 128 << 10,  96 << 20, 5000,  860},
    {"sm_90",   132, 1.75, 128, 1270, 2048, 32, 64 << 10, 228 << 10, 256 << 10,  50 << 20, 5600, 4300},
    {"sm_100",  148, 1.85, 128, 1270, 2048, 32, 64 << 10, 228 << 10, 256 << 10, 126 << 20, 8000, 7000},
    {"sm_120",  170, 2.40, 128,  256, 1536, 24, 64 << 10, 100 << 10, 128 << 10,  96 << 20, 8000, 1600},
    {"opencl",   32, 1.50, 128,    0, 1024, 16, 64 << 10,  64 << 10, 128 << 10,   4 << 20, 1500,  400},
    // clang-format on
};

/// sm_90a has sm_90's sizes.
std::string_view without_suffix(std::string_view name) {
  return name.ends_with('a') ? name.substr(0, name.size() - 1) : name;
}

}  // namespace

GpuArchitecture gpu_architecture(const Target& target) {
  TW_CHECK(target.is_gpu());
  const std::string_view name = without_suffix(target.gpu);
  const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                 [&](const GpuArchitecture& r) { return r.name == name; });
  GpuArchitecture found = row == std::end(rows) ? *std::prev(std::end(rows)) : *row;
  if (target.cores > 1) found.multiprocessors = target.cores;
  return found;
}

}  // namespace tw::cost_model
