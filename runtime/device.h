// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices that run kernels from memory of their own: GPUs through the CUDA driver, and every device
// that OpenCL offers. The driver's library is opened at run time; the program is not linked to it.
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
// Unless a call names another queue, work is enqueued on the device's own queue in the order of the
// calls. So a read sees the results of earlier launches. All functions are thread-safe. Buffers,
// modules and functions are values: their copies share one driver object, and keep the device
// alive. Drivers do not survive fork(), so a process must open the devices that it uses.
//
// Functions fail with Usage for a wrong argument, with Invalid for code that this device cannot
// run, and with Environment for calls that the driver refuses. After an error from which the driver
// does not recover (an illegal address, a failed launch), the device is lost. Then lost() returns
// true, and every later call fails at once with the first reason. The process and its other devices
// stay usable.

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

/// Properties of a device as its driver reports them. A number that the driver does not report is
/// 0.
struct DeviceFacts {
  std::string name;          ///< such as "NVIDIA H200"
  int index = 0;             ///< index among the devices of its kind, as in DeviceOptions
  std::string architecture;  ///< such as "sm_90"; "opencl" for all devices of OpenCL
  /// Newest version of CUDA that the driver supports, as 1000 * major + 10 * minor.
  int driver_version = 0;
  int multiprocessors = 0;
  int warp_size = 1;          ///< threads that run in lockstep
  bool is_processor = false;  ///< true for an OpenCL device that is this machine's processor
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;  ///< 32-bit registers
  int64_t shared_bytes_per_block = 0;  ///< limit of one block, after opting in to more than 48 KiB
  int64_t shared_bytes_per_multiprocessor = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;

  bool is_cuda() const { return architecture.starts_with("sm_"); }
};

/// Code to load. If the binary is for this device, the device uses it. Otherwise the driver
/// compiles `text`.
struct DeviceCode {
  std::string architecture = {};  ///< architecture of the binary, such as "sm_90a"
  std::string binary = {};        ///< a cubin
  std::string text = {};          ///< PTX; for OpenCL: OpenCL C
  /// Version of the CUDA toolkit that made the code, encoded as DeviceFacts::driver_version.
  int toolkit = 0;
};

/// True if a binary for the architecture `code` runs on a device of the architecture `device`.
/// Architectures are written as "sm_90", where 9 is the major and 0 the minor number. The major
/// numbers must be equal, and the device's minor number must not be smaller. A binary for "sm_90a"
/// runs on sm_90 only; a binary for "sm_100f" runs on sm_100 and on newer devices of the same major
/// number.
bool runs_on(std::string_view code, std::string_view device);

/// Device memory as a kernel argument: a CUdeviceptr or a cl_mem. Null stands for no memory.
using DeviceAddress = void*;

/// The queue that runs a call: a CUstream (null: CUDA's default stream) or a cl_command_queue of
/// the caller's; nullopt means the device's own queue.
using DeviceStream = std::optional<void*>;

/// CUDA's special stream handles: the legacy default stream, which synchronises with other streams,
/// and the default stream of the calling thread.
inline void* const cuda_legacy_stream = reinterpret_cast<void*>(1);
inline void* const cuda_per_thread_stream = reinterpret_cast<void*>(2);

class Device;

/// The moment when a call that copies returns. Waits: when the copy is done. Queued: when the copy
/// is enqueued.
enum class Copying { Waits, Queued };

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Makes a buffer of `bytes` bytes of the caller's memory, from byte `offset` on. CUDA memory
  /// must outlive the buffer, and its size is not checked. OpenCL memory is retained by the buffer.
  /// Fails with Usage if OpenCL memory is too small or belongs to another context. Fails with
  /// Unsupported if an OpenCL device does not accept the offset. The messages do not name the
  /// argument; the caller adds its name.
  static Result<DeviceBuffer> borrow(std::shared_ptr<Device> device, DeviceAddress address,
                                     int64_t bytes, int64_t offset);

  DeviceAddress address() const { return memory_.get(); }
  int64_t bytes() const { return bytes_; }

  /// write() copies to the device, read() copies from the device, and fill() sets every byte. They
  /// return when the work is done. They fail with Usage if the range exceeds the buffer.
  Status write(const void* data, int64_t bytes, int64_t offset = 0) const;
  Status read(void* data, int64_t bytes, int64_t offset = 0) const;
  Status fill(uint8_t value) const;
  /// Fills the first `bytes` bytes by repeating the two bytes of the pattern, low byte first.
  Status fill(uint16_t pattern, int64_t bytes) const;

  /// queue_write() and queue_read() copy like write() and read(), on the device's own queue, but
  /// may return before the copy is done. `data` must stay valid and unchanged until
  /// Device::synchronize() has returned. Both fail with Usage if the range exceeds the buffer.
  Status queue_write(const void* data, int64_t bytes, int64_t offset = 0) const;
  Status queue_read(void* data, int64_t bytes, int64_t offset = 0) const;

 private:
  friend class Device;
  Status check_range(int64_t bytes, int64_t offset) const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<void> memory_;
  int64_t bytes_ = 0;
};

