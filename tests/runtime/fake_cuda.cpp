// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/fake_cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/hash.h"
#include "runtime/devices/cuda_driver.h"

namespace tw::runtime {
namespace {

using namespace cuda;

enum : Result { InvalidValue = 1, InvalidContext = 201, OperatingSystem = 304 };
constexpr size_t memory_bytes = size_t{1} << 30;
constexpr unsigned shared_bytes = 228 << 10, static_shared_bytes = 1 << 10;

struct FakeFunction {
  std::string name;
  int arguments;
  int maps = 0;
  unsigned dynamic_shared_bytes = (48 << 10) - static_shared_bytes;
};
struct FakeGraph {
  std::vector<std::function<void()>> work;
};
struct FakeStream {
  bool capturing = false;
  FakeGraph recorded;
};

FakeCuda fake;
FakeFunction saxpy{"saxpy_p0", 3}, fault{"fault_p0", 1}, checksum{"checksum", 3},
    difference{"difference_f32", 4}, difference_f16{"difference_f16", 4},
    difference_bf16{"difference_bf16", 4};
FakeFunction* const known_functions[] = {&saxpy,      &fault,          &checksum,
                                         &difference, &difference_f16, &difference_bf16};
std::map<std::string, FakeFunction> added;  // kernels of fake.kernels that have been looked up
std::map<Address, size_t> allocations;
thread_local std::vector<Handle> contexts;
char context;

/// Starts a thread as drivers for CUDA 12.8 and newer do: the thread writes its name to a file of
/// procfs and opens a local socket. Returns OperatingSystem if either is refused.
Result start_thread() {
  Result result = Success;
  std::thread([&] {
    const std::string name = "/proc/self/task/" + std::to_string(gettid()) + "/comm";
    const int comm = open(name.c_str(), O_WRONLY | O_CLOEXEC);
    const int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (comm < 0 || local < 0 || write(comm, "fake-driver", 11) != 11) result = OperatingSystem;
    close(comm);
    close(local);
  }).join();
  return result;
}

/// Common beginning of calls that need a current context. Returns the result of the call so far.
Result enter() {
  ++fake.calls;
  return contexts.empty() ? InvalidContext : fake.sticky;
}

bool is_allocated(Address address, size_t bytes) {
  const auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin <= size && bytes <= size - (address - begin);
}

/// Looks up a kernel in the library that TW_FAKE_CUDA_KERNELS names and adds it to fake.kernels.
/// Tests that start a program use such a library.
void find_kernel(const std::string& name) {
  const char* const path = getenv("TW_FAKE_CUDA_KERNELS");
  void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) return;
  const auto* count = static_cast<int*>(dlsym(library, (name + "_arguments").c_str()));
  auto* run = reinterpret_cast<void (*)(void* const*)>(dlsym(library, name.c_str()));
  if (count != nullptr && run != nullptr) fake.kernels[name] = {*count, run};
}

/// Computes the checksum of codegen/compare_kernels.h. The first thread sums all words.
void run_checksum(const FakeLaunch& launch, const std::vector<void*>& arguments) {
  uint64_t words = 0;
  std::memcpy(&words, arguments[1], sizeof words);
  const auto* data = static_cast<const uint32_t*>(arguments[0]);
  auto* sums = static_cast<uint64_t*>(arguments[2]);
  std::fill_n(sums, size_t{launch.blocks} * launch.threads, 0);
  for (uint64_t i = 0; i < words; ++i) sums[0] += scrambled(i << 32 | data[i]);
}

/// Computes the differences of codegen/compare_kernels.h for f32. For other types the result is
/// NaN, i.e. not known.
void run_difference(const FakeLaunch& launch, const std::vector<void*>& arguments) {
  uint64_t count = 0;
  std::memcpy(&count, arguments[2], sizeof count);
  const auto* got = static_cast<const float*>(arguments[0]);
  const auto* expected = static_cast<const float*>(arguments[1]);
  auto* largest = static_cast<float*>(arguments[3]);
  std::fill_n(largest, size_t{2} * launch.blocks * launch.threads, 0);
  if (launch.function != difference.name) largest[0] = std::nanf("");
  for (uint64_t i = 0; i < count && launch.function == difference.name; ++i) {
    largest[0] = std::max(largest[0], std::fabs(got[i] - expected[i]));
    largest[1] = std::max(largest[1], std::fabs(expected[i]));
  }
}

/// Runs a kernel. If it fails, the next call reports the error.
void run(const FakeLaunch& launch, const std::vector<void*>& arguments) {
  fake.launches.push_back(launch);
  fake.clock_us += launch.blocks;
  if (const auto known = fake.kernels.find(launch.function); known != fake.kernels.end())
    return known->second.run(arguments.data());
  if (launch.function == checksum.name) return run_checksum(launch, arguments);
  if (launch.function.starts_with("difference_")) return run_difference(launch, arguments);
  if (launch.function == "fault_p0") {
    fake.sticky = IllegalAddress;
    return;
  }
  const size_t count = size_t{launch.blocks} * launch.threads;
  for (int i = 0; i < 2; ++i)
    if (!is_allocated(reinterpret_cast<Address>(arguments[static_cast<size_t>(i)]),
                      count * sizeof(float)))
      fake.sticky = IllegalAddress;
  if (fake.sticky != Success) return;
  const auto* x = static_cast<const float*>(arguments[0]);
  auto* y = static_cast<float*>(arguments[1]);
  for (size_t i = 0; i < count; ++i) y[i] += 2 * x[i];
}

/// Runs the work at once, or adds it to the graph that the stream records.
void put(Handle stream, std::function<void()> work) {
  constexpr uintptr_t last_default = 2;  // handles 0 to 2 are the default streams
  auto* queue = static_cast<FakeStream*>(stream);
  if (reinterpret_cast<uintptr_t>(stream) > last_default && queue->capturing)
    queue->recorded.work.push_back(std::move(work));
  else
    work();
}

template <typename Made>
Result make(Handle* handle, Made* made) {
  *handle = made;
  ++fake.live;
  return Success;
}

template <typename Made>
Result destroy(Handle handle) {
  delete static_cast<Made*>(handle);
  --fake.live;
  return Success;
}

const std::map<Result, const char*> names = {{OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                             {IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                             {InvalidPtx, "CUDA_ERROR_INVALID_PTX"},
                                             {OperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM"}};

}  // namespace
}  // namespace tw::runtime

using namespace tw::runtime;

extern "C" {

FakeCuda* fake_cuda() { return &fake; }
void fake_cuda_submit(void* stream, double microseconds, std::function<void()> work) {
  put(stream, [microseconds, work = std::move(work)] {
    fake.clock_us += microseconds;
    work();
  });
}

int cuGetErrorName(Result code, const char** name) {
  const auto found = names.find(code);
  *name = found != names.end() ? found->second : "CUDA_ERROR_UNKNOWN";
  return Success;
}
int cuGetErrorString(Result code, const char** text) {
  *text = code == IllegalAddress ? "an illegal memory access was encountered" : "an error";
  return Success;
}

int cuInit(unsigned) { return fake.init != Success ? fake.init : start_thread(); }
int cuDriverGetVersion(int* version) {
  *version = fake.driver_version;
  return Success;
}
int cuDeviceGetCount(int* count) {
  *count = fake.devices;
  return Success;
}
int cuDeviceGet(Device* device, int index) {
  *device = index;
  return Success;
}
int cuDeviceGetName(char* name, int bytes, Device) {
  strncpy(name, "Fake GPU", static_cast<size_t>(bytes));
  return Success;
}
int cuDeviceTotalMem_v2(size_t* bytes, Device) {
  *bytes = memory_bytes;
  return Success;
}
int cuDeviceGetAttribute(int* value, int what, Device) {
  const std::map<int, int> values = {{MaxThreadsPerBlock, 1024},
                                     {WarpSize, 32},
                                     {Multiprocessors, 132},
                                     {ComputeMode, fake.compute_mode},
                                     {L2Bytes, 50 << 20},
                                     {MaxThreadsPerMultiprocessor, 2048},
                                     {ComputeCapabilityMajor, fake.major},
                                     {ComputeCapabilityMinor, fake.minor},
                                     {SharedBytesPerMultiprocessor, shared_bytes + 1024},
                                     {RegistersPerMultiprocessor, 65536},
                                     {SharedBytesPerBlockOptIn, shared_bytes}};
  const auto found = values.find(what);
  if (found == values.end()) return InvalidValue;
  *value = found->second;
  return Success;
}

int cuDevicePrimaryCtxRetain(Handle* handle, Device) {
  if (fake.retain != Success) return fake.retain;
  *handle = &context;
  ++fake.live;
  return Success;
}
int cuDevicePrimaryCtxRelease_v2(Device) {
  --fake.live;
  return Success;
}
int cuCtxPushCurrent_v2(Handle handle) {
  if (handle != &context) return InvalidContext;
  contexts.push_back(handle);
  ++fake.current;
  return Success;
}
int cuCtxPopCurrent_v2(Handle* handle) {
  if (contexts.empty()) return InvalidContext;
  *handle = contexts.back();
  contexts.pop_back();
  --fake.current;
  return Success;
}

int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (const Result entered = enter()) return entered;
  if (bytes == 0) return InvalidValue;
  if (bytes > memory_bytes) return OutOfMemory;
  *address = reinterpret_cast<Address>(malloc(bytes));
  allocations[*address] = bytes;
  ++fake.live;
  return Success;
}
int cuMemFree_v2(Address address) {
  if (contexts.empty()) return InvalidContext;
  if (allocations.erase(address) == 0) return InvalidValue;
  free(reinterpret_cast<void*>(address));
  --fake.live;
  return Success;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Handle) {
  if (const Result entered = enter()) return entered;
  if (!is_allocated(to, bytes)) return InvalidValue;
  memcpy(reinterpret_cast<void*>(to), from, bytes);
  return Success;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Handle) {
  if (const Result entered = enter()) return entered;
  if (!is_allocated(from, bytes)) return InvalidValue;
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return Success;
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Handle) {
  if (const Result entered = enter()) return entered;
  if (!is_allocated(to, bytes)) return InvalidValue;
  memset(reinterpret_cast<void*>(to), value, bytes);
  return Success;
}

int cuMemsetD16Async(Address to, unsigned short pattern, size_t count, Handle) {
  if (const Result entered = enter()) return entered;
  if (!is_allocated(to, count * sizeof pattern)) return InvalidValue;
  std::fill_n(reinterpret_cast<unsigned short*>(to), count, pattern);
  return Success;
}

int cuModuleLoadDataEx(Handle* module, const void* image, unsigned options, int* keys,
                       void** values) {
  if (const Result entered = enter()) return entered;
  if (const Result started = start_thread()) return started;
  fake.loaded.assign(static_cast<const char*>(image), 4);
  for (unsigned i = 0; i < options; ++i)
    if (keys[i] == JitErrorLog) strcpy(static_cast<char*>(values[i]), fake.jit_log.c_str());
  return fake.load != Success ? fake.load : make(module, new char);
}
int cuModuleUnload(Handle module) { return destroy<char>(module); }
int cuModuleGetFunction(Handle* function, Handle, const char* name) {
  if (const Result entered = enter()) return entered;
  for (FakeFunction* known : known_functions)
    if (known->name == name) {
      *function = known;
      return Success;
    }
  if (!fake.kernels.contains(name)) find_kernel(name);
  const auto of_test = fake.kernels.find(name);
  if (of_test == fake.kernels.end()) return NotFound;
  *function = &(added[name] = FakeFunction{name, of_test->second.arguments, of_test->second.maps});
  return Success;
}
int cuFuncGetAttribute(int* value, int what, Handle) {
  const std::map<int, int> values = {{FunctionMaxThreads, fake.max_threads},
                                     {FunctionSharedBytes, static_shared_bytes},
                                     {FunctionLocalBytes, 16},
                                     {FunctionRegisters, 42}};
  *value = values.at(what);
  return Success;
}
int cuFuncSetAttribute(Handle function, int what, int value) {
  if (const Result entered = enter()) return entered;
  if (what != FunctionMaxDynamicSharedBytes) return InvalidValue;
  if (value < 0 || static_cast<unsigned>(value) > shared_bytes - static_shared_bytes)
    return InvalidValue;
  static_cast<FakeFunction*>(function)->dynamic_shared_bytes = static_cast<unsigned>(value);
  return Success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Handle, int, size_t) {
  *blocks = fake.resident_blocks;
  return Success;
}
int cuFuncGetParamInfo(Handle function, size_t index, size_t* offset, size_t* bytes) {
  const auto* known = static_cast<FakeFunction*>(function);
  if (std::cmp_greater_equal(index, known->arguments + known->maps)) return InvalidValue;
  *offset = 8 * index;
  *bytes = 8;
  return Success;
}

int cuLaunchKernel(Handle handle, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned dynamic, Handle stream, void** parameters, void**) {
  if (const Result entered = enter()) return entered;
  const auto* function = static_cast<FakeFunction*>(handle);
  if (dynamic > function->dynamic_shared_bytes || blocks == 0) return InvalidValue;
  std::vector<void*> arguments;
  for (int i = 0; i < function->arguments; ++i)
    arguments.push_back(*static_cast<void**>(parameters[i]));
  std::vector<cuda::TensorMap> maps;
  for (int i = 0; i < function->maps; ++i)
    maps.push_back(*static_cast<cuda::TensorMap*>(parameters[function->arguments + i]));
  const FakeLaunch launch{function->name, blocks, threads, dynamic, stream};
  put(stream, [launch, arguments, maps]() mutable {
    std::vector<void*> all = arguments;
    for (cuda::TensorMap& map : maps) all.push_back(&map);
    run(launch, all);
  });
  return Success;
}

#ifndef TW_FAKE_OLD_CUDA
int cuTensorMapEncodeTiled(cuda::TensorMap* map, int type, unsigned rank, void* address,
                           const unsigned long long* extents, const unsigned long long* strides,
                           const unsigned* box, const unsigned* steps, int interleave, int swizzle,
                           int promotion, int fill) {
  const uint64_t element_bytes[] = {1, 2, 4, 4, 8};
  const uint64_t swizzle_bytes[] = {uint64_t{1} << 40, 32, 64, 128};
  const auto start = reinterpret_cast<uint64_t>(address);
  if (reinterpret_cast<uint64_t>(map) % 64 != 0 || start % 16 != 0 || type < 0 || type > 4 ||
      rank < 1 || rank > 5 || interleave != 0 || swizzle < 0 || swizzle > 3 || promotion < 0 ||
      promotion > 3 || fill != 0)
    return InvalidValue;
  const uint64_t row_bytes = box[0] * element_bytes[type];
  if (row_bytes % 16 != 0 || row_bytes > swizzle_bytes[swizzle]) return InvalidValue;
  FakeTensorMap made = {};
  made.address = start;
  made.type = static_cast<uint16_t>(type);
  made.rank = static_cast<uint16_t>(rank);
  made.swizzle = static_cast<uint16_t>(swizzle);
  made.promotion = static_cast<uint16_t>(promotion);
  for (unsigned i = 0; i < rank; ++i) {
    if (extents[i] < 1 || extents[i] > uint64_t{1} << 32 || box[i] < 1 || box[i] > 256 ||
        steps[i] != 1)
      return InvalidValue;
    made.extents[i] = extents[i];
    made.box[i] = box[i];
  }
  for (unsigned i = 0; i + 1 < rank; ++i) {
    if (strides[i] % 16 != 0 || strides[i] >= uint64_t{1} << 40) return InvalidValue;
    made.strides[i] = strides[i];
  }
  static_assert(sizeof made == sizeof *map);
  memcpy(map, &made, sizeof made);
  return Success;
}
#endif

int cuStreamCreate(Handle* stream, unsigned) {
  if (const Result entered = enter()) return entered;
  return make(stream, new FakeStream);
}
int cuStreamDestroy_v2(Handle stream) { return destroy<FakeStream>(stream); }
int cuStreamSynchronize(Handle) {
  ++fake.synchronizations;
  return enter();
}
int cuStreamBeginCapture_v2(Handle stream, int) {
  static_cast<FakeStream*>(stream)->capturing = true;
  return enter();
}
int cuStreamEndCapture(Handle stream, Handle* graph) {
  if (const Result entered = enter()) return entered;
  auto* queue = static_cast<FakeStream*>(stream);
  queue->capturing = false;
  return make(graph, new FakeGraph(queue->recorded));
}
int cuGraphInstantiateWithFlags(Handle* ready, Handle graph, unsigned long long) {
  if (const Result entered = enter()) return entered;
  ++fake.graphs;
  return make(ready, new FakeGraph(*static_cast<FakeGraph*>(graph)));
}
int cuGraphUpload(Handle, Handle) { return enter(); }
int cuGraphLaunch(Handle handle, Handle stream) {
  if (const Result entered = enter()) return entered;
  fake.graph_streams.push_back(stream);
  for (const auto& work : static_cast<FakeGraph*>(handle)->work) work();
  return Success;
}
int cuGraphExecDestroy(Handle graph) { return destroy<FakeGraph>(graph); }
int cuGraphDestroy(Handle graph) { return destroy<FakeGraph>(graph); }

int cuEventCreate(Handle* event, unsigned) {
  if (const Result entered = enter()) return entered;
  return make(event, new double(0));
}
int cuEventDestroy_v2(Handle event) { return destroy<double>(event); }
int cuEventRecord(Handle event, Handle) {
  if (const Result entered = enter()) return entered;
  *static_cast<double*>(event) = fake.clock_us;
  return Success;
}
int cuEventElapsedTime(float* milliseconds, Handle start, Handle end) {
  if (const Result entered = enter()) return entered;
  *milliseconds =
      static_cast<float>((*static_cast<double*>(end) - *static_cast<double*>(start)) / 1000);
  return Success;
}

}  // extern "C"

#define X(name, ...) static_assert(std::is_same_v<decltype(&::name), decltype(Driver::name)>);
TW_CUDA_FUNCTIONS(X)
#undef X
