// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file format of models: a header line that names the kind of model, the version of its
// features and the hash of the content, and then the content. The hash guards against accidents,
// not against malice. Pure functions; thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::cost_model {

struct ModelKind {
  std::string_view name;  ///< one word, such as "tilewright-pretrained"
  int version = 1;        ///< version of the content
  size_t columns = 0;     ///< number of features that the model reads
  std::string_view what;  ///< name of the kind in messages, which say "is no <what>"
};

/// Returns the bytes of a file: the line "<name> <version> features <version> <columns> <sha256 of
/// the content>", then the content.
std::string model_bytes(const ModelKind& kind, std::string_view content);

/// Returns the content of the bytes of model_bytes(), as a part of `bytes`. Invalid if the header
/// does not fit the kind or the hash is wrong. The message has only the reason, such as "is
/// truncated or changed"; callers add the name of the model and the remedy.
Result<std::string_view> model_content(const ModelKind& kind, std::string_view bytes);

}  // namespace tw::cost_model
