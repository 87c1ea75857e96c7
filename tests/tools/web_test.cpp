// SPDX-License-Identifier: Apache-2.0
// Tests the pages of `db serve` and who may read them, without a socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/hash.h"
#include "db/demand.h"
#include "db/maintenance.h"
#include "tests/db/samples.h"
#include "tools/web/access.h"
#include "tools/web/history_chart.h"
#include "tools/web/html.h"
#include "tools/web/site.h"

namespace tw::tools::web {
namespace {

using db::Record;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string hostile =
    "<script>document.title='owned'</script>\"'&</style>\xe2\x80\xaegnp\x07\nnext";

Request asked(std::string path, std::map<std::string, std::string> parameters = {}) {
  return {.path = std::move(path),
          .parameters = std::move(parameters),
          .headers = {{"Host", "localhost:80"}}};
}

/// Has a site over a database, which store() fills with records.
class Pages : public testing::Test {
 protected:
  void store(const std::vector<Record>& records) {
    db::Store store = db::open_store(folder_ / "a.db");
    const auto done = store.append(records);
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_EQ(done->quarantined, 0);
  }
  void want(const db::Demand& demand) {
    db::Store store = db::open_store(folder_ / "a.db");
    const Status kept = db::keep_demand(store, demand);
    ASSERT_TRUE(kept) << kept.error().message;
  }
  Response answer(const Request& request) { return site_.answer(request); }
  std::string page(const std::string& path, std::map<std::string, std::string> parameters = {}) {
    const Response response = answer(asked(path, std::move(parameters)));
    EXPECT_EQ(response.status, 200) << response.body;
    return response.body;
  }
  nlohmann::json json(const std::string& path, std::map<std::string, std::string> parameters = {}) {
    return nlohmann::json::parse(page("/api" + path, std::move(parameters)));
  }
  std::vector<std::string> names(const nlohmann::json& document) {
    std::vector<std::string> names;
    for (const auto& row : document["workloads"]) names.push_back(row["workload"]);
    return names;
  }
  void pass(int64_t seconds) { now_ns_ += seconds * 1'000'000'000; }

  db::Folder folder_;
  int64_t opened_ = 0;

 private:
  int64_t now_ns_ = 1;
  Site site_{{.open =
                  [this] {
                    ++opened_;
                    return db::Store::open(folder_ / "a.db", db::OpenMode::ReadOnly);
                  },
              .name = "team.db",
              .replay_line = [](const std::string& hash) { return "tilewright replay " + hash; },
              .clock_ns = [this] { return now_ns_; }}};
};

Record on_device(Record record, const std::string& device) {
  record.device = device;
  return seal(std::move(record));
}

std::string hash_of_workload(const Record& record) { return sha256_hex(record.workload); }

// ---- text ----

TEST(Html, ArgumentsAreEscapedAndHtmlIsNot) {
  EXPECT_EQ(html("<b>{}</b>{}", "a<b>&\"'", html("<i>{}</i>", 3)).markup,
            "<b>a&lt;b&gt;&amp;&quot;&#39;</b><i>3</i>");
}

TEST(Html, WhatCannotBeSeenIsShown) {
  EXPECT_EQ(visible("a\xe2\x80\xae\x07\xc2\x85z\n\t"), "a\\u202e\\u0007\\u0085z\n\t");
  EXPECT_EQ(visible("\xff\xc0\x80\xed\xa0\x80\xf5"), "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xf5");
  EXPECT_EQ(visible("\xe2\x82"), "\\xe2\\x82");  // the character is cut off
  EXPECT_EQ(visible("µ €"), "µ €");
  EXPECT_EQ(one_line("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(one_line("µµµµ", 2), "µµ…");
  EXPECT_EQ(one_line("µµ", 2), "µµ");
}

TEST(Address, EveryByteThatMeansSomethingIsEncoded) {
  EXPECT_EQ(address_of("/a b", {{"q", "x&y=#%\n\""}, {"empty", ""}}),
            "/a%20b?q=x%26y%3D%23%25%0A%22");
  EXPECT_EQ(percent_encoded("/\\\r\n", true), "/%5C%0D%0A");
}

// ---- access ----

TEST(Access, OnlyReadingMethods) {
  Request request = asked("/");
  EXPECT_FALSE(refusal(request, {}));
  request.method = "HEAD";
  EXPECT_FALSE(refusal(request, {}));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"}) {
    request.method = method;
    EXPECT_EQ(refusal(request, {})->status, 405) << method;
  }
}

TEST(Access, OnlyNamesThatCannotBeRebound) {
  const AccessRules rules = {.names = {"box.lan"}};
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:80", "10.0.0.7",
                           "box.lan:80", "Box.LAN", "box.lan."})
    EXPECT_FALSE(refusal({.headers = {{"host", host}}}, rules)) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "",
                           "box.lan.evil.example", "0x7f.1", "[evil]"})
    EXPECT_EQ(refusal({.headers = {{"Host", host}}}, rules)->status, 403) << host;
  EXPECT_EQ(refusal({}, rules)->status, 400);
  EXPECT_EQ(refusal({.headers = {{"Host", "localhost"}, {"host", "localhost"}}}, rules)->status,
            400);
}

