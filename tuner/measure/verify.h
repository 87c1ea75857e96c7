// SPDX-License-Identifier: Apache-2.0
#pragma once
// Verifies a kernel before it is timed. Runs in a worker (processes/sandbox.h): a kernel that
// accesses a guard region or writes to an input ends the worker, and the parent reads the fault.

#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/layout.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "tuner/measure/cache_lines.h"
#include "tuner/measure/reference.h"
#include "tuner/measure/verdict.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {

/// Cache of inputs in the layouts that kernels asked for, because packing and the page faults of
/// new memory take longer than a call. The inputs stay read-only, so that no kernel can change the
/// inputs of another. The least recently used inputs are dropped first.
class PackedInputs {
 public:
  /// The array in that layout, from the cache or packed now. The array must outlive its entries:
  /// call clear() before the array is destroyed.
  Result<std::shared_ptr<const GuardedBuffer>> get(const dsl::Array& array,
                                                   const dsl::Layout& layout,
                                                   const std::string& layout_text,
                                                   const BufferOptions& options);
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    const dsl::Array* array;
    std::string layout;
    BufferOptions options;
    std::shared_ptr<const GuardedBuffer> buffer;
  };
  std::list<Entry> entries_;  ///< most recently used first
};

/// The inputs that a kernel's buffers share by PackedInputs: all of them, or only the constants.
enum class SharedInputs { All, Constants };

/// Guarded buffers of a kernel in the layouts of its arguments, with the inputs of one fill. Inputs
/// are packed and outputs unpacked here, by the definition of the layout. prepare() computes the
/// buffers of a preparation.
class KernelBuffers {
 public:
  /// Allocates the buffers. If `packed` is null, they have inputs of their own; only such inputs
  /// can be made writable.
  static Result<KernelBuffers> make(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                    const dsl::Arrays& inputs, BufferOptions options,
                                    PackedInputs* packed, SharedInputs shared = SharedInputs::All);
  /// Fills the buffers of the kernel's preparation with the pattern, runs the preparation, and
  /// makes the buffers read-only. With `backwards`, it runs on one thread with the tasks in reverse
  /// order. Invalid if the preparation writes outside of its buffers.
  Status prepare(const runtime::Kernel& kernel, Poison poison, runtime::ThreadPool& pool,
                 int threads, bool backwards = false);
  /// A pointer for each of runtime::call_buffers().
  std::vector<void*> pointers() const;
  Bytes bytes(size_t argument) const {
    return {buffers_[argument]->data(), buffers_[argument]->size()};
  }
  void poison_outputs(const runtime::Kernel& kernel, Poison pattern);
  Status make_writable(size_t argument) { return own_[argument]->make_writable(); }
  /// Unpacks every output. The error names an output whose canaries were overwritten.
  Result<dsl::Arrays> outputs(const runtime::Kernel& kernel) const;
  /// The memory of the buffers that the preparation computed.
  std::vector<Bytes> prepared() const;

 private:
  std::vector<dsl::Layout> layouts_;
  std::vector<std::shared_ptr<GuardedBuffer>> own_;  ///< null for an input that is shared
  std::vector<std::shared_ptr<const GuardedBuffer>> buffers_;
  std::vector<std::shared_ptr<GuardedBuffer>> prepared_;
};

/// The inputs of a kernel by their roles in a network. Makes the activations writable.
Result<Roles> roles_of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                       KernelBuffers& buffers);

/// The conversions between layouts that each call of a kernel makes if dsl::keeps_arrays() is true
/// of its workload; other workloads have none. Arrays that the user keeps in layouts of his own
/// (Workload::layouts) are not converted. Inputs are borrowed.
class Conversions {
 public:
  /// Makes those inputs in `buffers` writable that a call packs.
  static Result<Conversions> of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                const dsl::Arrays& inputs, KernelBuffers& buffers);
  /// Makes one call as a user makes it: packs the inputs, runs the kernel, and unpacks the outputs.
  Status call(const runtime::Kernel& kernel, std::span<void* const> storage,
              runtime::ThreadPool& pool, int threads);

 private:
  /// Index of the argument, and the user's array.
  std::vector<std::pair<int, const dsl::Array*>> inputs_;
  std::vector<std::pair<int, dsl::Array>> outputs_;
};

/// Verifies a kernel by three runs: on integers on one thread with guards before the data; on N(0,
/// 1) on all threads with guards behind the data; and on N(0, 1) on one thread with the tasks in
/// reverse order, which must give the same bits. Before each run, the outputs, the scratch memory
/// and the stack are filled with a different poison.
Verdict verify(const runtime::Kernel& kernel, const dsl::Workload& workload,
               const Reference& reference, PackedInputs& packed, runtime::ThreadPool& pool,
               int threads);

}  // namespace tw::tuner
