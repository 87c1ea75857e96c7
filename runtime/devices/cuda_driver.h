// SPDX-License-Identifier: Apache-2.0
#pragma once
// Declares the functions of CUDA's driver interface that cuda.cpp calls and that the fake driver of
// the tests implements. The official header, cuda.h, comes only with CUDA toolkits. Members have
// the full names of the driver's symbols, such as cuMemAlloc_v2, because the meaning of a symbol
// never changes.

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
  X(cuMemsetD16Async, Address, unsigned short, size_t, Handle)                                    \
  X(cuModuleLoadDataEx, Handle*, const void*, unsigned, int*, void**)                             \
  X(cuModuleUnload, Handle)                                                                       \
  X(cuModuleGetFunction, Handle*, Handle, const char*)                                            \
  X(cuFuncGetAttribute, int*, int, Handle)                                                        \
  X(cuFuncSetAttribute, Handle, int, int)                                                         \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, int*, Handle, int, size_t)                       \
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

/// The same bytes as CUtensorMap of cuda.h.
struct alignas(128) TensorMap {
  unsigned long long words[16];
};
/// Values of CUtensorMapDataType for unsigned integers of 8, 16, 32 and 64 bits. Each is used for
/// every element type of its size, because copies do not interpret the bits.
enum TensorMapType : int { Bits8 = 0, Bits16 = 1, Bits32 = 2, Bits64 = 4 };
/// The values of CUtensorMapSwizzle.
enum TensorMapSwizzle : int { NoSwizzle = 0, Swizzle32 = 1, Swizzle64 = 2, Swizzle128 = 3 };
/// Values of CUtensorMapInterleave, CUtensorMapL2promotion and CUtensorMapFloatOOBfill.
inline constexpr int no_interleave = 0, promote_to_128_bytes = 2, fill_with_zeros = 0;

struct Driver {
#define X(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  TW_CUDA_FUNCTIONS(X)
#undef X
  /// Null if the driver is older than CUDA 12.4.
  Result (*cuFuncGetParamInfo)(Handle, size_t, size_t*, size_t*) = nullptr;
  /// Parameters: the map, type, rank, address, extents, strides in bytes, box, steps between the
  /// elements of a box, interleave, swizzle, promotion, fill. Null if the driver lacks the
  /// function.
  Result (*cuTensorMapEncodeTiled)(TensorMap*, int, unsigned, void*, const unsigned long long*,
                                   const unsigned long long*, const unsigned*, const unsigned*, int,
                                   int, int, int) = nullptr;
};

}  // namespace tw::runtime::cuda