TEST(Access, ATokenInEitherForm) {
  const AccessRules rules = {.token = "0123456789abcdef", .cookie = "c"};
  Request request = asked("/workloads");
  EXPECT_EQ(refusal(request, rules)->status, 401);
  for (const char* wrong :
       {"Bearer 0123456789abcdeX", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef"}) {
    request.headers = {{"Host", "localhost"}, {"Authorization", wrong}};
    EXPECT_EQ(refusal(request, rules)->status, 401) << wrong;
  }
  request.headers = {{"Host", "localhost"}, {"Authorization", "Bearer 0123456789abcdef"}};
  EXPECT_FALSE(refusal(request, rules));
}

TEST(Access, TheAddressWithATokenBecomesACookie) {
  const AccessRules rules = {.token = "0123456789abcdef", .cookie = "c"};
  EXPECT_EQ(refusal(asked("/", {{"token", "0123456789abcdeX"}}), rules)->status, 401);
  const Response go = *refusal(asked("/coverage", {{"token", rules.token}, {"q", "a b"}}), rules);
  EXPECT_EQ(go.status, 303);
  const std::map<std::string, std::string> headers(go.headers.begin(), go.headers.end());
  EXPECT_EQ(headers.at("Location"), "/coverage?q=a%20b");
  const std::string cookie = headers.at("Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly"));
  EXPECT_THAT(cookie, HasSubstr("SameSite=Lax"));
  EXPECT_THAT(cookie, Not(HasSubstr(rules.token)));
  Request again = asked("/");
  again.headers.emplace_back("Cookie", "other=1; " + cookie.substr(0, cookie.find(';')));
  EXPECT_FALSE(refusal(again, rules));
  again.headers.back().second = "c=" + rules.token;
  EXPECT_EQ(refusal(again, rules)->status, 401);
}

TEST(Access, ARedirectStaysOnThisServer) {
  const AccessRules rules = {.token = "0123456789abcdef"};
  for (const char* path : {"//evil.example/", "/\\evil.example", "/a\r\nSet-Cookie: x=y"}) {
    const Response go = *refusal(asked(path, {{"token", rules.token}}), rules);
    const std::string location = go.headers.front().second;
    EXPECT_TRUE(location.starts_with("/")) << location;
    EXPECT_FALSE(location.starts_with("//")) << location;
    EXPECT_EQ(location.find_first_of("\r\n\\"), std::string::npos) << location;
  }
}

TEST(Access, WhatIsThisMachineAlone) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.evil.example", "box.lan", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

// ---- pages ----

