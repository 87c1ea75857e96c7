// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the workloads that a list of the site shows for a request: filters and sorts all workloads,
// and selects one page of them. Free functions; thread-safe.

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
  std::string path;              ///< address of the list without parameters, for its links
  std::string text, op, device;  ///< filters: part of the name, operator, model of the device
  std::string sort = "newest";   ///< column by which the list is sorted
  bool is_ascending = false;
  int64_t page = 1, size = 50;
  int64_t matches = 0;                                ///< workloads that pass the filters
  std::shared_ptr<const Overview> overview;           ///< the overview that has the workloads
  std::vector<std::shared_ptr<const Workload>> rows;  ///< the workloads of the page

  int64_t pages() const { return std::max<int64_t>((matches + size - 1) / size, 1); }
};

/// Makes the list that a request asks for by its parameters q (part of a name), op, device, sort,
/// order, page and size. `path` is the address of the list without parameters. The filter q and
/// sorting by name are slow, because they read the names of all workloads; the cache keeps the
/// result for some seconds. Fails with Usage if the value of a parameter is wrong, and with the
/// errors of the cache, such as TryLater.
Result<Listing> listing_of(OverviewCache& cache, const Request& request, std::string path);

/// Returns the address of the list with `changes` to its parameters. Unless `changes` has a page,
/// it is the address of the first page.
std::string address_with(const Listing& listing, const std::map<std::string, std::string>& changes);

Html filter_form(const Listing& listing);
/// Returns a column heading that links to the list sorted by the column. If the list is already
/// sorted by this column, the link reverses the order.
Html sort_heading(const Listing& listing, const std::string& column, std::string_view text);
/// Returns the text "1 to 50 of 312" with links to the previous and the next page.
Html pager(const Listing& listing);

/// Returns the address of a workload's page.
std::string workload_address(const Workload& workload);

/// Returns the value of the parameter `name` as a number; `fallback` if the parameter is absent or
/// empty. Fails with Usage unless the number is from 1 to `most`.
Result<int64_t> number_of(const Request& request, const std::string& name, int64_t fallback,
                          int64_t most);

}  // namespace tw::tools::web
