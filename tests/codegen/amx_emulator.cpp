// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/amx_emulator.h"

#include <signal.h>

#include <cstdint>

#if defined(__x86_64__)

#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <optional>

namespace tw::codegen {
namespace {

constexpr int registers = 8, most_rows = 16, row_bytes = 64;

struct Tile {
  int rows = 0, bytes = 0;  // as configured; 0 if the tile is not
  uint8_t data[most_rows][row_bytes] = {};
};

// A signal handler may not allocate.
thread_local Tile tiles[registers];
thread_local bool is_configured = false;
volatile int computed = 0;
struct sigaction previous;

// ---- decoding -------------------------------------------------------------------------------

/// A decoded instruction of the opcode map 0F38 with a VEX.128 prefix.
struct Instruction {
  int prefix;  // 0: none, 1: 66, 2: F3, 3: F2
  int opcode, reg, rm, vvvv;
  bool is_memory;
  uintptr_t address;  // address of the memory operand, without the index
  int64_t stride;     // the scaled index register
  int length;
};

uint64_t general(const greg_t* registers_of_thread, int number) {
  constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                           REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<uint64_t>(registers_of_thread[order[number]]);
}

std::optional<Instruction> decode(const uint8_t* code, const greg_t* gregs) {
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) return std::nullopt;
  const int x = (code[1] & 0x40) ? 0 : 8, b = (code[1] & 0x20) ? 0 : 8;
  Instruction in{};
  in.prefix = code[2] & 3;
  in.vvvv = ~(code[2] >> 3) & 15;
  in.opcode = code[3];
  const int mod = code[4] >> 6, rm = code[4] & 7;
  in.reg = (code[4] >> 3) & 7;
  in.rm = rm;
  in.length = 5;
  if (mod == 3) return in;
  in.is_memory = true;
  int base = rm + b;
  if (rm == 4) {
    const int sib = code[in.length++], index = ((sib >> 3) & 7) + x;
    base = (sib & 7) + b;
    if (index != 4) in.stride = static_cast<int64_t>(general(gregs, index)) << (sib >> 6);
  }
  const bool has_no_base = mod == 0 && (base & 7) == 5;
  int32_t offset = 0;
  if (mod == 1) offset = static_cast<int8_t>(code[in.length]);
  if (mod == 2 || has_no_base) std::memcpy(&offset, code + in.length, sizeof offset);
  in.length += mod == 1 ? 1 : mod == 2 || has_no_base ? 4 : 0;
  if (!has_no_base) in.address = general(gregs, base);
  // With neither a base register nor a SIB byte, the address is relative to the next instruction.
  if (has_no_base && rm != 4) in.address = reinterpret_cast<uintptr_t>(code + in.length);
  in.address += static_cast<uintptr_t>(static_cast<intptr_t>(offset));
  return in;
}

// ---- what instructions do -------------------------------------------------------------------

bool load_configuration(const uint8_t* memory) {
  if (memory[0] != 1) return false;
  for (int i = 0; i < registers; ++i) {
    Tile tile;
    tile.rows = memory[48 + i];
    tile.bytes = memory[16 + 2 * i] | memory[17 + 2 * i] << 8;
    if (tile.rows > most_rows || tile.bytes > row_bytes || (tile.rows == 0) != (tile.bytes == 0))
      return false;
    tiles[i] = tile;
  }
  return is_configured = true;
}

void release() {
  for (Tile& tile : tiles) tile = {};
  is_configured = false;
}

bool move(const Instruction& in, bool is_load) {
  Tile& tile = tiles[in.reg];
  if (tile.rows == 0 || !in.is_memory || in.rm != 4) return false;
  if (is_load) std::memset(tile.data, 0, sizeof tile.data);
  for (int row = 0; row < tile.rows; ++row) {
    auto* memory = reinterpret_cast<uint8_t*>(in.address + static_cast<uintptr_t>(row * in.stride));
    if (is_load)
      std::memcpy(tile.data[row], memory, static_cast<size_t>(tile.bytes));
    else
      std::memcpy(memory, tile.data[row], static_cast<size_t>(tile.bytes));
  }
  return true;
}

int32_t byte_of(const Tile& tile, int row, int column, bool is_signed) {
  const uint8_t byte = tile.data[row][column];
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

/// Returns an element of type bf16 as f32. Subnormal elements become 0, with their sign.
float bf16_of(const Tile& tile, int row, int column) {
  const uint32_t bits = static_cast<uint32_t>(tile.data[row][2 * column]) << 16 |
                        static_cast<uint32_t>(tile.data[row][2 * column + 1]) << 24;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

void multiply_bytes(Tile& sums, const Tile& a, const Tile& b, bool is_a_signed, bool is_b_signed) {
  for (int m = 0; m < sums.rows; ++m)
    for (int n = 0; n < sums.bytes / 4; ++n) {
      uint32_t sum;  // wraps around
      std::memcpy(&sum, &sums.data[m][4 * n], sizeof sum);
      for (int k = 0; k < a.bytes; ++k)
        sum += static_cast<uint32_t>(byte_of(a, m, k, is_a_signed) *
                                     byte_of(b, k / 4, 4 * n + k % 4, is_b_signed));
      std::memcpy(&sums.data[m][4 * n], &sum, sizeof sum);
    }
}

void multiply_bf16(Tile& sums, const Tile& a, const Tile& b) {
  for (int m = 0; m < sums.rows; ++m)
    for (int n = 0; n < sums.bytes / 4; ++n) {
      float sum, parts[2] = {};
      std::memcpy(&sum, &sums.data[m][4 * n], sizeof sum);
      for (int k = 0; k < a.bytes / 2; ++k)
        parts[k % 2] = std::fma(bf16_of(a, m, k), bf16_of(b, k / 2, 2 * n + k % 2), parts[k % 2]);
      sum += parts[0] + parts[1];
      std::memcpy(&sums.data[m][4 * n], &sum, sizeof sum);
    }
}

bool multiply(const Instruction& in) {
  if (in.is_memory || in.vvvv >= registers) return false;
  Tile& sums = tiles[in.reg];
  const Tile &a = tiles[in.rm], &b = tiles[in.vvvv];
  const bool are_three = in.reg != in.rm && in.reg != in.vvvv && in.rm != in.vvvv;
  const bool fits = sums.rows > 0 && a.rows == sums.rows && b.bytes == sums.bytes &&
                    b.rows == a.bytes / 4 && a.bytes % 4 == 0 && sums.bytes % 4 == 0;
  if (!are_three || !fits) return false;
  if (in.opcode == 0x5C) {
    if (in.prefix != 2) return false;
    multiply_bf16(sums, a, b);
  } else {
    multiply_bytes(sums, a, b, in.prefix >= 2, in.prefix == 1 || in.prefix == 3);
  }
  computed = computed + 1;
  return true;
}

bool execute(const Instruction& in) {
  if (in.opcode == 0x49 && in.prefix == 0 && in.is_memory && in.reg == 0)
    return load_configuration(reinterpret_cast<const uint8_t*>(in.address));
  if (in.opcode == 0x49 && in.prefix == 0 && !in.is_memory) {
    release();
    return true;
  }
  if (!is_configured) return false;
  if (in.opcode == 0x49 && in.prefix == 3 && !in.is_memory && tiles[in.reg].rows > 0) {
    std::memset(tiles[in.reg].data, 0, sizeof tiles[in.reg].data);
    return true;
  }
  if (in.opcode == 0x4B && (in.prefix == 3 || in.prefix == 1)) return move(in, true);
  if (in.opcode == 0x4B && in.prefix == 2) return move(in, false);
  return (in.opcode == 0x5C || in.opcode == 0x5E) && multiply(in);
}

void on_illegal_instruction(int, siginfo_t*, void* context) {
  greg_t* const gregs = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto instruction = decode(reinterpret_cast<const uint8_t*>(gregs[REG_RIP]), gregs);
  if (instruction && execute(*instruction))
    gregs[REG_RIP] += instruction->length;
  else
    sigaction(SIGILL, &previous, nullptr);  // the instruction is executed again
}

}  // namespace

AmxEmulator::AmxEmulator() {
  computed = 0;
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &previous);
}

AmxEmulator::~AmxEmulator() { sigaction(SIGILL, &previous, nullptr); }

int AmxEmulator::products() { return computed; }

}  // namespace tw::codegen

#else

namespace tw::codegen {

AmxEmulator::AmxEmulator() = default;
AmxEmulator::~AmxEmulator() = default;
int AmxEmulator::products() { return 0; }

}  // namespace tw::codegen

#endif
