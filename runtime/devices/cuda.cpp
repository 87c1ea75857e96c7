// SPDX-License-Identifier: Apache-2.0
// NVIDIA's GPUs, used through CUDA's driver interface. The device uses the primary context. CUDA's
// runtime library, PyTorch and others in the process use that context too, so their memory and
// streams can be used here.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "base/text.h"
#include "runtime/device.h"
#include "runtime/devices/cuda_driver.h"

namespace tw::runtime {
namespace {

using cuda::Address;
using cuda::Driver;
using cuda::Handle;

/// Returns the text of a version; for example, 13000 gives "13.0".
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status no_driver(std::string_view reason) {
  return fail(ErrorCode::Environment,
              fmt::format("[cuda] no NVIDIA driver on this machine ({}): kernels for CUDA can be "
                          "compiled here, running them needs a GPU and its driver",
                          reason));
}

Result<Driver> open_driver(const std::string& path) {
  // The library is never closed, because the driver has threads of its own.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return tl::unexpected(no_driver(dlerror()).error());
  Driver driver;
#define X(name, ...)                                                            \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name)); \
  if (driver.name == nullptr)                                                   \
    return fail(ErrorCode::Environment,                                         \
                fmt::format("[cuda] the driver {} is too old: it has no " #name \
                            ", expected CUDA 12.0 or later: update the driver", \
                            path));
  TW_CUDA_FUNCTIONS(X)
#undef X
  driver.cuFuncGetParamInfo =
      reinterpret_cast<decltype(driver.cuFuncGetParamInfo)>(dlsym(library, "cuFuncGetParamInfo"));
  driver.cuTensorMapEncodeTiled = reinterpret_cast<decltype(driver.cuTensorMapEncodeTiled)>(
      dlsym(library, "cuTensorMapEncodeTiled"));
  return driver;
}

/// Returns a text such as "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
std::string describe(const Driver& driver, int code) {
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(code, &name);
  driver.cuGetErrorString(code, &text);
  if (name == nullptr || text == nullptr) return fmt::format("CUDA error {}", code);
  return fmt::format("{} ({})", text, name);
}

/// Classifies an error of the driver. After the errors listed here, every further call on the
/// context fails. The device itself causes the errors of the first group, and a kernel causes those
/// of the second. Nobody for all other errors.
Device::LostBy lost_by(int code) {
  switch (code) {
    case cuda::Deinitialized:
    case cuda::EccUncorrectable:
    case cuda::NvlinkUncorrectable:
    case cuda::Contained:
    case cuda::ContextIsDestroyed:
      return Device::LostBy::Itself;
    case cuda::IllegalAddress:
    case cuda::LaunchTimeout:
    case cuda::Assert:
    case cuda::HardwareStackError:
    case cuda::IllegalInstruction:
    case cuda::MisalignedAddress:
    case cuda::InvalidAddressSpace:
    case cuda::InvalidPc:
    case cuda::LaunchFailed:
    case cuda::TensorMemoryLeak:
      return Device::LostBy::Kernel;
    default:
      return Device::LostBy::Nobody;
  }
}

Status no_device() {
  return fail(ErrorCode::Environment,
              "[cuda] the driver finds no NVIDIA GPU: expected one that this process may use (is "
              "CUDA_VISIBLE_DEVICES empty, or a container started without its GPU?)");
}

Status start_driver(const Driver& driver) {
  switch (const int code = driver.cuInit(0)) {
    case cuda::Success:
      return {};
    case cuda::StubLibrary:
      return no_driver("libcuda.so.1 is the stub of a CUDA toolkit");
    case cuda::NoDevice:
      return no_device();
    case cuda::SystemDriverMismatch:
      return fail(ErrorCode::Environment,
                  "[cuda] libcuda.so.1 and the driver in the kernel are of "
                  "different versions: restart the machine");
    default:
      return fail(ErrorCode::Environment,
                  fmt::format("[cuda] the driver does not start: {}", describe(driver, code)));
  }
}

int attribute(const Driver& driver, cuda::Device device, cuda::DeviceAttribute what) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, what, device) == cuda::Success ? value : 0;
}

