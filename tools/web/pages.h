// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pages of the site, each as HTML for people and as JSON for programs. Free functions;
// thread-safe.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "db/store.h"
#include "tools/web/html.h"
#include "tools/web/http.h"
#include "tools/web/overview.h"

namespace tw::tools::web {

struct Answer {
  std::string title;
  Html body;         ///< below the heading of the page
  std::string json;  ///< the page's content as a JSON document
};

/// Makes the list of the workloads that match the request, each with its best latency.
Result<Answer> workloads_page(OverviewCache& cache, const Request& request);

/// Makes a table with a row for each workload and a column for each class of devices. A cell shows
/// if the workload was measured on the class, and which share of the peak its best kernel reaches.
Result<Answer> coverage_page(OverviewCache& cache, const Request& request);

/// Makes the page of the workload whose key has the hash `hash`, with the layouts that the
/// request's parameter `layouts` names. The page has the best record on each device, the
/// measurements on which this record is based, and the trials over time. Fails with NoCandidate if
/// there is no such workload, and with Usage if the parameter `page` is wrong.
Result<Answer> workload_page(db::Store& store, const std::string& hash, const Request& request);

/// Makes the page of one record with its measurements and its schedule. The page says whether the
/// record is the answer of its group, and if it is not, why. `replay` is the command line that
/// measures the record again. Fails with NoCandidate if there is no such record.
Result<Answer> record_page(db::Store& store, const std::string& hash, const std::string& replay);

/// Makes the page with the loops to which a record's schedule is lowered. Fails with NoCandidate if
/// there is no such record. Fails with Invalid if the record's texts cannot be parsed or lowered,
/// for example because another version of the program wrote them.
Result<Answer> program_page(db::Store& store, const std::string& hash);

/// Makes the list of demands, the latest first. A demand is the list of kernels that a network or
/// operator uses. The page shows how much faster these networks and operators have become since
/// their demand was stored. The request's parameter q selects demands by a part of the name.
Result<Answer> demands_page(db::Store& store, const Request& request);

/// Makes the page of one demand with its kernels. Fails with NoCandidate if there is no such
/// demand.
Result<Answer> demand_page(db::Store& store, const std::string& hash);

/// Returns the text of a JSON document with the additional field "schema_version". Bytes that are
/// not UTF-8 are replaced by U+FFFD.
std::string text_of(const nlohmann::json& document);

/// Returns an HTML list of names, each followed by its text. Names with an empty text are left out.
Html facts_list(const std::vector<std::pair<std::string, Html>>& facts);

/// Returns the model of a device, followed by the rest of the device's text in small print.
Html device_text(const std::string& device);

/// Returns the text of a share of the peak, such as "72 %"; empty if the share is 0, which means
/// unknown.
std::string share_text(double share);

/// Returns a paragraph that explains how a kernel can exceed the peak. Returns nothing if the
/// largest share of the peak on the page is at most 1.
Html note_beyond_peak(double largest_share);

}  // namespace tw::tools::web
