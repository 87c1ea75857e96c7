// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <variant>

#include "runtime/dlpack.h"
#include "runtime/session.h"
#include "runtime/tilewright.h"

using tw::Error;
using tw::ErrorCode;
using tw::fail;
using tw::Status;

struct tw_session {
  std::shared_ptr<tw::runtime::Session> session;
};

struct tw_kernel {
  std::shared_ptr<tw::runtime::Session> session;  // owns the pool
  std::variant<tw::runtime::Kernel, tw::runtime::DeviceKernel> kernel;

  const tw::runtime::DeviceKernel* on_device() const {
    return std::get_if<tw::runtime::DeviceKernel>(&kernel);
  }
  const tw::runtime::KernelInfo& info() const {
    return std::visit(
        [](const auto& of) -> const auto& { return of.info(); }, kernel);
  }
};

struct tw_model {
  std::shared_ptr<tw::runtime::Session> session;  // owns the pool
  tw::runtime::Model model;
};

namespace {

#define SAME_STATUS(c_name, name) static_assert(TW_##c_name == static_cast<int>(ErrorCode::name))
SAME_STATUS(INTERNAL, Internal);
SAME_STATUS(USAGE, Usage);
SAME_STATUS(UNSUPPORTED, Unsupported);
SAME_STATUS(DATABASE, Database);
SAME_STATUS(INVALID, Invalid);
SAME_STATUS(NO_CANDIDATE, NoCandidate);
SAME_STATUS(ENVIRONMENT, Environment);
SAME_STATUS(NOT_COMPILED, NotCompiled);
SAME_STATUS(TRY_LATER, TryLater);
SAME_STATUS(INTERRUPTED, Interrupted);
#undef SAME_STATUS

#define X(enumerator, name, kind, in_c, in_numpy, in_onnx, number) \
  static_assert(number == static_cast<int>(tw::DType::enumerator));
TW_DTYPES(X)
#undef X
constexpr int last_dtype = static_cast<int>(std::size(tw::all_dtypes)) - 1;

constexpr int kMaxRank = 64;

// The last error of a thread. `text` points to the text of `error`, or to a literal if there was no
// memory for a string.
struct LastError {
  std::string error;
  const char* text = "";
};
thread_local LastError last_error;

tw_status failed(ErrorCode code, std::string message) noexcept {
  last_error.error = std::move(message);
  last_error.text = last_error.error.c_str();
  return static_cast<tw_status>(code);
}

tw_status out_of_memory() noexcept {
  last_error.text = "[runtime] out of memory: free some and call again";
  return TW_ENVIRONMENT;
}

// Calls `body` and turns exceptions into a status, because no exception may leave a C function.
template <typename Body>
tw_status guarded(const Body& body) noexcept {
  try {
    Status status = body();
    return status ? TW_OK : failed(status.error().code, std::move(status.error().message));
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    last_error.text = "[runtime] unexpected exception: report this";
    try {
      return failed(ErrorCode::Internal, fmt::format("[runtime] {}: report this", error.what()));
    } catch (...) {
      return TW_INTERNAL;
    }
  }
}

Status require(const void* pointer, const char* function, const char* name) {
  if (pointer != nullptr) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[{}] {} is NULL: expected a valid pointer", function, name));
}

tw::Result<tw::runtime::Buffer> buffer_from(const tw_buffer& given, const char* function,
                                            int32_t index) {
  if (given.rank < 0 || given.rank > kMaxRank || (given.rank > 0 && given.shape == nullptr))
    return fail(
        ErrorCode::Usage,
        fmt::format("[{}] buffer {} has rank {} and {} shape: expected a rank of 0 to {} "
                    "with as many extents",
                    function, index, given.rank, given.shape == nullptr ? "no" : "a", kMaxRank));
  if (given.dtype < TW_FLOAT32 || given.dtype > last_dtype)
    return fail(ErrorCode::Usage,
                fmt::format("[{}] buffer {} has dtype {}: expected a tw_dtype, {} to {}", function,
                            index, given.dtype, static_cast<int>(TW_FLOAT32), last_dtype));
  tw::runtime::Buffer buffer;
  buffer.data = given.data;
  buffer.dtype = static_cast<tw::DType>(given.dtype);
  buffer.shape.assign(given.shape, given.shape + given.rank);
  if (given.strides != nullptr) buffer.strides.assign(given.strides, given.strides + given.rank);
  return buffer;
}

tw::Result<std::vector<tw::runtime::Buffer>> buffers_from(const tw_buffer* given, int32_t count,
                                                          const char* function) {
  std::vector<tw::runtime::Buffer> buffers;
  for (int32_t i = 0; i < count; ++i) {
    TW_TRY(auto buffer, buffer_from(given[i], function, i));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

tw::Result<std::vector<tw::runtime::DeviceArray>> device_arrays_from(const tw_buffer* given,
                                                                     int32_t count,
                                                                     const char* function) {
  TW_TRY(auto buffers, buffers_from(given, count, function));
  std::vector<tw::runtime::DeviceArray> arrays;
  for (auto& buffer : buffers)
    arrays.push_back(
        {buffer.data, buffer.dtype, std::move(buffer.shape), std::move(buffer.strides)});
  return arrays;
}

tw::Result<const tw::runtime::DeviceKernel*> require_device(const tw_kernel* kernel,
                                                            const char* function) {
  if (kernel->on_device() != nullptr) return kernel->on_device();
  return fail(ErrorCode::Usage, fmt::format("[{}] the kernel runs on the processor: call it by "
                                            "tw_kernel_call, or open the session with a device",
                                            function));
}

Status count_arguments(std::span<const tw::runtime::ArgumentInfo> arguments, int32_t* count,
                       const char* function) {
  TW_RETURN_IF_ERROR(require(count, function, "count"));
  *count = static_cast<int32_t>(arguments.size());
  return {};
}

Status describe_argument(std::span<const tw::runtime::ArgumentInfo> arguments, int32_t index,
                         tw_argument* argument, const char* function) {
  TW_RETURN_IF_ERROR(require(argument, function, "argument"));
  if (index < 0 || static_cast<size_t>(index) >= arguments.size())
    return fail(ErrorCode::Usage, fmt::format("[{}] index {} given, expected 0 to {}", function,
                                              index, std::ssize(arguments) - 1));
  const auto& info = arguments[static_cast<size_t>(index)];
  *argument = {info.name.c_str(),
               info.layout.c_str(),
               info.shape.data(),
               static_cast<int32_t>(info.shape.size()),
               static_cast<int32_t>(info.dtype),
               info.is_output ? 1 : 0};
  return {};
}

tw::Result<size_t> variant_from(const tw_model* model, int32_t variant, const char* function) {
  const int64_t count = std::ssize(model->model.info().variants);
  if (variant >= 0 && variant < count) return static_cast<size_t>(variant);
  return fail(ErrorCode::Usage,
              fmt::format("[{}] variant {} given, expected 0 to {}", function, variant, count - 1));
}

Status require_capacity(const tw_step_time* steps, int32_t capacity, const char* function) {
  if (capacity < 0)
    return fail(ErrorCode::Usage, fmt::format("[{}] a capacity of {} steps given, expected 0 or "
                                              "more",
                                              function, capacity));
  return capacity == 0 ? Status() : require(steps, function, "steps");
}

tw_session* new_session(tw::runtime::Session opened) {
  return new tw_session{std::make_shared<tw::runtime::Session>(std::move(opened))};
}

}  // namespace

const char* tw_version(void) { return TW_VERSION; }

int32_t tw_runtime_abi(void) { return tw::runtime::kRuntimeAbi; }

const char* tw_last_error(void) { return last_error.text; }

tw_status tw_session_open(const char* database, const char* cache, int32_t threads,
                          tw_session** session) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(session, "tw_session_open", "session"));
    tw::runtime::SessionOptions options;
    if (database != nullptr) options.database = database;
    if (cache != nullptr) options.cache = cache;
    options.threads = threads;
    TW_TRY(auto opened, tw::runtime::Session::open(std::move(options)));
    *session = new_session(std::move(opened));
    return {};
  });
}