DeviceFacts facts_of(const Driver& driver, cuda::Device device) {
  const auto get = [&](cuda::DeviceAttribute what) { return attribute(driver, device, what); };
  std::array<char, 256> name = {};
  driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device);
  size_t memory = 0;
  driver.cuDeviceTotalMem_v2(&memory, device);
  DeviceFacts facts;
  facts.name = name.data();
  facts.architecture =
      fmt::format("sm_{}{}", get(cuda::ComputeCapabilityMajor), get(cuda::ComputeCapabilityMinor));
  driver.cuDriverGetVersion(&facts.driver_version);
  facts.multiprocessors = get(cuda::Multiprocessors);
  facts.warp_size = get(cuda::WarpSize);
  facts.max_threads_per_block = get(cuda::MaxThreadsPerBlock);
  facts.max_threads_per_multiprocessor = get(cuda::MaxThreadsPerMultiprocessor);
  facts.registers_per_multiprocessor = get(cuda::RegistersPerMultiprocessor);
  facts.shared_bytes_per_block = get(cuda::SharedBytesPerBlockOptIn);
  facts.shared_bytes_per_multiprocessor = get(cuda::SharedBytesPerMultiprocessor);
  facts.l2_bytes = get(cuda::L2Bytes);
  facts.memory_bytes = static_cast<int64_t>(memory);
  return facts;
}

/// Returns the architecture in the header of a cubin, such as "sm_90", without the letter of
/// "sm_90a"; empty if the bytes are no cubin. The number of the architecture is in the flags of the
/// ELF header: in the first byte before CUDA 13, in the second byte since.
std::string cubin_architecture(std::string_view cubin) {
  constexpr unsigned char cuda13 = 8;
  Elf64_Ehdr header;
  if (cubin.size() < sizeof header || !cubin.starts_with("\177ELF")) return {};
  std::memcpy(&header, cubin.data(), sizeof header);
  if (header.e_machine != EM_CUDA) return {};
  const bool moved = header.e_ident[EI_ABIVERSION] >= cuda13;
  return fmt::format("sm_{}", (header.e_flags >> (moved ? 8 : 0)) & 0xFF);
}

/// Returns the architecture that a PTX text names in its directive, such as "sm_80" for `.target
/// sm_80`. Empty if the text is no PTX.
std::string ptx_architecture(std::string_view text) {
  const size_t target = text.find(".target sm_");
  if (target == std::string_view::npos) return {};
  const std::string_view rest = text.substr(target + std::strlen(".target "));
  return std::string(rest.substr(0, rest.find_first_of(", \r\n")));
}

