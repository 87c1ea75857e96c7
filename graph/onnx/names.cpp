// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/names.h"

#include "graph/graph.h"

namespace tw::graph::onnx {
namespace {

constexpr size_t longest_name = 200, longest_quote = 100;

bool is_printable(char c) { return c >= ' ' && c < 0x7f; }

}  // namespace

std::string tensor_name(std::string_view name) {
  std::string result(name.substr(0, longest_name));
  for (char& c : result)
    if (!is_printable(c) || !is_tensor_name({&c, 1})) c = '_';
  return result.empty() ? "_" : result;
}

std::string printable(std::string_view text) {
  std::string result(text.substr(0, longest_quote));
  for (char& c : result)
    if (!is_printable(c)) c = '?';
  return text.size() > longest_quote ? result + "..." : result;
}

std::string without_prefix(std::string_view message) {
  const size_t end = message.find("] ");
  const bool has_prefix = message.starts_with("[") && end != std::string_view::npos;
  return std::string(has_prefix ? message.substr(end + 2) : message);
}

}  // namespace tw::graph::onnx
