// SPDX-License-Identifier: Apache-2.0
#include "tools/web/site.h"

#include <nlohmann/json.hpp>

#include "tools/reports/report.h"

namespace tw::tools::web {
namespace {

constexpr std::string_view workloads_path = "/workloads";
constexpr std::string_view demand_path = "/demand";
constexpr std::string_view api_path = "/api";

// Headers of every response. The policy allows only the style sheet, the icon and the forms of this
// site, and no script.
const std::vector<std::pair<std::string, std::string>>& common_headers() {
  static const std::vector<std::pair<std::string, std::string>> headers = {
      {"Content-Security-Policy",
       "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
       "frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  return headers;
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::Usage:
      return 400;
    case ErrorCode::NoCandidate:
      return 404;
    case ErrorCode::TryLater:
      return 503;
    case ErrorCode::Unsupported:
    case ErrorCode::Invalid:
      return 422;
    default:
      return 500;
  }
}

Html page_of(const Answer& answer, const std::string& database, const std::string& api) {
  return html(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>{} · Tilewright</title><link "
      "rel=\"stylesheet\" href=\"/style.css\"><link rel=\"icon\" href=\"/icon.svg\"></head><body>"
      "<header><a class=\"brand\" href=\"/\">Tilewright</a><nav><a href=\"/workloads\">Workloads"
      "</a><a href=\"/coverage\">Coverage</a><a href=\"/demand\">Demand</a></nav><span "
      "class=\"database\">{}</span></header>"
      "<main><h1>{}</h1>{}</main><footer>{}</footer></body></html>\n",
      one_line(answer.title, 120), one_line(database, 80), answer.title, answer.body,
      api.empty() ? Html{} : html("The same as JSON: <a href=\"{}\">{}</a>", api, api));
}

Answer page_of_error(const Error& error) {
  const int status = status_of(error.code);
  Answer answer;
  answer.title = status == 404   ? "Not found"
                 : status == 503 ? "Try again"
                 : status == 400 ? "Wrong address"
                                 : "It did not work";
  answer.body = html("<p>{}</p>", error.message);
  answer.json = text_of({{"error", error.message}, {"exit_code", static_cast<int>(error.code)}});
  return answer;
}

/// Returns the part of a path between `begin` and `end`. Example: "/records/HASH/program" gives
/// "HASH" for "/records/" and "/program". Empty if the path does not begin with `begin` and end
/// with `end`, or if the part has a "/".
std::string between(std::string_view path, std::string_view begin, std::string_view end) {
  if (!path.starts_with(begin) || !path.ends_with(end) || path.size() <= begin.size() + end.size())
    return {};
  const std::string_view name = path.substr(begin.size(), path.size() - begin.size() - end.size());
  return name.find('/') == std::string_view::npos ? std::string(name) : std::string();
}

tl::unexpected<Error> no_page() {
  return fail(ErrorCode::NoCandidate, "[page] there is no such page");
}

std::optional<Response> file_at(std::string_view path) {
  if (path == "/style.css")
    return Response{.type = "text/css; charset=utf-8", .body = std::string(style_sheet())};
  if (path == "/icon.svg") return Response{.type = "image/svg+xml", .body = std::string(icon())};
  return std::nullopt;
}

Response with_common_headers(Response response) {
  const auto& common = common_headers();
  response.headers.insert(response.headers.end(), common.begin(), common.end());
  return response;
}

}  // namespace

Site::Site(SiteOptions options)
    : options_(std::move(options)), overview_(options_.open, options_.clock_ns) {}

Response Site::answer(const Request& request) {
  if (auto refused = refusal(request, options_.rules)) return with_common_headers(*refused);
  if (auto file = file_at(request.path)) return with_common_headers(*file);
  const bool is_api = request.path.starts_with("/api/");
  const std::string path = is_api                ? request.path.substr(api_path.size())
                           : request.path == "/" ? std::string(workloads_path)
                                                 : request.path;
  const Result<Answer> answer = answer_of(path, request);
  const Answer shown = answer ? *answer : page_of_error(answer.error());
  Response response;
  response.status = answer ? 200 : status_of(answer.error().code);
  if (response.status == 503) response.headers.emplace_back("Retry-After", "5");
  if (is_api) {
    response.type = "application/json";
    response.body = shown.json;
  } else {
    std::map<std::string, std::string> parameters = request.parameters;
    parameters.erase("token");
    const std::string api = answer ? address_of(std::string(api_path) + path, parameters) : "";
    response.body = page_of(shown, options_.name, api).markup;
  }
  return with_common_headers(std::move(response));
}

Result<Answer> Site::answer_of(const std::string& path, const Request& request) {
  if (path.starts_with("/records/")) return record_answer(path);
  if (path.starts_with(demand_path)) return demand_answer(path, request);
  const std::string workload = between(path, "/workloads/", "");
  if (workload.empty() && path != workloads_path && path != "/coverage") return no_page();
  if (path == workloads_path) return workloads_page(overview_, request);
  if (path == "/coverage") return coverage_page(overview_, request);
  TW_TRY(db::Store store, options_.open());
  return workload_page(store, workload, request);
}

Result<Answer> Site::record_answer(const std::string& path) {
  const std::string lowered = between(path, "/records/", "/program");
  const std::string record = between(path, "/records/", "");
  if (lowered.empty() && record.empty()) return no_page();
  TW_TRY(db::Store store, options_.open());
  if (!record.empty()) return record_page(store, record, options_.replay_line(record));
  const std::unique_lock lock(lowering_, std::try_to_lock);
  if (!lock)
    return fail(ErrorCode::TryLater,
                "[program] the loops of another schedule are being made: try again");
  return program_page(store, lowered);
}

Result<Answer> Site::demand_answer(const std::string& path, const Request& request) {
  const std::string hash = between(path, "/demand/", "");
  if (hash.empty() && path != demand_path) return no_page();
  TW_TRY(db::Store store, options_.open());
  return path == demand_path ? demands_page(store, request) : demand_page(store, hash);
}

// ---- what all pages share ----

std::string text_of(const nlohmann::json& document) {
  nlohmann::json whole = {{"schema_version", json_schema_version}};
  whole.update(document);
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Html facts_list(const std::vector<std::pair<std::string, Html>>& facts) {
  Html list;
  for (const auto& [name, value] : facts)
    if (!value.markup.empty()) list += html("<dt>{}</dt><dd>{}</dd>", name, value);
  return html("<dl>{}</dl>", list);
}

Html device_text(const std::string& device) {
  const std::string model(db::model_of(device));
  const std::string rest = device.substr(std::min(device.size(), model.size() + 1));
  return html("{}<br><small>{}</small>", one_line(model), one_line(rest));
}

std::string share_text(double share) { return share > 0 ? show_share(share) : ""; }

Html note_beyond_peak(double largest_share) {
  if (largest_share <= 1) return {};
  return html(
      "<p class=\"note\"><small>Speeds count the products of the direct algorithm. A convolution "
      "by Winograd's algorithm does fewer, so its share of the peak may exceed 100 %.</small></p>");
}

}  // namespace tw::tools::web