/// True if a driver can compile the PTX for the device. Both arguments are architectures. The GPU
/// must not be older than the architecture of the PTX. PTX for "sm_90a" or "sm_100f" runs only on
/// GPUs that run a binary of this architecture.
bool ptx_runs_on(const std::string& ptx, const std::string& device) {
  if (ptx.empty()) return false;
  if (ptx.ends_with('a') || ptx.ends_with('f')) return runs_on(ptx, device);
  return parse_int(ptx.substr(3)).value_or(1 << 20) <= parse_int(device.substr(3)).value_or(0);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& driver, cuda::Device device, int index)
      : cuda_(driver), device_(device) {
    facts_ = facts_of(driver, device);
    facts_.index = index;
  }

  ~CudaDevice() override {
    if (context_ == nullptr) return;
    {
      const Current current(*this);
      if (queue_ != nullptr) cuda_.cuStreamDestroy_v2(queue_);
    }
    cuda_.cuDevicePrimaryCtxRelease_v2(device_);
  }

  Status start() {
    if (const int code = cuda_.cuDevicePrimaryCtxRetain(&context_, device_); code != cuda::Success)
      return not_started(code);
    const Current current(*this);
    return check(cuda_.cuStreamCreate(&queue_, cuda::stream_non_blocking), "make a stream");
  }

 private:
  /// Makes the context current in the calling thread for the object's lifetime.
  class Current {
   public:
    explicit Current(const CudaDevice& device) : cuda_(device.cuda_) {
      cuda_.cuCtxPushCurrent_v2(device.context_);
    }
    Current(const Current&) = delete;
    ~Current() {
      Handle popped = nullptr;
      cuda_.cuCtxPopCurrent_v2(&popped);
    }

   private:
    const Driver& cuda_;
  };

  Status not_started(int code) {
    context_ = nullptr;
    if (attribute(cuda_, device_, cuda::ComputeMode) == cuda::compute_mode_prohibited)
      return fail(ErrorCode::Environment,
                  fmt::format("[cuda] {} is closed to computing (compute mode PROHIBITED): open it "
                              "by nvidia-smi --compute-mode=DEFAULT",
                              facts_.name));
    if (code == cuda::DeviceUnavailable)
      return fail(ErrorCode::TryLater,
                  fmt::format("[cuda] {} is busy: another process has it for itself (compute mode "
                              "EXCLUSIVE_PROCESS): try again when that has ended",
                              facts_.name));
    return check(code, "start");
  }

  Status check(int code, std::string_view what) {
    if (code == cuda::Success) return {};
    return failed(what, describe(cuda_, code), lost_by(code));
  }

  /// Returns a shared pointer to an object of the driver, which releases the object. It also keeps
  /// the device alive.
  template <typename Number>
  std::shared_ptr<void> own(Handle made, cuda::Result (*release)(Number)) {
    return {made, [this, release, self = shared_from_this()](void* handle) {
              const Current current(*this);
              if constexpr (std::is_integral_v<Number>)
                release(reinterpret_cast<Number>(handle));
              else
                release(handle);
            }};
  }

  static Address at(DeviceAddress address, int64_t offset) {
    return reinterpret_cast<Address>(address) + static_cast<Address>(offset);
  }

  Result<std::shared_ptr<void>> allocate_memory(int64_t bytes) override {
    const Current current(*this);
    Address address = 0;
    TW_RETURN_IF_ERROR(check(cuda_.cuMemAlloc_v2(&address, static_cast<size_t>(bytes)),
                             fmt::format("allocate {} bytes", bytes)));
    return own(reinterpret_cast<Handle>(address), cuda_.cuMemFree_v2);
  }

  Result<std::shared_ptr<void>> part_of(DeviceAddress memory, int64_t offset, int64_t) override {
    return std::shared_ptr<void>(reinterpret_cast<void*>(at(memory, offset)), [](void*) {});
  }

  Status write_memory(DeviceAddress to, int64_t offset, const void* data, int64_t bytes,
                      Copying copying) override {
    const Current current(*this);
    TW_RETURN_IF_ERROR(
        check(cuda_.cuMemcpyHtoDAsync_v2(at(to, offset), data, static_cast<size_t>(bytes), queue_),
              "write memory"));
    if (copying == Copying::Queued) return {};
    return check(cuda_.cuStreamSynchronize(queue_), "write memory");
  }

  Status read_memory(DeviceAddress from, int64_t offset, void* data, int64_t bytes,
                     Copying copying) override {
    const Current current(*this);
    TW_RETURN_IF_ERROR(check(
        cuda_.cuMemcpyDtoHAsync_v2(data, at(from, offset), static_cast<size_t>(bytes), queue_),
        "read memory"));
    if (copying == Copying::Queued) return {};
    return check(cuda_.cuStreamSynchronize(queue_), "read memory");
  }

  Status fill_memory(DeviceAddress to, uint16_t pattern, int64_t bytes) override {
    const Current current(*this);
    TW_RETURN_IF_ERROR(
        check(cuda_.cuMemsetD16Async(at(to, 0), pattern,
                                     static_cast<size_t>(bytes) / sizeof pattern, queue_),
              "fill memory"));
    return check(cuda_.cuStreamSynchronize(queue_), "fill memory");
  }

  Status too_new(std::string_view what, int toolkit) const {
    return fail(
        ErrorCode::Environment,
        fmt::format("[cuda] the driver of {} knows CUDA {}, which is older than the "
                    "toolkit of the {} (CUDA {}): update the driver, or compile with an "
                    "older toolkit",
                    facts_.name, version_text(facts_.driver_version), what, version_text(toolkit)));
  }

  /// Selects the cubin or the PTX for this driver. A driver loads a cubin if it knows the major
  /// version of the toolkit that made the cubin. It loads PTX if the toolkit is not newer than the
  /// driver.
  Result<const std::string*> choose(const DeviceCode& code) const {
    const std::string header = cubin_architecture(code.binary);
    const std::string_view declared = code.architecture;
    if (!code.binary.empty() && (header.empty() || !declared.starts_with(header)))
      return fail(ErrorCode::Invalid,
                  fmt::format("[cuda] damaged code: it is said to be for '{}', its header says "
                              "'{}': compile it again",
                              declared, header.empty() ? "no cubin" : header));
    const std::string ptx = ptx_architecture(code.text);
    const int driver = facts_.driver_version;
    if (!code.binary.empty() && runs_on(declared, facts_.architecture)) {
      if (code.toolkit / 1000 <= driver / 1000) return &code.binary;
      return tl::unexpected(too_new("code", code.toolkit).error());
    }
    if (ptx_runs_on(ptx, facts_.architecture)) {
      if (code.toolkit <= driver) return &code.text;
      return tl::unexpected(too_new("PTX", code.toolkit).error());
    }
    return fail(ErrorCode::Invalid,
                fmt::format("[cuda] code for {} does not run on {}, which is {}: compile it again "
                            "for that",
                            !declared.empty() ? declared
                            : ptx.empty()     ? "nothing"
                                              : ptx,
                            facts_.name, facts_.architecture));
  }

  Result<std::shared_ptr<void>> load_module(const DeviceCode& code) override {
    TW_TRY(const std::string* image, choose(code));
    const Current current(*this);
    std::array<char, 8192> log = {};
    std::array<int, 2> keys = {cuda::JitErrorLog, cuda::JitErrorLogBytes};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
    Handle module = nullptr;
    const int result =
        cuda_.cuModuleLoadDataEx(&module, image->c_str(), keys.size(), keys.data(), values.data());
    if (result == cuda::UnsupportedPtxVersion)
      return tl::unexpected(too_new("PTX", code.toolkit).error());
    if (result == cuda::InvalidImage || result == cuda::NoBinaryForGpu ||
        result == cuda::InvalidPtx)
      return fail(ErrorCode::Invalid,
                  fmt::format("[cuda] {} cannot load the code: {}: {}", facts_.name,
                              describe(cuda_, result), first_lines(log.data(), 6)));
    TW_RETURN_IF_ERROR(check(result, "load code"));
    return own(module, cuda_.cuModuleUnload);
  }

  /// Returns the number of arguments of a function; -1 if the driver is too old to report it.
  int count_arguments(Handle function) const {
    if (cuda_.cuFuncGetParamInfo == nullptr) return -1;
    int count = 0;
    size_t offset = 0, bytes = 0;
    while (cuda_.cuFuncGetParamInfo(function, static_cast<size_t>(count), &offset, &bytes) ==
           cuda::Success)
      ++count;
    return count;
  }

  Result<std::shared_ptr<void>> find_function(const std::shared_ptr<void>& module,
                                              const std::string& name,
                                              FunctionFacts& facts) override {
    const Current current(*this);
    Handle function = nullptr;
    const int code = cuda_.cuModuleGetFunction(&function, module.get(), name.c_str());
    if (code == cuda::NotFound)
      return fail(ErrorCode::Invalid, fmt::format("[cuda] the code has no kernel '{}'", name));
    TW_RETURN_IF_ERROR(check(code, fmt::format("find kernel '{}'", name)));
    const auto get = [&](cuda::FunctionAttribute what) {
      int value = -1;
      return cuda_.cuFuncGetAttribute(&value, what, function) == cuda::Success ? value : -1;
    };
    facts.arguments = count_arguments(function);
    facts.registers = get(cuda::FunctionRegisters);
    facts.local_bytes = get(cuda::FunctionLocalBytes);
    facts.shared_bytes = get(cuda::FunctionSharedBytes);
    facts.max_threads = get(cuda::FunctionMaxThreads);
    TW_RETURN_IF_ERROR(allow_shared_memory(function, name, facts));
    return std::shared_ptr<void>(module, function);
  }

  // Allows the function as much dynamic shared memory as the device has. Without this call, a
  // launch gets at most 48 KiB. The call costs no time in launches.
  Status allow_shared_memory(Handle function, const std::string& name, const FunctionFacts& facts) {
    const auto most = static_cast<int>(facts_.shared_bytes_per_block - facts.shared_bytes);
    return check(cuda_.cuFuncSetAttribute(function, cuda::FunctionMaxDynamicSharedBytes, most),
                 fmt::format("allow kernel '{}' {} bytes of shared memory", name, most));
  }

  static int type_of(const TensorMap& map) {
    switch (size_bytes(map.type)) {
      case 1:
        return cuda::Bits8;
      case 2:
        return cuda::Bits16;
      case 4:
        return cuda::Bits32;
      default:
        return cuda::Bits64;
    }
  }
  static int swizzle_of(const TensorMap& map) {
    switch (map.swizzle) {
      case 32:
        return cuda::Swizzle32;
      case 64:
        return cuda::Swizzle64;
      case 128:
        return cuda::Swizzle128;
      default:
        return cuda::NoSwizzle;
    }
  }

  /// Encodes the tensor maps of a launch; the driver copies them when the launch is submitted.
  Result<std::vector<cuda::TensorMap>> encoded_maps(const Launch& launch) {
    std::vector<cuda::TensorMap> maps;
    for (const TensorMap& map : launch.maps) {
      if (cuda_.cuTensorMapEncodeTiled == nullptr)
        return fail(ErrorCode::Environment,
                    fmt::format("[cuda] the driver of {} has no cuTensorMapEncodeTiled, which {} "
                                "needs to copy in bulk: update the driver",
                                facts_.name, launch.function.name()));
      const std::vector<unsigned long long> extents(map.extents.begin(), map.extents.end());
      const std::vector<unsigned long long> strides(map.strides.begin(), map.strides.end());
      const std::vector<unsigned> box(map.box.begin(), map.box.end()), steps(map.box.size(), 1);
      const Address address = at(launch.arguments[static_cast<size_t>(map.argument)], map.offset);
      const int code = cuda_.cuTensorMapEncodeTiled(
          &maps.emplace_back(), type_of(map), static_cast<unsigned>(extents.size()),
          reinterpret_cast<void*>(address), extents.data(), strides.data(), box.data(),
          steps.data(), cuda::no_interleave, swizzle_of(map), cuda::promote_to_128_bytes,
          cuda::fill_with_zeros);
      TW_RETURN_IF_ERROR(check(code, fmt::format("describe argument {} of {} to its copy engine",
                                                 map.argument, launch.function.name())));
    }
    return maps;
  }

  Result<int64_t> launched_blocks(const Launch& launch) {
    if (!launch.persistent) return launch.blocks;
    int resident = 0;
    const int code = cuda_.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, handle(launch), launch.threads, static_cast<size_t>(launch.shared_bytes));
    TW_RETURN_IF_ERROR(
        check(code, fmt::format("find how many blocks of {} run at once", launch.function.name())));
    if (resident < 1)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[cuda] no block of {} fits on a multiprocessor of {}",
                              launch.function.name(), facts_.name));
    return std::min(int64_t{facts_.multiprocessors} * resident, launch.blocks);
  }

  Status enqueue_on(std::span<const Launch> launches, Handle stream) {
    for (const Launch& launch : launches) {
      if (launch.blocks == 0) continue;
      std::vector<DeviceAddress> arguments = launch.arguments;
      std::vector<void*> pointers;
      for (DeviceAddress& argument : arguments) pointers.push_back(&argument);
      TW_TRY(std::vector<cuda::TensorMap> maps, encoded_maps(launch));
      for (cuda::TensorMap& map : maps) pointers.push_back(&map);
      TW_TRY(const int64_t blocks, launched_blocks(launch));
      const int code = cuda_.cuLaunchKernel(handle(launch), static_cast<unsigned>(blocks), 1, 1,
                                            static_cast<unsigned>(launch.threads), 1, 1,
                                            static_cast<unsigned>(launch.shared_bytes), stream,
                                            pointers.data(), nullptr);
      TW_RETURN_IF_ERROR(check(code, fmt::format("launch {}", launch.function.name())));
    }
    return {};
  }

  Status enqueue(std::span<const Launch> launches, DeviceStream stream) override {
    const Current current(*this);
    return enqueue_on(launches, stream.value_or(queue_));
  }

  Status enqueue(const DeviceWork& work) override {
    const Current current(*this);
    return work(queue_);
  }

  Status wait() override {
    const Current current(*this);
    return check(cuda_.cuStreamSynchronize(queue_), "finish launches");
  }

  // Records work as a graph. The graph is captured on a stream of its own, so that it contains no
  // other work. It is uploaded at once; otherwise the first launch would include the time of the
  // upload.
  Result<std::shared_ptr<void>> make_graph(const DeviceWork& work) {
    Handle recorder = nullptr, recorded = nullptr, graph = nullptr;
    TW_RETURN_IF_ERROR(
        check(cuda_.cuStreamCreate(&recorder, cuda::stream_non_blocking), "make a stream"));
    const auto recorder_owner = own(recorder, cuda_.cuStreamDestroy_v2);
    TW_RETURN_IF_ERROR(
        check(cuda_.cuStreamBeginCapture_v2(recorder, cuda::capture_relaxed), "record a graph"));
    const Status submitted = work(recorder);
    const int ended = cuda_.cuStreamEndCapture(recorder, &recorded);
    const auto recorded_owner =
        recorded != nullptr ? own(recorded, cuda_.cuGraphDestroy) : std::shared_ptr<void>();
    TW_RETURN_IF_ERROR(submitted);
    TW_RETURN_IF_ERROR(check(ended, "record a graph"));
    TW_RETURN_IF_ERROR(
        check(cuda_.cuGraphInstantiateWithFlags(&graph, recorded, 0), "make a graph"));
    auto owner = own(graph, cuda_.cuGraphExecDestroy);
    TW_RETURN_IF_ERROR(check(cuda_.cuGraphUpload(graph, queue_), "load a graph"));
    return owner;
  }

  Result<std::shared_ptr<void>> record_graph(std::span<const Launch> launches) override {
    const Current current(*this);
    return make_graph([&](Handle recorder) { return enqueue_on(launches, recorder); });
  }

  Status enqueue_graph(void* graph, DeviceStream stream) override {
    const Current current(*this);
    return check(cuda_.cuGraphLaunch(graph, stream.value_or(queue_)), "launch a graph");
  }

  Result<std::shared_ptr<void>> record_event() {
    Handle event = nullptr;
    TW_RETURN_IF_ERROR(check(cuda_.cuEventCreate(&event, 0), "make an event"));
    auto owner = own(event, cuda_.cuEventDestroy_v2);
    TW_RETURN_IF_ERROR(check(cuda_.cuEventRecord(event, queue_), "record an event"));
    return owner;
  }

  /// Enqueues the work before a sample: the launches of `options.before`, and then a fill that
  /// evicts the L2 cache.
  Status prepare(const TimingOptions& options) {
    TW_RETURN_IF_ERROR(enqueue_on(options.before, queue_));
    if (options.evicting == nullptr || options.evicting->bytes() == 0) return {};
    return check(cuda_.cuMemsetD8Async(at(options.evicting->address(), 0), 0,
                                       static_cast<size_t>(options.evicting->bytes()), queue_),
                 "empty the caches");
  }

  Result<std::vector<double>> sample(std::span<const Launch> launches,
                                     const TimingOptions& options) override {
    return sample([&](Handle queue) { return enqueue_on(launches, queue); }, options);
  }

  Result<std::vector<double>> sample(const DeviceWork& work,
                                     const TimingOptions& options) override {
    const Current current(*this);
    std::shared_ptr<void> graph;
    if (options.graph) {
      TW_TRY(graph, make_graph(work));
    }
    // The graph is launched once before the samples. Otherwise the queue would be idle, and the
    // first sample would include the time in which the host launches the graph.
    if (graph)
      TW_RETURN_IF_ERROR(check(cuda_.cuGraphLaunch(graph.get(), queue_), "launch a graph"));
    std::vector<std::shared_ptr<void>> starts, ends;
    for (int i = 0; i < options.repeats; ++i) {
      TW_RETURN_IF_ERROR(prepare(options));
      TW_TRY(starts.emplace_back(), record_event());
      if (graph)
        TW_RETURN_IF_ERROR(check(cuda_.cuGraphLaunch(graph.get(), queue_), "launch a graph"));
      else
        TW_RETURN_IF_ERROR(work(queue_));
      TW_TRY(ends.emplace_back(), record_event());
    }
    TW_RETURN_IF_ERROR(wait());
    std::vector<double> samples;
    for (size_t i = 0; i < starts.size(); ++i) {
      float milliseconds = 0;
      TW_RETURN_IF_ERROR(
          check(cuda_.cuEventElapsedTime(&milliseconds, starts[i].get(), ends[i].get()),
                "time launches"));
      samples.push_back(1e6 * static_cast<double>(milliseconds));
    }
    return samples;
  }

  const Driver cuda_;
  const cuda::Device device_;
  Handle context_ = nullptr;
  Handle queue_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<Device>> open_cuda_device(const DeviceOptions& options) {
  TW_TRY(const Driver driver,
         open_driver(options.library.empty() ? "libcuda.so.1" : options.library));
  TW_RETURN_IF_ERROR(start_driver(driver));
  int count = 0;
  driver.cuDeviceGetCount(&count);
  if (count == 0) return tl::unexpected(no_device().error());
  if (options.index < 0 || options.index >= count)
    return fail(ErrorCode::Usage,
                fmt::format("[cuda] no device {}: expected 0 to {}", options.index, count - 1));
  cuda::Device number = 0;
  if (const int code = driver.cuDeviceGet(&number, options.index); code != cuda::Success)
    return fail(ErrorCode::Environment, fmt::format("[cuda] device {} cannot be opened: {}",
                                                    options.index, describe(driver, code)));
  auto device = std::make_shared<CudaDevice>(driver, number, options.index);
  TW_RETURN_IF_ERROR(device->start());
  return device;
}

}  // namespace tw::runtime
