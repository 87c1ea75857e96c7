// SPDX-License-Identifier: Apache-2.0
#pragma once
// Registers' values as numbers. The functions are pure, except that they depend on the processor's
// rounding mode, which RoundingMode sets and restores.

#include <fenv.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "tests/ptx/machine.h"

namespace tw::ptx {

/// Returns the register's value, extended to 64 bits by its type.
inline int64_t extended(uint64_t value, Type type) {
  const int unused = 64 - bits_of(type);
  if (is_signed(type)) return static_cast<int64_t>(value << unused) >> unused;
  return static_cast<int64_t>(value << unused >> unused);
}
inline int64_t integer(const Thread& t, const Operand& operand, Type type) {
  return extended(t.read(operand), type);
}

inline uint64_t float_bits(float value) { return std::bit_cast<uint32_t>(value); }
inline float read_f32(const Thread& t, const Operand& operand) {
  return std::bit_cast<float>(static_cast<uint32_t>(t.read(operand)));
}

/// Returns 2 for a type whose registers hold two numbers, else 1.
inline int parts_of(Type type) { return type == Type::F16x2 || type == Type::BF16x2 ? 2 : 1; }

double f16_value(uint16_t bits);
/// Rounds to the nearest number, and ties to even.
uint16_t f16_bits(double value);
inline double bf16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t bf16_bits(double value);

/// Returns the number that these bits mean in the type.
double float_value(uint64_t bits, Type type, int part = 0);
inline double read_float(const Thread& t, const Operand& operand, Type type, int part) {
  return float_value(t.read(operand), type, part);
}

/// Rounds as the instruction says, and writes the result. Writing one of two parts keeps the other.
void write_float(Thread& t, const Operand& to, Type type, int part, double value,
                 const Instruction& i);
void write_integer_as_float(Thread& t, const Operand& to, Type type, int64_t value,
                            bool is_signed_value, const Instruction& i);
/// Returns a b + c, rounded once to f32 or f64 as the instruction says.
double rounded_fma(const Instruction& i, double a, double b, double c);
/// Returns the lesser number. If one is a NaN, returns the other, or the NaN if `nan_stays`.
double least(double a, double b, bool nan_stays);

/// While it lives, the processor rounds as the instruction says.
class RoundingMode {
 public:
  explicit RoundingMode(const Instruction& i) {
    const int mode = i.has(Modifier::Rz)   ? FE_TOWARDZERO
                     : i.has(Modifier::Rm) ? FE_DOWNWARD
                     : i.has(Modifier::Rp) ? FE_UPWARD
                                           : FE_TONEAREST;
    changes_ = mode != FE_TONEAREST;
    if (changes_) fesetround(mode);
  }
  RoundingMode(const RoundingMode&) = delete;
  ~RoundingMode() {
    if (changes_) fesetround(FE_TONEAREST);
  }

 private:
  bool changes_ = false;
};

}  // namespace tw::ptx
