// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/workload_flags.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "base/isa.h"
#include "base/text.h"
#include "dsl/parse.h"
#include "tools/flags/quote.h"
#include "tuner/tune.h"

namespace tw::tools {
namespace {

/// Returns all element types except bool, with their names.
std::vector<std::pair<std::string, DType>> number_types() {
  std::vector<std::pair<std::string, DType>> named;
  for (const DType type : all_dtypes)
    if (type != Bool) named.emplace_back(to_string(type), type);
  return named;
}

/// Returns the states of the caches that users can ask for, with their names.
std::vector<std::pair<std::string, dsl::CacheState>> cache_states() {
  std::vector<std::pair<std::string, dsl::CacheState>> named;
  for (const char* name : {"hot", "network:L3", "network:memory"})
    named.emplace_back(name, dsl::parse_cache_state(name).value());
  return named;
}

// Limit on the size of text files in bytes. The parsers refuse expressions and schedules that are
// longer.
constexpr std::streamsize most_text_bytes = 1 << 20;

/// Adds the name of the file to an error: "[parse] line 2: ..." becomes "[parse] scale.tw: line 2:
/// ...".
Error in_file(Error error, const std::string& name) {
  const size_t tag = error.message.find("] ");
  error.message.insert(tag == std::string::npos ? 0 : tag + 2, name + ": ");
  return error;
}

Result<dsl::Workload> expression_workload(const WorkloadFlags& flags) {
  TW_TRY(const std::string text,
         read_text(flags.expression, "expr", "an expression as in docs/expressions.md"));
  const std::string name = source_name(flags.expression);
  const Result<dsl::Compute> compute = dsl::parse_compute(text);
  if (!compute) return tl::unexpected(in_file(compute.error(), name));
  return dsl::workload(*compute, flags.accuracy);
}

Result<dsl::Workload> operator_workload(const WorkloadFlags& flags) {
  TW_TRY(const dsl::Operator* op, dsl::find_operator(flags.op));
  TW_TRY(dsl::Attributes attributes,
         dsl::parse_shape(flags.shape.empty() ? op->example : std::string_view(flags.shape),
                          flags.op));
  if (!flags.attributes.empty()) {
    TW_TRY(const dsl::Attributes more, dsl::parse_shape(join(flags.attributes, " "), flags.op));
    for (const auto& [name, value] : more) attributes[name] = value;
  }
  return dsl::make_workload(flags.op, attributes, flags.dtype, flags.accuracy);
}

Result<dsl::Workload> named_workload(const WorkloadFlags& flags) {
  if (!flags.key.empty()) return dsl::parse_workload(flags.key);
  if (!flags.expression.empty()) return expression_workload(flags);
  if (!flags.op.empty()) return operator_workload(flags);
  return fail(ErrorCode::Usage,
              "[workload] nothing to work on is given: use --op NAME (see "
              "`tilewright list`), --expr FILE or --workload KEY");
}

}  // namespace

std::vector<Flag> flags_of(WorkloadFlags& flags) {
  return {
      {"op", Text{&flags.op}, "operator, see `list`", {"expr", "workload"}},
      {"shape",
       Text{&flags.shape},
       "n1c64h56w56k64r3s3p1, or name=value ...; default: an example of it",
       {"expr", "workload"}},
      {"attr",
       Texts{&flags.attributes},
       "one more attribute, name=value; may be repeated",
       {"expr", "workload"}},
      {"expr",
       Path{&flags.expression},
       "file with an expression; - is standard input",
       {"workload"}},
      {"workload", Text{&flags.key},
       "key, as records have it; layouts and a state may follow in braces"},
      {"dtype",
       Choice(&flags.dtype, number_types()),
       "data type of the inputs",
       {"expr", "workload"}},
      {"layout", Texts{&flags.layouts},
       "how an input or output is kept, TENSOR=LAYOUT (in=NCHW16c); may be repeated"},
      {"state", Choice(&flags.state, cache_states()),
       "where its data lie when it is called: in the caches after the call before, or as between "
       "the operators of a network whose constants come from L3 or from memory"},
      {"accuracy",
       Choice(&flags.accuracy, {{"fast", dsl::Accuracy::Fast}, {"strict", dsl::Accuracy::Strict}}),
       "strict: no worse than a sequential loop",
       {"workload"}},
  };
}

Result<dsl::Workload> chosen_workload(const WorkloadFlags& flags) {
  TW_TRY(dsl::Workload workload, named_workload(flags));
  TW_TRY(const dsl::Layouts layouts, dsl::parse_layouts(join(flags.layouts, " ")));
  if (flags.state != dsl::CacheState::Hot) workload.state = flags.state;
  return dsl::with_layouts(std::move(workload), layouts);
}

std::vector<Flag> flags_of(TargetFlags& flags) {
  return {{"target", Text{&flags.target},
           "host (the default), cuda, cuda:1, cuda:sm_90a, opencl, x86-64-v4, ..., see `list`"},
          {"threads", Whole{&flags.threads, 1, tuner::most_kernel_threads},
           "threads that the kernel runs on"}};
}

Result<std::string> read_text(const std::string& path, std::string_view operation,
                              std::string_view expected) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& from = path == "-" ? std::cin : file;
  std::string text(most_text_bytes + 1, '\0');
  from.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(from.gcount()));
  if (!text.empty()) return text;
  return fail(ErrorCode::Invalid,
              fmt::format("[{}] {} cannot be read or is empty: name a file with {}, or - for "
                          "standard input",
                          operation, shell_quoted(path), expected));
}

std::string source_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::vector<Flag> concatenated(std::vector<std::vector<Flag>> lists) {
  std::vector<Flag> all;
  for (auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace tw::tools
