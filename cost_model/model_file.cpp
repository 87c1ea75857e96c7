// SPDX-License-Identifier: Apache-2.0
#include "cost_model/model_file.h"

#include <fmt/format.h>

#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "cost_model/features.h"

namespace tw::cost_model {

std::string model_bytes(const ModelKind& kind, std::string_view content) {
  return fmt::format("{} {} features {} {} {}\n{}", kind.name, kind.version, feature_version,
                     kind.columns, sha256_hex(content), content);
}

Result<std::string_view> model_content(const ModelKind& kind, std::string_view bytes) {
  const auto invalid = [](std::string why) { return fail(ErrorCode::Invalid, std::move(why)); };
  const size_t line = bytes.find('\n');
  if (line == std::string_view::npos) return invalid("has no header");
  const std::vector<std::string> words = tw::words(bytes.substr(0, line));
  if (words.size() != 6 || words[0] != kind.name)
    return invalid(fmt::format("is no {}", kind.what));
  if (words[1] != std::to_string(kind.version) || words[3] != std::to_string(feature_version) ||
      words[4] != std::to_string(kind.columns))
    return invalid(fmt::format("is of version {} with features {}, expected {} with {}", words[1],
                               words[3], kind.version, feature_version));
  const std::string_view content = bytes.substr(line + 1);
  if (words[5] != sha256_hex(content)) return invalid("is truncated or changed");
  return content;
}

}  // namespace tw::cost_model
