// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tests/ptx/instructions.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::ptx {
namespace {

constexpr int warp_threads = 32, warpgroup_threads = 128;
constexpr int64_t registers_of_multiprocessor = 65536, most_registers = 255;

/// Runs one block to its end.
class BlockRun {
 public:
  BlockRun(const Kernel& kernel, const Module& module, const Launch& launch, int64_t index,
           const RunOptions& options, int64_t& instructions)
      : options_(options), random_(options.seed), instructions_(instructions) {
    block_.kernel = &kernel;
    block_.module = &module;
    block_.index = index;
    block_.parameters = launch.parameters;
    block_.global = launch.global;
    const int64_t dynamic_at = (shared_base + kernel.shared_bytes + 1023) / 1024 * 1024;
    const int64_t end = launch.dynamic_shared_bytes > 0 ? dynamic_at + launch.dynamic_shared_bytes
                                                        : shared_base + kernel.shared_bytes;
    block_.shared = SharedMemory(shared_base, end - shared_base);
    block_.threads.resize(static_cast<size_t>(launch.threads));
    for (int i = 0; i < launch.threads; ++i) start(launch, i, dynamic_at);
    block_.warpgroups.resize(
        static_cast<size_t>((launch.threads + warpgroup_threads - 1) / warpgroup_threads));
    const auto registers = std::min(registers_of_block() / launch.threads / 8 * 8, most_registers);
    for (WarpgroupState& group : block_.warpgroups) group.registers = static_cast<int>(registers);
  }

  void run() {
    while (step()) {
    }
    check_end();
  }

  /// Returns the thread that ran last and its instruction, for messages.
  std::string where() const {
    const Thread* t = current_;
    const Instruction* i = t == nullptr ? nullptr : at_;
    return i == nullptr ? fmt::format("block {}", block_.index)
                        : fmt::format("block {}, thread {}, line {} ({})", block_.index, t->index,
                                      i->line, i->text);
  }

 private:
  void start(const Launch& launch, int index, int64_t dynamic_at) {
    Thread& t = block_.threads[static_cast<size_t>(index)];
    const auto count = static_cast<size_t>(block_.kernel->registers);
    t.block = &block_;
    t.index = index;
    t.registers.assign(count, 0);
    t.stamps.assign(count, 0);
    t.local.resize(static_cast<size_t>(block_.kernel->local_bytes));
    const auto set = [&](SpecialRegister name, int64_t value) {
      t.registers[name] = static_cast<uint64_t>(value);
    };
    set(TidX, index);
    set(NTidX, launch.threads);
    set(CtaX, block_.index);
    set(NCtaX, launch.blocks);
    for (const auto one : {NTidY, NTidZ, NCtaY, NCtaZ}) set(one, 1);
    set(LaneId, index % warp_threads);
    set(WarpId, index / warp_threads);
    set(DynamicShared, dynamic_at);
  }

  /// Lets every thread run until it waits. Returns false once all threads have ended. Throws a
  /// Fault if all others wait forever.
  bool step() {
    bool went_on = false;
    for (const size_t warp : ordered(warps())) {
      while (run_lanes(warp)) went_on = true;
    }
    went_on |= run_warpgroups();
    if (went_on) return true;
    if (!block_.boxes.empty()) return arrive_one();
    if (std::ranges::all_of(block_.threads, is_done)) return false;
    const auto stuck = std::ranges::find_if_not(block_.threads, is_done);
    current_ = &*stuck;
    at_ = stuck->at;
    throw Fault("waits for what never comes");
  }
  static bool is_done(const Thread& t) { return t.waiting == Waiting::Done; }

  size_t warps() const { return (block_.threads.size() + warp_threads - 1) / warp_threads; }

  std::vector<size_t> ordered(size_t count) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    if (options_.order == Order::Backward) std::ranges::reverse(order);
    if (options_.order == Order::Shuffled) random_.shuffle(order);
    return order;
  }

  std::vector<Thread*> threads_of(size_t group, size_t size) {
    std::vector<Thread*> threads;
    for (size_t i = group * size; i < std::min((group + 1) * size, block_.threads.size()); ++i)
      threads.push_back(&block_.threads[i]);
    return threads;
  }

  /// Runs the lanes of a warp until each of them waits, and then the instruction that they wait to
  /// execute together. Returns false if nothing ran.
  bool run_lanes(size_t warp) {
    const std::vector<Thread*> lanes = threads_of(warp, warp_threads);
    bool went_on = false;
    for (const size_t lane : ordered(lanes.size())) {
      if (lanes[lane]->waiting != Waiting::No) continue;
      run_thread(*lanes[lane]);
      went_on = true;
    }
    return run_together(lanes, Scope::Warp) || went_on;
  }
  bool run_warpgroups() {
    bool went_on = false;
    for (const size_t group : ordered(block_.warpgroups.size()))
      went_on |= run_together(threads_of(group, warpgroup_threads), Scope::Warpgroup);
    return went_on;
  }

  void run_thread(Thread& t) {
    const std::vector<Instruction>& code = block_.kernel->code;
    current_ = &t;
    while (t.waiting == Waiting::No) {
      if (t.pc >= code.size()) throw Fault("runs past the end of its kernel");
      const Instruction& i = code[t.pc++];
      if (i.guard >= 0 && (t.registers[static_cast<size_t>(i.guard)] != 0) == i.is_guard_negated)
        continue;
      at_ = &i;
      if (++instructions_ > options_.most_instructions) throw Fault("runs for too long");
      if (i.row->scope == Scope::Thread) {
        i.row->execute(t, i);
      } else {
        t.waiting = Waiting::Together;
        t.at = &i;
      }
    }
  }

