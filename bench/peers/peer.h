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
  /// Makes a contender for each form in which the library offers the workload of the setup. Forms
  /// differ in layouts or algorithm; the fastest one is compared. `item` is the workload's name.
  /// Fails with Unsupported if the library does not offer the workload, or if this program does not
  /// support that.
  std::function<Result<std::vector<std::unique_ptr<Contender>>>(const std::string& item,
                                                                const Setup& setup)>
      make;
  /// True if the library reads and writes row-major arrays. Then the time of our kernel includes
  /// packing and unpacking.
  bool row_major = false;
  /// True if the library cannot change its number of threads after its first use. Then all rows of
  /// a process must have the same number of threads.
  bool keeps_threads = false;
};

Peer onednn_peer();
Peer halide_peer();
Peer ggml_peer();

/// These functions return libraries of NVIDIA as peers. They fail with Environment if the library
/// is neither in the directories nor in the loader's search path.
Result<Peer> cublas_peer(const std::vector<std::string>& directories);
Result<Peer> cudnn_peer(const std::vector<std::string>& directories);

/// Finds the peer of this name, among the peers for GPUs if `on_gpu`, else among those for
/// processors. Fails with Usage if the name is unknown; the message lists the names. Fails with
/// Environment if the program was built without the library, or if the library cannot be opened.
Result<Peer> find_peer(std::string_view name, bool on_gpu,
                       const std::vector<std::string>& directories);

/// Checks that a workload has no epilogue. Otherwise fails with Unsupported and a message that
/// names the peer.
Status check_no_epilogue(std::string_view peer, const dsl::Workload& workload);

/// Returns the elements of an array with the last two dimensions exchanged. `shape` is the shape
/// before the exchange, and an element has `element_bytes` bytes.
std::vector<std::byte> swapped(const std::vector<std::byte>& elements,
                               const std::array<int64_t, 3>& shape, size_t element_bytes);

}  // namespace tw::bench
