// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles CUDA C++ to code for GPUs through NVRTC: the compiler of the CUDA toolkit as a library,
// which needs neither a GPU nor a driver. The library is opened when code is generated, so programs
// that only run kernels do not need it. Const calls are thread-safe. A compilation takes 20 ms to
// seconds and cannot be stopped, so run it in a process that can be.
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
  /// Directories in which to search for libnvrtc first. Programs pass $CUDA_HOME/lib64 and
  /// $CUDA_PATH/lib64, if set.
  std::vector<std::string> directories = {};
  /// True: search nvrtc_places() after `directories`.
  bool usual_places = true;
};

/// Returns the default places of the library: "" for the loader's search path,
/// /usr/local/cuda/lib64, and nvidia/cu13/lib of the Python package in a .venv. The .venv is looked
/// for in every directory above this program, and in the checkout in which the program was built.
std::vector<std::string> nvrtc_places();

/// Resources of a __global__ function as ptxas reports them. Bytes are per thread, except for
/// shared memory, which is per block.
struct CudaFunctionFacts {
  std::string name = {};
  int registers = 0;
  int64_t stack_bytes = 0;  ///< local arrays and spilled registers
  int64_t spill_store_bytes = 0;
  int64_t spill_load_bytes = 0;
  int64_t shared_bytes = 0;  ///< static shared memory, without `extern __shared__`
};

struct CudaCode {
  runtime::DeviceCode code;  ///< `text` is PTX if it was asked for, else empty
  std::vector<CudaFunctionFacts> functions;
  std::vector<std::string> advice = {};  ///< result of parse_ptxas_advice()
};

class Nvrtc {
 public:
  /// Opens the library: searches all places for libnvrtc.so.13, then all places for libnvrtc.so.12.
  /// Environment: there is none.
  static Result<Nvrtc> open(const NvrtcOptions& options = {});

  /// The library that was opened: a path, or a name that the loader looks up.
  const std::string& path() const;
  /// Version of the library's toolkit: 1000 * major + 10 * minor.
  int version() const;
  /// Architectures that the library compiles for: "sm_80", ..., "sm_90", "sm_90a", ...
  const std::vector<std::string>& architectures() const;

  /// Compiles C++17 text without headers to a cubin. With `ptx`, also gives PTX, which drivers
  /// compile for GPUs newer than the cubin's; do not ask for PTX for architectures that end in a
  /// letter. Unsupported: `architecture` is not one of architectures(), or the compiler crashes.
  /// Invalid: the text does not compile; the message has the first lines of the compiler's.
  Result<CudaCode> compile(const std::string& text, const std::string& architecture,
                           bool ptx = false) const;

 private:
  struct Library;
  explicit Nvrtc(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

  std::shared_ptr<const Library> library_;
};

/// Returns the advisory messages in ptxas's log: they say that it changed, added or ignored
/// instructions. Of each code, such as C7508, only the first message is returned: "C7508: Potential
/// Performance Loss: 'setmaxnreg' ignored; ...". Line numbers in the messages refer to the PTX.
std::vector<std::string> parse_ptxas_advice(std::string_view log);

/// True if an advisory message says that a kernel lacks the property that makes its schedule fast:
/// wgmma instructions are serialized, or registers are not moved to the warpgroups that need them.
bool is_loss(std::string_view advice);

/// Returns the functions in the log of --ptxas-options=-v, in the order of the log.
std::vector<CudaFunctionFacts> parse_ptxas_log(std::string_view log);

}  // namespace tw::codegen
