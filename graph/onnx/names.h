// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts names of a model to names for graphs and messages. A model is untrusted: its names may
// have any bytes and any length. Private to graph/onnx; pure functions.

#include <string>
#include <string_view>

namespace tw::graph::onnx {

/// Returns the name as a name that graph::is_tensor_name() accepts. Characters that it does not
/// accept or that are not ASCII are replaced by `_`, and the name is cut after 200 characters.
/// "x:0" becomes "x_0", and an empty name becomes "_".
std::string tensor_name(std::string_view name);

/// Returns the text in a form that is safe in a message. Control characters and characters that are
/// not ASCII are replaced by `?`. A text longer than 100 characters is cut and ends with "...".
std::string printable(std::string_view text);

/// Returns the message without "[onnx] " at its beginning, so that another message can quote it:
/// "[onnx] node 'a' (Add): why" becomes "node 'a' (Add): why".
std::string without_prefix(std::string_view message);

}  // namespace tw::graph::onnx
