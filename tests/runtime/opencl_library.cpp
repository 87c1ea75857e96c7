// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/opencl_library.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

template <typename Function>
Function* function(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
#define CL(name) function<decltype(::name)>(#name)

cl_context context_of(void* context) { return static_cast<cl_context>(context); }

std::shared_ptr<void> memory_of(cl_context context, size_t bytes, const void* data) {
  cl_int code = CL_SUCCESS;
  const cl_mem_flags flags = CL_MEM_READ_WRITE | (data != nullptr ? CL_MEM_COPY_HOST_PTR : 0);
  const cl_mem memory = CL(clCreateBuffer)(context, flags, bytes, const_cast<void*>(data), &code);
  EXPECT_EQ(code, CL_SUCCESS);
  return {memory, [](void* m) { CL(clReleaseMemObject)(static_cast<cl_mem>(m)); }};
}

}  // namespace

void keep_pocl_cache_apart() {
  static const TemporaryDirectory cache;
  setenv("POCL_CACHE_DIR", cache.path().c_str(), 1);
}

OpenClLibrary::OpenClLibrary(void* queue) {
  const auto q = static_cast<cl_command_queue>(queue);
  CL(clGetCommandQueueInfo)(q, CL_QUEUE_CONTEXT, sizeof context_, &context_, nullptr);
  CL(clGetCommandQueueInfo)(q, CL_QUEUE_DEVICE, sizeof device_, &device_, nullptr);
}

std::shared_ptr<void> OpenClLibrary::make_queue(bool in_order) {
  cl_int code = CL_SUCCESS;
  const cl_command_queue queue =
      CL(clCreateCommandQueue)(context_of(context_), static_cast<cl_device_id>(device_),
                               in_order ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
  EXPECT_EQ(code, CL_SUCCESS);
  return {queue, [](void* q) { CL(clReleaseCommandQueue)(static_cast<cl_command_queue>(q)); }};
}

std::shared_ptr<void> OpenClLibrary::new_context() {
  cl_int code = CL_SUCCESS;
  auto device = static_cast<cl_device_id>(device_);
  const cl_context context = CL(clCreateContext)(nullptr, 1, &device, nullptr, nullptr, &code);
  EXPECT_EQ(code, CL_SUCCESS);
  return {context, [](void* c) { CL(clReleaseContext)(context_of(c)); }};
}

std::shared_ptr<void> OpenClLibrary::make_foreign_queue() {
  const auto context = new_context();
  OpenClLibrary other = *this;
  other.context_ = context.get();
  return other.make_queue();
}

std::shared_ptr<void> OpenClLibrary::make_memory(const std::vector<float>& numbers, size_t offset) {
  std::vector<float> all(offset, -1.0F);
  all.insert(all.end(), numbers.begin(), numbers.end());
  return memory_of(context_of(context_), all.size() * sizeof(float), all.data());
}

std::shared_ptr<void> OpenClLibrary::make_foreign_memory(size_t bytes) {
  const auto context = new_context();
  return memory_of(context_of(context.get()), bytes, nullptr);
}

std::vector<float> OpenClLibrary::read(void* queue, void* memory, size_t count, size_t offset) {
  std::vector<float> numbers(count);
  EXPECT_EQ(CL(clEnqueueReadBuffer)(static_cast<cl_command_queue>(queue),
                                    static_cast<cl_mem>(memory), CL_TRUE, offset * sizeof(float),
                                    count * sizeof(float), numbers.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  return numbers;
}

int OpenClLibrary::references(void* memory) {
  cl_uint count = 0;
  EXPECT_EQ(CL(clGetMemObjectInfo)(static_cast<cl_mem>(memory), CL_MEM_REFERENCE_COUNT,
                                   sizeof count, &count, nullptr),
            CL_SUCCESS);
  return static_cast<int>(count);
}

int64_t OpenClLibrary::alignment() {
  cl_uint bits = 0;
  CL(clGetDeviceInfo)
  (static_cast<cl_device_id>(device_), CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, nullptr);
  return bits / 8;
}

}  // namespace tw::runtime
