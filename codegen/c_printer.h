// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CPrinter prints one phase of a Program as text. This base class holds what C, CUDA C++ and
// OpenCL C have in common. Expressions have the meaning that dsl/interpret.h gives them. Each
// expression is computed in its own type, except that 16-bit floats are computed in float. Indices
// are 32-bit if all indices of the phase are proved to fit, else 64-bit.
//
// A dialect is one of these languages. Its derived class passes the spelling of types, literals and
// functions (CSpelling), and overrides how loops, buffers and the text around the statements are
// printed. Not thread-safe.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/program/program.h"
#include "schedules/program/ranges.h"
#include "schedules/program/threads.h"

namespace tw::codegen {

struct CSpelling {
  std::string_view int8, uint8, int16, uint16, int32, uint32, int64, uint64;
  std::string_view int32_min, int64_min;
  std::string_view before_int64,
      after_int64;  ///< prefix and suffix of a literal that needs more than 32 bits
  std::string_view nan, infinity;
  /// Suffix of the math functions for float: "f" in C (expf, sqrtf), "" in OpenCL.
  std::string_view float_suffix;
  /// True if the integer functions of the prelude, such as tw_min, compute in 32 bits and have
  /// 64-bit variants whose names end in _i64. False if they have one variant, which computes in 64
  /// bits.
  bool has_narrow_functions;
  bool (*is_reserved)(std::string_view word);
};

/// Returns the type of an element in memory. 16-bit floats are stored as 16-bit integers with the
/// same bits.
std::string_view storage_type(DType type, const CSpelling& spelling);

class CPrinter {
 public:
  CPrinter(const schedules::Program& program, const schedules::Phase& phase,
           const CSpelling& spelling);
  virtual ~CPrinter() = default;

 protected:
  using Expr = schedules::Expr;
  using Block = schedules::Block;
  using Buffer = schedules::Buffer;

  /// The text of an expression. `level` is the precedence of its outermost operator. The caller
  /// compares it with the precedence around the text to decide about parentheses.
  struct Text {
    std::string text;
    int level;
  };

  // ---- overridden by dialects ---------------------------------------------------------------
  virtual void print_loop(const schedules::Loop& loop, int indent) = 0;
  /// Prints the declaration of a buffer and the statements that use it. `is_last` is true if the
  /// allocation is the last statement of its block. In this case the declaration needs no braces of
  /// its own, because its names go out of scope with the block.
  virtual void print_allocate(const schedules::Allocate& allocate, bool is_last, int indent) = 0;
  virtual void print_assign(const schedules::Assign& assign, int indent);
  /// Converts the text of an element's index in row-major order to the text of the element's place
  /// in the buffer. The two differ only in swizzled buffers (Buffer::swizzle).
  virtual std::string placed(const Buffer&, const std::string& index) const { return index; }

  /// Prints a prefetch. A dialect without prefetches prints nothing.
  virtual void print_prefetch(const schedules::PrefetchLines&, int /*indent*/) {}

  /// Prints a guarded assignment (Assign::guard) as `if (condition) { store the value } else {
  /// store the literal }`. The statement may also be a vector loop that contains only a guarded
  /// assignment.
  virtual void print_branches(const schedules::Branches& branches, int indent);

  // ---- common to all dialects ---------------------------------------------------------------
  void print(const Block& block, int indent);
  void print_if(const schedules::If& branch, int indent);
  virtual void print_body(const Block& block, int indent) { print(block, indent); }
  void line(int indent, const std::string& text);

  /// Returns the head of a loop: "for (int i = 0; i < 4; ++i)". With a step of 2 it ends in "i +=
  /// 2)".
  std::string for_head(const schedules::Loop& loop, int64_t step = 1);
  /// Returns declarations of `variables`. `number` is the text of their row-major index, from which
  /// each declaration computes its variable. Variables that the printed text does not use are left
  /// out. Example: for "block" and the axes k of extent 2, m of extent 4 and n of extent 8,
  ///   const int k = block / 32;  const int m = block / 8 % 4;  const int n = block % 8;
  std::vector<std::string> numbered_by(const std::string& number,
                                       const std::vector<schedules::TaskAxis>& variables);

