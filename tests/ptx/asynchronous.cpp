// SPDX-License-Identifier: Apache-2.0
// Copies that run beside the threads: cp.async, and the copy engine (TMA) with its mbarriers.
#include <fmt/format.h>

#include "tests/ptx/instructions.h"
#include "tests/ptx/layouts.h"
#include "tests/ptx/values.h"

namespace tw::ptx {
namespace {

using I = const Instruction&;

uint64_t address_of(const Thread& t, const Operand& operand) {
  const uint64_t base = operand.reg >= 0 ? t.registers[static_cast<size_t>(operand.reg)] : 0;
  return base + static_cast<uint64_t>(operand.value);
}
int64_t shared_address_of(const Thread& t, const Operand& operand) {
  return static_cast<int64_t>(address_of(t, operand));
}

/// cp.async [to], [from], bytes(, bytes that are read). Bytes that are not read become zero.
void cp_async(Thread& t, I i) {
  const auto bytes = static_cast<int64_t>(t.read(i[2]));
  const int64_t read = i.operands.size() > 3 ? static_cast<int64_t>(t.read(i[3])) : bytes;
  const int64_t to = shared_address_of(t, i[0]);
  if (to % bytes != 0 || read > bytes) throw Fault("copies to an unaligned address, or too much");
  PendingCopy copy{{to, bytes}, std::vector<std::byte>(static_cast<size_t>(bytes))};
  if (read > 0) {
    const uint64_t from = address_of(t, i[1]);
    if (from % static_cast<uint64_t>(bytes) != 0) throw Fault("copies from an unaligned address");
    std::memcpy(copy.content.data(), t.block->global_at(from, read), static_cast<size_t>(read));
  }
  t.block->shared.begin_copy(t.block->threads, t.accessor(), to, bytes);
  t.copies.push_back(std::move(copy));
}

void commit_copies(Thread& t, I) {
  t.copy_groups.push_back(std::move(t.copies));
  t.copies.clear();
}

void finish(Thread& t, const std::vector<PendingCopy>& copies) {
  for (const PendingCopy& copy : copies)
    t.block->shared.end_copy(t.accessor(), copy.to.at, copy.to.bytes, copy.content.data());
}

void wait_for_groups(Thread& t, I i) {
  for (const auto pending = t.read(i[0]); t.copy_groups.size() > pending;) {
    finish(t, t.copy_groups.front());
    t.copy_groups.pop_front();
  }
}
void wait_for_copies(Thread& t, I) {
  for (const auto& group : t.copy_groups) finish(t, group);
  t.copy_groups.clear();
  finish(t, t.copies);
  t.copies.clear();
}

// An mbarrier is in phase n. The phase ends when all arrivals and all bytes that it expects have
// come. The next phase expects the same number of arrivals.

Mbarrier& mbarrier_at(Block& block, int64_t address) {
  const auto found = block.mbarriers.find(address);
  if (found == block.mbarriers.end())
    throw Fault(
        fmt::format("uses shared memory at {} as an mbarrier before mbarrier.init", address));
  return found->second;
}

void end_phase(Block& block, Mbarrier& barrier) {
  if (barrier.pending < 0) throw Fault("more threads arrive at an mbarrier than it expects");
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  for (Thread& thread : block.threads)
    if (thread.waiting == Waiting::Mbarrier) thread.waiting = Waiting::No;
}

void mbarrier_init(Thread& t, I i) {
  const int64_t address = shared_address_of(t, i[0]);
  const auto count = static_cast<int64_t>(t.read(i[1]));
  if (address % 8 != 0 || count < 1) throw Fault("an mbarrier that is unaligned or expects nobody");
  t.block->shared.reserve(address, 8);
  t.block->mbarriers[address] = {count, count, 0, 0};
}
void expect_bytes(Thread& t, I i) {
  mbarrier_at(*t.block, shared_address_of(t, i[0])).bytes += static_cast<int64_t>(t.read(i[1]));
}
void mbarrier_arrive(Thread& t, I i) {
  ++t.step;
  Mbarrier& barrier = mbarrier_at(*t.block, shared_address_of(t, i[1]));
  barrier.pending -= i.operands.size() > 2 ? static_cast<int64_t>(t.read(i[2])) : 1;
  end_phase(*t.block, barrier);
}
void arrive_and_expect(Thread& t, I i) {
  ++t.step;
  Mbarrier& barrier = mbarrier_at(*t.block, shared_address_of(t, i[1]));
  barrier.bytes += static_cast<int64_t>(t.read(i[2]));
  --barrier.pending;
  end_phase(*t.block, barrier);
}
bool has_ended(Thread& t, I i) {
  const Mbarrier& barrier = mbarrier_at(*t.block, shared_address_of(t, i[1]));
  return (barrier.phase & 1) != static_cast<int64_t>(t.read(i[2]) & 1);
}
void test_wait(Thread& t, I i) { t.write(i[0], Type::Pred, has_ended(t, i)); }
/// mbarrier.try_wait may give up at any time. Here the first try gives up, and a second try in a
/// row waits until some phase ends, so that a loop around the instruction does not spin.
void try_wait(Thread& t, I i) {
  const bool ended = has_ended(t, i), is_again = t.tried == &i;
  t.tried = ended || is_again ? nullptr : &i;
  if (ended || !is_again) return t.write(i[0], Type::Pred, ended);
  t.tried = &i;
  --t.pc;
  t.waiting = Waiting::Mbarrier;
  t.at = &i;
}

TensorMapFacts map_at(const Block& block, uint64_t address) {
  const uint64_t offset = address - parameter_window;
  if (address < parameter_window || offset + 128 > block.parameters.size() || offset % 64 != 0)
    throw Fault("copies by a tensor map that is no parameter");
  return decode_tensor_map(block.parameters.data() + offset);
}

/// cp.async.bulk.tensor.2d... [to], [map, {indices}], [mbarrier]
void copy_box(Thread& t, I i) {
  PendingBox box{.map = map_at(*t.block, address_of(t, i[1])),
                 .first = {},
                 .to = shared_address_of(t, i[0]),
                 .mbarrier = shared_address_of(t, i[2])};
  for (const Operand& index : i[1].elements)
    box.first.push_back(static_cast<int32_t>(t.read(index)));
  if (box.first.size() != box.map.box.size())
    throw Fault("copies a box with another number of dimensions than its tensor map");
  int64_t bytes = box.map.element_bytes;
  for (const int64_t extent : box.map.box) bytes *= extent;
  const int64_t row = box.map.box[0] * box.map.element_bytes;
  if (box.to % 128 != 0) throw Fault("copies a box to an address that is no multiple of 128");
  if (box.map.swizzle != 0 && row != box.map.swizzle)
    throw Fault("copies a box whose rows are shorter than its swizzle");
  mbarrier_at(*t.block, box.mbarrier);
  t.block->shared.begin_copy(t.block->threads, t.accessor(), box.to, bytes);
  t.block->boxes.push_back(std::move(box));
}

/// Applies to the thread's own generic accesses, and to those of threads that it has waited for.
void fence_proxy(Thread& t, I) { t.block->shared.fence_proxy(t.index); }
void no_effect(Thread&, I) {}

/// Number of registers in the register file of a multiprocessor.
constexpr int all_registers = 65536;

void set_registers(std::span<Thread* const> threads, I i) {
  Block& block = *threads.front()->block;
  const int wanted = static_cast<int>(threads.front()->read(i[0]));
  WarpgroupState& state = block.warpgroup_of(*threads.front());
  const bool is_more = i.row->name.find("inc") != std::string_view::npos;
  if (wanted % 8 != 0 || wanted < 24 || wanted > 256)
    throw Fault(fmt::format("setmaxnreg {}: expected a multiple of 8 from 24 to 256", wanted));
  if (is_more ? wanted < state.registers : wanted > state.registers)
    throw Fault(fmt::format("setmaxnreg {} of a warpgroup with {}", wanted, state.registers));
  state.registers = wanted;
}

constexpr Row rows[] = {
    {"cp.async.ca.shared.global", "", cp_async},
    {"cp.async.cg.shared.global", "", cp_async},
    {"cp.async.commit_group", "", commit_copies},
    {"cp.async.wait_group", "", wait_for_groups},
    {"cp.async.wait_all", "", wait_for_copies},
    {"mbarrier.init.shared::cta.b64", "", mbarrier_init},
    {"mbarrier.expect_tx.relaxed.cta.shared::cta.b64", "", expect_bytes},
    {"mbarrier.arrive.expect_tx.shared::cta.b64", "", arrive_and_expect},
    {"mbarrier.arrive.shared::cta.b64", "", mbarrier_arrive},
    {"mbarrier.try_wait.parity.shared::cta.b64", "", try_wait},
    {"mbarrier.test_wait.parity.shared::cta.b64", "", test_wait},
    {"cp.async.bulk.tensor",
     "1d 2d 3d 4d 5d shared::cluster global tile mbarrier::complete_tx::bytes", copy_box},
    {"fence.proxy.async", "shared::cta", fence_proxy},
    {"fence.mbarrier_init.release.cluster", "", no_effect},
    {"fence.acq_rel", "gpu cta", no_effect},
    {"fence.sc", "gpu cta", no_effect},
    {"prefetch.tensormap", "", no_effect},
    {"setmaxnreg.dec.sync.aligned.u32", "", nullptr, Scope::Warpgroup, set_registers},
    {"setmaxnreg.inc.sync.aligned.u32", "", nullptr, Scope::Warpgroup, set_registers},
};

}  // namespace

std::span<const Row> asynchronous_rows() { return rows; }

void arrive(Block& block, const PendingBox& box) {
  const TensorMapFacts& map = box.map;
  const auto size = static_cast<size_t>(map.element_bytes);
  const std::vector<BoxElement> elements = box_elements(
      map.extents, map.strides, map.box, map.element_bytes, map.swizzle, box.first, box.to);
  for (const BoxElement& element : elements) {
    std::byte content[8] = {};
    if (element.from >= 0)
      std::memcpy(
          content,
          block.global_at(map.address + static_cast<uint64_t>(element.from), map.element_bytes),
          size);
    block.shared.end_copy({}, element.to, map.element_bytes, content);
  }
  Mbarrier& barrier = mbarrier_at(block, box.mbarrier);
  barrier.bytes -= static_cast<int64_t>(elements.size() * size);
  end_phase(block, barrier);
}

}  // namespace tw::ptx
