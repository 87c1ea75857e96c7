// SPDX-License-Identifier: Apache-2.0
#pragma once
// A driver that stands in for libcuda.so.1. Tests name it in DeviceOptions::library. Memory of the
// device is memory of the process. A launch runs a function of the process as soon as it is
// submitted, and advances the clock that events read by 1 us for each block. The driver refuses
// what a real one would refuse: work without a current context, memory that was not allocated,
// dynamic shared memory above 48 KiB that was not allowed, and tensor maps that are not aligned. At
// its start and whenever it loads a module, it starts a thread that writes its name to procfs and
// opens a local socket; if either is refused, it fails with CUDA_ERROR_OPERATING_SYSTEM.
//
// Each module has these kernels:
// - `saxpy_p0(x, y, scratch)`: y += 2 x for as many floats as there are threads;
// - `fault_p0(scratch)`: reads an illegal address;
// - the kernels of codegen/compare_kernels.h;
// - kernels that a test adds to FakeCuda::kernels;
// - for a program that a test starts, kernels of the library that TW_FAKE_CUDA_KERNELS names. For a
//   kernel `f` this library has `int f_arguments` and `void f(void* const* arguments)`.
//
// Libraries that stand in for NVIDIA's libraries put their work on a stream by fake_cuda_submit.

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tw::runtime {

struct FakeLaunch {
  std::string function;
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  void* stream = nullptr;
};

/// A kernel of a test: a function with pointer arguments. Its tensor maps follow the other
/// arguments and are pointers to FakeTensorMap.
struct FakeKernel {
  int arguments = 0;
  std::function<void(void* const* arguments)> run;
  int maps = 0;
};

/// The content that cuTensorMapEncodeTiled writes to a CUtensorMap.
struct alignas(128) FakeTensorMap {
  uint64_t address;
  uint16_t type, rank, swizzle, promotion;
  uint64_t extents[5], strides[4];
  uint64_t box[5];
};

/// The state of the driver. Each process has one, which `fake_cuda()` of the library returns. Not
/// thread-safe.
struct FakeCuda {
  // Results that the driver returns.
  int init = 0;    ///< cuInit
  int retain = 0;  ///< cuDevicePrimaryCtxRetain
  int load = 0;    ///< cuModuleLoadDataEx, with `jit_log`
  std::string jit_log = {};
  int devices = 1;
  int driver_version = 13000;
  int major = 9;
  int minor = 0;
  int resident_blocks = 1;  ///< of any function on a multiprocessor
  int max_threads = 512;    ///< a block of any function
  int compute_mode = 0;
  int sticky = 0;  ///< result of every call on a context after a kernel has failed

  // Observed calls.
  int calls = 0;     ///< number of calls that need a context
  int64_t live = 0;  ///< memory, modules, streams, events, graphs and retained contexts
  int current = 0;   ///< contexts that were made current and not popped
  std::vector<FakeLaunch> launches = {};
  std::string loaded = {};                ///< the first 4 bytes of the last module
  int graphs = 0;                         ///< number of graphs that were made
  int synchronizations = 0;               ///< waits for a stream
  std::vector<void*> graph_streams = {};  ///< of each launch of a graph
  double clock_us = 0;
  std::map<std::string, FakeKernel> kernels = {};  ///< kernels of the test, by name
};

using FakeCudaControl = FakeCuda*();  // fake_cuda
/// Type of fake_cuda_submit. It runs work that takes `microseconds`: at once, or with the graph
/// that the stream records.
using FakeCudaSubmit = void(void* stream, double microseconds, std::function<void()> work);

/// Returns a cubin without code. Its header is the one that CUDA 13 or CUDA 12 writes for this
/// architecture.
inline std::string cubin(int architecture, bool cuda13 = true) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_ABIVERSION] = cuda13 ? 8 : 7;
  header.e_machine = EM_CUDA;
  header.e_flags = static_cast<Elf64_Word>(cuda13 ? 0x6000004 | architecture << 8
                                                  : architecture << 16 | 0x500 | architecture);
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace tw::runtime
