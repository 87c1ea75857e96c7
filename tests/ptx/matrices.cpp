// SPDX-License-Identifier: Apache-2.0
// Instructions of tensor cores.
#include "tests/ptx/matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/ptx/instructions.h"
#include "tests/ptx/layouts.h"
#include "tests/ptx/values.h"

namespace tw::ptx {
namespace {

using I = const Instruction&;

/// A matrix of numbers, row by row.
struct Matrix {
  int rows, columns;
  std::vector<double> values;
  Matrix(int rows_, int columns_)
      : rows(rows_), columns(columns_), values(static_cast<size_t>(rows_ * columns_)) {}
  double& operator()(int row, int column) {
    return values[static_cast<size_t>(row * columns + column)];
  }
  std::span<const double> row(int at) const {
    return std::span(values).subspan(static_cast<size_t>(at * columns),
                                     static_cast<size_t>(columns));
  }
};

double number(uint64_t bits, Type type) {
  return is_float(type) ? float_value(bits, type) : static_cast<double>(extended(bits, type));
}

int64_t whole_sum(std::span<const double> products, int64_t accumulator) {
  for (const double product : products) accumulator += static_cast<int64_t>(product);
  return accumulator;
}

/// Returns one element of a b^T + c as bits of the accumulators' type.
uint64_t element(std::span<const double> a, std::span<const double> b, uint64_t c, Type type) {
  std::array<double, 64> products;
  for (size_t k = 0; k < a.size(); ++k) products[k] = a[k] * b[k];
  const auto terms = std::span(products).first(a.size());
  if (type == Type::S32) return static_cast<uint64_t>(whole_sum(terms, static_cast<int32_t>(c)));
  return float_bits(truncated_sum(terms, std::bit_cast<float>(static_cast<uint32_t>(c))));
}

/// Reads the numbers of a fragment into a matrix. `place` returns the row and column of element j
/// of register i of a lane.
template <typename Place>
void gather(std::span<Thread* const> lanes, const Operand& fragment, Type type, Matrix& into,
            bool transposed, Place&& place) {
  const int elements = 32 / bits_of(type);
  for (Thread* lane : lanes)
    for (int i = 0; i < static_cast<int>(fragment.elements.size()); ++i) {
      const uint64_t word = lane->read(fragment.elements[static_cast<size_t>(i)]);
      for (int j = 0; j < elements; ++j) {
        const auto [row, column] = place(lane->index % 32, i, j, elements);
        into(transposed ? column : row, transposed ? row : column) =
            number(word >> (j * bits_of(type)), type);
      }
    }
}

/// mma.sync...row.col.D.A.B.C d, a, b, c
void mma(std::span<Thread* const> lanes, I i) {
  if (lanes.size() != 32) throw Fault("mma.sync in a warp with fewer than 32 threads");
  if (i.shape.size() != 3 || i.shape[0] != 16 || i.shape[1] != 8 || i.types.size() != 4 ||
      (i.types[0] != Type::F32 && i.types[0] != Type::S32))
    throw Fault("this shape or type of mma.sync is not interpreted");
  Matrix a(16, i.shape[2]), b(8, i.shape[2]);
  gather(lanes, i[1], i.types[1], a, false, a_fragment_place);
  gather(lanes, i[2], i.types[2], b, true, b_fragment_place);
  for (Thread* lane : lanes)
    for (int e = 0; e < 4; ++e) {
      const auto [row, column] = accumulator_place(lane->index % 32, e);
      const auto at = static_cast<size_t>(e);
      const uint64_t sum =
          element(a.row(row), b.row(column), lane->read(i[3].elements[at]), i.types[0]);
      lane->write(i[0].elements[at], Type::B32, sum);
    }
}

/// ldmatrix loads 8 rows of 16 bytes for each matrix. The lanes 8 i to 8 i + 7 have the addresses
/// of the rows of matrix i.
void ldmatrix(std::span<Thread* const> lanes, I i) {
  const int count = i.has(Modifier::X4) ? 4 : i.has(Modifier::X2) ? 2 : 1;
  if (lanes.size() != 32) throw Fault("ldmatrix in a warp with fewer than 32 threads");
  for (int m = 0; m < count; ++m) {
    uint16_t matrix[8][8];
    for (int row = 0; row < 8; ++row) {
      Thread& from = *lanes[static_cast<size_t>(8 * m + row)];
      const uint64_t at = (i[1].reg >= 0 ? from.registers[static_cast<size_t>(i[1].reg)] : 0) +
                          static_cast<uint64_t>(i[1].value);
      if (at % 16 != 0) throw Fault("ldmatrix at an address that is no multiple of 16");
      from.block->shared.load(from.block->threads, from.accessor(), static_cast<int64_t>(at), 16,
                              matrix[row]);
    }
    for (Thread* lane : lanes) {
      const int row = lane->index % 32 / 4, column = lane->index % 4 * 2;
      const bool trans = i.has(Modifier::Trans);
      const uint32_t low = trans ? matrix[column][row] : matrix[row][column];
      const uint32_t high = trans ? matrix[column + 1][row] : matrix[row][column + 1];
      const Operand& to =
          i[0].kind == Operand::Kind::Vector ? i[0].elements[static_cast<size_t>(m)] : i[0];
      lane->write(to, Type::B32, low | high << 16);
    }
  }
}

/// Reads a factor from shared memory. Its bytes stay locked until the warpgroup has waited.
Matrix matrix_in_shared(Thread& thread, uint64_t bits, bool is_mn_major, int rows, int terms,
                        Type type) {
  const auto descriptor = decode_descriptor(bits);
  if (!descriptor) throw Fault(descriptor.error().message);
  Matrix matrix(rows, terms);
  const int bytes = bits_of(type) / 8;
  auto& reads = thread.block->warpgroup_of(thread).open.reads;
  for (int row = 0; row < rows; ++row)
    for (int term = 0; term < terms; ++term) {
      const int64_t at = element_address(*descriptor, is_mn_major, bytes, row, term);
      uint64_t word = 0;
      std::memcpy(&word,
                  thread.block->shared.lock(thread.block->threads, thread.accessor(), at, bytes),
                  static_cast<size_t>(bytes));
      reads.push_back({at, bytes});
      matrix(row, term) = number(word, type);
    }
  return matrix;
}

/// Returns the value of a register that wgmma accumulates into. The register must have been written
/// before the last wgmma.fence, or by a wgmma.
uint64_t accumulator(Thread& thread, const Operand& operand) {
  const auto reg = static_cast<size_t>(operand.reg);
  const uint32_t stamp = thread.stamps[reg];
  if (stamp != in_flight_stamp && stamp >= thread.fences)
    throw Fault("accumulates into a register that was written after wgmma.fence");
  return thread.registers[reg];
}

void check_descriptors(std::span<Thread* const> threads, I i) {
  for (const Thread* thread : threads)
    if (thread->read(i[1]) != threads.front()->read(i[1]) ||
        thread->read(i[2]) != threads.front()->read(i[2]))
      throw Fault("threads of a warpgroup have different descriptors");
}

/// wgmma.mma_async...D.A.B d, a, b, accumulates, 1, 1(, a is MN-major, b is MN-major)
void wgmma(std::span<Thread* const> threads, I i) {
  if (i.shape.size() != 3 || i.types.size() != 3 ||
      (i.types[0] != Type::F32 && i.types[0] != Type::S32) || i[1].kind == Operand::Kind::Vector)
    throw Fault("this shape, type or place of a factor of wgmma is not interpreted");
  Thread& first = *threads.front();
  const uint64_t a_bits = first.read(i[1]), b_bits = first.read(i[2]);
  check_descriptors(threads, i);
  const bool is_float_sum = i.types[0] == Type::F32;
  if (is_float_sum && (first.read(i[4]) != 1 || first.read(i[5]) != 1))
    throw Fault("wgmma with a negated factor is not interpreted");
  const bool a_mn = i.operands.size() > 6 && first.read(i[6]) != 0;
  const bool b_mn = i.operands.size() > 7 && first.read(i[7]) != 0;
  const Matrix a = matrix_in_shared(first, a_bits, a_mn, i.shape[0], i.shape[2], i.types[1]);
  const Matrix b = matrix_in_shared(first, b_bits, b_mn, i.shape[1], i.shape[2], i.types[2]);
  auto& open = first.block->warpgroup_of(first).open;
  for (Thread* thread : threads) {
    const bool accumulates = thread->read_predicate(i[3]);
    for (int e = 0; e < static_cast<int>(i[0].elements.size()); ++e) {
      const Operand& to = i[0].elements[static_cast<size_t>(e)];
      const auto [row, column] = accumulator_place(thread->index % 128, e);
      const uint64_t c = accumulator(*thread, to);
      const auto reg = static_cast<size_t>(to.reg);
      thread->registers[reg] =
          element(a.row(row), b.row(column), accumulates ? c : 0, i.types[0]) & 0xffffffff;
      thread->stamps[reg] = in_flight_stamp;
      open.accumulators.emplace_back(thread->index, to.reg);
    }
    thread->has_wgmma_in_flight = true;
  }
}

void wgmma_fence(std::span<Thread* const> threads, I) {
  for (Thread* thread : threads) ++thread->fences;
}

void wgmma_commit(std::span<Thread* const> threads, I) {
  WarpgroupState& state = threads.front()->block->warpgroup_of(*threads.front());
  state.committed.push_back(std::move(state.open));
  state.open = {};
}

void wgmma_wait(std::span<Thread* const> threads, I i) {
  Thread& first = *threads.front();
  Block& block = *first.block;
  WarpgroupState& state = block.warpgroup_of(first);
  const auto pending = first.read(i[0]);
  while (state.committed.size() > pending) {
    for (const Range& range : state.committed.front().reads)
      block.shared.unlock(first.accessor(), range.at, range.bytes);
    for (const auto& [thread, reg] : state.committed.front().accumulators)
      block.threads[static_cast<size_t>(thread)].stamps[static_cast<size_t>(reg)] = 0;
    state.committed.pop_front();
  }
  // Groups that are still pending may accumulate into the same registers.
  const auto mark = [&](const WarpgroupState::Group& group) {
    for (const auto& [thread, reg] : group.accumulators)
      block.threads[static_cast<size_t>(thread)].stamps[static_cast<size_t>(reg)] = in_flight_stamp;
  };
  std::ranges::for_each(state.committed, mark);
  mark(state.open);
  for (Thread* thread : threads)
    thread->has_wgmma_in_flight = !state.committed.empty() || !state.open.accumulators.empty();
}

constexpr Row rows[] = {
    {"mma.sync.aligned", "row col", nullptr, Scope::Warp, mma},
    {"ldmatrix.sync.aligned", "m8n8 x1 x2 x4 trans shared shared::cta", nullptr, Scope::Warp,
     ldmatrix},
    {"wgmma.mma_async.sync.aligned", "", nullptr, Scope::Warpgroup, wgmma},
    {"wgmma.fence.sync.aligned", "", nullptr, Scope::Warpgroup, wgmma_fence},
    {"wgmma.commit_group.sync.aligned", "", nullptr, Scope::Warpgroup, wgmma_commit},
    {"wgmma.wait_group.sync.aligned", "", nullptr, Scope::Warpgroup, wgmma_wait},
};

}  // namespace

float truncated_sum(std::span<const double> products, float accumulator) {
  double plain = accumulator, largest = std::fabs(accumulator);
  for (const double product : products) {
    plain += product;
    largest = std::max(largest, std::fabs(product));
  }
  if (!std::isfinite(plain) || largest == 0) return static_cast<float>(plain);
  const int last = std::ilogb(largest) - 23;  // exponent of the last bit of an f32
  const double scale = std::ldexp(1, extra_bits - last);
  int64_t sum = static_cast<int64_t>(accumulator * scale);
  for (const double product : products) sum += static_cast<int64_t>(product * scale);
  // Truncates to 24 bits.
  const bool is_negative = sum < 0;
  auto magnitude = static_cast<uint64_t>(is_negative ? -sum : sum);
  const int width = 64 - std::countl_zero(magnitude | 1);
  if (width > 24) magnitude &= ~uint64_t{0} << (width - 24);
  const double value = std::ldexp(static_cast<double>(magnitude), last - extra_bits);
  return static_cast<float>(is_negative ? -value : value);
}

std::span<const Row> matrix_rows() { return rows; }

}  // namespace tw::ptx
