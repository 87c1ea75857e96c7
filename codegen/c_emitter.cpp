// SPDX-License-Identifier: Apache-2.0
#include "codegen/c_emitter.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/c_prelude.h"
#include "codegen/ranges.h"

namespace tw::codegen {
namespace {

using dsl::BinaryOp;
using dsl::UnaryOp;
using schedules::Allocate;
using schedules::Assign;
using schedules::Block;
using schedules::Buffer;
using schedules::Combine;
using schedules::Expr;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::Program;
using schedules::Stmt;

// C's binding of operators, loosest first.
constexpr int conditional_level = 1, or_level = 2, and_level = 3, compare_level = 4, add_level = 5,
              mul_level = 6, unary_level = 7, atom_level = 8;

bool is_half(DType type) { return type == Float16 || type == BFloat16; }

std::string_view storage_type(DType type) {
  switch (type) {
    case Float32:
      return "float";
    case Float16:
    case BFloat16:
      return "uint16_t";
    case Int8:
      return "int8_t";
    case UInt8:
    case Bool:
      return "uint8_t";
    case Int32:
      return "int32_t";
    case Int64:
      return "int64_t";
  }
  TW_CHECK(false);
}

std::string float_literal(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  std::string text = fmt::format("{}", static_cast<float>(value));  // the shortest that reads back
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string int_literal(DType type, int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "INT64_MIN";
  if (type == Int32 && value == std::numeric_limits<int32_t>::min()) return "INT32_MIN";
  const bool is_long = value != static_cast<int32_t>(value);
  return is_long ? fmt::format("INT64_C({})", value) : std::to_string(value);
}

/// C text and how tightly its outermost operator binds.
struct Text {
  std::string text;
  int level = atom_level;
};

std::string at_level(const Text& t, int level) {
  return t.level < level ? "(" + t.text + ")" : t.text;
}

bool reads_memory(const Expr& expr) {
  bool found = false;
  dsl::for_each(expr, [&](const Expr& e) { found |= e.as<dsl::Read>() != nullptr; });
  return found;
}

/// `b` is `!a`, and what happens under `a` cannot change that.
bool is_negation(const Expr& a, const Expr& b) {
  const auto* u = b.as<dsl::Unary>();
  return u && u->op == UnaryOp::Not && dsl::equal(u->a, a) && !reads_memory(a);
}

bool is_read(const std::string& buffer, const Block& body) {
  bool found = false;
  schedules::for_each(body, [&](const Stmt& stmt) {
    const Assign* assign = stmt.as<Assign>();
    if (!assign) return;
    const auto visit = [&](const Expr& e) {
      if (const auto* r = e.as<dsl::Read>()) found |= r->tensor == buffer;
    };
    dsl::for_each(assign->value, visit);
    for (const Expr& index : assign->indices) dsl::for_each(index, visit);
  });
  return found;
}

Text call(std::string_view function, const std::string& arguments) {
  return {fmt::format("{}({})", function, arguments), atom_level};
}

/// One phase. Loop variables are declared by their loops; equal names get equal identifiers.
class PhaseEmitter {
 public:
  PhaseEmitter(const Program& program, const Phase& phase) : program_(program), phase_(phase) {
    for (const auto& argument : program.arguments) add_buffer(argument.buffer);
    for (const Buffer& buffer : program.scratch) add_buffer(buffer);
    for (const auto& axis : phase.axes) ranges_.set(axis.variable, 0, axis.extent);
    choose_index_type();
  }

  std::string emit(const std::string& symbol) {
    statements(*phase_.body, 1);
    std::string text = fmt::format("/* {}: {} tasks */\n", phase_.name, phase_.tasks());
    text += fmt::format(
        "TW_EXPORT int32_t {}(void* const* buffers, void* scratch, int32_t task) {{\n", symbol);
    text += pointers() + task_axes() + body_ + "  return 0;\n}\n";
    return text;
  }

 private:
  // 32 bits only if every index, bound and comparison of the phase fits.
  void choose_index_type() {
    bool fits = true;
    const auto check = [&](const Expr& e) {
      dsl::for_each(e, [&](const Expr& part) {
        if (part.type() == Int64 && !ranges_.of(part).fits_int32() && !part.as<dsl::Read>())
          fits = false;
        if (const auto* r = part.as<dsl::Read>())
          fits &= ranges_.of(linear_index(buffer(r->tensor), r->indices)).fits_int32();
      });
    };
    schedules::for_each(*phase_.body, [&](const Stmt& stmt) {
      if (const Loop* loop = stmt.as<Loop>()) {
        check(loop->begin);
        check(loop->end);
        ranges_.set(loop->variable, loop->begin, loop->end);
      } else if (const If* branch = stmt.as<If>()) {
        check(branch->condition);
      } else if (const Allocate* allocate = stmt.as<Allocate>()) {
        add_buffer(allocate->buffer);
      } else if (const Assign* assign = stmt.as<Assign>()) {
        for (const Expr& index : assign->indices) check(index);
        check(assign->value);
        fits &= ranges_.of(linear_index(buffer(assign->buffer), assign->indices)).fits_int32();
      }
    });
    index_type_ = fits ? "int32_t" : "int64_t";
  }

  void add_buffer(const Buffer& buffer) { buffers_[buffer.name] = &buffer; }
  const Buffer& buffer(const std::string& name) const {
    const auto found = buffers_.find(name);
    TW_CHECK(found != buffers_.end(), "a program accesses declared buffers only");
    return *found->second;
  }

  const std::string& identifier(const std::string& name) {
    const auto [at, is_new] = identifiers_.emplace(name, "");
    if (!is_new) return at->second;
    std::string id;
    for (const char c : name) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (id.empty() || std::isdigit(static_cast<unsigned char>(id[0]))) id = "v" + id;
    while (is_reserved_in_c(id) || used_.contains(id)) id += "_";
    used_.insert(id);
    return at->second = id;
  }

  /// Buffers are named apart from variables: "x" may be both.
  const std::string& buffer_identifier(const std::string& name) {
    touched_.insert(name);
    return identifier(name);
  }

  std::string pointers() {
    std::string text;
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      const auto& argument = program_.arguments[i];
      if (!touched_.contains(argument.buffer.name)) continue;
      const std::string type = fmt::format("{}{}*", argument.is_output ? "" : "const ",
                                           storage_type(argument.buffer.type));
      text += fmt::format("  {} const {} = ({})buffers[{}];\n", type,
                          identifier(argument.buffer.name), type, i);
    }
    const ScratchLayout layout = scratch_layout(program_);
    for (size_t i = 0; i < program_.scratch.size(); ++i) {
      const Buffer& scratch = program_.scratch[i];
      if (!touched_.contains(scratch.name)) continue;
      text += fmt::format("  {0}* const {1} = ({0}*)(void*)((char*)scratch + {2});\n",
                          storage_type(scratch.type), identifier(scratch.name),
                          int_literal(Int64, layout.offsets[i]));
    }
    if (text.find("buffers[") == std::string::npos) text += "  (void)buffers;\n";
    if (text.find("scratch +") == std::string::npos) text += "  (void)scratch;\n";
    return text;
  }

  std::string task_axes() {
    std::string text;
    int64_t stride = 1;
    for (size_t i = phase_.axes.size(); i > 0; --i) {
      const auto& axis = phase_.axes[i - 1];
      const std::string quotient = stride == 1 ? "task" : fmt::format("task / {}", stride);
      const std::string value = i == 1 ? quotient : fmt::format("{} % {}", quotient, axis.extent);
      if (used_variables_.contains(axis.variable))
        text.insert(
            0, fmt::format("  const {} {} = {};\n", index_type_, identifier(axis.variable), value));
      stride *= axis.extent;
    }
    return text.empty() ? "  (void)task;\n" : text;
  }

  void line(int indent, const std::string& text) {
    body_ += std::string(static_cast<size_t>(indent) * 2, ' ') + text + "\n";
  }

  void statements(const Block& block, int indent) {
    for (size_t i = 0; i < block.size(); ++i) {
      const Stmt& stmt = block[i];
      if (const Loop* loop = stmt.as<Loop>()) {
        emit_loop(*loop, indent);
      } else if (const If* branch = stmt.as<If>()) {
        const If* next = i + 1 < block.size() ? block[i + 1].as<If>() : nullptr;
        const If* otherwise =
            next && is_negation(branch->condition, next->condition) ? next : nullptr;
        emit_if(*branch, otherwise, indent);
        if (otherwise) ++i;
      } else if (const Assign* assign = stmt.as<Assign>()) {
        emit_assign(*assign, indent);
      } else if (const Allocate* allocate = stmt.as<Allocate>()) {
        emit_allocate(*allocate, indent);
      }
    }
  }

  void emit_loop(const Loop& loop, int indent) {
    constexpr std::string_view notes[] = {"", "  /* unrolled */", "  /* vector */",
                                          "  /* threads */"};
    const std::string& v = identifier(loop.variable);
    const std::string begin = value(loop.begin).text, end = at_level(value(loop.end), add_level);
    line(indent, fmt::format("for ({0} {1} = {2}; {1} < {3}; ++{1}) {{{4}", index_type_, v, begin,
                             end, notes[static_cast<int>(loop.kind)]));
    statements(*loop.body, indent + 1);
    line(indent, "}");
  }

  void emit_if(const If& branch, const If* otherwise, int indent) {
    line(indent, fmt::format("if ({}) {{", value(branch.condition).text));
    statements(*branch.body, indent + 1);
    if (otherwise) {
      line(indent, "} else {");
      statements(*otherwise->body, indent + 1);
    }
    line(indent, "}");
  }

  void emit_allocate(const Allocate& allocate, int indent) {
    const Buffer& b = allocate.buffer;
    line(indent, "{");
    line(indent + 1, fmt::format("TW_ALIGNED {} {}[{}];", storage_type(b.type),
                                 buffer_identifier(b.name), std::max<int64_t>(1, b.elements())));
    if (!is_read(b.name, *allocate.body))
      line(indent + 1, fmt::format("(void){};", identifier(b.name)));
    statements(*allocate.body, indent + 1);
    line(indent, "}");
  }

  void emit_assign(const Assign& assign, int indent) {
    const Buffer& b = buffer(assign.buffer);
    const std::string target = element(b, assign.indices);
    const bool plain_float = b.type == Float32;
    if (plain_float && (assign.combine == Combine::Sum || assign.combine == Combine::Prod)) {
      line(indent, fmt::format("{} {}= {};", target, assign.combine == Combine::Sum ? "+" : "*",
                               value(assign.value).text));
      return;
    }
    const Text old = loaded(b.type, target);
    Text result = value(assign.value);
    switch (assign.combine) {
      case Combine::None:
        break;
      case Combine::Sum:
        result = arithmetic(BinaryOp::Add, b.type, old, result, true);
        break;
      case Combine::Prod:
        result = arithmetic(BinaryOp::Mul, b.type, old, result, true);
        break;
      case Combine::Min:
        result = min_max(BinaryOp::Min, b.type, old, result);
        break;
      case Combine::Max:
        result = min_max(BinaryOp::Max, b.type, old, result);
        break;
    }
    line(indent, fmt::format("{} = {};", target, stored(b.type, result)));
  }

  std::string element(const Buffer& b, const std::vector<Expr>& indices) {
    const std::string& name = buffer_identifier(b.name);
    Text linear{"0", atom_level};
    for (size_t i = 0; i < indices.size(); ++i) {
      const Text index = value(indices[i]);
      if (i == 0) {
        linear = index;
      } else {
        linear = {fmt::format("{} * {} + {}", at_level(linear, mul_level), b.extents[i],
                              at_level(index, add_level)),
                  add_level};
      }
    }
    return fmt::format("{}[{}]", name, linear.text);
  }

  static Text loaded(DType type, const std::string& element) {
    if (type == Float16) return call("tw_from_f16", element);
    if (type == BFloat16) return call("tw_from_bf16", element);
    if (type == Bool) return {element + " != 0", compare_level};
    return {element, atom_level};
  }

  static std::string stored(DType type, const Text& value) {
    if (type == Float16) return call("tw_to_f16", value.text).text;
    if (type == BFloat16) return call("tw_to_bf16", value.text).text;
    return value.text;
  }

  Text value(const Expr& expr) {
    if (const auto* c = expr.as<dsl::Const>()) {
      const std::string text =
          is_float(c->type) ? float_literal(c->float_value) : int_literal(c->type, c->int_value);
      return {text, text[0] == '-' ? unary_level : atom_level};
    }
    if (const auto* v = expr.as<dsl::Var>()) {
      used_variables_.insert(v->name);
      return {identifier(v->name), atom_level};
    }
    if (const auto* r = expr.as<dsl::Read>()) {
      const Buffer& b = buffer(r->tensor);
      return loaded(b.type, element(b, r->indices));
    }
    if (const auto* u = expr.as<dsl::Unary>()) return unary(*u);
    if (const auto* b = expr.as<dsl::Binary>()) return binary(*b);
    if (const auto* c = expr.as<dsl::Cast>()) return converted(*c);
    const auto& s = *expr.as<dsl::Select>();
    return {fmt::format("{} ? {} : {}", at_level(value(s.condition), or_level),
                        at_level(value(s.a), or_level), at_level(value(s.b), conditional_level)),
            conditional_level};
  }

  Text unary(const dsl::Unary& u) {
    const Text a = value(u.a);
    const DType type = u.a.type();
    switch (u.op) {
      case UnaryOp::Neg:
        if (is_float(type)) return {"-" + at_level(a, atom_level), unary_level};
        return arithmetic(BinaryOp::Sub, type, {"0", atom_level}, a, reads_memory(u.a));
      case UnaryOp::Not:
        return {"!" + at_level(a, atom_level), unary_level};
      case UnaryOp::Abs:
        if (is_float(type)) return call("fabsf", a.text);
        return narrowed(type, call("tw_abs", a.text));
      case UnaryOp::Exp:
        return call("expf", a.text);
      case UnaryOp::Log:
        return call("logf", a.text);
      case UnaryOp::Sqrt:
        return call("sqrtf", a.text);
      case UnaryOp::Tanh:
        return call("tanhf", a.text);
      case UnaryOp::Erf:
        return call("erff", a.text);
      case UnaryOp::Floor:
        return call("floorf", a.text);
    }
    TW_CHECK(false);
  }

  Text binary(const dsl::Binary& b) {
    const DType type = b.a.type();
    const Text x = value(b.a), y = value(b.b);
    const auto infix = [&](std::string_view op, int level) -> Text {
      return {fmt::format("{} {} {}", at_level(x, level), op, at_level(y, level + 1)), level};
    };
    switch (b.op) {
      case BinaryOp::Add:
      case BinaryOp::Sub:
      case BinaryOp::Mul:
        return arithmetic(b.op, type, x, y, reads_memory(b.a) || reads_memory(b.b));
      case BinaryOp::Div:
      case BinaryOp::Mod:
        return division(b, x, y);
      case BinaryOp::Min:
      case BinaryOp::Max:
        return min_max(b.op, type, x, y);
      case BinaryOp::Lt:
        return infix("<", compare_level);
      case BinaryOp::Le:
        return infix("<=", compare_level);
      // && and || inside each other keep parentheses, as compilers advise.
      case BinaryOp::And:
        return infix("&&", and_level);
      case BinaryOp::Or:
        return {fmt::format("{} || {}", at_level(x, compare_level), at_level(y, compare_level)),
                or_level};
      case BinaryOp::Eq:
      case BinaryOp::Ne:
        return {fmt::format("{} {} {}", at_level(x, add_level),
                            b.op == BinaryOp::Eq ? "==" : "!=", at_level(y, add_level)),
                compare_level};
    }
    TW_CHECK(false);
  }

  /// +, - and *. 32-bit integers, and those of 64 bits that are no plain index, may overflow: they
  /// wrap through unsigned arithmetic.
  static Text arithmetic(BinaryOp op, DType type, const Text& x, const Text& y, bool is_value) {
    const int level = op == BinaryOp::Mul ? mul_level : add_level;
    const auto plain = [&]() -> Text {
      return {
          fmt::format("{} {} {}", at_level(x, level), dsl::to_string(op), at_level(y, level + 1)),
          level};
    };
    if (type == Int32 || (type == Int64 && is_value))
      return {fmt::format("(int{0}_t)((uint{0}_t){1} {2} (uint{0}_t){3})", type == Int32 ? 32 : 64,
                          at_level(x, unary_level), dsl::to_string(op), at_level(y, unary_level)),
              unary_level};
    if (is_float(type) || type == Int64) return plain();
    return narrowed(type, plain());
  }

  static Text narrowed(DType type, const Text& value) {
    if (type == Int64) return value;
    return {fmt::format("({}){}", storage_type(type), at_level(value, unary_level)), unary_level};
  }

  Text division(const dsl::Binary& b, const Text& x, const Text& y) {
    const bool is_div = b.op == BinaryOp::Div;
    const Text plain = {fmt::format("{} {} {}", at_level(x, mul_level), is_div ? "/" : "%",
                                    at_level(y, mul_level + 1)),
                        mul_level};
    const DType type = b.a.type();
    if (is_float(type) || type == UInt8 || ranges_.of(b.a).low >= 0) return plain;
    Text floored = call(is_div ? "tw_floor_div" : "tw_floor_mod", x.text + ", " + y.text);
    return type == Int64 && index_type_ == "int64_t" ? floored : narrowed(index_or(type), floored);
  }

  /// Int64 expressions have the width of the phase's indices.
  DType index_or(DType type) const {
    return type == Int64 && index_type_ == "int32_t" ? Int32 : type;
  }

  Text min_max(BinaryOp op, DType type, const Text& x, const Text& y) {
    const bool is_min = op == BinaryOp::Min;
    const std::string arguments = x.text + ", " + y.text;
    if (is_float(type)) return call(is_min ? "fminf" : "fmaxf", arguments);
    return narrowed(index_or(type), call(is_min ? "tw_min" : "tw_max", arguments));
  }

  Text converted(const dsl::Cast& c) {
    const Text a = value(c.a);
    const DType from = c.a.type();
    if (is_half(c.type)) {  // rounded here, computed on in float
      const std::string_view suffix = c.type == Float16 ? "f16" : "bf16";
      const std::string as_float = is_float(from) ? a.text : "(float)" + at_level(a, unary_level);
      return call(fmt::format("tw_from_{}", suffix), fmt::format("tw_to_{}({})", suffix, as_float));
    }
    if (is_half(from) && c.type == Float32) return a;
    if (is_float(from) && !is_float(c.type))
      return call(fmt::format("tw_to_{}", tw::to_string(c.type)), a.text);
    if (c.type == Bool) return {at_level(a, add_level) + " != 0", compare_level};
    return {fmt::format("({}){}", storage_type(c.type), at_level(a, unary_level)), unary_level};
  }

  const Program& program_;
  const Phase& phase_;
  Ranges ranges_;
  std::string index_type_;
  std::map<std::string, const Buffer*> buffers_;
  std::map<std::string, std::string> identifiers_;
  std::set<std::string> used_, touched_, used_variables_;
  std::string body_;
};

}  // namespace

Result<std::string> emit_c(const Program& program, const std::string& prefix) {
  TW_RETURN_IF_ERROR(check_limits(program));
  std::string phases;
  for (size_t i = 0; i < program.phases.size(); ++i)
    phases +=
        (i ? "\n" : "") + PhaseEmitter(program, program.phases[i]).emit(phase_symbol(prefix, i));
  return std::string(c_head()) + c_functions_for(phases) + phases;
}

}  // namespace tw::codegen
