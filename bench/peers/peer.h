// SPDX-License-Identifier: Apache-2.0
#pragma once
// The libraries that kernels are compared with. The libraries for the processor that are found when
// the program is built are part of it; those for GPUs are opened when they are needed.

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
  /// The forms (layouts, algorithms) in which the library offers a workload; the fastest one
  /// counts. `item` is the workload's name. Fails with Unsupported if the library or this program
  /// has none.
  std::function<Result<std::vector<std::unique_ptr<Contender>>>(const std::string& item,
                                                                const Setup& setup)>
      make;
  /// The library takes and returns row-major arrays, so our packing is part of our time.
  bool row_major = false;
  /// The library keeps the number of threads with which it starts, so all rows of a process have
  /// the same number.
  bool keeps_threads = false;
};

Peer onednn_peer();
Peer halide_peer();
Peer ggml_peer();

/// cuBLAS as a peer. Fails with Environment if the library is neither in the directories nor in the
/// loader's search path.
Result<Peer> cublas_peer(const std::vector<std::string>& directories);
Result<Peer> cudnn_peer(const std::vector<std::string>& directories);

/// Finds a peer for a GPU or for the processor. Fails with Usage, listing the names, for an unknown
/// one, and with Environment if the program was built without it or it cannot be opened.
Result<Peer> find_peer(std::string_view name, bool on_gpu,
                       const std::vector<std::string>& directories);

/// Fails with Unsupported, naming the peer, for a workload with an epilogue.
Status check_no_epilogue(std::string_view peer, const dsl::Workload& workload);

/// The array with the last two dimensions of the shape exchanged; its elements have
/// `element_bytes` bytes.
std::vector<std::byte> swapped(const std::vector<std::byte>& elements,
                               const std::array<int64_t, 3>& shape, size_t element_bytes);

}  // namespace tw::bench
