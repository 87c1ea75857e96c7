// SPDX-License-Identifier: Apache-2.0
#include "dsl/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "dsl/parse.h"

namespace tw::dsl {
namespace {

tl::unexpected<Error> bad_shape(std::string_view text, const std::string& why) {
  return fail(ErrorCode::Usage, fmt::format("[shape] '{}': {}", text, why));
}

bool is_attribute_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

/// Returns the attribute with this name or alias, or null.
const Attribute* find_attribute(const Operator& op, std::string_view name) {
  for (const Attribute& attribute : op.attributes)
    if (attribute.name == name || (!attribute.alias.empty() && attribute.alias == name))
      return &attribute;
  return nullptr;
}

Status add_attribute(const Operator& op, std::string_view text, std::string_view name,
                     std::string_view value, Attributes& attributes) {
  const Attribute* attribute = find_attribute(op, name);
  if (!attribute) {
    std::vector<std::string> known;
    for (const Attribute& a : op.attributes) known.emplace_back(a.name);
    const auto guess = nearest(name, known);
    return bad_shape(text, fmt::format("'{}' names no attribute of {}{}; known: {}", name, op.name,
                                       guess ? fmt::format(", did you mean '{}'?", *guess) : "",
                                       join(known, ", ")));
  }
  const auto number = parse_int(value);
  if (!number)
    return bad_shape(
        text, fmt::format("'{}' of '{}' is no whole number of at most 2^63 - 1", value, name));
  if (*number < attribute->minimum)
    return bad_shape(text, fmt::format("{}={}: expected {} or more ({})", name, value,
                                       attribute->minimum, attribute->meaning));
  if (!attributes.emplace(std::string(attribute->name), *number).second)
    return bad_shape(text, fmt::format("'{}' is given twice", attribute->name));
  return {};
}

Result<Attributes> parse_pairs(const Operator& op, std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  Attributes attributes;
  for (const std::string& word : words(spaced)) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      return bad_shape(text, fmt::format("'{}' is no name=value", word));
    TW_RETURN_IF_ERROR(
        add_attribute(op, text, word.substr(0, equals), word.substr(equals + 1), attributes));
  }
  return attributes;
}

Result<Attributes> parse_compact(const Operator& op, std::string_view text) {
  Attributes attributes;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    while (i < text.size() && is_attribute_letter(text[i])) ++i;
    const std::string_view name = text.substr(begin, i - begin);
    const size_t digits = i;
    if (i < text.size() && text[i] == '-') ++i;
    while (i < text.size() && is_digit(text[i])) ++i;
    if (name.empty() || i == digits)
      return bad_shape(
          text, fmt::format("expected a name and a number at '{}', as in {}", text.substr(begin),
                            op.name == "conv2d" ? "n1c64h56w56k64r3s3p1" : op.example));
    TW_RETURN_IF_ERROR(add_attribute(op, text, name, text.substr(digits, i - digits), attributes));
  }
  return attributes;
}

Result<Workload> parse_expression_workload(std::string_view rest) {
  const size_t space = std::min(rest.find(' '), rest.size());
  TW_TRY(const Accuracy accuracy, parse_accuracy(rest.substr(0, space)));
  TW_TRY(const Compute compute, parse_compute(rest.substr(space)));
  return workload(compute, accuracy);
}

}  // namespace

std::string_view to_string(Accuracy accuracy) {
  return accuracy == Accuracy::Fast ? "fast" : "strict";
}

Result<Accuracy> parse_accuracy(std::string_view text) {
  for (const Accuracy accuracy : {Accuracy::Fast, Accuracy::Strict})
    if (text == to_string(accuracy)) return accuracy;
  return fail(ErrorCode::Usage, fmt::format("[accuracy] '{}' is none: use fast or strict", text));
}

std::string Workload::key() const {
  if (op == "expr") return fmt::format("expr {} {}", to_string(accuracy), to_line(compute));
  const auto row = find_operator(op);
  TW_CHECK(row.has_value(), "a workload of an unknown operator");
  return fmt::format("{} {} {} {}", op, print_attributes(**row, attributes), to_string(dtype),
                     to_string(accuracy));
}

std::string Workload::asked() const {
  const std::string text = print_layouts(layouts);
  if (state == CacheState::Hot) return text;
  return fmt::format("{}{}{}", text, text.empty() ? "" : " ", to_string(state));
}

std::string Workload::text() const {
  const std::string braced = asked();
  return braced.empty() ? key() : fmt::format("{} {{{}}}", key(), braced);
}

std::string Workload::hash() const { return short_hash(key()); }

bool keeps_arrays(const Workload& workload) { return workload.op == "expr"; }

bool Workload::is_empty() const {
  for (const std::string& output : compute.outputs) {
    const std::vector<int64_t> shape = compute.shape_of(output);
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  }
  return false;
}

Result<Workload> make_workload(std::string_view op, const Attributes& attributes, DType dtype,
                               Accuracy accuracy) {
  TW_TRY(const Operator* row, find_operator(op));
  TW_TRY(Attributes resolved, resolve(*row, attributes));
  TW_TRY(Compute compute, declare(*row, resolved, dtype));
  return Workload{std::string(row->name), std::move(resolved), dtype, accuracy, std::move(compute)};
}

Result<Workload> workload(const Compute& compute, Accuracy accuracy) {
  TW_RETURN_IF_ERROR(validate(compute));
  const DType dtype = compute.type_of(compute.outputs.front());
  return Workload{"expr", {}, dtype, accuracy, compute};
}