/// Properties of a loaded function as the driver reports them. A number that the driver does not
/// report is -1.
struct FunctionFacts {
  int arguments = -1;
  int registers = -1;         ///< registers of a thread
  int64_t local_bytes = -1;   ///< stack and spilled registers of a thread
  int64_t shared_bytes = -1;  ///< declared in the code, without the dynamic part that a launch adds
  int max_threads = -1;       ///< largest number of threads of a block
};

class DeviceFunction {
 public:
  DeviceFunction() = default;  ///< an empty function; launching it fails with Usage
  const std::string& name() const { return name_; }
  const FunctionFacts& facts() const { return facts_; }

 private:
  friend class Device;
  friend class DeviceModule;
  const Device* device_ = nullptr;  // the device that loaded the function; handle_ keeps it alive
  std::shared_ptr<void> handle_;
  std::string name_;
  FunctionFacts facts_;
};

class DeviceModule {
 public:
  DeviceModule() = default;
  /// Finds a kernel by its name. Fails with Invalid if the code has no kernel of this name.
  Result<DeviceFunction> function(const std::string& name) const;

 private:
  friend class Device;
  std::shared_ptr<Device> device_;
  std::shared_ptr<void> handle_;
};

/// One call of a function on a one-dimensional grid. With 0 blocks nothing is launched.
struct Launch {
  DeviceFunction function;
  int64_t blocks = 1;
  int threads = 1;  ///< threads of each block
  /// Bytes of `extern __shared__` memory of each block. Must be 0 for OpenCL C, which has no
  /// equivalent.
  int64_t shared_bytes = 0;
  std::vector<DeviceAddress> arguments = {};
  /// Tensor maps, which are parameters of the function after its pointers. Each map describes the
  /// memory of one of the pointers. CUDA only.
  std::vector<TensorMap> maps = {};
  /// True if blocks loop over the tasks. The device then launches `blocks` blocks, or fewer if the
  /// GPU cannot run as many at once. CUDA only.
  bool persistent = false;
};

/// Launches that were recorded once and are submitted together: a CUDA graph, or for OpenCL, which
/// has no graphs, the list of launches. Copies of the value share the recording. A LaunchGraph must
/// outlive the runs that were submitted with it.
class LaunchGraph {
 public:
  LaunchGraph() = default;  ///< a graph without launches
  /// True if the driver has recorded a graph; false if this is a list of launches.
  bool is_recorded() const { return handle_ != nullptr; }

 private:
  friend class Device;
  std::vector<Launch> launches_;
  std::shared_ptr<void> handle_;  // the driver's graph; null if the driver has no graphs
};

/// A function that enqueues another library's work on `queue`, which is a CUstream or a
/// cl_command_queue. With CUDA, the primary context is current during the call. The device may call
/// the function more than once, and while it records a graph.
using DeviceWork = std::function<Status(void* queue)>;

struct TimingOptions {
  int repeats = 1;
  std::span<const Launch> before = {};  ///< launches that run before each sample and are not timed
  /// Memory that is overwritten before each sample to evict the L2 cache; this is not timed. Null:
  /// none.
  const DeviceBuffer* evicting = nullptr;
  /// True to submit each sample as one CUDA graph, for kernels that are shorter than the overhead
  /// of a launch. The graph runs once, untimed, before the samples. OpenCL has no graphs and
  /// ignores this member.
  bool graph = false;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  /// The cause of the loss of a device: a kernel, or the device itself. Nobody means that the
  /// device is not lost.
  enum class LostBy { Nobody, Kernel, Itself };

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// True if a kernel lost the device (by an illegal address). False if the device is not lost, or
  /// failed by itself (by an uncorrectable memory error).
  bool lost_by_kernel() const { return lost() && loss_by_ == LostBy::Kernel; }

