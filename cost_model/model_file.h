// SPDX-License-Identifier: Apache-2.0
#pragma once
// The form in which models are kept: a line that names their kind, the version of their features
// and the hash of the rest. The hash guards against accidents, not against malice. Pure functions;
// thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::cost_model {

struct ModelKind {
  std::string_view name;  ///< a word, "tilewright-pretrained"
  int version = 1;        ///< of the content
  size_t columns = 0;     ///< numbers of a row that the model reads
  std::string_view what;  ///< in messages: "such model"
};

/// "name version features <version> <columns> <sha256 of the content>", a line end, the content.
std::string model_bytes(const ModelKind& kind, std::string_view content);

/// The content of bytes that model_bytes() made, of which it is a part. Invalid with the reason
/// alone, "is truncated or changed", so that callers name the model and what to do.
Result<std::string_view> model_content(const ModelKind& kind, std::string_view bytes);

}  // namespace tw::cost_model
