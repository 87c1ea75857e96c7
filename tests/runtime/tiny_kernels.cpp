// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/tiny_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

namespace tw::runtime {
namespace {

constexpr std::string_view kMatvec = R"(
#include <stdint.h>
int32_t rows(void* const* buffers, void* scratch, int32_t task) {
  const float* a = buffers[0];
  const float* x = buffers[1];
  float sum = 0;
  for (int j = 0; j < 5; ++j) sum += a[task * 5 + j] * x[j];
  ((float*)scratch)[task] = sum;
  return (uintptr_t)scratch % 64 == 0 ? 0 : 1;
}
int32_t store(void* const* buffers, void* scratch, int32_t task) {
  float* y = buffers[2];
  for (int i = 0; i < 16; ++i) y[task * 16 + i] = ((float*)scratch)[task * 16 + i];
  return 0;
})";

constexpr std::string_view kMatvecOpenCl = R"(
__kernel void rows(__global const float* a, __global const float* x, __global float* y,
                   __global float* scratch) {
  const int row = get_global_id(0);
  float sum = 0;
  for (int j = 0; j < 5; ++j) sum += a[row * 5 + j] * x[j];
  scratch[row] = sum;
}
__kernel void store(__global const float* a, __global const float* x, __global float* y,
                    __global float* scratch) {
  y[63 - get_global_id(0)] = scratch[63 - get_global_id(0)];
})";

constexpr std::string_view kBlocked = R"(
#include <stdint.h>
int32_t twice(void* const* buffers, void* scratch, int32_t task) {
  const float* x = buffers[0];
  float* y = buffers[1];
  for (int i = 0; i < 12; ++i) y[task * 12 + i] = 2 * x[task * 12 + i];
  return scratch == 0 ? 0 : 1;
}
int32_t pack_blocks(void* const* buffers, void* scratch, int32_t row) {
  const float* logical = buffers[0];
  float* storage = buffers[1];
  for (int j = 0; j < 8; ++j)
    storage[j / 4 * 12 + row * 4 + j % 4] = j < 5 ? logical[row * 5 + j] : 0;
  return 0;
}
int32_t unpack_blocks(void* const* buffers, void* scratch, int32_t row) {
  const float* storage = buffers[0];
  float* logical = buffers[1];
  for (int j = 0; j < 5; ++j) logical[row * 5 + j] = storage[j / 4 * 12 + row * 4 + j % 4];
  return 0;
})";

constexpr std::string_view kPrepared = R"(
#include <stdint.h>
int32_t squares(void* const* buffers, void* scratch, int32_t task) {
  const float* w = buffers[0];
  ((float*)scratch)[task] = w[task] * w[task];
  return (uintptr_t)scratch % 64 == 0 ? 0 : 1;
}
int32_t more(void* const* buffers, void* scratch, int32_t task) {
  float* u = buffers[1];
  u[3 - task] = ((float*)scratch)[3 - task] + 1;
  return 0;
}
int32_t scale(void* const* buffers, void* scratch, int32_t task) {
  const float* x = buffers[0];
  float* y = buffers[2];
  const float* u = buffers[3];
  y[task] = x[task] * u[task];
  return 0;
})";

constexpr std::string_view kPreparedOpenCl = R"(
__kernel void squares(__global const float* w, __global float* u, __global float* scratch) {
  scratch[get_global_id(0)] = w[get_global_id(0)] * w[get_global_id(0)];
}
__kernel void more(__global const float* w, __global float* u, __global float* scratch) {
  u[3 - get_global_id(0)] = scratch[3 - get_global_id(0)] + 1;
}
__kernel void scale(__global const float* x, __global const float* w, __global float* y,
                    __global const float* u, __global float* scratch) {
  y[get_global_id(0)] = x[get_global_id(0)] * u[get_global_id(0)];
})";

constexpr std::string_view kCopy = R"(
#include <stdint.h>
int32_t copy(void* const* buffers, void* scratch, int32_t task) {
  ((float*)buffers[1])[task] = ((const float*)buffers[0])[task];
  return 0;
}
int32_t fail_in_3(void* const* buffers, void* scratch, int32_t task) {
  return task == 3 ? 7 : 0;
})";

ArgumentInfo argument(std::string name, std::vector<int64_t> shape, bool is_output) {
  ArgumentInfo result;
  result.name = std::move(name);
  result.is_output = is_output;
  result.shape = std::move(shape);
  result.storage_elements = 1;
  for (const int64_t extent : result.shape) result.storage_elements *= extent;
  return result;
}

KernelInfo named(std::string workload) {
  KernelInfo info;
  info.workload = std::move(workload);
  info.schedule = "tw1\n";
  info.target = plain_target();
  info.toolchain = "cc";
  info.codegen_abi = current_codegen_abi;
  return info;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "tw-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  path_ = path;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::operator/(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::string compile_c(std::string_view source) {
  const TemporaryDirectory directory;
  write_bytes(directory / "kernel.c", source);
  const std::string command = fmt::format("{} -shared -fPIC -nostdlib -O1 -o {} {}", TW_TEST_CC,
                                          directory / "kernel.so", directory / "kernel.c");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return read_bytes(directory / "kernel.so");
}