tw_status tw_session_open_device(const char* database, const char* cache, const char* device,
                                 tw_session** session) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(device, "tw_session_open_device", "device"));
    TW_RETURN_IF_ERROR(require(session, "tw_session_open_device", "session"));
    tw::runtime::SessionOptions options;
    if (database != nullptr) options.database = database;
    if (cache != nullptr) options.cache = cache;
    options.threads = 1;
    TW_TRY(options.gpu, tw::runtime::open_device(device));
    TW_TRY(auto opened, tw::runtime::Session::open(std::move(options)));
    *session = new_session(std::move(opened));
    return {};
  });
}

tw_status tw_session_queue(const tw_session* session, void** queue) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(session, "tw_session_queue", "session"));
    TW_RETURN_IF_ERROR(require(queue, "tw_session_queue", "queue"));
    const auto& gpu = session->session->gpu();
    if (!gpu)
      return fail(ErrorCode::Usage,
                  "[tw_session_queue] the session has no device: open it by "
                  "tw_session_open_device");
    return gpu->submit([&](void* own) -> Status {
      *queue = own;
      return {};
    });
  });
}

void tw_session_close(tw_session* session) { delete session; }

tw_status tw_kernel_get(tw_session* session, const char* workload, tw_kernel** kernel) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(session, "tw_kernel_get", "session"));
    TW_RETURN_IF_ERROR(require(workload, "tw_kernel_get", "workload"));
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_get", "kernel"));
    if (session->session->gpu()) {
      TW_TRY(auto found, session->session->device_kernel(workload));
      *kernel = new tw_kernel{session->session, std::move(found)};
      return {};
    }
    TW_TRY(auto found, session->session->kernel(workload));
    *kernel = new tw_kernel{session->session, std::move(found)};
    return {};
  });
}

