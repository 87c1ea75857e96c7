// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of models in our graphs and messages. A model is untrusted: its names may be of any bytes
// and any length. Private to graph/onnx; pure functions.

#include <string>
#include <string_view>

namespace tw::graph::onnx {

/// The name as graph::is_tensor_name() admits it: what it does not, and what is no ASCII, becomes
/// `_`, and the name ends after 200 characters. "x:0" becomes "x_0".
std::string tensor_name(std::string_view name);

/// The text as a message quotes it: `?` in place of control characters and what is no ASCII, and
/// "..." after 100 characters.
std::string printable(std::string_view text);

/// "[onnx] node 'a' (Add): why" without the part in brackets, to be quoted by another message.
std::string without_prefix(std::string_view message);

}  // namespace tw::graph::onnx
