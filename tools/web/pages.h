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

/// The list of the workloads that match the request, each with its best latency.
Result<Answer> workloads_page(OverviewCache& cache, const Request& request);

/// A table of workloads by classes of devices. A cell shows whether the workload was measured on
/// the class, and how good the best kernel is.
Result<Answer> coverage_page(OverviewCache& cache, const Request& request);

/// The page of one workload with the layouts of the request: its best record on each device, the
/// measurements behind that record, and the trials over time. NoCandidate if there is no such
/// workload.
Result<Answer> workload_page(db::Store& store, const std::string& hash, const Request& request);

/// The page of one record: its measurements and its schedule. It says whether the record is the
/// answer of its group, and if not, why. `replay` is the command line that measures the record
/// again. NoCandidate if there is no such record.
Result<Answer> record_page(db::Store& store, const std::string& hash, const std::string& replay);

/// The loops to which a record's schedule is lowered. NoCandidate if there is no such record;
/// Invalid if its texts cannot be parsed, for example because another version of the program wrote
/// them.
Result<Answer> program_page(db::Store& store, const std::string& hash);

/// The list of demands, the latest first. It shows the networks and operators that left a list of
/// their kernels, and how much faster these networks and operators have become since. The parameter
/// q selects by a part of the name.
Result<Answer> demands_page(db::Store& store, const Request& request);

/// The page of one demand with its kernels. NoCandidate if there is no such demand.
Result<Answer> demand_page(db::Store& store, const std::string& hash);

/// The text of a document; bytes that are not UTF-8 are replaced.
std::string text_of(const nlohmann::json& document);

/// An HTML list of names, each followed by its text.
Html facts_list(const std::vector<std::pair<std::string, Html>>& facts);

/// The class of a device, followed by the rest of the device's text in small print.
Html device_text(const std::string& device);

/// The text of a share of the peak; empty if the share is unknown.
std::string share_text(double share);

/// A paragraph that explains how a kernel can exceed the peak, if the largest share on the page
/// exceeds it; else empty.
Html note_beyond_peak(double largest_share);

}  // namespace tw::tools::web
