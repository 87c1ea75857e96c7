// SPDX-License-Identifier: Apache-2.0
#pragma once
// Verification of one kernel, before it is timed. Runs in a worker (processes/sandbox.h): a kernel
// that strays into a guard or writes to an input ends the worker, and the parent reads the fault.

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

/// Inputs in the layouts that kernels asked for, kept for the next ones that do: packing and the
/// page faults of new memory cost more than a call. They are read-only for good, so no kernel can
/// change what another one is given. What was not asked for longest goes first.
class PackedInputs {
 public:
  /// The array must outlive its entries: clear() before it goes.
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
  std::list<Entry> entries_;  ///< the latest first
};

/// Inputs that a kernel's buffers take from PackedInputs: all, or those whose values are constant.
enum class SharedInputs { All, Constants };

/// Storage-layout buffers of a kernel, guarded, with the packed inputs of one fill. Packed and
/// unpacked here, by the layout's definition. Those of a preparation are computed by prepare().
class KernelBuffers {
 public:
  /// With inputs of its own where `packed` is none: only these can be made writable.
  static Result<KernelBuffers> make(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                    const dsl::Arrays& inputs, BufferOptions options,
                                    PackedInputs* packed, SharedInputs shared = SharedInputs::All);
  /// Fills the buffers of the kernel's preparation with the pattern, computes them by its own code,
  /// and makes them read-only. Backwards: on one thread, tasks in reverse order. Invalid if the
  /// code writes outside of them.
  Status prepare(const runtime::Kernel& kernel, Poison poison, runtime::ThreadPool& pool,
                 int threads, bool backwards = false);
  /// One for each of runtime::call_buffers().
  std::vector<void*> pointers() const;
  Bytes bytes(size_t argument) const {
    return {buffers_[argument]->data(), buffers_[argument]->size()};
  }
  void poison_outputs(const runtime::Kernel& kernel, Poison pattern);
  Status make_writable(size_t argument) { return own_[argument]->make_writable(); }
  /// Unpacks every output; an error names one whose canaries were touched.
  Result<dsl::Arrays> outputs(const runtime::Kernel& kernel) const;
  /// The memory of the prepared buffers.
  std::vector<Bytes> prepared() const;

 private:
  std::vector<dsl::Layout> layouts_;
  std::vector<std::shared_ptr<GuardedBuffer>> own_;  ///< null for an input that is shared
  std::vector<std::shared_ptr<const GuardedBuffer>> buffers_;
  std::vector<std::shared_ptr<GuardedBuffer>> prepared_;
};

/// The inputs of a kernel by their roles in a network; makes the activations writable.
Result<Roles> roles_of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                       KernelBuffers& buffers);

/// The conversions that each call of a kernel makes if dsl::keeps_arrays() is true of its workload.
/// There are none for other workloads, and none of arrays that the user keeps in layouts of his own
/// (Workload::layouts). Inputs are borrowed.
class Conversions {
 public:
  /// Makes the inputs that a call packs writable in `buffers`.
  static Result<Conversions> of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                const dsl::Arrays& inputs, KernelBuffers& buffers);
  /// One call as its user makes it: packs, runs, unpacks.
  Status call(const runtime::Kernel& kernel, std::span<void* const> storage,
              runtime::ThreadPool& pool, int threads);

 private:
  std::vector<std::pair<int, const dsl::Array*>> inputs_;  ///< argument and the user's array
  std::vector<std::pair<int, dsl::Array>> outputs_;
};

/// Three runs: integers on one thread, guards before the data; N(0, 1) on all threads, guards
/// behind them; and that again, bit by bit the same, with the tasks in reverse on one thread.
/// Outputs, scratch memory and the stack hold other poison before each.
Verdict verify(const runtime::Kernel& kernel, const dsl::Workload& workload,
               const Reference& reference, PackedInputs& packed, runtime::ThreadPool& pool,
               int threads);

}  // namespace tw::tuner