TEST_F(Pages, ListsFiltersSortsAndPages) {
  std::vector<Record> records;
  for (int64_t i = 0; i < 30; ++i) records.push_back(db::sample_record(i, i));
  records.push_back(on_device(db::sample_record(40, 3), "Other CPU; 4 cores"));
  store(records);
  const nlohmann::json first = json("/workloads", {{"size", "10"}, {"sort", "name"}});
  EXPECT_EQ(first["list"]["matches"], 30);
  EXPECT_EQ(first["list"]["pages"], 3);
  EXPECT_EQ(first["trials"], 31);
  std::vector<std::string> all = names(first);
  EXPECT_EQ(all.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  const nlohmann::json beyond = json("/workloads", {{"size", "10"}, {"page", "9"}});
  EXPECT_EQ(beyond["list"]["page"], 3);
  EXPECT_EQ(names(json("/workloads", {{"device", "Other CPU"}})), std::vector{records[3].workload});
  EXPECT_EQ(names(json("/workloads", {{"q", "K=70)"}})), std::vector{records[6].workload});
  EXPECT_EQ(json("/workloads", {{"op", "conv2d"}})["list"]["matches"], 0);
  EXPECT_EQ(names(json("/workloads", {{"sort", "devices"}}))[0], records[3].workload);
  EXPECT_EQ(names(json("/workloads", {{"sort", "latency"}, {"order", "down"}}))[0],
            records[29].workload);
  EXPECT_THAT(page("/", {{"q", "k=70"}}), HasSubstr("1 to 1 of 1"));
}

// The overview holds the names of the workloads on the first page only. The workloads of another
// page are read when that page is shown.
TEST_F(Pages, EveryPageShowsItsOwnRows) {
  std::vector<Record> records;
  for (int64_t i = 0; i < 120; ++i) records.push_back(db::sample_record(i, i));
  store(records);
  for (const char* sort : {"newest", "name", "latency", "peak", "trials", "devices"}) {
    std::vector<std::string> all;
    for (const char* number : {"1", "2", "3"}) {
      const std::vector<std::string> some =
          names(json("/workloads", {{"page", number}, {"sort", sort}}));
      EXPECT_EQ(some.size(), *number == '3' ? 20u : 50u) << sort;
      all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), 120u) << sort;
    if (sort == std::string("newest")) {
      EXPECT_EQ(all.front(), records.back().workload);
      EXPECT_EQ(all.back(), records.front().workload);
    }
  }
  const nlohmann::json row = json("/workloads", {{"q", records[3].workload}})["workloads"][0];
  EXPECT_EQ(row["latency_ns"], records[3].latency_ns);
  EXPECT_EQ(row["hash"], hash_of_workload(records[3]));
}

TEST_F(Pages, AWorkloadThatIsGoneIsLeftOut) {
  std::vector<Record> records;
  for (int64_t i = 0; i < 60; ++i) records.push_back(db::sample_record(i, i));
  store(records);
  EXPECT_EQ(names(json("/workloads", {{"page", "2"}})).size(), 10u);
  db::Store store = db::open_store(folder_ / "a.db");
  ASSERT_TRUE(db::drop_record(store, records[0]));
  EXPECT_EQ(names(json("/workloads", {{"page", "2"}})).size(), 9u);
}

TEST_F(Pages, ABestLatencySaysOnWhichOfSeveralDevices) {
  const Record one = db::sample_record(1), alone = db::sample_record(3, 5);
  const Record other =
      on_device(db::with_latency(db::sample_record(2), one.latency_ns / 2), "Other CPU; 4 cores");
  store({one, other, alone});
  const nlohmann::json rows = json("/workloads", {{"sort", "devices"}})["workloads"];
  EXPECT_EQ(rows[0]["latency_ns"], other.latency_ns);
  EXPECT_EQ(rows[0]["device"], other.device);
  EXPECT_EQ(rows[0]["threads"], other.threads);
  const std::string text = page("/workloads");
  EXPECT_THAT(text, HasSubstr("<small class=\"place\">Other CPU; 4 cores, "));
  EXPECT_THAT(text, Not(HasSubstr("<small class=\"place\">Test CPU")));
}

TEST_F(Pages, ShareBeyondThePeakIsExplained) {
  store({db::sample_record(1)});
  EXPECT_THAT(page("/workloads"), Not(HasSubstr("Winograd")));
  EXPECT_EQ(note_beyond_peak(1).markup, "");
  EXPECT_THAT(note_beyond_peak(1.24).markup, HasSubstr("Winograd's algorithm does fewer"));
}

