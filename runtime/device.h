// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices that run kernels from memory of their own: GPUs through CUDA's driver, and whatever
// OpenCL offers. The driver's library is opened at run time; nothing is linked.
//
//     TW_TRY(const auto device, open_cuda_device());
//     TW_TRY(const DeviceModule module, device->load({.architecture = "sm_90a", .binary = cubin}));
//     TW_TRY(const DeviceFunction saxpy, module.function("saxpy_p0"));
//     TW_TRY(const DeviceBuffer x, device->allocate(bytes));  // and y
//     TW_RETURN_IF_ERROR(x.write(numbers, bytes));
//     const Launch launch{saxpy, blocks, 256, 0, {x.address(), y.address(), nullptr}};
//     TW_RETURN_IF_ERROR(device->launch({&launch, 1}));
//     TW_RETURN_IF_ERROR(y.read(results, bytes));
//
// Work goes to the device's own queue in the order of calls, so that a read sees what was launched
// before it. Everything is thread-safe; buffers, modules and functions are values whose copies
// share what they stand for, and keep their device. Drivers do not survive fork(): a device is
// opened in the process that uses it.
//
// Errors: Usage for an argument, Invalid for code that this device cannot run, Environment for
// calls that the driver refuses. After an error that the driver does not recover from (an illegal
// address, a failed launch) the device is lost: lost() returns true, and every later call fails at
// once with the first reason. The process and its other devices stay usable.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/devices/tensor_map.h"

namespace tw::runtime {

/// Properties of a device as its driver reports them; 0 for a number that it does not report.
struct DeviceFacts {
  std::string name;          ///< "NVIDIA H200"
  int index = 0;             ///< index among the devices of its kind, as in DeviceOptions
  std::string architecture;  ///< "sm_90", or "opencl"
  int driver_version = 0;    ///< the newest CUDA that the driver knows, 1000 * major + 10 * minor
  int multiprocessors = 0;
  int warp_size = 1;          ///< threads that run in lockstep
  bool is_processor = false;  ///< an OpenCL device that is this machine's processor
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;  ///< 32-bit registers
  int64_t shared_bytes_per_block = 0;    ///< largest size of a launch, after opt-in
  int64_t shared_bytes_per_multiprocessor = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;

  bool is_cuda() const { return architecture.starts_with("sm_"); }
};

/// Code to load. The binary is used if it is for this device, else the text.
struct DeviceCode {
  std::string architecture = {};  ///< architecture of the binary: "sm_90a"
  std::string binary = {};        ///< a cubin
  std::string text = {};          ///< PTX; for OpenCL: OpenCL C
  int toolkit = 0;  ///< version of the CUDA toolkit that made it, as DeviceFacts::driver_version
};

/// True if a binary for the architecture `code` runs on a device of the architecture `device`, both
/// given as in "sm_90": the major numbers are equal and the device's minor number is not smaller.
/// "sm_90a" runs on sm_90 only, "sm_100f" on sm_100 and newer ones with the same major number.
bool runs_on(std::string_view code, std::string_view device);

/// A kernel argument: a CUdeviceptr or a cl_mem. Null: no memory.
using DeviceAddress = void*;

/// A queue of the caller's, a CUstream (null: CUDA's default stream) or a cl_command_queue;
/// nullopt: the device's own.
using DeviceStream = std::optional<void*>;

/// CUDA's handles of the default stream that waits for others, and of the calling thread's own.
inline void* const cuda_legacy_stream = reinterpret_cast<void*>(1);
inline void* const cuda_per_thread_stream = reinterpret_cast<void*>(2);

class Device;

/// Time at which a call that copies returns: when the copy is done, or when it is queued.
enum class Copying { Waits, Queued };

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Memory of the caller's, which must outlive the result.
  static DeviceBuffer borrow(std::shared_ptr<Device> device, DeviceAddress address, int64_t bytes);
  /// The same for `bytes` bytes of the memory from `offset` on. Usage: OpenCL memory of another
  /// context, or memory that is too small; Unsupported: an offset that the OpenCL device does not
  /// accept. The messages say what was given and expected; the caller adds the name of the
  /// argument.
  static Result<DeviceBuffer> borrow(std::shared_ptr<Device> device, DeviceAddress address,
                                     int64_t bytes, int64_t offset);

  DeviceAddress address() const { return memory_.get(); }
  int64_t bytes() const { return bytes_; }

