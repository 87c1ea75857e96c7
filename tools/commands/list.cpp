// SPDX-License-Identifier: Apache-2.0
// tilewright list: prints names that can be given on the command line: operators, targets, searches
// and suites.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/target.h"
#include "base/text.h"
#include "dsl/operators.h"
#include "tools/reports/report.h"
#include "tools/suites.h"
#include "tools/verbs.h"
#include "tuner/search/search.h"

namespace tw::tools {
namespace {

struct ListFlags {
  std::string what = "all";
  Format format = Format::Table;
};

struct Named {
  std::string name, summary;
};

/// Returns the line about an attribute of an operator: its name, its meaning, and its default or
/// "(required)".
std::string show_attribute(const dsl::Attribute& a) {
  std::string text = fmt::format("    {:<12} {}", a.name, a.meaning);
  if (a.value) return text + fmt::format(" (default {})", *a.value);
  if (!a.same_as.empty()) return text + fmt::format(" (default: {})", a.same_as);
  return text + " (required)";
}

std::string operators_text(bool with_attributes) {
  std::string text;
  for (const dsl::Operator& op : dsl::operators()) {
    text += fmt::format("  {:<16} {}\n", op.name, op.summary);
    if (!with_attributes) continue;
    for (const dsl::Attribute& attribute : op.attributes) text += show_attribute(attribute) + "\n";
    text += fmt::format("    example: {}\n", op.example);
  }
  return text;
}

nlohmann::json operators_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const dsl::Operator& op : dsl::operators()) {
    nlohmann::json attributes = nlohmann::json::array();
    for (const dsl::Attribute& a : op.attributes) {
      nlohmann::json attribute = {{"name", a.name},
                                  {"meaning", a.meaning},
                                  {"minimum", a.minimum},
                                  {"required", !a.value && a.same_as.empty()}};
      if (a.value) attribute["default"] = *a.value;
      if (!a.same_as.empty()) attribute["same_as"] = a.same_as;
      attributes.push_back(std::move(attribute));
    }
    all.push_back({{"name", op.name},
                   {"summary", op.summary},
                   {"example", op.example},
                   {"attributes", attributes}});
  }
  return all;
}

std::vector<Named> targets() {
  return {{"host", "this machine: " + host_target().to_string()},
          {"x86-64-v3", "AVX2 and FMA"},
          {"x86-64-v4", "AVX-512"},
          {"x86-64-linux-FEATURE-...", "x86-64 with the features that are named"},
          {"arm-64-linux-FEATURE-...", "64-bit ARM, to be compiled for and measured elsewhere"},
          {"cuda", "the first GPU of this machine; cuda:1 the second"},
          {"cuda:sm_80", "NVIDIA GPUs of this architecture, from sm_75 on; sm_90a"},
          {"opencl", "the first device of OpenCL; opencl:1 the second"}};
}

std::vector<Named> search_list() {
  std::vector<Named> all;
  for (const auto& info : tuner::searches())
    all.push_back({std::string(info.name), std::string(info.summary)});
  return all;
}

std::vector<Named> suite_list() {
  std::vector<Named> all;
  for (const SuiteInfo& info : suites())
    all.push_back({std::string(info.name), std::string(info.summary)});
  return all;
}

nlohmann::json json_of(const std::vector<Named>& list) {
  nlohmann::json all = nlohmann::json::array();
  for (const Named& item : list) all.push_back({{"name", item.name}, {"summary", item.summary}});
  return all;
}

std::string text_of(const std::vector<Named>& list) {
  std::string text;
  for (const Named& item : list) text += fmt::format("  {:<16} {}\n", item.name, item.summary);
  return text;
}

Result<int> list_command(const ListFlags& flags) {
  const auto wanted = [&](std::string_view what) {
    return flags.what == "all" || flags.what == what;
  };
  struct Section {
    std::string name, text;
    nlohmann::json json;
  };
  std::vector<Section> sections;
  if (wanted("operators"))
    sections.push_back({"operators", operators_text(flags.what != "all"), operators_json()});
  if (wanted("targets")) sections.push_back({"targets", text_of(targets()), json_of(targets())});
  if (wanted("searches"))
    sections.push_back({"searches", text_of(search_list()), json_of(search_list())});
  if (wanted("suites"))
    sections.push_back({"suites", text_of(suite_list()), json_of(suite_list())});
  std::string text;
  nlohmann::json json;
  for (const Section& section : sections) {
    text += section.name + "\n" + section.text;
    json[section.name] = section.json;
  }
  TW_RETURN_IF_ERROR(flags.format == Format::Json ? print_json("list", json) : print(text));
  return 0;
}

}  // namespace

Verb list_verb() {
  auto f = std::make_shared<ListFlags>();
  return {
      .name = "list",
      .summary = "operators, targets, searches and suites",
      .flags = {table_or_json_flag(f->format)},
      .operands = {{"WHAT", Choice{&f->what, {"all", "operators", "targets", "searches", "suites"}},
                    "operators (with attributes), targets, searches or suites"}},
      .run = [f](const Surroundings&) { return list_command(*f); }};
}

}  // namespace tw::tools
