// SPDX-License-Identifier: Apache-2.0
#include "tools/web/listing.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/text.h"
#include "db/trust.h"
#include "tools/report.h"

namespace tw::tools::web {
namespace {

constexpr int64_t most_rows = 200;
constexpr int64_t most_pages = 1'000'000;
constexpr size_t most_options = 200;

struct Column {
  std::string_view name;
  bool begins_ascending;
  std::function<bool(const WorkloadRow&, const WorkloadRow&)> less;
};

template <typename Member>
auto by(Member WorkloadRow::*member) {
  return [member](const WorkloadRow& a, const WorkloadRow& b) { return a.*member < b.*member; };
}

const std::array<Column, 6>& columns() {
  static const std::array<Column, 6> all = {{
      {"name", true, by(&WorkloadRow::name)},
      {"trials", false, by(&WorkloadRow::trials)},
      {"devices", false,
       [](const WorkloadRow& a, const WorkloadRow& b) {
         return a.classes.size() < b.classes.size();
       }},
      {"latency", true, by(&WorkloadRow::latency_ns)},
      {"peak", false, by(&WorkloadRow::efficiency)},
      {"newest", false, by(&WorkloadRow::newest_ms)},
  }};
  return all;
}

const Column* column_of(std::string_view name) {
  const auto found = std::ranges::find(columns(), name, &Column::name);
  return found == columns().end() ? nullptr : &*found;
}

bool contains(std::string_view text, std::string_view part) {
  const auto found = std::ranges::search(text, part, {}, to_lower, to_lower);
  return part.empty() || !found.empty();
}

bool passes(const WorkloadRow& row, const Listing& listing) {
  return contains(row.name, listing.text) && (listing.op.empty() || row.op == listing.op) &&
         (listing.device.empty() || std::ranges::count(row.classes, listing.device) > 0);
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

/// Sorts the rows by the listing's column. Of rows that are equal in it, the one that was stored
/// last comes first.
void sort_rows(Listing& listing) {
  const auto& less = column_of(listing.sort)->less;
  std::ranges::stable_sort(listing.rows, [&](const WorkloadRow* a, const WorkloadRow* b) {
    return listing.is_ascending ? less(*a, *b) : less(*b, *a);
  });
  if (listing.sort == "latency")  // without an answer: at the end, in either order
    std::ranges::stable_partition(listing.rows,
                                  [](const WorkloadRow* row) { return row->latency_ns > 0; });
}

void keep_one_page(Listing& listing) {
  listing.matches = std::ssize(listing.rows);
  listing.page = std::min(listing.page, listing.pages());
  const auto first = listing.rows.begin() + (listing.page - 1) * listing.size;
  const auto last = std::min(listing.page * listing.size, listing.matches);
  listing.rows = {first, listing.rows.begin() + last};
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

Result<Listing> listing_of(const Overview& overview, const Request& request, std::string path) {
  Listing listing;
  listing.path = std::move(path);
  listing.text = request.parameter("q");
  listing.op = request.parameter("op");
  listing.device = request.parameter("device");
  TW_TRY(listing.page, number_of(request, "page", 1, most_pages));
  TW_TRY(listing.size, number_of(request, "size", listing.size, most_rows));
  TW_RETURN_IF_ERROR(read_order(request, listing));
  for (const WorkloadRow& row : overview.workloads)
    if (passes(row, listing)) listing.rows.push_back(&row);
  sort_rows(listing);
  keep_one_page(listing);
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

Html filter_form(const Listing& listing, const Overview& overview) {
  return html(
      "<form class=\"filter\" action=\"{}\"><input type=\"search\" name=\"q\" value=\"{}\" "
      "placeholder=\"part of a name\" aria-label=\"Part of a name\"><select name=\"op\" "
      "aria-label=\"Operator\">{}</select><select name=\"device\" aria-label=\"Device\">{}</select>"
      "<input type=\"hidden\" name=\"sort\" value=\"{}\"><input type=\"hidden\" name=\"order\" "
      "value=\"{}\"><button>Filter</button></form>",
      listing.path, listing.text, options(overview.operators, listing.op, "all operators"),
      options(overview.classes, listing.device, "all devices"), listing.sort,
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

std::string workload_address(const WorkloadRow& row) {
  return address_of("/workloads/" + row.hash, {{"layouts", row.layouts}});
}

}  // namespace tw::tools::web
