// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workloads that a request asks for: filtered, sorted, one page of them. Free functions;
// thread-safe.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/web/html.h"
#include "tools/web/http.h"
#include "tools/web/overview.h"

namespace tw::tools::web {

struct Listing {
  std::string path;              ///< of the page, for its links
  std::string text, op, device;  ///< filters: in the name, the operator, the device's model
  std::string sort = "newest";   ///< a column
  bool is_ascending = false;
  int64_t page = 1, size = 50;
  int64_t matches = 0;                                ///< workloads that pass the filters
  std::shared_ptr<const Overview> overview;           ///< of which the workloads are
  std::vector<std::shared_ptr<const Workload>> rows;  ///< those of the page

  int64_t pages() const { return std::max<int64_t>((matches + size - 1) / size, 1); }
};

/// By the parameters q, op, device, sort, order, page and size. Usage where one of them is wrong.
/// The filter q and the order of names take a look at the names of all workloads, which the cache
/// keeps for some seconds.
Result<Listing> listing_of(OverviewCache& cache, const Request& request, std::string path);

/// The address of the same list with other values of some parameters; a change begins at the first
/// page.
std::string address_with(const Listing& listing, const std::map<std::string, std::string>& changes);

Html filter_form(const Listing& listing);
/// A heading that sorts by its column, and the other way round where the list is sorted so.
Html sort_heading(const Listing& listing, const std::string& column, std::string_view text);
/// "1 to 50 of 312", and links to the pages before and after.
Html pager(const Listing& listing);

/// The address of a workload's page.
std::string workload_address(const Workload& workload);

/// A number of a page or its size: Usage unless it is in 1 to `most`; `fallback` where it is empty.
Result<int64_t> number_of(const Request& request, const std::string& name, int64_t fallback,
                          int64_t most);

}  // namespace tw::tools::web