  std::string value(const Expr& expr) { return print(expr).text; }
  /// Returns the text of a value that will be rounded to a 16-bit float of this type and stored.
  /// The text is the value before this rounding. If `value` is itself a conversion to the type, the
  /// text is that of the conversion's operand, because rounding once is enough.
  std::string before_rounding(DType type, const Expr& value);
  std::string element(const Buffer& buffer, const std::vector<Expr>& indices);
  std::string int64_literal(int64_t value) const;

  std::string_view storage_type(DType type) const { return codegen::storage_type(type, spelling_); }
  const Buffer& buffer(const std::string& name) const;
  const std::string& identifier(const std::string& name);
  /// Returns the identifier of a buffer in the text. A buffer and a variable of the program may
  /// have the same name; they get different identifiers.
  const std::string& buffer_identifier(const std::string& name);
  /// Converts the text of an element in memory to the text of its value: "x[3]" becomes
  /// "tw_from_f16(x[3])" if the type is f16.
  static Text loaded(DType type, const std::string& element);
  bool is_touched(const std::string& buffer) const { return touched_.contains(buffer); }

  const schedules::Program& program_;
  const schedules::Phase& phase_;
  schedules::Ranges ranges_;
  std::string_view index_type_;
  std::set<std::string> used_variables_;
  /// For each buffer, the dimensions that have no elements in memory. Along these dimensions the
  /// index is the number of the thread, and each thread has a buffer of its own
  /// (schedules/program/threads.h).
  schedules::NumberedDimensions dropped_;
  /// Expressions whose values are already in a variable of the text, each with the variable's name.
  std::vector<std::pair<Expr, std::string>> held_;
  std::string body_;

 private:
  void choose_index_type();

  static std::string stored(DType type, const Text& value);
  /// Rounds a value that is computed in float to a 16-bit float. The result is a float again.
  static std::string narrowed(DType type, const std::string& value);
  Text as_float(const Expr& expr);

  void print(const schedules::Stmt& stmt, bool is_last, int indent);

  Text print(const Expr& expr);
  Text print(const dsl::Select& s);
  Text print(const dsl::Unary& u);
  Text print(const dsl::Binary& b);
  Text print(const dsl::Cast& c);
  Text literal(const dsl::Const& c) const;
  Text arithmetic(dsl::BinaryOp op, DType type, const Text& x, const Text& y, bool is_value) const;
  Text shift(const dsl::Binary& b, const Text& x, const Text& y) const;
  Text division(const dsl::Binary& b, const Text& x, const Text& y) const;
  Text min_max(dsl::BinaryOp op, DType type, const Text& x, const Text& y) const;
  Text narrowed(DType type, const Text& value) const;
  /// Returns a call of the prelude's integer function `name` with arguments of this type. The
  /// result is narrowed to the type if the function computes in a wider type.
  Text integer_call(std::string_view name, DType type, const std::string& arguments) const;
  Text float_call(std::string_view name, DType type, const std::string& arguments) const;
  /// True if the text of an Int64 expression may have the type of 32-bit indices.
  bool may_have_32_bits(const Expr& expr) const;
  /// Returns the type in which the operation is computed: Int32 for operands of Int64 that fit
  /// 32-bit indices, otherwise the type of the operands.
  DType operand_type(const dsl::Binary& b) const;

  const CSpelling& spelling_;
  std::map<std::string, const Buffer*> buffers_;
  std::map<std::string, std::string> identifiers_;
  std::set<std::string> used_, touched_;
};

bool is_read(const std::string& buffer, const schedules::Block& body);

}  // namespace tw::codegen