tw_status tw_kernel_load(tw_session* session, const char* artifact_path, tw_kernel** kernel) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(session, "tw_kernel_load", "session"));
    TW_RETURN_IF_ERROR(require(artifact_path, "tw_kernel_load", "artifact_path"));
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_load", "kernel"));
    if (session->session->gpu()) {
      TW_TRY(auto loaded, session->session->load_on_device(artifact_path));
      *kernel = new tw_kernel{session->session, std::move(loaded)};
      return {};
    }
    TW_TRY(auto loaded, session->session->load(artifact_path));
    *kernel = new tw_kernel{session->session, std::move(loaded)};
    return {};
  });
}

void tw_kernel_release(tw_kernel* kernel) { delete kernel; }

tw_status tw_kernel_argument_count(const tw_kernel* kernel, int32_t* count) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_argument_count", "kernel"));
    return count_arguments(kernel->info().arguments, count, "tw_kernel_argument_count");
  });
}

tw_status tw_kernel_argument(const tw_kernel* kernel, int32_t index, tw_argument* argument) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_argument", "kernel"));
    return describe_argument(kernel->info().arguments, index, argument, "tw_kernel_argument");
  });
}

tw_status tw_kernel_call(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                         int32_t threads) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_call", "kernel"));
    TW_RETURN_IF_ERROR(require(buffers, "tw_kernel_call", "buffers"));
    TW_TRY(const auto converted, buffers_from(buffers, count, "tw_kernel_call"));
    if (const auto* on_device = kernel->on_device()) return on_device->call(converted);
    const auto& own = std::get<tw::runtime::Kernel>(kernel->kernel);
    return own.call(converted, kernel->session->pool(), threads);
  });
}

tw_status tw_kernel_call_on(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                            void* stream) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_call_on", "kernel"));
    TW_RETURN_IF_ERROR(require(buffers, "tw_kernel_call_on", "buffers"));
    TW_TRY(const auto* on_device, require_device(kernel, "tw_kernel_call_on"));
    TW_TRY(const auto arrays, device_arrays_from(buffers, count, "tw_kernel_call_on"));
    return on_device->call_on(arrays, stream);
  });
}

tw_status tw_kernel_call_dlpack(const tw_kernel* kernel, const void* const* tensors, int32_t count,
                                int64_t stream) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(kernel, "tw_kernel_call_dlpack", "kernel"));
    TW_RETURN_IF_ERROR(require(tensors, "tw_kernel_call_dlpack", "tensors"));
    const std::span given(tensors, static_cast<size_t>(std::max(count, 0)));
    if (const auto* on_device = kernel->on_device())
      return tw::runtime::call_dlpack(*on_device, given, stream);
    const auto& own = std::get<tw::runtime::Kernel>(kernel->kernel);
    return tw::runtime::call_dlpack(own, given, kernel->session->pool());
  });
}