  /// Copies and fills return when they are done. Usage: beyond the end.
  Status write(const void* data, int64_t bytes, int64_t offset = 0) const;
  Status read(void* data, int64_t bytes, int64_t offset = 0) const;
  Status fill(uint8_t value) const;
  /// Fills the first `bytes` bytes with the two bytes of the pattern in turn, the low one first.
  Status fill(uint16_t pattern, int64_t bytes) const;

  /// Copies on the device's own queue that may return before they are done: `data` has to stay as
  /// it is until Device::synchronize() has returned. Usage: beyond the end.
  Status queue_write(const void* data, int64_t bytes, int64_t offset = 0) const;
  Status queue_read(void* data, int64_t bytes, int64_t offset = 0) const;

 private:
  friend class Device;
  Status check_range(int64_t bytes, int64_t offset) const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<void> memory_;
  int64_t bytes_ = 0;
};

/// Properties of a loaded function as the driver reports them; -1 for one that it does not report.
struct FunctionFacts {
  int arguments = -1;
  int registers = -1;         ///< a thread
  int64_t local_bytes = -1;   ///< a thread: stack and spilled registers
  int64_t shared_bytes = -1;  ///< declared in the code, without what a launch adds
  int max_threads = -1;       ///< a block
};

class DeviceFunction {
 public:
  DeviceFunction() = default;  ///< launching it is a Usage error
  const std::string& name() const { return name_; }
  const FunctionFacts& facts() const { return facts_; }

 private:
  friend class Device;
  friend class DeviceModule;
  const Device* device_ = nullptr;  // kept alive by the handle
  std::shared_ptr<void> handle_;
  std::string name_;
  FunctionFacts facts_;
};

class DeviceModule {
 public:
  DeviceModule() = default;
  /// Invalid: the code has no kernel of that name.
  Result<DeviceFunction> function(const std::string& name) const;

 private:
  friend class Device;
  std::shared_ptr<Device> device_;
  std::shared_ptr<void> handle_;
};

/// One call of a function on a one-dimensional grid; with 0 blocks nothing is launched.
struct Launch {
  DeviceFunction function;
  int64_t blocks = 1;
  int threads = 1;           ///< a block
  int64_t shared_bytes = 0;  ///< `extern __shared__`, a block; OpenCL C has no such thing: 0
  std::vector<DeviceAddress> arguments = {};
  /// Tensor maps, which follow the pointer parameters; each describes the memory of one of these.
  /// CUDA only.
  std::vector<TensorMap> maps = {};
  /// `blocks` is the most that is of use: no more are launched than the GPU runs at once. CUDA
  /// only.
  bool persistent = false;
};

/// Launches that were recorded once to be submitted as one: a CUDA graph; for OpenCL, which has no
/// graphs, the list. A value whose copies share the recording. It has to outlive the work that it
/// was submitted for.
class LaunchGraph {
 public:
  LaunchGraph() = default;  ///< of no launches

 private:
  friend class Device;
  std::vector<Launch> launches_;
  std::shared_ptr<void> handle_;  // of the driver; null where it has no graphs
};

/// Enqueues another library's work. It is called with a queue of the kind that DeviceStream holds;
/// for CUDA the primary context is current. May be called more than once, and while a graph is
/// recorded.
using DeviceWork = std::function<Status(void* queue)>;

struct TimingOptions {
  int repeats = 1;
  std::span<const Launch> before = {};  ///< launched ahead of each sample and not counted
  /// Memory that is overwritten ahead of each sample, outside of its time, to evict L2.
  const DeviceBuffer* evicting = nullptr;
  /// Submits each sample as one CUDA graph, for kernels shorter than the overhead of a launch; the
  /// graph runs once more ahead of the samples. OpenCL has no graphs: it adds up the times of the
  /// launches.
  bool graph = false;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  /// The cause by which an error of the driver loses the device: Nobody where the device is not
  /// lost.
  enum class LostBy { Nobody, Kernel, Itself };

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// True where a kernel lost the device (by an illegal address), and not the device itself (by an
  /// uncorrectable error of its memory).
  bool lost_by_kernel() const { return lost() && loss_by_ == LostBy::Kernel; }

