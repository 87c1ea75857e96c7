// SPDX-License-Identifier: Apache-2.0
#include "tools/web/listing.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/text.h"
#include "tools/reports/report.h"

namespace tw::tools::web {
namespace {

constexpr int64_t most_rows = 200;
constexpr int64_t most_pages = 1'000'000;
constexpr size_t most_options = 200;

/// Indices of workloads in Overview::workloads.
using Places = std::vector<size_t>;

struct Column {
  std::string_view name;
  bool begins_ascending;
  /// Returns the number that the column shows for a workload. Empty for the column of names,
  /// because the overview has no names.
  std::function<double(const Overview&, const WorkloadRow&)> number;
};

template <typename Member>
auto number_at(Member WorkloadRow::*member) {
  return [member](const Overview&, const WorkloadRow& row) {
    return static_cast<double>(row.*member);
  };
}

const std::array<Column, 6>& columns() {
  static const std::array<Column, 6> all = {{
      {"name", true, {}},
      {"trials", false, number_at(&WorkloadRow::trials)},
      {"devices", false,
       [](const Overview& overview, const WorkloadRow& row) {
         return static_cast<double>(overview.class_sets[row.class_set].size());
       }},
      {"latency", true, number_at(&WorkloadRow::latency_ns)},
      {"peak", false, number_at(&WorkloadRow::efficiency)},
      {"newest", false, number_at(&WorkloadRow::newest_ms)},
  }};
  return all;
}

const Column* column_of(std::string_view name) {
  const auto found = std::ranges::find(columns(), name, &Column::name);
  return found == columns().end() ? nullptr : &*found;
}

/// Returns the index of a text in a list; nullopt if the list does not have the text.
std::optional<uint32_t> place_in(const std::vector<std::string>& texts, const std::string& text) {
  const auto found = std::ranges::find(texts, text);
  if (found == texts.end()) return std::nullopt;
  return static_cast<uint32_t>(found - texts.begin());
}

/// Returns the workloads that pass the filters, in the order of Overview::workloads.
Result<Places> passing(OverviewCache& cache, const Overview& overview, const Listing& listing) {
  const auto op = place_in(overview.operators, listing.op),
             model = place_in(overview.classes, listing.device);
  if ((!listing.op.empty() && !op) || (!listing.device.empty() && !model)) return Places();
  std::shared_ptr<const OverviewCache::Ids> named;
  if (!listing.text.empty()) {
    TW_TRY(named, cache.groups_named(listing.text));
  }
  Places places;
  for (size_t i = 0; i < overview.workloads.size(); ++i) {
    const WorkloadRow& row = overview.workloads[i];
    if (!listing.op.empty() && row.op != *op) continue;
    if (!listing.device.empty() &&
        std::ranges::count(overview.class_sets[row.class_set], *model) == 0)
      continue;
    if (named && !std::ranges::binary_search(*named, row.group)) continue;
    places.push_back(i);
  }
  return places;
}

Status read_order(const Request& request, Listing& listing) {
  const std::string sort = request.parameter("sort"), order = request.parameter("order");
  if (!sort.empty()) listing.sort = sort;
  const Column* const column = column_of(listing.sort);
  if (!column)
    return fail(ErrorCode::Usage, fmt::format("[list] sort={}: expected name, trials, devices, "
                                              "latency, peak or newest",
                                              listing.sort));
  if (!order.empty() && order != "up" && order != "down")
    return fail(ErrorCode::Usage, fmt::format("[list] order={}: expected up or down", order));
  listing.is_ascending = order.empty() ? column->begins_ascending : order == "up";
  return {};
}

/// Returns for each workload the number by which the listing is sorted: the value in the column, or
/// the rank of the workload's name if the listing is sorted by name.
Result<std::vector<double>> sort_numbers(OverviewCache& cache, const Overview& overview,
                                         const Column& column) {
  std::vector<double> numbers;
  if (column.number) {
    for (const WorkloadRow& row : overview.workloads)
      numbers.push_back(column.number(overview, row));
    return numbers;
  }
  TW_TRY(const std::shared_ptr<const OverviewCache::Ids> ids, cache.groups_by_name());
  std::unordered_map<int64_t, size_t> workloads;
  for (size_t i = 0; i < overview.workloads.size(); ++i) workloads[overview.workloads[i].group] = i;
  // A workload that was stored after the names were read gets a number above all ranks.
  numbers.assign(overview.workloads.size(), static_cast<double>(ids->size()));
  for (size_t i = 0; i < ids->size(); ++i)
    if (const auto found = workloads.find((*ids)[i]); found != workloads.end())
      numbers[found->second] = static_cast<double>(i);
  return numbers;
}

/// Sorts the workloads by the listing's column. Workloads with equal values stay in the order of
/// Overview::workloads.
Status sort_places(OverviewCache& cache, const Overview& overview, const Listing& listing,
                   Places& places) {
  TW_TRY(const std::vector<double> numbers,
         sort_numbers(cache, overview, *column_of(listing.sort)));
  std::ranges::stable_sort(places, [&](size_t a, size_t b) {
    return listing.is_ascending ? numbers[a] < numbers[b] : numbers[b] < numbers[a];
  });
  if (listing.sort == "latency")  // workloads without an answer come last in either order
    std::ranges::stable_partition(
        places, [&](size_t place) { return overview.workloads[place].latency_ns > 0; });
  return {};
}

/// Returns the part of `places` that the page shows. Sets listing.matches, and reduces listing.page
/// to the last page if it is larger.
std::span<const size_t> page_of(Listing& listing, const Places& places) {
  listing.matches = std::ssize(places);
  listing.page = std::min(listing.page, listing.pages());
  const int64_t first = (listing.page - 1) * listing.size;
  const int64_t last = std::min(first + listing.size, listing.matches);
  return std::span(places).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
}

Html options(const std::vector<std::string>& values, const std::string& chosen,
             std::string_view all) {
  Html list = html("<option value=\"\">{}</option>", all);
  for (size_t i = 0; i < std::min(values.size(), most_options); ++i)
    list += html("<option value=\"{}\"{}>{}</option>", values[i],
                 Html{values[i] == chosen ? " selected" : ""}, one_line(values[i], 60));
  return list;
}

}  // namespace

Result<int64_t> number_of(const Request& request, const std::string& name, int64_t fallback,
                          int64_t most) {
  const std::string text = request.parameter(name);
  if (text.empty()) return fallback;
  const auto number = parse_int(text);
  if (number && *number >= 1 && *number <= most) return *number;
  return fail(ErrorCode::Usage,
              fmt::format("[list] {}={}: expected a number from 1 to {}", name, text, most));
}

Result<Listing> listing_of(OverviewCache& cache, const Request& request, std::string path) {
  Listing listing;
  listing.path = std::move(path);
  listing.text = request.parameter("q");
  listing.op = request.parameter("op");
  listing.device = request.parameter("device");
  TW_TRY(listing.page, number_of(request, "page", 1, most_pages));
  TW_TRY(listing.size, number_of(request, "size", listing.size, most_rows));
  TW_RETURN_IF_ERROR(read_order(request, listing));
  TW_TRY(listing.overview, cache.get(listing.sort == "latency" || listing.sort == "peak"));
  TW_TRY(Places places, passing(cache, *listing.overview, listing));
  TW_RETURN_IF_ERROR(sort_places(cache, *listing.overview, listing, places));
  TW_TRY(listing.rows, cache.workloads(*listing.overview, page_of(listing, places)));
  return listing;
}

std::string address_with(const Listing& listing,
                         const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> parameters = {{"q", listing.text},
                                                   {"op", listing.op},
                                                   {"device", listing.device},
                                                   {"sort", listing.sort},
                                                   {"order", listing.is_ascending ? "up" : "down"}};
  if (listing.size != Listing().size) parameters["size"] = std::to_string(listing.size);
  for (const auto& [name, value] : changes) parameters[name] = value;
  return address_of(listing.path, parameters);
}

Html filter_form(const Listing& listing) {
  return html(
      "<form class=\"filter\" action=\"{}\"><input type=\"search\" name=\"q\" value=\"{}\" "
      "placeholder=\"part of a name\" aria-label=\"Part of a name\"><select name=\"op\" "
      "aria-label=\"Operator\">{}</select><select name=\"device\" aria-label=\"Device\">{}</select>"
      "<input type=\"hidden\" name=\"sort\" value=\"{}\"><input type=\"hidden\" name=\"order\" "
      "value=\"{}\"><button>Filter</button></form>",
      listing.path, listing.text, options(listing.overview->operators, listing.op, "all operators"),
      options(listing.overview->classes, listing.device, "all devices"), listing.sort,
      listing.is_ascending ? "up" : "down");
}

Html sort_heading(const Listing& listing, const std::string& column, std::string_view text) {
  const bool is_sorted = listing.sort == column;
  const bool next_up = is_sorted ? !listing.is_ascending : column_of(column)->begins_ascending;
  const std::string address =
      address_with(listing, {{"sort", column}, {"order", next_up ? "up" : "down"}});
  const char* const mark = !is_sorted ? "" : listing.is_ascending ? " ▲" : " ▼";
  return html("<th scope=\"col\"{}><a href=\"{}\">{}</a>{}</th>",
              Html{!is_sorted             ? ""
                   : listing.is_ascending ? " aria-sort=\"ascending\""
                                          : " aria-sort=\"descending\""},
              address, text, mark);
}

Html pager(const Listing& listing) {
  const int64_t first = (listing.page - 1) * listing.size + 1;
  Html links = html("<span>{} to {} of {}</span>", listing.matches == 0 ? 0 : first,
                    first + std::ssize(listing.rows) - 1, listing.matches);
  if (listing.page > 1)
    links += link(address_with(listing, {{"page", std::to_string(listing.page - 1)}}), "← before");
  if (listing.page < listing.pages())
    links += link(address_with(listing, {{"page", std::to_string(listing.page + 1)}}), "after →");
  return html("<nav class=\"pager\">{}</nav>", links);
}

std::string workload_address(const Workload& workload) {
  return address_of("/workloads/" + workload.hash, {{"layouts", workload.layouts}});
}

}  // namespace tw::tools::web