TEST_F(Pages, WrongParametersAreSaid) {
  store(db::sample_records(0, 1));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"page", "0"}, {"size", "201"}, {"sort", "x"}, {"order", "x"}, {"page ", ""}}) {
    const int status = answer(asked("/workloads", {{name, value}})).status;
    EXPECT_EQ(status, name == "page " ? 200 : 400) << name;
  }
  EXPECT_EQ(answer(asked("/workloads", {{"page", "99999999999999999999"}})).status, 400);
}

TEST_F(Pages, CoverageHasACellForEachClass) {
  const Record one = db::sample_record(1),
               other = on_device(db::sample_record(2), "Other CPU; 4 cores");
  store({one, other, db::sample_record(3, 5)});
  const nlohmann::json document = json("/coverage", {{"sort", "name"}});
  EXPECT_EQ(document["device_classes"].size(), 2u);
  const auto& measured = document["workloads"][0]["measured"];
  EXPECT_EQ(measured["Other CPU"]["record"], other.hash);
  EXPECT_EQ(measured["Test CPU / 2 cores / 1 MiB"]["record"], one.hash);
  EXPECT_EQ(document["workloads"][1]["measured"].size(), 1u);
  EXPECT_THAT(page("/coverage"), HasSubstr("/records/" + other.hash));
}

TEST_F(Pages, AWorkloadSaysHowSureEachAnswerIs) {
  Record a = db::sample_record(1), b = a, claim = db::with_latency(db::sample_record(2), 4000);
  b.session = "session-2";
  b.host = "another";
  claim.status = db::TrialStatus::Wrong;
  store({a, seal(b), seal(claim)});
  const std::string path = "/workloads/" + hash_of_workload(a);
  const nlohmann::json document = json(path);
  ASSERT_EQ(document["best"].size(), 1u);
  EXPECT_EQ(document["best"][0]["agreement"]["sessions"], 2);
  EXPECT_EQ(document["best"][0]["agreement"]["hosts"], 2);
  EXPECT_EQ(document["best"][0]["not_used_records"], 1);
  EXPECT_EQ(document["history"].size(), 3u);
  const std::string text = page(path);
  EXPECT_THAT(text, HasSubstr("2 sessions of 2 machines, 2 trials"));
  EXPECT_THAT(text, HasSubstr("1 record with a smaller latency is not used"));
  EXPECT_THAT(text, HasSubstr("<svg"));
}

TEST_F(Pages, LayoutsAreWorkloadsOfTheirOwn) {
  const Record free = db::sample_record(1),
               asked_for = db::with_layouts(db::sample_record(2), "in=NCHW16c");
  store({free, asked_for});
  const std::string path = "/workloads/" + hash_of_workload(free);
  EXPECT_EQ(json(path)["history"][0]["record"], free.hash);
  EXPECT_EQ(json(path, {{"layouts", "in=NCHW16c"}})["history"][0]["record"], asked_for.hash);
  const std::string list = page("/workloads");
  EXPECT_THAT(list, HasSubstr(path + "?layouts=in%3DNCHW16c"));
  EXPECT_THAT(list, HasSubstr("<b>1</b> workload in <b>2</b> rows with their layouts"));
  EXPECT_EQ(answer(asked(path, {{"layouts", "in=NHWC"}})).status, 404);
}

TEST_F(Pages, ARecordSaysWhetherItIsTheAnswerAndWhyNot) {
  const Record best = db::sample_record(1);
  Record wrong = db::with_latency(db::sample_record(2), 4000);
  wrong.status = db::TrialStatus::Wrong;
  wrong.reason = "element 17 differs";
  wrong = seal(wrong);
  store({best, wrong});
  const nlohmann::json document = json("/records/" + best.hash);
  EXPECT_EQ(document["is_answer"], true);
  EXPECT_EQ(document["replay"], "tilewright replay " + best.hash);
  EXPECT_EQ(document["schedule"], best.schedule);
  EXPECT_EQ(document["group"]["not_used"][0]["record"], wrong.hash);
  EXPECT_THAT(page("/records/" + best.hash), HasSubstr("This is the answer"));
  const std::string other = page("/records/" + wrong.hash);
  EXPECT_THAT(other, HasSubstr("another record"));
  EXPECT_THAT(other, HasSubstr("its status is wrong: element 17 differs"));
}

