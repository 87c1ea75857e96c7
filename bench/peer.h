// SPDX-License-Identifier: Apache-2.0
#pragma once
// The libraries that kernels are compared with. Of those of the processor, which are there was
// decided when this was built; those of GPUs are opened when they are asked for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/contender.h"

namespace tw::bench {

struct Peer {
  std::string name, version;
  /// A workload in the forms in which the library offers it, of which the fastest counts. `item` is
  /// the workload's name. Unsupported where the library or this program has none.
  std::function<Result<std::vector<std::unique_ptr<Contender>>>(const std::string& item,
                                                                const Setup& setup)>
      make;
  /// It takes and returns row-major arrays, so what we pack is part of our time.
  bool row_major = false;
};

Peer onednn_peer();
Peer halide_peer();

/// Environment: the library is in none of the directories, nor where the loader looks.
Result<Peer> cublas_peer(const std::vector<std::string>& directories);
Result<Peer> cudnn_peer(const std::vector<std::string>& directories);

/// One of a GPU's, or of the processor's. Usage with the names that there are, Environment where
/// this was built without it or it cannot be opened.
Result<Peer> find_peer(std::string_view name, bool on_gpu,
                       const std::vector<std::string>& directories);

/// Unsupported, naming the peer, for a workload with more than its product or convolution.
Status check_no_epilogue(std::string_view peer, const dsl::Workload& workload);

/// Elements of so many bytes with the last two dimensions of the shape exchanged.
std::vector<std::byte> swapped(const std::vector<std::byte>& elements,
                               const std::array<int64_t, 3>& shape, size_t element_bytes);

}  // namespace tw::bench