std::string plain_target() {
  Target target;
  target.architecture = host_target().architecture;
  return target.to_string();
}

Artifact matvec_artifact() {
  KernelInfo info = named("matvec(a[64,5],x[5])");
  info.arguments = {argument("a", {64, 5}, false), argument("x", {5}, false),
                    argument("y", {64}, true)};
  info.phases = {{"rows", 64}, {"store", 4}};
  info.scratch_bytes = 64 * 4;
  info.flops = 640;
  return {info, compile_c(kMatvec)};
}

Artifact matvec_for_opencl() {
  Artifact artifact = matvec_artifact();
  artifact.info.target = "opencl";
  artifact.info.phases = {{"rows", 4, 16, 0}, {"store", 2, 32, 0}};
  artifact.object = kMatvecOpenCl;
  return artifact;
}

Artifact matvec_for_cuda(const std::string& architecture) {
  Artifact artifact = matvec_for_opencl();
  artifact.info.target = "cuda:" + architecture;
  artifact.info.toolchain = "nvrtc-13.0";
  artifact.object = cubin(std::atoi(architecture.c_str() + 3));
  return artifact;
}

std::map<std::string, FakeKernel> matvec_for_fake_cuda() {
  const auto rows = [](void* const* arguments) {
    const auto *a = static_cast<const float*>(arguments[0]),
               *x = static_cast<const float*>(arguments[1]);
    auto* scratch = static_cast<float*>(arguments[3]);
    for (int row = 0; row < 64; ++row)
      scratch[row] = std::inner_product(x, x + 5, a + 5 * row, 0.0F);
  };
  const auto store = [](void* const* arguments) {
    std::copy_n(static_cast<const float*>(arguments[3]), 64, static_cast<float*>(arguments[2]));
  };
  return {{"rows", {4, rows}}, {"store", {4, store}}};
}

Matvec Matvec::make() {
  Matvec result{std::vector<float>(320), {0, 1, 2, 3, 4}, std::vector<float>(64)};
  for (size_t i = 0; i < result.a.size(); ++i) result.a[i] = static_cast<float>(i % 7);
  for (size_t row = 0; row < 64; ++row)
    result.y[row] = std::inner_product(result.x.begin(), result.x.end(),
                                       result.a.begin() + static_cast<long>(5 * row), 0.0F);
  return result;
}

std::vector<Buffer> Matvec::arrays(std::vector<float>& to) {
  return {{a.data(), Float32, {64, 5}}, {x.data(), Float32, {5}}, {to.data(), Float32, {64}}};
}

Artifact blocked_artifact() {
  KernelInfo info = named("twice(x[3,5])");
  info.arguments = {argument("x", {3, 5}, false), argument("y", {3, 5}, true)};
  for (ArgumentInfo& each : info.arguments) {
    each.layout = "n1 n0 n1%4";
    each.storage_elements = 24;
    each.pack = each.is_output ? "unpack" : "pack";
  }
  info.phases = {{"twice", 2}};
  info.packs = {{"pack", {{"pack_blocks", 3}}}, {"unpack", {{"unpack_blocks", 3}}}};
  return {info, compile_c(kBlocked)};
}

Artifact prepared_artifact() {
  KernelInfo info = named("prepared(x[4],w[4])");
  info.arguments = {argument("x", {4}, false), argument("w", {4}, false), argument("y", {4}, true)};
  info.arguments[1].only_prepares = true;
  info.phases = {{"scale", 4}};
  info.preparation = PreparationInfo{.inputs = {1},
                                     .buffers = {argument("u", {4}, false)},
                                     .phases = {{"squares", 4}, {"more", 4}},
                                     .scratch_bytes = 16};
  return {info, compile_c(kPrepared)};
}

Artifact prepared_for_opencl() {
  Artifact artifact = prepared_artifact();
  artifact.info.target = "opencl";
  artifact.info.phases = {{"scale", 2, 2, 0}};
  artifact.info.preparation->phases = {{"squares", 1, 4, 0}, {"more", 4, 1, 0}};
  artifact.object = kPreparedOpenCl;
  return artifact;
}

Artifact failing_artifact() {
  KernelInfo info = named("fails");
  info.arguments = {argument("x", {4}, false), argument("y", {4}, true)};
  info.phases = {{"copy", 4}, {"fail_in_3", 8}};
  return {info, compile_c(kCopy)};
}

Artifact copy_artifact(int64_t scratch_bytes) {
  KernelInfo info = named("copy(x[4])");
  info.arguments = {argument("x", {4}, false), argument("y", {4}, true)};
  info.phases = {{"copy", 4}};
  info.scratch_bytes = scratch_bytes;
  return {info, compile_c(kCopy)};
}

}  // namespace tw::runtime
