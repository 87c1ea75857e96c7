// SPDX-License-Identifier: Apache-2.0
#include "db/workload_text.h"

#include <fmt/format.h>

namespace tw::db {

std::string workload_text(const WorkloadName& name) {
  return name.layouts.empty() ? name.key : fmt::format("{} {{{}}}", name.key, name.layouts);
}

std::string workload_text(const Record& record) {
  return workload_text(WorkloadName{record.workload, record.layouts});
}

WorkloadName parse_workload_text(std::string_view text) {
  const size_t brace = text.ends_with('}') ? text.rfind(" {") : std::string_view::npos;
  if (brace == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, brace)),
          std::string(text.substr(brace + 2, text.size() - brace - 3))};
}

}  // namespace tw::db
