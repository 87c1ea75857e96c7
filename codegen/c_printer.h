// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prints one phase of a Program as text; this class holds the parts that C, CUDA C++ and OpenCL C
// have in common. Expressions have the meaning of dsl/interpret.h, computed in their own type
// (16-bit floats in float). Indices are 32-bit if all indices of the phase are proved to fit, else
// 64-bit.
//
// A dialect spells types, literals and functions (CSpelling), and overrides how loops, buffers and
// the text around the statements are printed. Not thread-safe.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/ranges.h"
#include "schedules/program/program.h"
#include "schedules/program/threads.h"

namespace tw::codegen {

struct CSpelling {
  std::string_view int8, uint8, int16, uint16, int32, uint32, int64, uint64;
  std::string_view int32_min, int64_min;
  std::string_view before_int64,
      after_int64;  ///< put around a literal that needs more than 32 bits
  std::string_view nan, infinity;
  std::string_view float_suffix;  ///< appended to exp, sqrt, ... on float
  /// True if tw_min and similar functions compute in 32 bits and have _i64 variants; else they
  /// compute in 64 bits.
  bool has_narrow_functions;
  bool (*is_reserved)(std::string_view word);
};

/// The type in memory: 16-bit floats are stored as their bits.
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

  /// Text and how tightly its outermost operator binds.
  struct Text {
    std::string text;
    int level;
  };

  // ---- overridden by dialects ---------------------------------------------------------------
  virtual void print_loop(const schedules::Loop& loop, int indent) = 0;
  /// `is_last` of its block: what it declares may live until that ends.
  virtual void print_allocate(const schedules::Allocate& allocate, bool is_last, int indent) = 0;
  virtual void print_assign(const schedules::Assign& assign, int indent);
  /// The index in memory of an element by its index in the dense buffer.
  virtual std::string placed(const Buffer&, const std::string& index) const { return index; }

  /// Prints nothing where a dialect has no prefetch.
  virtual void print_prefetch(const schedules::PrefetchLines&, int /*indent*/) {}

  /// A guarded assignment, or the vector loop around it.
  virtual void print_branches(const schedules::Branches& branches, int indent);

  // ---- common to all dialects ---------------------------------------------------------------
  void print(const Block& block, int indent);
  void print_if(const schedules::If& branch, int indent);
  virtual void print_body(const Block& block, int indent) { print(block, indent); }
  void line(int indent, const std::string& text);

  /// "for (int i = 0; i < 4; ++i)"
  std::string for_head(const schedules::Loop& loop, int64_t step = 1);
  /// "const int m = block / 8 % 4;" for the variables in use, of which `number` is the row-major
  /// number.
  std::vector<std::string> numbered_by(const std::string& number,
                                       const std::vector<schedules::TaskAxis>& variables);

  std::string value(const Expr& expr) { return print(expr).text; }
  /// The f32 that is rounded when the value is stored as a 16-bit float of the type. A conversion
  /// to that type is not printed: rounding once more changes nothing.
  std::string before_rounding(DType type, const Expr& value);
  std::string element(const Buffer& buffer, const std::vector<Expr>& indices);
  std::string int64_literal(int64_t value) const;

  std::string_view storage_type(DType type) const { return codegen::storage_type(type, spelling_); }
  const Buffer& buffer(const std::string& name) const;
  const std::string& identifier(const std::string& name);
  /// Buffers are named apart from variables: "x" may be both.
  const std::string& buffer_identifier(const std::string& name);
  /// The value of an element that is given by its text.
  static Text loaded(DType type, const std::string& element);
  bool is_touched(const std::string& buffer) const { return touched_.contains(buffer); }

  const schedules::Program& program_;
  const schedules::Phase& phase_;
  Ranges ranges_;
  std::string_view index_type_;
  std::set<std::string> used_variables_;
  /// For each buffer, the dimensions that do not exist in memory.
  schedules::NumberedDimensions dropped_;
  /// Expressions that a variable of the text holds here, and its name.
  std::vector<std::pair<Expr, std::string>> held_;
  std::string body_;

 private:
  void choose_index_type();

  static std::string stored(DType type, const Text& value);
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
  /// `name` on integers, in the type that they have.
  Text integer_call(std::string_view name, DType type, const std::string& arguments) const;
  Text float_call(std::string_view name, DType type, const std::string& arguments) const;
  DType index_or(DType type) const;

  const CSpelling& spelling_;
  std::map<std::string, const Buffer*> buffers_;
  std::map<std::string, std::string> identifiers_;
  std::set<std::string> used_, touched_;
};

bool is_read(const std::string& buffer, const schedules::Block& body);

}  // namespace tw::codegen
