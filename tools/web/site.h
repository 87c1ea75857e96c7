// SPDX-License-Identifier: Apache-2.0
#pragma once
// The site: a read-only view of a tuning database. Every page is HTML without a script, and the
// same as JSON below /api. It asks for nothing from any network. Thread-safe: each request reads by
// a store of its own.
//
//   Site site({.open = open, .rules = {.token = token}, .replay_line = line, .clock_ns = clock});
//   Response response = site.answer({.path = "/workloads", .headers = {{"Host", "localhost"}}});

#include <functional>
#include <mutex>
#include <string>

#include "tools/web/access.h"
#include "tools/web/http.h"
#include "tools/web/overview.h"
#include "tools/web/pages.h"

namespace tw::tools::web {

struct SiteOptions {
  OverviewCache::Open open;  ///< a store for one request, which ends by itself in bounded time
  AccessRules rules = {};
  std::string name;  ///< of the database, for headings
  std::function<std::string(const std::string& hash)> replay_line;
  std::function<int64_t()> clock_ns;  ///< monotonic
};

class Site {
 public:
  explicit Site(SiteOptions options);
  /// Always a response: errors are pages with a status of their own.
  Response answer(const Request& request);

 private:
  Result<Answer> answer_of(const std::string& path, const Request& request);
  Result<Answer> record_answer(const std::string& path);
  Result<Answer> demand_answer(const std::string& path, const Request& request);

  SiteOptions options_;
  OverviewCache overview_;
  std::mutex lowering_;  ///< one schedule at a time is lowered to loops
};

/// The style sheet of all pages.
std::string_view style_sheet();
/// The picture that browsers show beside the title.
std::string_view icon();

}  // namespace tw::tools::web