Result<Workload> workload(const std::vector<Tensor>& outputs,
                          const std::vector<std::pair<Axis, int64_t>>& extents, Accuracy accuracy) {
  TW_TRY(const Compute compute, build(outputs, extents));
  return workload(compute, accuracy);
}

Result<Layout> parse_layout(const Compute& compute, const std::string& tensor,
                            std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return fail(ErrorCode::Usage, fmt::format("[layouts] {}={}: {}", tensor, text, why));
  };
  std::vector<std::string> known;
  for (const Input& input : compute.inputs) known.push_back(input.name);
  known.insert(known.end(), compute.outputs.begin(), compute.outputs.end());
  if (std::find(known.begin(), known.end(), tensor) == known.end())
    return bad(
        fmt::format("'{}' is no input or output; expected one of {}", tensor, join(known, ", ")));
  const std::vector<int64_t> shape = compute.shape_of(tensor);
  if (shape.empty()) return bad("a single number has no layout");
  Result<Layout> layout = Layout::parse(text, compute.letters_of(tensor));
  if (!layout) return bad(layout.error().message.substr(layout.error().message.find(' ') + 1));
  if (!layout->storage_bytes(shape, compute.type_of(tensor)))
    return bad("the tensor has more than 2^56 bytes in this layout");
  return layout;
}

Result<Workload> with_layouts(Workload workload, const Layouts& layouts) {
  for (const auto& [tensor, text] : layouts) {
    TW_TRY(const Layout layout, parse_layout(workload.compute, tensor, text));
    const std::string canonical = layout.to_string(workload.compute.letters_of(tensor));
    if (!workload.layouts.emplace(tensor, canonical).second)
      return fail(ErrorCode::Usage,
                  fmt::format("[layouts] the layout of '{}' is given twice", tensor));
  }
  return workload;
}

Result<Asked> parse_asked(std::string_view text) {
  Asked asked;
  std::vector<std::string> layouts;
  bool has_state = false;
  for (const std::string& word : words(text)) {
    // A word with a colon is a state, because neither names of tensors nor layouts have colons.
    if (word.find(':') == std::string::npos) {
      layouts.push_back(word);
      continue;
    }
    if (std::exchange(has_state, true))
      return fail(ErrorCode::Usage, fmt::format("[caches] a second state, '{}': give one", word));
    TW_TRY(asked.state, parse_cache_state(word));
  }
  TW_TRY(asked.layouts, parse_layouts(join(layouts, " ")));
  return asked;
}

Result<Workload> with_asked(Workload workload, std::string_view text) {
  TW_TRY(const Asked asked, parse_asked(text));
  workload.state = asked.state;
  return with_layouts(std::move(workload), asked.layouts);
}

namespace {

/// True if the text is declarations, and not a key. Declarations begin with a comment, with `input
/// a:`, `weight a:`, or with a stage such as `out:`. The key of an operator begins with the
/// operator's name and `name=value`.
bool is_declarations(std::string_view text) {
  if (text.starts_with('#')) return true;
  const size_t end = std::min(text.find_first_of(" \t:"), text.size());
  const std::string_view word = text.substr(0, end), rest = trim(text.substr(end));
  return word == "input" || word == "weight" || rest.starts_with(':');
}

Result<Workload> parse_key(std::string_view key) {
  const std::string_view text = trim(key);
  if (is_declarations(text)) {
    TW_TRY(const Compute compute, parse_compute(text));
    return workload(compute, Accuracy::Fast);
  }
  const size_t space = std::min(text.find(' '), text.size());
  const std::string_view op = text.substr(0, space);
  if (op == "expr") return parse_expression_workload(trim(text.substr(space)));
  TW_TRY(const Operator* row, find_operator(op));
  std::vector<std::string> parts = words(text.substr(space));
  Accuracy accuracy = Accuracy::Fast;
  DType dtype = Float32;
  if (!parts.empty() && parts.back().find('=') == std::string::npos) {
    TW_TRY(accuracy, parse_accuracy(parts.back()));
    parts.pop_back();
  }
  if (!parts.empty() && parts.back().find('=') == std::string::npos) {
    TW_TRY(dtype, parse_dtype(parts.back()));
    parts.pop_back();
  }
  TW_TRY(const Attributes attributes, parse_pairs(*row, join(parts, " ")));
  return make_workload(op, attributes, dtype, accuracy);
}

}  // namespace

Result<Workload> parse_workload(std::string_view text) {
  // Expressions have no braces, so a text that ends with a brace has requirements as asked() prints
  // them.
  const std::string_view all = trim(text);
  const size_t brace = all.ends_with('}') ? all.rfind('{') : std::string_view::npos;
  if (brace == std::string_view::npos) return parse_key(all);
  TW_TRY(Workload workload, parse_key(all.substr(0, brace)));
  return with_asked(std::move(workload), all.substr(brace + 1, all.size() - brace - 2));
}

Result<Attributes> parse_shape(std::string_view text, std::string_view op) {
  TW_TRY(const Operator* row, find_operator(op));
  if (trim(text).empty())
    return bad_shape(text, fmt::format("it is empty, expected one such as '{}'", row->example));
  if (text.find('=') != std::string_view::npos) return parse_pairs(*row, text);
  return parse_compact(*row, trim(text));
}

}  // namespace tw::dsl