  /// Executes an instruction of a warp or a warpgroup if all of its threads wait for it. Returns
  /// true if it was executed.
  bool run_together(const std::vector<Thread*>& threads, Scope scope) {
    const auto waits = [&](const Thread* t) {
      return t->waiting == Waiting::Together && t->at->row->scope == scope;
    };
    const auto first = std::ranges::find_if(threads, waits);
    if (first == threads.end()) return false;
    const Instruction& i = *(*first)->at;
    current_ = *first;
    at_ = &i;
    for (const Thread* t : threads) {
      if (t->waiting == Waiting::Together && t->at != &i && t->at->row->scope == scope)
        throw Fault(fmt::format("thread {} is at line {} in the meantime", t->index, t->at->line));
      if (t->waiting == Waiting::Done)
        throw Fault(fmt::format("thread {} has ended in the meantime", t->index));
      if (!waits(t)) return false;
    }
    if (scope == Scope::Warpgroup && threads.size() != warpgroup_threads)
      throw Fault("an instruction of a warpgroup that has fewer than 128 threads");
    i.row->together(threads, i);
    for (Thread* t : threads) t->waiting = Waiting::No;
    return true;
  }

  bool arrive_one() {
    size_t chosen = 0;
    if (options_.order == Order::Backward) chosen = block_.boxes.size() - 1;
    if (options_.order == Order::Shuffled)
      chosen = static_cast<size_t>(random_.below(static_cast<int64_t>(block_.boxes.size())));
    const PendingBox box = block_.boxes[chosen];
    block_.boxes.erase(block_.boxes.begin() + static_cast<ptrdiff_t>(chosen));
    current_ = nullptr;
    arrive(block_, box);
    return true;
  }

  /// Returns the most registers that a block may use: as many blocks as the kernel's launch bound
  /// says must fit on a multiprocessor.
  int64_t registers_of_block() const {
    return registers_of_multiprocessor / block_.kernel->resident_blocks;
  }

  void check_end() {
    current_ = nullptr;
    int64_t registers = 0;
    for (const WarpgroupState& group : block_.warpgroups) {
      registers += int64_t{warpgroup_threads} * group.registers;
      if (!group.committed.empty() || !group.open.accumulators.empty())
        throw Fault("ends while a wgmma still accumulates");
    }
    if (block_.threads.size() % warpgroup_threads == 0 && registers > registers_of_block())
      throw Fault(fmt::format("setmaxnreg leaves {} registers in use of {}", registers,
                              registers_of_block()));
    for (const Thread& t : block_.threads) {
      const auto is_empty = [](const auto& group) { return group.empty(); };
      if (!t.copies.empty() || !std::ranges::all_of(t.copy_groups, is_empty))
        throw Fault(fmt::format("thread {} ends before its asynchronous copies", t.index));
    }
  }

  RunOptions options_;
  Random random_;
  int64_t& instructions_;
  Block block_;
  const Thread* current_ = nullptr;
  const Instruction* at_ = nullptr;
};

}  // namespace

TensorMapFacts decode_tensor_map(const std::byte* parameter) {
  runtime::FakeTensorMap encoded;
  static_assert(sizeof encoded == 128);
  std::memcpy(&encoded, parameter, sizeof encoded);
  constexpr int element_bytes[] = {1, 2, 4, 4, 8}, swizzles[] = {0, 32, 64, 128};
  if (encoded.rank < 1 || encoded.rank > 5 || encoded.type > 4 || encoded.swizzle > 3)
    throw Fault("copies by something that is no tensor map");
  TensorMapFacts map{.address = encoded.address,
                     .element_bytes = element_bytes[encoded.type],
                     .swizzle = swizzles[encoded.swizzle]};
  for (size_t d = 0; d < encoded.rank; ++d) {
    map.extents.push_back(static_cast<int64_t>(encoded.extents[d]));
    map.box.push_back(static_cast<int64_t>(encoded.box[d]));
    map.strides.push_back(d == 0 ? map.element_bytes
                                 : static_cast<int64_t>(encoded.strides[d - 1]));
  }
  return map;
}

std::byte* Block::global_at(uint64_t address, int64_t bytes) const {
  const auto contains = [&](std::span<std::byte> array) {
    const auto first = reinterpret_cast<uint64_t>(array.data());
    return address >= first && address + static_cast<uint64_t>(bytes) <= first + array.size();
  };
  for (const std::span<std::byte> array : global)
    if (contains(array)) return reinterpret_cast<std::byte*>(address);
  for (const auto& constant : module->globals)
    if (contains(*constant)) return reinterpret_cast<std::byte*>(address);
  throw Fault(fmt::format("accesses {} bytes at {:#x}, outside of all arrays", bytes, address));
}

Status run(const Kernel& kernel, const Module& module, const Launch& launch,
           const RunOptions& options) {
  if (static_cast<int64_t>(launch.parameters.size()) != kernel.parameter_bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("[ptx] {} takes {} bytes of parameters: {} were given", kernel.name,
                            kernel.parameter_bytes, launch.parameters.size()));
  int64_t instructions = 0;
  for (int64_t i = 0; i < launch.blocks; ++i) {
    const int64_t index = options.order == Order::Backward ? launch.blocks - 1 - i : i;
    RunOptions own = options;
    own.seed += static_cast<uint64_t>(index);
    BlockRun block(kernel, module, launch, index, own, instructions);
    try {
      block.run();
    } catch (const Fault& fault) {
      return fail(ErrorCode::Invalid,
                  fmt::format("[ptx] {}: {}: {}", kernel.name, block.where(), fault.what()));
    }
  }
  return {};
}

}  // namespace tw::ptx