  /// Allocates uninitialised memory; for 0 bytes the result has a null address.
  Result<DeviceBuffer> allocate(int64_t bytes);
  /// Loads code. Fails with Invalid if the binary is damaged or for another architecture (this is
  /// checked before the driver gets the binary), if no PTX can run either, or if the text does not
  /// compile. Fails with Environment if the CUDA driver is older than the code's toolkit. Fails
  /// with Unsupported if an OpenCL device gets code without text.
  Result<DeviceModule> load(const DeviceCode& code);
  /// Enqueues the launches on `stream`. Returns before they have run.
  Status launch(std::span<const Launch> launches, DeviceStream stream = {});
  /// Records launches that launch(graph) can then submit any number of times. Nothing runs yet.
  Result<LaunchGraph> record(std::vector<Launch> launches);
  /// Enqueues recorded launches. Returns before they have run. A second run of the same graph
  /// begins after the first has ended.
  Status launch(const LaunchGraph& graph, DeviceStream stream = {});
  /// Enqueues another library's work on the device's own queue.
  Status submit(const DeviceWork& work);
  /// Waits until all work on the device's own queue is done.
  Status synchronize();
  /// Measures `options.repeats` samples, in nanoseconds of the device's clock. On CUDA, a sample is
  /// the time from the start of the first launch to the end of the last one. On OpenCL, it is the
  /// sum of the times of the single launches. CUDA's clock ticks every 500 ns, so list a short
  /// launch several times and divide.
  Result<std::vector<double>> time_ns(std::span<const Launch> launches,
                                      const TimingOptions& options = {});
  /// Does the same as time_ns(), for another library's work. Fails with Unsupported on OpenCL,
  /// which can time only its own launches.
  Result<std::vector<double>> time_work_ns(const DeviceWork& work,
                                           const TimingOptions& options = {});

 protected:
  Device() = default;

  /// Makes an Environment error that says that the device cannot do `what` (such as "write
  /// memory"), and states the driver's `reason`. Unless `lost_by` is Nobody, the device is lost
  /// from then on.
  tl::unexpected<Error> failed(std::string_view what, std::string_view reason, LostBy lost_by);

  /// Returns the driver's handle of the launched function, which find_function() made.
  static void* handle(const Launch& launch) { return launch.function.handle_.get(); }

  DeviceFacts facts_;

 private:
  friend class DeviceBuffer;
  friend class DeviceModule;

  // The operations that a driver implements. Before Device calls one of them, it checks the
  // arguments, and that the device is not known to be lost.
  virtual Result<std::shared_ptr<void>> allocate_memory(int64_t bytes) = 0;
  /// Makes a kernel argument of `bytes` bytes of the caller's memory, from byte `offset` on.
  virtual Result<std::shared_ptr<void>> part_of(DeviceAddress memory, int64_t offset,
                                                int64_t bytes) = 0;
  virtual Status write_memory(DeviceAddress to, int64_t offset, const void* data, int64_t bytes,
                              Copying copying) = 0;
  virtual Status read_memory(DeviceAddress from, int64_t offset, void* data, int64_t bytes,
                             Copying copying) = 0;
  /// Fills `bytes` bytes by repeating the pattern, low byte first. Requires: an even number of
  /// bytes.
  virtual Status fill_memory(DeviceAddress to, uint16_t pattern, int64_t bytes) = 0;
  virtual Result<std::shared_ptr<void>> load_module(const DeviceCode& code) = 0;
  virtual Result<std::shared_ptr<void>> find_function(const std::shared_ptr<void>& module,
                                                      const std::string& name,
                                                      FunctionFacts& facts) = 0;
  virtual Status enqueue(std::span<const Launch> launches, DeviceStream stream) = 0;
  /// Records the launches as a graph of the driver. Returns null if the driver has no graphs.
  virtual Result<std::shared_ptr<void>> record_graph(std::span<const Launch> launches) = 0;
  /// Enqueues a graph. Requires: a result of record_graph() that is not null.
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
  /// Index among all devices that the driver lists; with OpenCL, over all platforms.
  int index = 0;
  /// Path of a library to open instead of libcuda.so.1 or libOpenCL.so.1: for tests, and for
  /// drivers that the loader does not find. Empty: the usual library.
  std::string library = {};
};

/// Opens a CUDA device. Fails with Environment if there is no driver, if the driver does not start
/// or is too old, or if there is no device. Fails with TryLater if another process has the device
/// for exclusive use, and with Usage if there is no device with this index. The message names the
/// cause.
Result<std::shared_ptr<Device>> open_cuda_device(const DeviceOptions& options = {});
Result<std::shared_ptr<Device>> open_opencl_device(const DeviceOptions& options = {});

/// Opens a device by name: "cuda" or "opencl" is the first device of its kind, "cuda:1" the device
/// with that index.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

}  // namespace tw::runtime
