// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of CUDA's driver interface (cuda.h, which only toolkits have) that is called here. Names
// are those of the symbols, `_v2` included, which keep their meaning for ever. For cuda_device.cpp
// and for what stands in for a driver in tests.

#include <cstddef>
#include <cstdint>

namespace tw::runtime::cuda {

using Result = int;    // CUresult
using Device = int;    // CUdevice
using Handle = void*;  // CUcontext, CUmodule, CUfunction, CUstream, CUevent, CUgraph, CUgraphExec
using Address = unsigned long long;  // CUdeviceptr

enum : Result {
  Success = 0,
  OutOfMemory = 2,
  Deinitialized = 4,
  StubLibrary = 34,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  NvlinkUncorrectable = 220,
  UnsupportedPtxVersion = 222,
  Contained = 226,
  NotFound = 500,
  IllegalAddress = 700,
  LaunchTimeout = 702,
  ContextIsDestroyed = 709,
  Assert = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  TensorMemoryLeak = 721,
  SystemDriverMismatch = 803,
};

enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  WarpSize = 10,
  Multiprocessors = 16,
  ComputeMode = 20,
  L2Bytes = 38,
  MaxThreadsPerMultiprocessor = 39,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  SharedBytesPerMultiprocessor = 81,
  RegistersPerMultiprocessor = 82,
  SharedBytesPerBlockOptIn = 97,
};
inline constexpr int compute_mode_prohibited = 2;

enum FunctionAttribute : int {
  FunctionMaxThreads = 0,
  FunctionSharedBytes = 1,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionMaxDynamicSharedBytes = 8,
};

enum JitOption : int { JitErrorLog = 5, JitErrorLogBytes = 6 };

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr int capture_relaxed = 2;

#define TW_CUDA_FUNCTIONS(X)                                                                      \
  X(cuGetErrorName, Result, const char**)                                                         \
  X(cuGetErrorString, Result, const char**)                                                       \
  X(cuInit, unsigned)                                                                             \
  X(cuDriverGetVersion, int*)                                                                     \
  X(cuDeviceGetCount, int*)                                                                       \
  X(cuDeviceGet, Device*, int)                                                                    \
  X(cuDeviceGetName, char*, int, Device)                                                          \
  X(cuDeviceGetAttribute, int*, int, Device)                                                      \
  X(cuDeviceTotalMem_v2, size_t*, Device)                                                         \
  X(cuDevicePrimaryCtxRetain, Handle*, Device)                                                    \
  X(cuDevicePrimaryCtxRelease_v2, Device)                                                         \
  X(cuCtxPushCurrent_v2, Handle)                                                                  \
  X(cuCtxPopCurrent_v2, Handle*)                                                                  \
  X(cuMemAlloc_v2, Address*, size_t)                                                              \
  X(cuMemFree_v2, Address)                                                                        \
  X(cuMemcpyHtoDAsync_v2, Address, const void*, size_t, Handle)                                   \
  X(cuMemcpyDtoHAsync_v2, void*, Address, size_t, Handle)                                         \
  X(cuMemsetD8Async, Address, unsigned char, size_t, Handle)                                      \
  X(cuModuleLoadDataEx, Handle*, const void*, unsigned, int*, void**)                             \
  X(cuModuleUnload, Handle)                                                                       \
  X(cuModuleGetFunction, Handle*, Handle, const char*)                                            \
  X(cuFuncGetAttribute, int*, int, Handle)                                                        \
  X(cuFuncSetAttribute, Handle, int, int)                                                         \
  X(cuLaunchKernel, Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    Handle, void**, void**)                                                                       \
  X(cuStreamCreate, Handle*, unsigned)                                                            \
  X(cuStreamDestroy_v2, Handle)                                                                   \
  X(cuStreamSynchronize, Handle)                                                                  \
  X(cuStreamBeginCapture_v2, Handle, int)                                                         \
  X(cuStreamEndCapture, Handle, Handle*)                                                          \
  X(cuGraphInstantiateWithFlags, Handle*, Handle, unsigned long long)                             \
  X(cuGraphUpload, Handle, Handle)                                                                \
  X(cuGraphLaunch, Handle, Handle)                                                                \
  X(cuGraphExecDestroy, Handle)                                                                   \
  X(cuGraphDestroy, Handle)                                                                       \
  X(cuEventCreate, Handle*, unsigned)                                                             \
  X(cuEventDestroy_v2, Handle)                                                                    \
  X(cuEventRecord, Handle, Handle)                                                                \
  X(cuEventElapsedTime, float*, Handle, Handle)

struct Driver {
#define X(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  TW_CUDA_FUNCTIONS(X)
#undef X
  /// Since CUDA 12.4; null in older drivers.
  Result (*cuFuncGetParamInfo)(Handle, size_t, size_t*, size_t*) = nullptr;
};

}  // namespace tw::runtime::cuda
