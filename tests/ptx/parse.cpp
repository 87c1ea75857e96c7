// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "tests/ptx/instructions.h"

namespace tw::ptx {
namespace {

struct TypeName {
  std::string_view name;
  Type type;
  int bits;
};
constexpr TypeName type_names[] = {
    {"pred", Type::Pred, 1},    {"b8", Type::B8, 8},      {"b16", Type::B16, 16},
    {"b32", Type::B32, 32},     {"b64", Type::B64, 64},   {"b128", Type::B128, 128},
    {"u8", Type::U8, 8},        {"u16", Type::U16, 16},   {"u32", Type::U32, 32},
    {"u64", Type::U64, 64},     {"s8", Type::S8, 8},      {"s16", Type::S16, 16},
    {"s32", Type::S32, 32},     {"s64", Type::S64, 64},   {"f16", Type::F16, 16},
    {"f16x2", Type::F16x2, 32}, {"bf16", Type::BF16, 16}, {"bf16x2", Type::BF16x2, 32},
    {"tf32", Type::TF32, 32},   {"f32", Type::F32, 32},   {"f64", Type::F64, 64}};

constexpr std::string_view modifier_names[] = {
#define TW_PTX_MODIFIER(name, text) text,
#include "tests/ptx/modifiers.def"
#undef TW_PTX_MODIFIER
};
static_assert(std::size(modifier_names) <= 64, "an instruction's modifiers are bits of a word");

constexpr std::pair<std::string_view, SpecialRegister> special_names[] = {
    {"%tid.x", TidX},    {"%tid.y", TidY},     {"%tid.z", TidZ},     {"%ntid.x", NTidX},
    {"%ntid.y", NTidY},  {"%ntid.z", NTidZ},   {"%ctaid.x", CtaX},   {"%ctaid.y", CtaY},
    {"%ctaid.z", CtaZ},  {"%nctaid.x", NCtaX}, {"%nctaid.y", NCtaY}, {"%nctaid.z", NCtaZ},
    {"%laneid", LaneId}, {"%warpid", WarpId}};

std::optional<Type> type_named(std::string_view name) {
  for (const TypeName& row : type_names)
    if (row.name == name) return row.type;
  return std::nullopt;
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

/// Replaces comments by blanks, so that positions and line numbers stay.
std::string without_comments(std::string text) {
  for (size_t at = 0; (at = text.find('/', at)) != std::string::npos; ++at) {
    const bool is_line = text.compare(at, 2, "//") == 0;
    if (!is_line && text.compare(at, 2, "/*") != 0) continue;
    const size_t end = is_line ? text.find('\n', at) : text.find("*/", at);
    const size_t stop = end == std::string::npos ? text.size() : end + (is_line ? 0 : 2);
    for (; at < stop; ++at)
      if (text[at] != '\n') text[at] = ' ';
    --at;
  }
  return text;
}

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

/// Reads a text from left to right. Throws a Fault with the line if the text does not fit the
/// grammar.
class Parser {
 public:
  explicit Parser(const std::string& text) : text_(without_comments(text)) {}

  Module module() {
    while (skip(), at_ < text_.size()) {
      const std::string word = name();
      if (word == ".version" || word == ".target" || word == ".address_size") {
        skip_line();
      } else if (word == ".entry") {
        kernel();
      } else if (word == ".visible" || word == ".extern" || word == ".weak") {
        is_extern_ = word == ".extern";
      } else if (word == ".shared" || word == ".global" || word == ".const") {
        variable(word);
      } else {
        fault("'" + word + "' at the top of a module");
      }
    }
    return std::move(module_);
  }

 private:
  [[noreturn]] void fault(const std::string& why) const {
    throw Fault(fmt::format("line {}: {}", line(), why));
  }
  int line() const {
    for (; counted_ < std::min(at_, text_.size()); ++counted_) line_ += text_[counted_] == '\n';
    return line_;
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  bool next_is(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fault(fmt::format("expected '{}' at '{}'", c, text_.substr(at_, 20)));
  }
  std::string name() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (is_name_character(text_[at_]) || text_.compare(at_, 2, "::") == 0))
      at_ += text_.compare(at_, 2, "::") == 0 ? 2 : 1;
    if (begin == at_) fault(fmt::format("expected a name at '{}'", text_.substr(at_, 20)));
    return text_.substr(begin, at_ - begin);
  }
  int64_t number() {
    const std::string digits = name();
    if (digits.starts_with("0f") || digits.starts_with("0F") || digits.starts_with("0d") ||
        digits.starts_with("0D"))
      return static_cast<int64_t>(std::strtoull(digits.c_str() + 2, nullptr, 16));
    char* end = nullptr;
    const auto value = static_cast<int64_t>(std::strtoull(digits.c_str(), &end, 0));
    if (*end != '\0' && std::string_view(end) != "U") fault("'" + digits + "' is no number");
    return value;
  }
  int64_t signed_number() { return take('-') ? -number() : number(); }

  struct Declared {
    std::string name;
    Type type = Type::None;
    int64_t alignment = 1, bytes = 0;
    bool has_size = true;
  };
  /// Reads a declaration such as `.align 128 .b8 name[24]` or `.u64 name`, behind the word for its
  /// state space.
  Declared declared() {
    Declared d;
    std::string word = name();
    int64_t alignment = 0;
    for (;; word = name()) {
      if (word == ".align") {
        alignment = number();
      } else if (word == ".ptr" || word == ".global" || word == ".shared") {
      } else if (const auto type = type_named(word.substr(1))) {
        d.type = *type;
        break;
      } else {
        fault("'" + word + "' in a declaration");
      }
    }
    const int64_t element = bits_of(d.type) / 8;
    skip();
    if (text_.compare(at_, 6, ".align") == 0 || text_.compare(at_, 4, ".ptr") == 0) {
      while (next_is('.')) {
        const std::string attribute = name();
        if (attribute == ".align") number();
      }
    }
    d.name = name();
    d.alignment = alignment > 0 ? alignment : element;
    d.bytes = element;
    if (take('[')) {
      d.has_size = !next_is(']');
      d.bytes = d.has_size ? element * number() : 0;
      expect(']');
    }
    return d;
  }

  void variable(const std::string& space) {
    const Declared d = declared();
    if (space == ".shared") {
      if (is_extern_) {
        // Dynamic shared memory begins behind all static shared memory, whose size is known only at
        // the end.
        symbols_[d.name] = {.kind = Operand::Kind::Register, .reg = DynamicShared};
      } else {
        place_shared(module_shared_, d);
      }
    } else {
      auto content = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(d.bytes));
      if (take('=')) initialise(*content, bits_of(d.type) / 8);
      symbols_[d.name] = {.kind = Operand::Kind::Immediate,
                          .value = reinterpret_cast<int64_t>(content->data())};
      module_.globals.push_back(std::move(content));
    }
    expect(';');
    is_extern_ = false;
  }
  void initialise(std::vector<std::byte>& content, int64_t element) {
    const bool is_list = take('{');
    for (size_t at = 0; at < content.size(); at += static_cast<size_t>(element)) {
      const int64_t value = signed_number();
      std::memcpy(&content[at], &value, static_cast<size_t>(element));
      if (!take(',')) break;
    }
    if (is_list) expect('}');
  }
  void place_shared(int64_t& end, const Declared& d) {
    const int64_t at = rounded_up(shared_base + end, d.alignment);
    symbols_[d.name] = {.kind = Operand::Kind::Immediate, .value = at};
    end = at + d.bytes - shared_base;
  }

