// SPDX-License-Identifier: Apache-2.0
// Devices that are used through OpenCL. Only version 1.2 is used, since every driver has it.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "runtime/device.h"

namespace tw::runtime {
namespace {

#define TW_OPENCL_FUNCTIONS(X) \
  X(clGetPlatformIDs)          \
  X(clGetDeviceIDs)            \
  X(clGetDeviceInfo)           \
  X(clCreateContext)           \
  X(clReleaseContext)          \
  X(clCreateCommandQueue)      \
  X(clReleaseCommandQueue)     \
  X(clGetCommandQueueInfo)     \
  X(clCreateBuffer)            \
  X(clCreateSubBuffer)         \
  X(clRetainMemObject)         \
  X(clGetMemObjectInfo)        \
  X(clReleaseMemObject)        \
  X(clEnqueueReadBuffer)       \
  X(clEnqueueWriteBuffer)      \
  X(clEnqueueFillBuffer)       \
  X(clCreateProgramWithSource) \
  X(clBuildProgram)            \
  X(clGetProgramBuildInfo)     \
  X(clReleaseProgram)          \
  X(clCreateKernel)            \
  X(clGetKernelInfo)           \
  X(clGetKernelWorkGroupInfo)  \
  X(clSetKernelArg)            \
  X(clReleaseKernel)           \
  X(clEnqueueNDRangeKernel)    \
  X(clGetEventProfilingInfo)   \
  X(clReleaseEvent)            \
  X(clFlush)                   \
  X(clFinish)

struct OpenCl {
#define X(name) decltype(&::name) name = nullptr;
  TW_OPENCL_FUNCTIONS(X)
#undef X
};

Result<OpenCl> open_library(const std::string& path) {
  // The library is never closed, because drivers have threads of their own.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(ErrorCode::Environment,
                fmt::format("[opencl] no OpenCL: {}: install a driver and ocl-icd-libopencl1; "
                            "pocl-opencl-icd makes the processor a device",
                            dlerror()));
  OpenCl cl;
#define X(name)                                                         \
  cl.name = reinterpret_cast<decltype(cl.name)>(dlsym(library, #name)); \
  if (cl.name == nullptr)                                               \
    return fail(ErrorCode::Environment,                                 \
                fmt::format("[opencl] {} has no " #name ": expected OpenCL 1.2 or later", path));
  TW_OPENCL_FUNCTIONS(X)
#undef X
  return cl;
}

std::string describe(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
      return "the device is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "out of device memory";
    case CL_OUT_OF_RESOURCES:
      return "out of resources";
    case CL_OUT_OF_HOST_MEMORY:
      return "out of memory";
    case CL_INVALID_BUFFER_SIZE:
      return "more than the device allows for one buffer";
    case CL_INVALID_KERNEL_ARGS:
      return "an argument was not set";
    case CL_INVALID_WORK_GROUP_SIZE:
      return "the work-group is too large for the kernel";
    default:
      return fmt::format("OpenCL error {}", code);
  }
}

// Classifies an error of the driver. NVIDIA's driver returns -9999 after a kernel accessed memory
// outside of a buffer.
Device::LostBy lost_by(cl_int code) {
  if (code == CL_DEVICE_NOT_AVAILABLE) return Device::LostBy::Itself;
  return code == -9999 ? Device::LostBy::Kernel : Device::LostBy::Nobody;
}

std::vector<cl_device_id> list_devices(const OpenCl& cl) {
  std::vector<cl_device_id> all;
  cl_uint platforms = 0;
  if (cl.clGetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS || platforms == 0) return all;
  std::vector<cl_platform_id> ids(platforms);
  cl.clGetPlatformIDs(platforms, ids.data(), nullptr);
  for (cl_platform_id platform : ids) {
    cl_uint count = 0;
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    const size_t have = all.size();
    all.resize(have + count);
    cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, all.data() + have, nullptr);
  }
  return all;
}

/// Asks the device for a number; 0 if the driver does not know the query.
template <typename Number>
Number query(const OpenCl& cl, cl_device_id device, cl_device_info what) {
  Number value = 0;
  return cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : 0;
}

std::string query_text(const OpenCl& cl, cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  cl.clGetDeviceInfo(device, what, 0, nullptr, &bytes);
  std::string text(bytes, '\0');
  cl.clGetDeviceInfo(device, what, bytes, text.data(), nullptr);
  return std::string(trim(text.c_str()));  // the size counts the terminating 0
}

DeviceFacts facts_of(const OpenCl& cl, cl_device_id device) {
  DeviceFacts facts;
  facts.name = query_text(cl, device, CL_DEVICE_NAME);
  facts.architecture = "opencl";
  facts.is_processor =
      (query<cl_device_type>(cl, device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  facts.multiprocessors = static_cast<int>(query<cl_uint>(cl, device, CL_DEVICE_MAX_COMPUTE_UNITS));
  const cl_uint warp = query<cl_uint>(cl, device, CL_DEVICE_WARP_SIZE_NV);
  const cl_uint wavefront = query<cl_uint>(cl, device, CL_DEVICE_WAVEFRONT_WIDTH_AMD);
  facts.warp_size = static_cast<int>(std::max({warp, wavefront, cl_uint{1}}));
  facts.max_threads_per_block =
      static_cast<int>(query<size_t>(cl, device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  facts.shared_bytes_per_block =
      static_cast<int64_t>(query<cl_ulong>(cl, device, CL_DEVICE_LOCAL_MEM_SIZE));
  facts.l2_bytes =
      static_cast<int64_t>(query<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE));
  facts.memory_bytes = static_cast<int64_t>(query<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE));
  return facts;
}

class OpenClDevice final : public Device {
 public:
  OpenClDevice(const OpenCl& cl, cl_device_id device, int index) : cl_(cl), device_(device) {
    facts_ = facts_of(cl, device);
    facts_.index = index;
  }

  ~OpenClDevice() override {
    if (queue_ != nullptr) cl_.clReleaseCommandQueue(queue_);
    if (context_ != nullptr) cl_.clReleaseContext(context_);
  }

  Status start() {
    cl_int code = CL_SUCCESS;
    context_ = cl_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code);
    if (code == CL_SUCCESS)
      queue_ = cl_.clCreateCommandQueue(context_, device_, CL_QUEUE_PROFILING_ENABLE, &code);
    return check(code, "start");
  }

 private:
  Status check(cl_int code, std::string_view what) {
    if (code == CL_SUCCESS) return {};
    return failed(what, describe(code), lost_by(code));
  }

  /// Returns a shared pointer to an object of OpenCL, which releases the object. It also keeps the
  /// device alive.
  template <typename Handle>
  std::shared_ptr<void> own(Handle made, cl_int (*release)(Handle)) {
    return {made, [release, self = shared_from_this()](void* handle) {
              release(static_cast<Handle>(handle));
            }};
  }

  Result<std::shared_ptr<void>> allocate_memory(int64_t bytes) override {
    cl_int code = CL_SUCCESS;
    const auto size = static_cast<size_t>(bytes);
    const cl_mem memory = cl_.clCreateBuffer(context_, CL_MEM_READ_WRITE, size, nullptr, &code);
    TW_RETURN_IF_ERROR(check(code, fmt::format("allocate {} bytes", bytes)));
    return own(memory, cl_.clReleaseMemObject);
  }

  template <typename Value>
  Value query_memory(cl_mem memory, cl_mem_info what) {
    Value value = {};
    return cl_.clGetMemObjectInfo(memory, what, sizeof value, &value, nullptr) == CL_SUCCESS
               ? value
               : Value{};
  }

  Result<std::shared_ptr<void>> part_of(DeviceAddress address, int64_t offset,
                                        int64_t bytes) override {
    const auto memory = static_cast<cl_mem>(address);
    if (query_memory<cl_context>(memory, CL_MEM_CONTEXT) != context_)
      return fail(ErrorCode::Usage,
                  "memory of another OpenCL context given, expected of the context of the device's "
                  "queue");
    const size_t all = query_memory<size_t>(memory, CL_MEM_SIZE);
    const auto begin = static_cast<size_t>(offset), length = static_cast<size_t>(bytes);
    if (begin > all || length > all - begin)
      return fail(ErrorCode::Usage, fmt::format("memory of {} bytes given, expected {} from {} on",
                                                all, length, begin));
    if (begin == 0) {
      TW_RETURN_IF_ERROR(check(cl_.clRetainMemObject(memory), "share a buffer"));
      return own(memory, cl_.clReleaseMemObject);
    }
    const cl_buffer_region region = {begin, length};
    cl_int code = CL_SUCCESS;
    const cl_mem part = cl_.clCreateSubBuffer(memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region,
                                              &code);  // 0: the flags of the parent buffer
    if (code == CL_INVALID_MEM_OBJECT)
      return fail(ErrorCode::Usage,
                  fmt::format("an offset of {} bytes into a part of a buffer given, expected one "
                              "into the whole",
                              offset));
    if (code == CL_MISALIGNED_SUB_BUFFER_OFFSET)
      return fail(
          ErrorCode::Unsupported,
          fmt::format("an offset of {} bytes given, expected a multiple of {}: {} takes no "
                      "others",
                      offset, query<cl_uint>(cl_, device_, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8,
                      facts_.name));
    TW_RETURN_IF_ERROR(check(code, "take a part of a buffer"));
    return own(part, cl_.clReleaseMemObject);
  }

  static cl_bool waits(Copying copying) { return copying == Copying::Waits ? CL_TRUE : CL_FALSE; }

  Status write_memory(DeviceAddress to, int64_t offset, const void* data, int64_t bytes,
                      Copying copying) override {
    return check(cl_.clEnqueueWriteBuffer(queue_, static_cast<cl_mem>(to), waits(copying),
                                          static_cast<size_t>(offset), static_cast<size_t>(bytes),
                                          data, 0, nullptr, nullptr),
                 "write a buffer");
  }

  Status read_memory(DeviceAddress from, int64_t offset, void* data, int64_t bytes,
                     Copying copying) override {
    return check(cl_.clEnqueueReadBuffer(queue_, static_cast<cl_mem>(from), waits(copying),
                                         static_cast<size_t>(offset), static_cast<size_t>(bytes),
                                         data, 0, nullptr, nullptr),
                 "read a buffer");
  }

  Status fill_memory(DeviceAddress to, uint16_t pattern, int64_t bytes) override {
    TW_RETURN_IF_ERROR(
        check(cl_.clEnqueueFillBuffer(queue_, static_cast<cl_mem>(to), &pattern, sizeof pattern, 0,
                                      static_cast<size_t>(bytes), 0, nullptr, nullptr),
              "fill a buffer"));
    return wait();
  }

  std::string build_log(cl_program program) {
    size_t bytes = 0;
    cl_.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
    std::string log(bytes, '\0');
    cl_.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
    return log.c_str();
  }

  Result<std::shared_ptr<void>> load_module(const DeviceCode& code) override {
    if (code.text.empty())
      return fail(ErrorCode::Unsupported,
                  fmt::format("[opencl] {} takes OpenCL C, and the code has none", facts_.name));
    const char* text = code.text.data();
    const size_t bytes = code.text.size();
    cl_int result = CL_SUCCESS;
    const cl_program program = cl_.clCreateProgramWithSource(context_, 1, &text, &bytes, &result);
    TW_RETURN_IF_ERROR(check(result, "load a program"));
    auto module = own(program, cl_.clReleaseProgram);
    result = cl_.clBuildProgram(program, 1, &device_, "", nullptr, nullptr);
    if (result == CL_BUILD_PROGRAM_FAILURE)
      return fail(ErrorCode::Invalid, fmt::format("[opencl] the program does not compile: {}",
                                                  first_lines(build_log(program), 6)));
    TW_RETURN_IF_ERROR(check(result, "compile a program"));
    return module;
  }

  template <typename Number>
  Number query_kernel(cl_kernel kernel, cl_kernel_work_group_info what) {
    Number value = 0;
    cl_.clGetKernelWorkGroupInfo(kernel, device_, what, sizeof value, &value, nullptr);
    return value;
  }

  Result<std::shared_ptr<void>> find_function(const std::shared_ptr<void>& module,
                                              const std::string& name,
                                              FunctionFacts& facts) override {
    cl_int code = CL_SUCCESS;
    const cl_kernel kernel =
        cl_.clCreateKernel(static_cast<cl_program>(module.get()), name.c_str(), &code);
    if (code == CL_INVALID_KERNEL_NAME)
      return fail(ErrorCode::Invalid, fmt::format("[opencl] the program has no kernel '{}'", name));
    TW_RETURN_IF_ERROR(check(code, fmt::format("find kernel '{}'", name)));
    auto function = own(kernel, cl_.clReleaseKernel);
    cl_uint arguments = 0;
    TW_RETURN_IF_ERROR(check(
        cl_.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr),
        "describe a kernel"));
    facts.arguments = static_cast<int>(arguments);
    facts.local_bytes =
        static_cast<int64_t>(query_kernel<cl_ulong>(kernel, CL_KERNEL_PRIVATE_MEM_SIZE));
    facts.shared_bytes =
        static_cast<int64_t>(query_kernel<cl_ulong>(kernel, CL_KERNEL_LOCAL_MEM_SIZE));
    facts.max_threads = static_cast<int>(query_kernel<size_t>(kernel, CL_KERNEL_WORK_GROUP_SIZE));
    return function;
  }

  Status set_arguments(cl_kernel kernel, const Launch& launch) {
    cl_uint index = 0;
    for (DeviceAddress address : launch.arguments) {
      const auto memory = static_cast<cl_mem>(address);
      TW_RETURN_IF_ERROR(check(
          cl_.clSetKernelArg(kernel, index, sizeof memory, memory != nullptr ? &memory : nullptr),
          fmt::format("set argument {} of {}", index, launch.function.name())));
      ++index;
    }
    return {};
  }

  Status enqueue_one(const Launch& launch, cl_command_queue queue, cl_event* event) {
    if (launch.blocks == 0) return {};
    if (!launch.maps.empty())
      return fail(ErrorCode::Usage,
                  fmt::format("[launch] {}: {} tensor maps, which OpenCL C has not",
                              launch.function.name(), launch.maps.size()));
    if (launch.shared_bytes != 0)
      return fail(ErrorCode::Usage,
                  fmt::format("[launch] {}: {} dynamic bytes of shared memory, expected 0: OpenCL "
                              "C declares what it needs",
                              launch.function.name(), launch.shared_bytes));
    const auto kernel = static_cast<cl_kernel>(handle(launch));
    const auto threads = static_cast<size_t>(launch.threads);
    const size_t all = static_cast<size_t>(launch.blocks) * threads;
    // Arguments are stored in the kernel object until it is enqueued, so only one thread may do
    // this at a time.
    const std::lock_guard lock(arguments_);
    TW_RETURN_IF_ERROR(set_arguments(kernel, launch));
    return check(
        cl_.clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &all, &threads, 0, nullptr, event),
        fmt::format("launch {}", launch.function.name()));
  }

  /// Checks a queue of the caller's. The queue must belong to this context and device, and must run
  /// launches in order.
  Status check_queue(cl_command_queue queue) {
    cl_context context = nullptr;
    cl_device_id device = nullptr;
    cl_command_queue_properties properties = 0;
    const auto says = [&](cl_command_queue_info what, auto& value) {
      return cl_.clGetCommandQueueInfo(queue, what, sizeof value, &value, nullptr) == CL_SUCCESS;
    };
    if (queue == nullptr || !says(CL_QUEUE_CONTEXT, context) || !says(CL_QUEUE_DEVICE, device) ||
        !says(CL_QUEUE_PROPERTIES, properties) || context != context_ || device != device_)
      return fail(ErrorCode::Usage,
                  "[launch] a queue of another OpenCL context or device, or none, given: expected "
                  "one of the context and device of the device's own queue");
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
      return fail(ErrorCode::Usage,
                  "[launch] an OpenCL queue without order given: expected one that runs launches "
                  "in order");
    return {};
  }

  Status enqueue(std::span<const Launch> launches, DeviceStream stream) override {
    const auto queue = stream ? static_cast<cl_command_queue>(*stream) : queue_;
    if (stream) TW_RETURN_IF_ERROR(check_queue(queue));
    for (const Launch& launch : launches) TW_RETURN_IF_ERROR(enqueue_one(launch, queue, nullptr));
    return check(cl_.clFlush(queue), "start launches");
  }

  /// Returns null, because OpenCL 1.2 has no graphs.
  Result<std::shared_ptr<void>> record_graph(std::span<const Launch>) override {
    return std::shared_ptr<void>();
  }

  Status enqueue_graph(void*, DeviceStream) override {
    TW_CHECK(false, "OpenCL records no graphs");
    return {};
  }

  Status enqueue(const DeviceWork& work) override { return work(queue_); }

  Status wait() override { return check(cl_.clFinish(queue_), "finish launches"); }

  Result<std::vector<double>> sample(std::span<const Launch> launches,
                                     const TimingOptions& options) override {
    std::vector<double> samples;
    for (int i = 0; i < options.repeats; ++i) {
      TW_RETURN_IF_ERROR(enqueue(options.before, {}));
      if (options.evicting != nullptr) TW_RETURN_IF_ERROR(options.evicting->fill(0));
      TW_TRY(const double sample_ns, time_once(launches));
      samples.push_back(sample_ns);
    }
    return samples;
  }

  Result<std::vector<double>> sample(const DeviceWork&, const TimingOptions&) override {
    return fail(ErrorCode::Unsupported,
                fmt::format("[opencl] work of other libraries on {} cannot be timed: its events "
                            "are their own",
                            facts_.name));
  }

  /// Returns the sum of the times of the single launches, in ns. The time between two launches is
  /// not counted, because the device may then wait for the host.
  Result<double> time_once(std::span<const Launch> launches) {
    std::vector<std::shared_ptr<void>> events;
    for (const Launch& launch : launches) {
      cl_event event = nullptr;
      TW_RETURN_IF_ERROR(enqueue_one(launch, queue_, &event));
      if (event != nullptr) events.push_back(own(event, cl_.clReleaseEvent));
    }
    TW_RETURN_IF_ERROR(wait());
    double sum_ns = 0;
    for (const std::shared_ptr<void>& event : events) {
      TW_TRY(const cl_ulong start, profile(event.get(), CL_PROFILING_COMMAND_START));
      TW_TRY(const cl_ulong end, profile(event.get(), CL_PROFILING_COMMAND_END));
      sum_ns += static_cast<double>(end - start);
    }
    return sum_ns;
  }

  Result<cl_ulong> profile(void* event, cl_profiling_info what) {
    cl_ulong time_ns = 0;
    TW_RETURN_IF_ERROR(check(cl_.clGetEventProfilingInfo(static_cast<cl_event>(event), what,
                                                         sizeof time_ns, &time_ns, nullptr),
                             "time a launch"));
    return time_ns;
  }

  const OpenCl cl_;
  const cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::mutex arguments_;
};

}  // namespace

Result<std::shared_ptr<Device>> open_opencl_device(const DeviceOptions& options) {
  TW_TRY(const OpenCl cl,
         open_library(options.library.empty() ? "libOpenCL.so.1" : options.library));
  const std::vector<cl_device_id> devices = list_devices(cl);
  if (devices.empty())
    return fail(ErrorCode::Environment,
                "[opencl] no device: install a driver, such as "
                "pocl-opencl-icd, which makes the processor a device");
  if (options.index < 0 || std::cmp_greater_equal(options.index, devices.size()))
    return fail(ErrorCode::Usage, fmt::format("[opencl] no device {}: expected 0 to {}",
                                              options.index, devices.size() - 1));
  auto device = std::make_shared<OpenClDevice>(cl, devices[static_cast<size_t>(options.index)],
                                               options.index);
  TW_RETURN_IF_ERROR(device->start());
  return device;
}

}  // namespace tw::runtime
