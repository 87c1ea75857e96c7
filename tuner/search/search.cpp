// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/search.h"

#include <fmt/format.h>

#include <string>

#include "base/text.h"

namespace tw::tuner {

#define SEARCH(name, summary) std::unique_ptr<Search> make_##name##_search();
#include "tuner/search/searches.def"
#undef SEARCH

const std::vector<SearchInfo>& searches() {
  static const std::vector<SearchInfo> table = {
#define SEARCH(name, summary) {#name, summary, make_##name##_search},
#include "tuner/search/searches.def"
#undef SEARCH
  };
  return table;
}

Result<std::unique_ptr<Search>> make_search(std::string_view name) {
  std::vector<std::string> names;
  for (const SearchInfo& info : searches()) {
    if (info.name == name) return info.make();
    names.emplace_back(info.name);
  }
  return fail(ErrorCode::Usage,
              fmt::format("[search] '{}' is no search: use one of {}", name, join(names, ", ")));
}

}  // namespace tw::tuner
