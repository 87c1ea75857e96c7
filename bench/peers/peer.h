// SPDX-License-Identifier: Apache-2.0
#pragma once
// Peers are the libraries with which kernels are compared. Libraries for the processor are linked
// if they are found when the program is built; libraries for GPUs are opened at run time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/peers/contender.h"

namespace tw::bench {

struct Peer {
  std::string name, version;
  /// Makes one contender for each form (layouts, algorithm) in which the library offers a workload;
  /// the fastest form counts. `item` is the workload's name. Unsupported if the library does not
  /// offer the workload or this program does not know how to call it.
  std::function<Result<std::vector<std::unique_ptr<Contender>>>(const std::string& item,
                                                                const Setup& setup)>
      make;
  /// True: the library takes and returns row-major arrays, so our packing is part of our time.
  bool row_major = false;
  /// True: the library keeps the number of threads with which it starts, so all rows of a process
  /// have the same number.
  bool keeps_threads = false;
};

Peer onednn_peer();
Peer halide_peer();
Peer ggml_peer();

/// cuBLAS as a peer. Environment if the library is neither in the directories nor in the loader's
/// search path.
Result<Peer> cublas_peer(const std::vector<std::string>& directories);
Result<Peer> cudnn_peer(const std::vector<std::string>& directories);

/// Finds the peer of this name for a GPU or for the processor. Usage, listing the names, for an
/// unknown name; Environment if the program was built without the library or the library cannot be
/// opened.
Result<Peer> find_peer(std::string_view name, bool on_gpu,
                       const std::vector<std::string>& directories);

/// Checks that a workload has no epilogue. Unsupported, naming the peer, if it has one.
Status check_no_epilogue(std::string_view peer, const dsl::Workload& workload);

/// Transposes the last two dimensions of an array. `shape` is the shape before; each element has
/// `element_bytes` bytes.
std::vector<std::byte> swapped(const std::vector<std::byte>& elements,
                               const std::array<int64_t, 3>& shape, size_t element_bytes);

}  // namespace tw::bench