  /// Allocates uninitialised memory; for 0 bytes the result has a null address.
  Result<DeviceBuffer> allocate(int64_t bytes);
  /// Loads code. Unsupported: it has no kind of code that this device accepts. Invalid: the binary
  /// is damaged or for another architecture (checked before the driver sees it), or the text does
  /// not compile.
  Result<DeviceModule> load(const DeviceCode& code);
  /// Enqueues the launches; returns before they have run.
  Status launch(std::span<const Launch> launches, DeviceStream stream = {});
  /// Records launches, to be submitted as often as is wanted. Nothing runs.
  Result<LaunchGraph> record(std::vector<Launch> launches);
  /// Enqueues recorded launches; returns before they have run. A graph runs once at a time.
  Status launch(const LaunchGraph& graph, DeviceStream stream = {});
  /// Enqueues another library's work on the device's own queue.
  Status submit(const DeviceWork& work);
  /// Returns when all work on the device's own queue is done.
  Status synchronize();
  /// Takes `repeats` samples: nanoseconds by the device's clock from the start of the first launch
  /// to the end of the last. Repeat short launches in the list: CUDA's clock ticks every 500 ns.
  Result<std::vector<double>> time_ns(std::span<const Launch> launches,
                                      const TimingOptions& options = {});
  /// The same for another library's work. Unsupported on OpenCL, which times each launch by itself.
  Result<std::vector<double>> time_work_ns(const DeviceWork& work,
                                           const TimingOptions& options = {});

 protected:
  Device() = default;

  /// Makes an Environment error. The device is lost from then on, unless `lost_by` is Nobody.
  tl::unexpected<Error> failed(std::string_view what, std::string_view reason, LostBy lost_by);

  /// The handle of the launched function, as find_function() returned it.
  static void* handle(const Launch& launch) { return launch.function.handle_.get(); }

  DeviceFacts facts_;

 private:
  friend class DeviceBuffer;
  friend class DeviceModule;

  // Operations that a driver implements. The caller has checked the arguments, and that the device
  // is not known to be lost.
  virtual Result<std::shared_ptr<void>> allocate_memory(int64_t bytes) = 0;
  /// The kernel argument that stands for `bytes` bytes of the caller's memory from `offset` on.
  virtual Result<std::shared_ptr<void>> part_of(DeviceAddress memory, int64_t offset,
                                                int64_t bytes) = 0;
  virtual Status write_memory(DeviceAddress to, int64_t offset, const void* data, int64_t bytes,
                              Copying copying) = 0;
  virtual Status read_memory(DeviceAddress from, int64_t offset, void* data, int64_t bytes,
                             Copying copying) = 0;
  /// Requires an even number of bytes.
  virtual Status fill_memory(DeviceAddress to, uint16_t pattern, int64_t bytes) = 0;
  virtual Result<std::shared_ptr<void>> load_module(const DeviceCode& code) = 0;
  virtual Result<std::shared_ptr<void>> find_function(const std::shared_ptr<void>& module,
                                                      const std::string& name,
                                                      FunctionFacts& facts) = 0;
  virtual Status enqueue(std::span<const Launch> launches, DeviceStream stream) = 0;
  /// The driver's recording of the launches; null where it has no graphs.
  virtual Result<std::shared_ptr<void>> record_graph(std::span<const Launch> launches) = 0;
  /// Requires: a result of record_graph() that is not null.
  virtual Status enqueue_graph(void* graph, DeviceStream stream) = 0;
  virtual Status wait() = 0;
  virtual Result<std::vector<double>> sample(std::span<const Launch> launches,
                                             const TimingOptions& options) = 0;
  virtual Status enqueue(const DeviceWork& work) = 0;
  virtual Result<std::vector<double>> sample(const DeviceWork& work,
                                             const TimingOptions& options) = 0;

  Status check_not_lost() const;
  Status check(std::span<const Launch> launches) const;
  Status check(const Launch& launch) const;

  std::atomic<bool> lost_ = false;
  std::once_flag losing_;
  std::string loss_;                 // written once, before lost_
  LostBy loss_by_ = LostBy::Nobody;  // written once, before lost_
};

struct DeviceOptions {
  int index = 0;  ///< among the devices that the driver lists; OpenCL: of all platforms
  /// The driver's library in place of libcuda.so.1 or libOpenCL.so.1, by path. For tests, and for
  /// drivers that lie where the loader does not look.
  std::string library = {};
};

/// Opens a CUDA device. Environment errors name the cause: no driver, a driver that does not start
/// or is too old, no device, a device in exclusive use.
Result<std::shared_ptr<Device>> open_cuda_device(const DeviceOptions& options = {});
Result<std::shared_ptr<Device>> open_opencl_device(const DeviceOptions& options = {});

/// Opens the first device of a kind, "cuda" or "opencl", or the one with an index, "cuda:1".
Result<std::shared_ptr<Device>> open_device(std::string_view name);

}  // namespace tw::runtime
