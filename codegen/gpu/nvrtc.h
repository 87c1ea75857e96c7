// SPDX-License-Identifier: Apache-2.0
#pragma once
// CUDA C++ -> code for GPUs, through NVRTC: the compiler of the CUDA toolkit as a library, which
// needs neither a GPU nor a driver. It is opened when code is generated; programs that only run
// kernels never need it. Const calls are thread-safe. A compilation takes 20 ms to seconds and
// cannot be stopped: it belongs in a process that can.
//
//     TW_TRY(const Nvrtc nvrtc, Nvrtc::open({.directories = {cuda_home + "/lib64"}}));
//     TW_TRY(const CudaCode gemm, nvrtc.compile(text, "sm_90a"));
//     TW_TRY(const runtime::DeviceModule module, device->load(gemm.code));

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/device.h"

namespace tw::codegen {

struct NvrtcOptions {
  /// Directories to search for libnvrtc first: $CUDA_HOME/lib64 and $CUDA_PATH/lib64, if set.
  std::vector<std::string> directories = {};
  /// True: search nvrtc_places() after `directories`.
  bool usual_places = true;
};

/// Default places of the library: "" for the loader's search path, /usr/local/cuda/lib64, and
/// nvidia/cu13/lib of the Python package in the .venv of a directory above this program or of the
/// checkout that it was built in.
std::vector<std::string> nvrtc_places();

/// Resources of a __global__ function as ptxas reports them. Bytes are per thread, except for
/// shared memory, which is per block.
struct CudaFunctionFacts {
  std::string name = {};
  int registers = 0;
  int64_t stack_bytes = 0;  ///< arrays that are not in registers, and what is spilled
  int64_t spill_store_bytes = 0;
  int64_t spill_load_bytes = 0;
  int64_t shared_bytes = 0;  ///< without `extern __shared__`
};

struct CudaCode {
  runtime::DeviceCode code;  ///< `text` is PTX, where it was asked for
  std::vector<CudaFunctionFacts> functions;
  std::vector<std::string> advice = {};  ///< of parse_ptxas_advice()
};

class Nvrtc {
 public:
  /// The first of: libnvrtc.so.13 in each place, then libnvrtc.so.12. Environment: there is none.
  static Result<Nvrtc> open(const NvrtcOptions& options = {});

  /// The library that was opened: a path, or a name that the loader looks up.
  const std::string& path() const;
  /// Version of its toolkit: 1000 * major + 10 * minor.
  int version() const;
  /// Architectures that it compiles for: "sm_80", ..., "sm_90", "sm_90a", ...
  const std::vector<std::string>& architectures() const;

  /// Compiles C++17 without headers. With `ptx`, also gives PTX, which drivers compile for GPUs
  /// that are younger than the binary's; not for architectures that end in a letter.
  /// Unsupported: the architecture is not one of architectures(), or the compiler breaks down.
  /// Invalid: the text does not compile, with the first lines of what the compiler said.
  Result<CudaCode> compile(const std::string& text, const std::string& architecture,
                           bool ptx = false) const;

 private:
  struct Library;
  explicit Nvrtc(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

  std::shared_ptr<const Library> library_;
};

/// Advisory messages of ptxas in the log about instructions that it changed, added or ignored, the
/// first message of each code: "C7508: Potential Performance Loss: 'setmaxnreg' ignored; ...". Line
/// numbers in the messages refer to the PTX.
std::vector<std::string> parse_ptxas_advice(std::string_view log);

/// True if an advisory message says that a kernel lacks the property that makes its schedule fast:
/// wgmma instructions are serialized, or registers are not moved to the warpgroups that need them.
bool is_loss(std::string_view advice);

/// The functions that the log of --ptxas-options=-v names, in its order.
std::vector<CudaFunctionFacts> parse_ptxas_log(std::string_view log);

}  // namespace tw::codegen