TEST_F(Pages, LoopsOfARecord) {
  Record record = db::sample_record(1);
  record.workload = "dense m=8 n=8 k=8 f32 fast";
  record.op = "dense";
  record.schedule = "tw1\nsplit out m 4\n";
  record = seal(record);
  store({record, db::sample_record(2)});
  EXPECT_THAT(page("/records/" + record.hash + "/program"), HasSubstr("m.0"));
  EXPECT_THAT(json("/records/" + record.hash + "/program")["program"], HasSubstr("m.1"));
  EXPECT_EQ(answer(asked("/records/" + db::sample_record(2).hash + "/program")).status, 422)
      << "a workload of no operator";
}

db::Demand demand_for(char source, const std::vector<Record>& used) {
  db::Demand demand;
  demand.source = std::string(64, source);
  demand.name = std::string("network ") + source;
  demand.target = used.front().target;
  demand.device = used.front().device;
  demand.threads = used.front().threads;
  demand.codegen_abi = used.front().codegen_abi;
  demand.latency_ns = 50'000;
  demand.asked_ms = 1'700'000'000'000;
  for (const Record& record : used) {
    db::WantedKernel kernel;
    kernel.op = record.op;
    kernel.workload = record.workload;
    kernel.layouts = record.layouts;
    kernel.schedule = record.schedule;
    kernel.latency_ns = 20'000;
    kernel.runs = 2;
    demand.kernels.push_back(kernel);
  }
  return demand;
}

