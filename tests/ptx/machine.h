// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of a running block: its threads with their registers, its shared memory, and the copies
// under way. Instructions change this state. They throw a Fault if PTX leaves the effect undefined;
// run() turns a Fault into an error that names the thread and the line.

#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/ptx/module.h"
#include "tests/ptx/shared_memory.h"

namespace tw::ptx {

struct Block;

enum class Waiting : uint8_t { No, Together, Barrier, Mbarrier, Done };

/// The stamp of a register that a wgmma still accumulates into.
inline constexpr uint32_t in_flight_stamp = 0xffffffff;

/// A part of shared memory that a copy or an instruction uses.
struct Range {
  int64_t at = 0, bytes = 0;
};

/// A cp.async for which its thread has not waited yet.
struct PendingCopy {
  Range to;
  std::vector<std::byte> content;
};

struct Thread {
  Block* block = nullptr;
  int index = 0;
  size_t pc = 0;
  Waiting waiting = Waiting::No;
  const Instruction* at = nullptr;  ///< the instruction that it waits to execute with other threads
  int barrier = 0;                  ///< the barrier at which it waits
  std::vector<uint64_t> registers;
  /// For each register, the value of `fences` when the register was written, or in_flight_stamp.
  /// `fences` counts the wgmma.fence instructions of the thread.
  std::vector<uint32_t> stamps;
  uint32_t fences = 1;
  bool has_wgmma_in_flight = false;
  std::vector<std::byte> local;
  std::deque<std::vector<PendingCopy>> copy_groups;  ///< committed, oldest first
  std::vector<PendingCopy> copies;                   ///< not yet committed
  const Instruction* tried = nullptr;                ///< the try_wait that failed last
  uint32_t step = 0;  ///< number of times that it has made its accesses visible to others

  uint64_t read(const Operand& operand) const {
    if (operand.kind == Operand::Kind::Immediate) return static_cast<uint64_t>(operand.value);
    const auto reg = static_cast<size_t>(operand.reg);
    if (has_wgmma_in_flight && stamps[reg] == in_flight_stamp)
      throw Fault("reads an accumulator before wgmma.wait_group");
    return registers[reg];
  }
  bool read_predicate(const Operand& operand) const {
    return (read(operand) != 0) != operand.is_negated;
  }
  /// Writes the low bits of the value. Writes nothing if the operand is `_`.
  void write(const Operand& operand, Type type, uint64_t value) {
    if (operand.kind == Operand::Kind::Sink) return;
    const auto reg = static_cast<size_t>(operand.reg);
    if (stamps[reg] == in_flight_stamp)
      throw Fault("writes an accumulator before wgmma.wait_group");
    const int bits = bits_of(type);
    registers[reg] = bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
    stamps[reg] = fences;
  }
  Accessor accessor() const { return {index, step}; }
};

/// The arguments of cuTensorMapEncodeTiled, in bytes and elements.
struct TensorMapFacts {
  uint64_t address = 0;
  int element_bytes = 1;
  int swizzle = 0;
  std::vector<int64_t> extents = {}, strides = {},
                       box = {};  ///< innermost first; the first stride is the size of an element
};

/// Decodes the 128 bytes of a kernel's parameter, which have the format of
/// tests/runtime/fake_cuda.h.
TensorMapFacts decode_tensor_map(const std::byte* parameter);

/// A TMA copy that has not arrived.
struct PendingBox {
  TensorMapFacts map;
  std::vector<int64_t> first;
  int64_t to = 0;
  int64_t mbarrier = 0;
};

struct Mbarrier {
  int64_t expected = 0, pending = 0, bytes = 0;
  int64_t phase = 0;
};

/// The state of a warpgroup's asynchronous matrix instructions.
struct WarpgroupState {
  struct Group {
    std::vector<Range> reads;
    std::vector<std::pair<int, int>> accumulators;  ///< thread and register
  };
  Group open;
  std::deque<Group> committed;
  int registers = 0;  ///< of a thread, as setmaxnreg left them
};

struct Block {
  const Kernel* kernel = nullptr;
  const Module* module = nullptr;
  int64_t index = 0;
  std::vector<Thread> threads;
  SharedMemory shared;
  std::vector<std::byte> parameters;
  std::span<const std::span<std::byte>> global;
  std::map<int64_t, Mbarrier> mbarriers;  ///< by address
  std::vector<PendingBox> boxes;
  std::vector<WarpgroupState> warpgroups;
  std::map<int, int> arrived;  ///< threads at each named barrier

  /// Returns the address of `bytes` of global memory. Throws a Fault if they are not inside of one
  /// array.
  std::byte* global_at(uint64_t address, int64_t bytes) const;
  WarpgroupState& warpgroup_of(const Thread& thread) {
    return warpgroups[static_cast<size_t>(thread.index / 128)];
  }
};

// Generic addresses: each memory other than global memory has a window.
inline constexpr uint64_t shared_window = uint64_t{1} << 56;
inline constexpr uint64_t local_window = uint64_t{2} << 56;
inline constexpr uint64_t parameter_window = uint64_t{3} << 56;

/// Completes a TMA copy: writes the box to shared memory and counts its bytes at the mbarrier.
void arrive(Block& block, const PendingBox& box);

}  // namespace tw::ptx
