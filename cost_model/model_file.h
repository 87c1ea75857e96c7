// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file format of trained models: one header line, and then the content. The header names the
// kind of the model, the version of the features that the model reads, and the hash of the content.
// The hash guards against accidents, not against malice. Pure functions; thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::cost_model {

struct ModelKind {
  std::string_view name;  ///< one word, such as "tilewright-pretrained"
  int version = 1;        ///< version of the content
  size_t columns = 0;     ///< number of features that the model reads
  std::string_view what;  ///< name of the kind of model in messages of the form "is no <what>"
};

/// Returns the bytes of the file of a model: the line "<name> <version> features <feature_version>
/// <columns> <SHA-256 of the content>", then the content.
std::string model_bytes(const ModelKind& kind, std::string_view content);

/// Returns the content of a file that model_bytes() made; the result points into `bytes`. Fails
/// with Invalid if the header is of another kind or version, or if the hash is wrong. The message
/// has only the reason, such as "is truncated or changed"; callers add the name of the model and
/// the remedy.
Result<std::string_view> model_content(const ModelKind& kind, std::string_view bytes);

}  // namespace tw::cost_model
