// SPDX-License-Identifier: Apache-2.0
#pragma once
// The artifact of a whole network, net.twart: kernels, packed constants, and the steps that call
// them. In a file it is
//
//     "TWNETF01" | u32 header length, little endian | JSON header | kernels | zeros | constants
//
// where each kernel is the bytes of an artifact (runtime/artifact.h), the header names the offset,
// the size and the SHA-256 of each part and its own, and the constants begin at a multiple of 4096
// bytes, each at a multiple of 64 from there, so that a loader maps them instead of reading them.
//
// Plain values and free functions; thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "runtime/artifact.h"

namespace tw::runtime {

/// Where the array of a tensor lies.
enum class Place {
  Input,     ///< the caller's array of this number
  Output,    ///< likewise
  Constant,  ///< in the file, packed for the kernels that read it
  Arena,     ///< in the memory of a call
};

/// One array that steps read or write.
struct ModelTensor {
  std::string name;
  DType dtype = Float32;
  std::vector<int64_t> shape;  ///< logical
  std::string layout;          ///< text as in ArgumentInfo; empty: row-major
  int64_t bytes = 0;           ///< in storage layout
  Place place = Place::Arena;
  int64_t at = 0;  ///< number of the input or output; offset in the constants or in the arena
  friend bool operator==(const ModelTensor&, const ModelTensor&) = default;
};

/// One call of a kernel.
struct ModelStep {
  std::string name;            ///< of the operator, or "tensor: NCHW -> NCHW16c"
  int kernel = 0;              ///< index into Model::kernels
  std::vector<int> arguments;  ///< tensors, one for each argument of the kernel
  int threads = 0;             ///< 0: all of the pool
  double predicted_ns = 0;
  friend bool operator==(const ModelStep&, const ModelStep&) = default;
};

struct ModelFile {
  std::string name;    ///< of the network
  std::string target;  ///< canonical text of a Target
  int64_t codegen_abi = 0;
  int threads = 1;  ///< that its kernels were chosen for
  std::vector<ModelTensor> tensors;
  std::vector<int> inputs, outputs;  ///< tensors that the caller gives arrays for, row-major
  std::vector<ModelStep> steps;      ///< in an order in which they can run
  int64_t arena_bytes = 0;           ///< memory of one call
  std::string plan;                  ///< for people: what was chosen and what it costs
  std::string graph;                 ///< text of the graph (graph/graph.h), for people and tools
  std::vector<Artifact> kernels;
  std::string constants;  ///< bytes; tensors say where in them
  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

/// Invalid, naming step or tensor, unless running it is safe: indices in range; the arguments of
/// each step agree with its kernel in type, shape, layout and bytes; every tensor is written before
/// it is read and not overwritten while it is needed; outputs of a step lie apart from its other
/// arguments; arrays inside of the constants and the arena, aligned to 64 bytes.
Status check_model(const ModelFile& model);

/// The bytes of the file, equal for equal models. Fails as check_model() does.
Result<std::string> model_bytes(const ModelFile& model);
Result<ModelFile> parse_model(std::string_view bytes);

/// As write_artifact() and read_artifact(): atomically, privately, trusted files only.
Status write_model(const std::string& path, const ModelFile& model);
Result<ModelFile> read_model(const std::string& path, Trust trust = Trust::Own,
                             const Target& machine = host_target());

/// Whether the file begins as a model's does.
bool is_model_file(const std::string& path);

}  // namespace tw::runtime
