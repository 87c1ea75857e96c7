// SPDX-License-Identifier: Apache-2.0
// Instructions that access memory, choose the next instruction, or make threads wait for each
// other.
#include <fmt/format.h>

#include <algorithm>

#include "tests/ptx/instructions.h"
#include "tests/ptx/values.h"

namespace tw::ptx {
namespace {

using I = const Instruction&;
using enum Modifier;

constexpr uint64_t window_mask = uint64_t{0xff} << 56;

uint64_t address_of(const Thread& t, const Operand& operand) {
  uint64_t base = 0;
  if (operand.reg >= 0) base = t.registers[static_cast<size_t>(operand.reg)];
  return base + static_cast<uint64_t>(operand.value);
}

/// Returns the window of the instruction's state space: 0 for global memory, and the window of the
/// address for generic addresses.
uint64_t window_of(I i, uint64_t address) {
  if (i.has(Shared)) return shared_window;
  if (i.has(Local)) return local_window;
  if (i.has(Param)) return parameter_window;
  return i.has(Global) || i.has(Const) ? 0 : address & window_mask;
}

void check_alignment(uint64_t address, int64_t bytes) {
  if (address % static_cast<uint64_t>(bytes) != 0)
    throw Fault(fmt::format("accesses {} bytes at the unaligned address {:#x}", bytes, address));
}

template <typename Bytes>
std::byte* at(Bytes& bytes, uint64_t offset, int64_t count) {
  if (offset + static_cast<uint64_t>(count) > bytes.size())
    throw Fault(fmt::format("accesses {} bytes at {} of {}", count, offset, bytes.size()));
  return bytes.data() + offset;
}

/// Returns the host address of `bytes` of memory that is not shared.
std::byte* memory_at(Thread& t, uint64_t window, uint64_t address, int64_t bytes) {
  const uint64_t offset = address & ~window_mask;
  if (window == local_window) return at(t.local, offset, bytes);
  if (window == parameter_window) return at(t.block->parameters, offset, bytes);
  return t.block->global_at(address, bytes);
}

void load(Thread& t, I i, uint64_t address, int64_t bytes, void* to) {
  check_alignment(address & ~window_mask, bytes);
  const uint64_t window = window_of(i, address);
  if (window == shared_window)
    return t.block->shared.load(t.block->threads, t.accessor(),
                                static_cast<int64_t>(address & ~window_mask), bytes, to);
  std::memcpy(to, memory_at(t, window, address, bytes), static_cast<size_t>(bytes));
}

void store(Thread& t, I i, uint64_t address, int64_t bytes, const void* from) {
  check_alignment(address & ~window_mask, bytes);
  const uint64_t window = window_of(i, address);
  if (window == shared_window)
    return t.block->shared.store(t.block->threads, t.accessor(),
                                 static_cast<int64_t>(address & ~window_mask), bytes, from);
  std::memcpy(memory_at(t, window, address, bytes), from, static_cast<size_t>(bytes));
}

constexpr int64_t most_bytes = 16;

void ld(Thread& t, I i) {
  std::byte content[most_bytes];
  const int64_t each = bits_of(i.type) / 8;
  load(t, i, address_of(t, i[1]), each * i.vector, content);
  for (int e = 0; e < i.vector; ++e) {
    uint64_t value = 0;
    std::memcpy(&value, content + e * each, static_cast<size_t>(each));
    // A register may be wider than the loaded value.
    value = static_cast<uint64_t>(extended(value, i.type));
    t.write(i.vector > 1 ? i[0].elements[static_cast<size_t>(e)] : i[0],
            is_signed(i.type) && each < 4 ? Type::B32 : i.type, value);
  }
}

void st(Thread& t, I i) {
  std::byte content[most_bytes];
  const int64_t each = bits_of(i.type) / 8;
  for (int e = 0; e < i.vector; ++e) {
    const uint64_t value = t.read(i.vector > 1 ? i[1].elements[static_cast<size_t>(e)] : i[1]);
    std::memcpy(content + e * each, &value, static_cast<size_t>(each));
  }
  store(t, i, address_of(t, i[0]), each * i.vector, content);
}

/// Converts to and from generic addresses. The symbols of parameters already have addresses in
/// their window.
void cvta(Thread& t, I i) {
  const uint64_t window = i.has(Shared) ? shared_window : i.has(Local) ? local_window : 0;
  const uint64_t address = t.read(i[1]);
  if (i.has(To) && window != 0 && (address & window_mask) != window)
    throw Fault(fmt::format("takes the generic address {:#x} for one of another space", address));
  t.write(i[0], Type::B64, i.has(To) && window != 0 ? address & ~window_mask : address | window);
}

uint64_t changed(I i, uint64_t old, uint64_t by) {
  if (i.has(Exch)) return by;
  const Type type = i.type;
  if (is_float(type)) {
    if (type != Type::F32 || !i.has(Add)) throw Fault("changes a number that is not f32");
    return float_bits(static_cast<float>(float_value(old, type) + float_value(by, type)));
  }
  const int64_t a = extended(old, type), b = extended(by, type);
  const bool is_less = is_signed(type) ? a < b : old < by;
  if (i.has(Add)) return old + by;
  if (i.has(Min)) return is_less ? old : by;
  if (i.has(Max)) return is_less ? by : old;
  if (i.has(And)) return old & by;
  return i.has(Or) ? old | by : old ^ by;
}

void change(Thread& t, I i, const Operand& where, const Operand& by, const Operand& old) {
  const uint64_t address = address_of(t, where);
  if (window_of(i, address) == shared_window) throw Fault("atomics on shared memory");
  const int64_t bytes = bits_of(i.type) / 8;
  uint64_t value = 0;
  load(t, i, address, bytes, &value);
  const uint64_t next = changed(i, value, t.read(by));
  store(t, i, address, bytes, &next);
  t.write(old, i.type, value);
}
void atom(Thread& t, I i) { change(t, i, i[1], i[2], i[0]); }
void red(Thread& t, I i) { change(t, i, i[0], i[1], {}); }

void bra(Thread& t, I i) { t.pc = static_cast<size_t>(i.target); }
void ret(Thread& t, I) { t.waiting = Waiting::Done; }
void trap(Thread&, I) { throw Fault("trap"); }
void nothing(Thread&, I) {}

/// bar.sync a, b waits until b threads are at barrier a. Without b it waits for all threads of the
/// block.
void bar_sync(Thread& t, I i) {
  t.barrier = static_cast<int>(t.read(i[0]));
  t.waiting = Waiting::Barrier;
  t.at = &i;
  const auto wanted = i.operands.size() > 1 ? t.read(i[1]) : t.block->threads.size();
  if (wanted % 32 != 0 && i.operands.size() > 1)
    throw Fault(fmt::format("waits at a barrier for {} threads: expected whole warps", wanted));
  if (static_cast<uint64_t>(++t.block->arrived[t.barrier]) < wanted) return;
  t.block->arrived[t.barrier] = 0;
  for (Thread& other : t.block->threads) {
    if (other.waiting != Waiting::Barrier || other.barrier != t.barrier) continue;
    other.waiting = Waiting::No;
    ++other.step;
  }
}

/// Makes the accesses of the warp's lanes visible to each other.
void warp_sync(std::span<Thread* const> lanes, I) {
  for (Thread* lane : lanes) ++lane->step;
}

/// Gives each lane the value of another lane, by the figure of the PTX ISA.
void shfl(std::span<Thread* const> lanes, I i) {
  std::vector<uint64_t> values(32);
  std::vector<bool> exists(32);
  for (Thread* lane : lanes) {
    values[static_cast<size_t>(lane->index % 32)] = lane->read(i[1]);
    exists[static_cast<size_t>(lane->index % 32)] = true;
  }
  for (Thread* lane : lanes) {
    const int own = lane->index % 32, b = static_cast<int>(lane->read(i[2])) & 31;
    const int c = static_cast<int>(lane->read(i[3]));
    const int mask = c >> 8 & 31, last = (own & mask) | (c & 31 & ~mask), first = own & mask;
    int from = own;
    bool fits = true;
    if (i.has(Up)) fits = (from = own - b) >= last;
    if (i.has(Down)) fits = (from = own + b) <= last;
    if (i.has(Bfly)) fits = (from = own ^ b) <= last;
    if (i.has(Idx)) fits = (from = first | (b & ~mask)) <= last;
    if (!fits) from = own;
    if (!exists[static_cast<size_t>(from)])
      throw Fault(fmt::format("takes the value of lane {}, which does not exist", from));
    const bool is_pair = i[0].kind == Operand::Kind::Vector;
    lane->write(is_pair ? i[0].elements[0] : i[0], i.type, values[static_cast<size_t>(from)]);
    if (is_pair) lane->write(i[0].elements[1], Type::Pred, fits);
  }
}

template <typename F>
void vote(std::span<Thread* const> lanes, I i, Type type, F&& result) {
  uint64_t yes = 0, all = 0;
  for (const Thread* lane : lanes) {
    const uint64_t bit = uint64_t{1} << (lane->index % 32);
    all |= bit;
    if (lane->read_predicate(i[1])) yes |= bit;
  }
  for (Thread* lane : lanes) lane->write(i[0], type, result(yes, all));
}
void vote_ballot(std::span<Thread* const> lanes, I i) {
  vote(lanes, i, Type::B32, [](uint64_t yes, uint64_t) { return yes; });
}
void vote_any(std::span<Thread* const> lanes, I i) {
  vote(lanes, i, Type::Pred, [](uint64_t yes, uint64_t) { return uint64_t{yes != 0}; });
}
void vote_all(std::span<Thread* const> lanes, I i) {
  vote(lanes, i, Type::Pred, [](uint64_t yes, uint64_t all) { return uint64_t{yes == all}; });
}
/// Gives true to one lane, which is the first.
void elect(std::span<Thread* const> lanes, I i) {
  for (Thread* lane : lanes) {
    lane->write(i[0].elements[0], Type::B32, 0);
    lane->write(i[0].elements[1], Type::Pred, lane == lanes.front());
  }
}

constexpr Row rows[] = {
    {"ld", "param global shared shared::cta local const nc volatile relaxed gpu", ld},
    {"st", "param global shared shared::cta local volatile relaxed gpu", st},
    {"cvta", "to global shared local const param", cvta},
    {"atom", "global relaxed gpu add min max and or xor exch", atom},
    {"red", "global relaxed gpu add min max and or xor", red},
    {"bra", "uni", bra},
    {"ret", "uni", ret},
    {"exit", "", ret},
    {"trap", "", trap},
    {"membar", "gpu cta", nothing},
    {"prefetch", "global L1 L2", nothing},
    {"nanosleep", "", nothing},
    {"bar.sync", "", bar_sync},
    {"barrier.sync", "aligned", bar_sync},
    {"bar.warp.sync", "", nullptr, Scope::Warp, warp_sync},
    {"shfl.sync", "bfly up down idx", nullptr, Scope::Warp, shfl},
    {"vote.sync.ballot", "", nullptr, Scope::Warp, vote_ballot},
    {"vote.sync.any", "", nullptr, Scope::Warp, vote_any},
    {"vote.sync.all", "", nullptr, Scope::Warp, vote_all},
    {"elect.sync", "", nullptr, Scope::Warp, elect},
};

}  // namespace

std::span<const Row> memory_rows() { return rows; }

}  // namespace tw::ptx
