// SPDX-License-Identifier: Apache-2.0
#include "db/workload_text.h"

#include <fmt/format.h>

namespace tw::db {

std::string workload_text(const Record& record) {
  return record.layouts.empty() ? record.workload
                                : fmt::format("{} {{{}}}", record.workload, record.layouts);
}

WorkloadName parse_workload_text(std::string_view text) {
  const size_t brace = text.ends_with('}') ? text.rfind(" {") : std::string_view::npos;
  if (brace == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, brace)),
          std::string(text.substr(brace + 2, text.size() - brace - 3))};
}

}  // namespace tw::db