  void kernel() {
    kernel_ = {};
    kernel_.name = name();
    kernel_.shared_bytes = module_shared_;
    scopes_.assign(1, {});
    for (const auto& [text, reg] : special_names) scopes_[0][std::string(text)] = reg;
    expect('(');
    while (!take(')')) {
      if (name() != ".param") fault("expected a parameter");
      const Declared d = declared();
      const int64_t at = rounded_up(kernel_.parameter_bytes, d.alignment);
      kernel_.parameters.push_back({d.name, at, d.bytes});
      symbols_[d.name] = {.kind = Operand::Kind::Immediate,
                          .value = static_cast<int64_t>(parameter_window) + at};
      kernel_.parameter_bytes = at + d.bytes;
      take(',');
    }
    while (!next_is('{')) {
      const std::string bound = name();  // .maxntid and other bounds of the launch
      while (!next_is('{') && !next_is('.')) {
        const auto value = number();
        if (bound == ".minnctapersm") kernel_.resident_blocks = static_cast<int64_t>(value);
        take(',');
      }
    }
    body();
    finish();
  }

  void body() {
    expect('{');
    scopes_.emplace_back();
    while (!take('}')) {
      if (next_is('{')) {
        body();
      } else if (next_is('.')) {
        directive();
      } else {
        statement();
      }
    }
    scopes_.pop_back();
  }

