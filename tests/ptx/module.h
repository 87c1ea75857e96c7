// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parsed text of PTX: the kernels of a module with their registers, variables and instructions.
// Registers and labels are replaced by indices. A mnemonic is looked up in the table of
// instructions (instructions.h) and split into its row, its modifiers and its types.
//
//     TW_TRY(const Module module, parse(compiled.code.text));
//     const Kernel& kernel = module.kernels.at("gemm_p0");
//
// Plain values.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tw::ptx {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  TF32,
  F32,
  F64
};
/// Returns the number of bits of a value. A predicate has one.
int bits_of(Type type);
bool is_float(Type type);
bool is_signed(Type type);

/// Parts of mnemonics that are neither types nor shapes, in the order of modifier_names.
enum class Modifier : uint8_t {
#define TW_PTX_MODIFIER(name, text) name,
#include "tests/ptx/modifiers.def"
#undef TW_PTX_MODIFIER
};

struct Operand {
  enum class Kind : uint8_t { Register, Immediate, Vector, Address, Sink };
  Kind kind = Kind::Sink;
  bool is_negated = false;             ///< a predicate: !p
  int reg = -1;                        ///< of a register; base of an address, or -1
  int64_t value = 0;                   ///< bits of an immediate; offset of an address
  std::vector<Operand> elements = {};  ///< of a vector or a pair; indices of a tensor's element
};

struct Row;

struct Instruction {
  const Row* row = nullptr;
  int guard = -1;  ///< register of the predicate, or -1
  bool is_guard_negated = false;
  uint64_t modifiers = 0;
  Type type = Type::None;        ///< the first of `types`
  Type second = Type::None;      ///< the second, or the first where there is one
  std::vector<Type> types = {};  ///< as the mnemonic has them
  std::vector<int> shape = {};   ///< m, n and k of a matrix instruction
  int vector = 1;                ///< 2 of .v2
  std::vector<Operand> operands = {};
  int target = -1;  ///< instruction that a branch goes to
  int line = 0;
  std::string text = {};

  bool has(Modifier modifier) const { return modifiers >> static_cast<int>(modifier) & 1; }
  const Operand& operator[](size_t i) const { return operands[i]; }
};

/// A variable in shared or local memory, or a parameter.
struct Variable {
  std::string name;
  int64_t offset = 0, bytes = 0;
};

/// Registers that every kernel has. They hold the values of PTX's special registers.
enum SpecialRegister {
  TidX,
  TidY,
  TidZ,
  NTidX,
  NTidY,
  NTidZ,
  CtaX,
  CtaY,
  CtaZ,
  NCtaX,
  NCtaY,
  NCtaZ,
  LaneId,
  WarpId,
  DynamicShared,
  special_registers
};

struct Kernel {
  std::string name;
  std::vector<Variable> parameters;
  int64_t parameter_bytes = 0;
  int64_t shared_bytes = 0;  ///< static; dynamic shared memory follows
  int64_t local_bytes = 0;
  int registers = special_registers;
  int64_t resident_blocks = 1;  ///< .minnctapersm, which divides the registers of a multiprocessor
  std::vector<Instruction> code;
};

/// Shared memory begins here, above what the system reserves on sm_90.
inline constexpr int64_t shared_base = 1024;

struct Module {
  std::map<std::string, Kernel> kernels;
  /// Contents of the variables in global and constant memory. Instructions contain their addresses.
  std::vector<std::shared_ptr<std::vector<std::byte>>> globals;
};

/// Parses a module. Fails with Unsupported if the table lacks an instruction, and with Invalid if
/// the text is not PTX as far as this parser knows it. Messages name the line.
Result<Module> parse(const std::string& text);

}  // namespace tw::ptx