TEST_F(Pages, DemandSaysByHowMuchNetworksBecameFaster) {
  const Record used = db::with_latency(db::sample_record(1), 20'000);
  const Record best = db::with_latency(db::sample_record(2), 5'000);
  store({used, best});
  want(demand_for('a', {used, db::sample_record(3, 5)}));
  want(demand_for('b', {used}));
  const nlohmann::json document = json("/demand");
  EXPECT_EQ(document["is_cut"], false);
  ASSERT_EQ(document["demands"].size(), 2u);
  const nlohmann::json &last = document["gain"]["since_last"],
                       &first = document["gain"]["since_first"];
  EXPECT_EQ(last["demands"], 2);
  // One network fell from 80 µs to 50 µs, as one of its kernels was not measured; the other fell
  // from 40 µs to 10 µs.
  EXPECT_NEAR(last["least_speed_up"], 1.6, 1e-9);
  EXPECT_NEAR(last["most_speed_up"], 4, 1e-9);
  EXPECT_NEAR(last["speed_up"], std::sqrt(1.6 * 4), 1e-9);
  // The plans expected 50 µs of each network.
  EXPECT_NEAR(first["least_speed_up"], 1, 1e-9);
  EXPECT_NEAR(first["most_speed_up"], 5, 1e-9);
  const std::string list = page("/demand");
  EXPECT_THAT(list, HasSubstr("<b>2.53 times</b> as fast"));
  EXPECT_THAT(list, HasSubstr("geometric mean of 2; 1.60 to 4.00"));
  EXPECT_THAT(list, HasSubstr("1 of 2"));
  EXPECT_THAT(list, HasSubstr("<b>2.24 times</b> as fast as was expected"));
  // After network b is planned again, it uses the best kernel. The gain since its first plan stays
  // known.
  want(demand_for('b', {best}));
  const nlohmann::json again = json("/demand", {{"q", "network b"}})["gain"];
  EXPECT_NEAR(again["since_last"]["speed_up"], 1, 1e-9);
  EXPECT_NEAR(again["since_first"]["speed_up"], 5, 1e-9);
  const nlohmann::json some = json("/demand", {{"q", "NETWORK b"}});
  ASSERT_EQ(some["demands"].size(), 1u);
  EXPECT_EQ(some["demands"][0]["name"], "network b");
  EXPECT_THAT(page("/demand", {{"q", "<vgg"}}), HasSubstr("value=\"&lt;vgg\""));
}

TEST_F(Pages, ADemandHasItsKernelsWithLinksToTheirWorkloads) {
  const Record used = db::with_latency(db::sample_record(1), 20'000);
  const Record elsewhere = on_device(db::sample_record(3, 5), "Other CPU; 4 cores");
  const Record unknown = db::sample_record(4, 6);
  store({used, elsewhere});
  want(demand_for('a', {used, db::sample_record(3, 5), unknown}));
  const std::string hash = json("/demand")["demands"][0]["demand"];
  const nlohmann::json document = json("/demand/" + hash);
  EXPECT_EQ(document["kernels"].size(), 3u);
  EXPECT_EQ(document["measured_kernels"], 1);
  EXPECT_EQ(document["asked"], 1);
  const std::string text = page("/demand/" + hash);
  EXPECT_THAT(text, HasSubstr("href=\"/workloads/" + hash_of_workload(used) + "\""));
  for (const Record& without_trials_here : {elsewhere, unknown}) {
    EXPECT_THAT(text, HasSubstr(without_trials_here.workload));
    EXPECT_THAT(text, Not(HasSubstr("/workloads/" + hash_of_workload(without_trials_here))));
  }
}

TEST_F(Pages, WithoutDemandAPageSaysHowItIsLeft) {
  store(db::sample_records(0, 1));
  EXPECT_THAT(page("/demand"), AllOf(HasSubstr("--effort none"), Not(HasSubstr("<table"))));
  EXPECT_TRUE(json("/demand")["demands"].empty());
  EXPECT_THAT(page("/"), HasSubstr("href=\"/demand\""));
}

TEST_F(Pages, ADemandThatNobodyMeasuredHasNoGain) {
  store(db::sample_records(0, 1));
  want(demand_for('a', {db::sample_record(3, 5)}));
  EXPECT_EQ(json("/demand")["gain"]["since_last"]["demands"], 0);
  EXPECT_EQ(json("/demand")["gain"]["since_first"]["demands"], 0);
  EXPECT_THAT(page("/demand"), AllOf(HasSubstr("No kernel of them is measured yet"),
                                     Not(HasSubstr("times</b> as fast"))));
}

TEST_F(Pages, AListOfDemandsIsBounded) {
  store(db::sample_records(0, 1));
  for (int i = 0; i < 201; ++i) {
    db::Demand demand = demand_for('a', {db::sample_record(1)});
    demand.threads = i + 1;
    demand.asked_ms += i;
    want(demand);
  }
  const nlohmann::json document = json("/demand");
  EXPECT_EQ(document["demands"].size(), 200u);
  EXPECT_EQ(document["is_cut"], true);
  EXPECT_EQ(document["demands"][0]["threads"], 201);
  EXPECT_THAT(page("/demand"), HasSubstr("only the 200 that left them last are shown"));
  db::Demand wide = demand_for('b', {db::sample_record(1)});
  for (int64_t i = 0; i < 250; ++i)
    wide.kernels.push_back(demand_for('b', {db::sample_record(1, i)}).kernels[0]);
  want(wide);
  const std::string hash = json("/demand", {{"q", "network b"}})["demands"][0]["demand"];
  EXPECT_THAT(page("/demand/" + hash), HasSubstr("... 50 more"));
}

TEST_F(Pages, Fault30_HostileNamesAreText) {
  Record record = db::sample_record(1);
  record.workload = record.op = record.device = record.session = record.reason = hostile;
  record.host = record.machine = record.configuration = record.toolchain = hostile;
  record.schedule = "tw1\n" + hostile;
  record = seal(record);
  store({record});
  db::Demand demand = demand_for('a', {record});
  demand.name = demand.target = demand.kernels[0].layouts = hostile;
  want(demand);
  const std::string wanted = json("/demand")["demands"][0]["demand"];
  for (const std::string& path :
       {std::string("/"), std::string("/coverage"), std::string("/demand"), "/demand/" + wanted,
        "/workloads/" + hash_of_workload(record), "/records/" + record.hash,
        "/records/" + record.hash + "/program"}) {
    const Response response = answer(asked(path, {{"q", path == "/" ? "<script>" : ""}}));
    EXPECT_THAT(response.body, Not(HasSubstr("<script"))) << path;
    EXPECT_THAT(response.body, Not(HasSubstr("</style>"))) << path;
    EXPECT_THAT(response.body, Not(HasSubstr("\xe2\x80\xae"))) << path;
    EXPECT_THAT(response.body, Not(HasSubstr("\x07"))) << path;
    EXPECT_THAT(response.body, HasSubstr("&lt;script&gt;")) << path;
  }
}

TEST_F(Pages, WhatIsNotThereIsNotFound) {
  store(db::sample_records(0, 1));
  const std::string hash(64, 'a');
  for (const std::string& path : {std::string("/etc/passwd"),
                                  std::string("/../../etc/passwd"),
                                  std::string("/workloads/../x"),
                                  std::string("/api"),
                                  std::string("/api/"),
                                  std::string("/records/"),
                                  std::string("/records"),
                                  std::string("/workloads/"),
                                  "/records/" + hash,
                                  "/workloads/" + hash,
                                  "/records/" + hash + "/program",
                                  std::string("/demand/"),
                                  "/demand/" + hash,
                                  "/demand/" + hash + "/x",
                                  std::string("/demands"),
                                  std::string("/demand/' OR 1=1 --"),
                                  std::string("/records//program"),
                                  "/records/" + db::sample_record(0).hash.substr(0, 16),
                                  std::string("/records/' OR 1=1 --"),
                                  "/records/" + hash + "/program/x",
                                  std::string("/workloads\0x", 12)}) {
    const Response response = answer(asked(path));
    EXPECT_EQ(response.status, 404) << path;
    const Response api = answer(asked("/api" + path));
    EXPECT_EQ(api.status, 404) << path;
    EXPECT_TRUE(nlohmann::json::parse(api.body).contains("error")) << path;
  }
}

TEST_F(Pages, EveryAnswerForbidsScriptsAndOtherSites) {
  store(db::sample_records(0, 1));
  for (const char* path : {"/", "/style.css", "/icon.svg", "/none", "/api/workloads"}) {
    const Response response = answer(asked(path));
    const std::map<std::string, std::string> headers(response.headers.begin(),
                                                     response.headers.end());
    EXPECT_THAT(headers.at("Content-Security-Policy"), HasSubstr("default-src 'none'"));
    EXPECT_THAT(headers.at("Content-Security-Policy"), Not(HasSubstr("unsafe")));
    EXPECT_EQ(headers.at("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(headers.at("Referrer-Policy"), "no-referrer");
    EXPECT_THAT(response.body, Not(HasSubstr("style=\"")));
  }
  EXPECT_EQ(answer({.headers = {{"Host", "evil.example"}}}).status, 403);
}

TEST_F(Pages, ManyReadersReadTheDatabaseOnce) {
  store(db::sample_records(0, 3));
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i)
    readers.emplace_back([&] {
      for (int n = 0; n < 20; ++n) EXPECT_EQ(answer(asked("/workloads")).status, 200);
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(opened_, 1);
  store({db::sample_record(9, 9)});
  EXPECT_EQ(json("/workloads")["list"]["matches"], 1);
  pass(3);
  EXPECT_EQ(json("/workloads")["list"]["matches"], 2);
}

TEST_F(Pages, Fault17_ADatabaseThatCannotBeReadIsSaid) {
  const Response response = answer(asked("/api/workloads"));
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("does not exist"));
}

// ---- the chart ----

db::TrialSummary trial_at(int64_t created_ms, double latency_ns) {
  db::TrialSummary trial;
  trial.hash = std::string(64, 'a');
  trial.device = "Zen 5; 2 cores";
  trial.session = "s";
  trial.threads = 1;
  trial.status = db::TrialStatus::Ok;
  trial.latency_ns = trial.counted_ns = latency_ns;
  trial.created_ms = created_ms;
  return trial;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HistoryChart, LeadsAreBelievedTrialsThatWereFasterThanAllBefore) {
  std::vector<db::TrialSummary> trials = {trial_at(3000, 90), trial_at(1000, 100),
                                          trial_at(2000, 95), trial_at(2500, 10),
                                          trial_at(4000, 92)};
  trials[3].doubt = db::Doubt::Outlier;
  trials[3].counted_ns = 0;
  const std::vector<Series> series = series_of(trials);
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series[0].name, "Zen 5, 1 thread");
  EXPECT_EQ(series[0].leads, (std::vector<size_t>{0, 1, 3}));  // by time: 100, 95, 10, 90, 92
  const std::string markup = history_chart(series).markup;
  EXPECT_EQ(count_of(markup, "class=\"lead s0\""), 3u);
  EXPECT_EQ(count_of(markup, "<path class=\"best s0\""), 1u);
  EXPECT_THAT(markup, HasSubstr("1 trial far from the others"));
}

// A schedule counts with the median of its trials, so a trial that was fast by luck does not lead.
TEST(HistoryChart, ALuckyTrialDoesNotLead) {
  std::vector<db::TrialSummary> trials = {trial_at(1000, 60), trial_at(2000, 50)};
  trials[1].counted_ns = 70;
  const std::vector<Series> series = series_of(trials);
  EXPECT_EQ(series[0].leads, std::vector<size_t>{0});
  EXPECT_THAT(history_chart(series).markup, HasSubstr("50.0 ns, counts as 70.0 ns, ok"));
}

TEST(HistoryChart, FailedAndImpossibleTrialsAreNotDrawn) {
  std::vector<db::TrialSummary> trials = {
      trial_at(1000, 0),      trial_at(1000, -1), trial_at(1000, INFINITY), trial_at(1000, NAN),
      trial_at(1000, 1e-310), trial_at(-5, 100),  trial_at(INT64_MAX, 100), trial_at(1000, 100)};
  trials.back().status = db::TrialStatus::Crash;
  EXPECT_TRUE(series_of(trials).empty());
  EXPECT_EQ(history_chart({}).markup, "");
  EXPECT_EQ(moment(INT64_MAX), "-");
  EXPECT_EQ(moment(1'700'000'000'000), "2023-11-14 22:13:20");
}

TEST(HistoryChart, ItsSizeIsBounded) {
  std::vector<db::TrialSummary> trials;
  for (int64_t i = 0; i < 20'000; ++i)
    trials.push_back(trial_at(1000 + i, 100 + static_cast<double>(i % 97)));
  const std::string markup = history_chart(series_of(trials)).markup;
  EXPECT_LE(count_of(markup, "<circle"), 3100u);
  EXPECT_THAT(markup, HasSubstr("are left out"));
}

TEST(HistoryChart, SeriesOfOneModelAreToldApartByTheirTargets) {
  std::vector<db::TrialSummary> trials = {trial_at(1000, 100), trial_at(2000, 90)};
  trials[0].target = "x86-64-linux-avx2";
  trials[1].target = "x86-64-linux-avx512f";
  const std::vector<Series> series = series_of(trials);
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0].name, "Zen 5, 1 thread, x86-64-linux-avx2");
  EXPECT_EQ(series[1].name, "Zen 5, 1 thread, x86-64-linux-avx512f");
}

TEST(HistoryChart, TimesStandAtEqualDistances) {
  std::vector<db::TrialSummary> trials;
  for (int64_t second = 0; second <= 610; second += 5)
    trials.push_back(trial_at(1'700'000'000'000 + 1000 * second, 100));
  const std::string markup = history_chart(series_of(trials)).markup;
  // The trials last from 22:13:20 to 22:23:30.
  EXPECT_THAT(markup, AllOf(HasSubstr(">2023-11-14<"), HasSubstr(">22:13<")));
  for (const std::string_view time : {">22:16<", ">22:18<", ">22:20<", ">22:22<"})
    EXPECT_THAT(markup, HasSubstr(time));
  EXPECT_THAT(markup, Not(HasSubstr(">22:17<")));
}

TEST(HistoryChart, OneTrialIsEnough) {
  const std::string markup = history_chart(series_of(std::vector{trial_at(1000, 100)})).markup;
  EXPECT_EQ(count_of(markup, "<circle"), 1u);
  EXPECT_THAT(markup, Not(HasSubstr("nan")));
  EXPECT_THAT(markup, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace tw::tools::web
