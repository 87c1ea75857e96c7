// SPDX-License-Identifier: Apache-2.0
#pragma once
// The site: a read-only view of a tuning database. Every page is HTML without scripts, and is also
// available as JSON below /api. Pages load nothing from other servers. Thread-safe: each request
// opens a store of its own.
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
  /// Opens a store for one request; the store must limit the time of its queries.
  OverviewCache::Open open;
  AccessRules rules = {};
  std::string name;  ///< name of the database, for headings
  std::function<std::string(const std::string& hash)> replay_line;
  std::function<int64_t()> clock_ns;  ///< monotonic
};

class Site {
 public:
  explicit Site(SiteOptions options);
  /// Answers a request. If a page cannot be made, the response is a page about the error, with the
  /// HTTP status that belongs to the error.
  Response answer(const Request& request);

 private:
  Result<Answer> answer_of(const std::string& path, const Request& request);
  Result<Answer> record_answer(const std::string& path);
  Result<Answer> demand_answer(const std::string& path, const Request& request);

  SiteOptions options_;
  OverviewCache overview_;
  std::mutex lowering_;  ///< held while a schedule is lowered to loops
};

/// Returns the style sheet of all pages.
std::string_view style_sheet();
/// Returns the icon, as SVG, that browsers show beside the title.
std::string_view icon();

}  // namespace tw::tools::web