  void directive() {
    const std::string word = name();
    if (word == ".reg") {
      registers();
    } else if (word == ".shared" || word == ".local") {
      const Declared d = declared();
      if (word == ".shared") {
        place_shared(kernel_.shared_bytes, d);
      } else {
        const int64_t at = rounded_up(kernel_.local_bytes, d.alignment);
        symbols_[d.name] = {.kind = Operand::Kind::Immediate, .value = at};
        kernel_.local_bytes = at + d.bytes;
      }
      expect(';');
    } else if (word == ".pragma" || word == ".loc" || word == ".file") {
      at_ = text_.find(word == ".pragma" ? ';' : '\n', at_) + 1;
    } else {
      fault("'" + word + "' in a kernel");
    }
  }

  void registers() {
    if (!type_named(name().substr(1))) fault("expected the type of registers");
    do {
      const std::string prefix = name();
      if (take('<')) {
        const int64_t count = number();
        expect('>');
        for (int64_t i = 0; i < count; ++i)
          scopes_.back()[prefix + std::to_string(i)] = kernel_.registers++;
      } else {
        scopes_.back()[prefix] = kernel_.registers++;
      }
    } while (take(','));
    expect(';');
  }

  void statement() {
    Instruction i;
    i.line = line();
    const size_t begin = at_;
    if (take('@')) {
      i.is_guard_negated = take('!');
      i.guard = register_named(name());
    }
    const std::string mnemonic = name();
    if (take(':')) {
      labels_[mnemonic] = static_cast<int>(kernel_.code.size());
      return;
    }
    decode(mnemonic, i);
    if (!next_is(';')) {
      do {
        if (mnemonic.starts_with("bra")) {
          branches_.emplace_back(kernel_.code.size(), name());
        } else {
          i.operands.push_back(operand(i));
        }
      } while (take(','));
    }
    i.text = text_.substr(begin, at_ - begin);
    expect(';');
    kernel_.code.push_back(std::move(i));
  }

