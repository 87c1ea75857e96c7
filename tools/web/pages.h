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
  std::string json;  ///< the same as a document
};

/// The workloads that match, with the best of each.
Result<Answer> workloads_page(OverviewCache& cache, const Request& request);

/// Workloads against classes of devices: where something was measured, and how good it is.
Result<Answer> coverage_page(OverviewCache& cache, const Request& request);

/// One workload under the layouts that the request names: its best record on each device and what
/// that rests on, and its trials over time. NoCandidate where there is none.
Result<Answer> workload_page(db::Store& store, const std::string& hash, const Request& request);

/// One record: what was measured, whether it is the answer of its group and why not, its schedule.
/// `replay` is the line that measures it again. NoCandidate where there is none.
Result<Answer> record_page(db::Store& store, const std::string& hash, const std::string& replay);

/// The loops that a record's schedule means. NoCandidate where there is no such record; Invalid
/// where its texts are, which may be of another version of the language.
Result<Answer> program_page(db::Store& store, const std::string& hash);

/// The networks and operators that left the kernels that they use, and by how much they became
/// faster since then: those that were left last, by part of their names (the parameter q).
Result<Answer> demands_page(db::Store& store, const Request& request);

/// One of them, and its kernels. NoCandidate where there is none.
Result<Answer> demand_page(db::Store& store, const std::string& hash);

/// The text of a document; bytes that are not UTF-8 are replaced.
std::string text_of(const nlohmann::json& document);

/// A list of names with what is to be said of each.
Html facts_list(const std::vector<std::pair<std::string, Html>>& facts);

/// A class of devices, and in small print the rest of the device's text.
Html device_text(const std::string& device);

/// A share of the peak; empty where it is unknown.
std::string share_text(double share);

/// A paragraph that says how a kernel exceeds the peak, where the largest share on the page does.
Html note_beyond_peak(double largest_share);

}  // namespace tw::tools::web
