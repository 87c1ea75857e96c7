// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts names of a model to names for graphs and messages. A model is untrusted: its names may
// have any bytes and any length. Private to graph/onnx; pure functions.

#include <string>
#include <string_view>

namespace tw::graph::onnx {

/// The name as one that graph::is_tensor_name() admits. Characters that are not admitted or not
/// ASCII are replaced by `_`, and the name is cut after 200 characters. "x:0" becomes "x_0".
std::string tensor_name(std::string_view name);

/// The text in a form that is safe in a message. Control characters and characters that are not
/// ASCII are replaced by `?`. A text longer than 100 characters is cut and ends with "...".
std::string printable(std::string_view text);

/// The message without "[onnx] " at its beginning, so that another message can quote it: "[onnx]
/// node 'a' (Add): why" becomes "node 'a' (Add): why".
std::string without_prefix(std::string_view message);

}  // namespace tw::graph::onnx
