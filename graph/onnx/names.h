// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts names of a model to names for graphs and messages. A model is untrusted: its names may
// have any bytes and any length. Private to graph/onnx; pure functions.

#include <string>
#include <string_view>

namespace tw::graph::onnx {

/// A name that graph::is_tensor_name() admits: characters that it does not admit, and characters
/// that are not ASCII, are replaced by `_`, and the name is cut after 200 characters. "x:0" becomes
/// "x_0".
std::string tensor_name(std::string_view name);

/// The text for a message: control characters and characters that are not ASCII are replaced by
/// `?`, and a text longer than 100 characters is cut and ends with "...".
std::string printable(std::string_view text);

/// A message such as "[onnx] node 'a' (Add): why" without "[onnx] ", to be quoted by another
/// message.
std::string without_prefix(std::string_view message);

}  // namespace tw::graph::onnx