  int register_named(const std::string& wanted) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(wanted); found != scope->end()) return found->second;
    return -1;
  }

  /// Reads a register, the name of a variable, or a number.
  Operand atom() {
    const bool is_negative = take('-');
    skip();
    if (is_negative || std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      const int64_t value = number();
      return {.kind = Operand::Kind::Immediate, .value = is_negative ? -value : value};
    }
    const std::string word = name();
    if (word == "_") return {};
    if (const int reg = register_named(word); reg >= 0)
      return {.kind = Operand::Kind::Register, .reg = reg};
    if (const auto found = symbols_.find(word); found != symbols_.end()) return found->second;
    fault("unknown name '" + word + "'");
  }

  Operand operand(const Instruction&) {
    if (take('[')) return address();
    if (take('{')) {
      Operand vector{.kind = Operand::Kind::Vector};
      while (!take('}')) {
        vector.elements.push_back(atom());
        take(',');
      }
      return vector;
    }
    const bool is_negated = take('!');
    Operand result = atom();
    result.is_negated = is_negated;
    if (take('|')) return {.kind = Operand::Kind::Vector, .elements = {result, atom()}};
    return result;
  }

  /// Reads the rest of an address, such as `%rd1+16]`, `name]` or `%rd1, {%r1, %r2}]`.
  Operand address() {
    const Operand base = atom();
    Operand result{.kind = Operand::Kind::Address};
    if (base.kind == Operand::Kind::Register)
      result.reg = base.reg;
    else
      result.value = base.value;
    if (take('+')) result.value += signed_number();
    if (take(',')) {
      expect('{');
      while (!take('}')) {
        result.elements.push_back(atom());
        take(',');
      }
    }
    expect(']');
    return result;
  }

  void decode(const std::string& mnemonic, Instruction& i) {
    i.row = find_row(mnemonic);
    if (i.row == nullptr) fault("the instruction '" + mnemonic + "' is not interpreted");
    const std::vector<std::string> allowed = words(i.row->modifiers);
    const std::string rest = mnemonic.substr(i.row->name.size());
    for (const std::string& part : split(rest, '.')) {
      if (part.empty()) continue;
      if (const auto type = type_named(part)) {
        i.types.push_back(*type);
      } else if (part == "v2" || part == "v4") {
        i.vector = part[1] - '0';
      } else if (int m, n, k; std::sscanf(part.c_str(), "m%dn%dk%d", &m, &n, &k) == 3) {
        i.shape = {m, n, k};
      } else if (std::ranges::count(allowed, part) == 0) {
        fault(fmt::format("'{}' of the instruction '{}' is not interpreted", part, mnemonic));
      } else {
        const auto* found = std::ranges::find(modifier_names, part);
        if (found != std::end(modifier_names))
          i.modifiers |= uint64_t{1} << (found - std::begin(modifier_names));
      }
    }
    if (!i.types.empty()) i.type = i.types[0];
    i.second = i.types.size() > 1 ? i.types[1] : i.type;
  }

  void finish() {
    for (const auto& [at, label] : branches_) {
      if (!labels_.contains(label)) fault("no label " + label);
      kernel_.code[at].target = labels_[label];
    }
    branches_.clear();
    labels_.clear();
    module_.kernels[kernel_.name] = std::move(kernel_);
  }

  std::string text_;
  size_t at_ = 0;
  mutable size_t counted_ = 0;  ///< characters whose line breaks line_ counts
  mutable int line_ = 1;
  Module module_;
  Kernel kernel_;
  int64_t module_shared_ = 0;
  bool is_extern_ = false;
  std::unordered_map<std::string, Operand> symbols_;
  std::vector<std::unordered_map<std::string, int>> scopes_;
  std::unordered_map<std::string, int> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
};

}  // namespace

int bits_of(Type type) {
  for (const TypeName& row : type_names)
    if (row.type == type) return row.bits;
  return 64;
}
bool is_float(Type type) { return type >= Type::F16; }
bool is_signed(Type type) { return type >= Type::S8 && type <= Type::S64; }

const Row* find_row(std::string_view mnemonic) {
  const Row* best = nullptr;
  for (const auto rows : {arithmetic_rows(), memory_rows(), asynchronous_rows(), matrix_rows()})
    for (const Row& row : rows)
      if (mnemonic.starts_with(row.name) &&
          (mnemonic.size() == row.name.size() || mnemonic[row.name.size()] == '.') &&
          (best == nullptr || row.name.size() > best->name.size()))
        best = &row;
  return best;
}

Result<Module> parse(const std::string& text) {
  try {
    return Parser(text).module();
  } catch (const Fault& fault) {
    const bool is_missing = std::string_view(fault.what()).ends_with("is not interpreted");
    return fail(is_missing ? ErrorCode::Unsupported : ErrorCode::Invalid,
                fmt::format("[ptx] {}", fault.what()));
  }
}

}  // namespace tw::ptx