tw_status tw_model_open(tw_session* session, const char* path, tw_model** model) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(session, "tw_model_open", "session"));
    TW_RETURN_IF_ERROR(require(path, "tw_model_open", "path"));
    TW_RETURN_IF_ERROR(require(model, "tw_model_open", "model"));
    TW_TRY(auto opened, session->session->model(path));
    *model = new tw_model{session->session, std::move(opened)};
    return {};
  });
}

void tw_model_release(tw_model* model) { delete model; }

tw_status tw_model_argument_count(const tw_model* model, int32_t* count) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_argument_count", "model"));
    return count_arguments(model->model.arguments(), count, "tw_model_argument_count");
  });
}

tw_status tw_model_argument(const tw_model* model, int32_t index, tw_argument* argument) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_argument", "model"));
    return describe_argument(model->model.arguments(), index, argument, "tw_model_argument");
  });
}

tw_status tw_model_variant_count(const tw_model* model, int32_t* count) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_variant_count", "model"));
    TW_RETURN_IF_ERROR(require(count, "tw_model_variant_count", "count"));
    *count = static_cast<int32_t>(model->model.info().variants.size());
    return {};
  });
}

tw_status tw_model_variant_argument(const tw_model* model, int32_t variant, int32_t index,
                                    tw_argument* argument) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_variant_argument", "model"));
    TW_TRY(const size_t number, variant_from(model, variant, "tw_model_variant_argument"));
    return describe_argument(model->model.arguments(number), index, argument,
                             "tw_model_variant_argument");
  });
}

tw_status tw_model_call_dlpack(const tw_model* model, const void* const* tensors, int32_t count,
                               int32_t threads) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_call_dlpack", "model"));
    TW_RETURN_IF_ERROR(require(tensors, "tw_model_call_dlpack", "tensors"));
    const std::span given(tensors, static_cast<size_t>(std::max(count, 0)));
    return tw::runtime::call_dlpack(model->model, given, model->session->pool(), threads);
  });
}

tw_status tw_model_profile(const tw_model* model, const tw_buffer* buffers, int32_t count,
                           int32_t threads, tw_step_time* steps, int32_t capacity,
                           int32_t* step_count) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_profile", "model"));
    TW_RETURN_IF_ERROR(require(buffers, "tw_model_profile", "buffers"));
    TW_RETURN_IF_ERROR(require(step_count, "tw_model_profile", "step_count"));
    TW_RETURN_IF_ERROR(require_capacity(steps, capacity, "tw_model_profile"));
    TW_TRY(const auto converted, buffers_from(buffers, count, "tw_model_profile"));
    TW_TRY(const auto profile, model->model.profile(converted, model->session->pool(), threads));
    const auto& info = model->model.info().variants[profile.variant].steps;
    const size_t reported = std::min(profile.steps.size(), static_cast<size_t>(capacity));
    for (size_t i = 0; i < reported; ++i) {
      const tw::runtime::StepTime& time = profile.steps[i];
      steps[i] = {info[static_cast<size_t>(time.step)].name.c_str(), time.begin_ns, time.end_ns};
    }
    *step_count = static_cast<int32_t>(profile.steps.size());
    return {};
  });
}

tw_status tw_model_call(const tw_model* model, const tw_buffer* buffers, int32_t count,
                        int32_t threads) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_call", "model"));
    TW_RETURN_IF_ERROR(require(buffers, "tw_model_call", "buffers"));
    TW_TRY(const auto converted, buffers_from(buffers, count, "tw_model_call"));
    return model->model.call(converted, model->session->pool(), threads);
  });
}

tw_status tw_model_call_on(const tw_model* model, const tw_buffer* buffers, int32_t count,
                           void* stream) {
  return guarded([&]() -> Status {
    TW_RETURN_IF_ERROR(require(model, "tw_model_call_on", "model"));
    TW_RETURN_IF_ERROR(require(buffers, "tw_model_call_on", "buffers"));
    TW_TRY(const auto arrays, device_arrays_from(buffers, count, "tw_model_call_on"));
    return model->model.call_on(arrays, stream);
  });
}
