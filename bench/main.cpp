// SPDX-License-Identifier: Apache-2.0
// tilewright-bench: kernels against other libraries, and how fast the tuner works. Also its own
// worker program: `tilewright-bench worker`.

#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "bench/compare.h"
#include "bench/scoring.h"
#include "bench/throughput.h"
#include "tools/command_line.h"
#include "tools/interrupts.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/selection.h"
#include "tools/surroundings.h"

namespace tw::bench {
namespace {

struct Flags {
  std::string suite, only, output;
  bool expressions = false, throughput = false, scoring = false, cold = false;
  std::vector<std::string> files;
  std::string peer, threads = "1", search = "missing", format = "table";
  int64_t rounds = 10, seed = 1, points = 2000;
  double budget_s = 60;
  tools::PlaceFlags place;
  std::string workloads = TW_BENCH_WORKLOADS;
};

tools::Verb verb_of(Flags& f, std::function<Result<int>(const tools::Surroundings&)> run) {
  using namespace tools;
  std::vector<Flag> own = {
      {"suite",
       Text{&f.suite},
       "a table of workloads: resnet50_conv, odd_conv, gemm",
       {"expressions"}},
      {"expressions", Switch{&f.expressions}, "the operands are files with expressions"},
      {"throughput",
       Switch{&f.throughput},
       "candidates a second that the tuner builds and measures",
       {"peer", "scoring"}},
      {"scoring",
       Switch{&f.scoring},
       "points a second from schedule to prediction; nothing is built",
       {"peer", "expressions"}},
      {"points", Whole{&f.points, 10, 1'000'000}, "that --scoring takes of each workload"},
      {"only", Text{&f.only}, "rows by name: r04,r15"},
      {"peer", Choice{&f.peer, {"onednn", "halide"}},
       "what to compare with; halide for expressions"},
      {"threads", Text{&f.threads}, "numbers of threads: 1,2"},
      {"rounds", Whole{&f.rounds, 1, 10'000}, "of ours, peer, peer, ours"},
      {"cold", Switch{&f.cold}, "weights come from memory, not from the caches"},
      {"tune", Choice{&f.search, {"no", "missing", "more"}},
       "search for kernels: never, where the database has none, always"},
      {"budget", Seconds{&f.budget_s}, "time to search for each kernel: 500ms, 60s, 5m"},
      {"seed", Whole{&f.seed, 0, INT64_MAX}, "of random choices and data"},
      {"workloads", Path{&f.workloads}, "the folder of the tables"},
      {"output", Path{&f.output}, "write the results as JSON there too"},
      {"format", Choice{&f.format, {"table", "json"}}, "of standard output"}};
  return {.name = "bench",
          .summary = "compare kernels with other libraries",
          .flags = together({std::move(own), flags_of(f.place)}),
          .operands = {{"FILES", Paths{&f.files}, "expressions"}},
          .run = std::move(run)};
}

Result<std::vector<int>> thread_counts(const std::string& text, const Target& target) {
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    const auto count = parse_int(trim(part));
    if (!count || *count < 1 || *count > target.cores)
      return fail(
          ErrorCode::Usage,
          fmt::format("[bench] --threads '{}': expected numbers from 1 to {}", text, target.cores));
    counts.push_back(static_cast<int>(*count));
  }
  return counts;
}

Result<std::vector<Item>> chosen_items(const Flags& flags) {
  if (!flags.expressions && !flags.files.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[bench] '{}': files need --expressions", flags.files[0]));
  std::vector<Item> items;
  if (flags.expressions) {
    for (const std::string& path : flags.files) {
      TW_TRY(Item item, load_expression(path));
      items.push_back(std::move(item));
    }
    if (items.empty()) return fail(ErrorCode::Usage, "[bench] --expressions: name their files");
  } else {
    const std::string fallback = flags.throughput || flags.scoring ? "resnet50_conv" : "";
    const std::string& suite = flags.suite.empty() ? fallback : flags.suite;
    if (suite.empty())
      return fail(ErrorCode::Usage,
                  "[bench] what to run? --suite NAME, --expressions FILES, --throughput "
                  "or --scoring");
    TW_TRY(items, load_suite(flags.workloads, suite));
  }
  const bool by_default = flags.throughput && flags.suite.empty() && !flags.expressions;
  return select(std::move(items), flags.only.empty() && by_default ? "r04" : flags.only);
}

/// YYYY-MM-DD, UTC.
std::string date_of(int64_t now_ms) {
  const std::time_t seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

Status write_json(const std::string& path, const nlohmann::json& json) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << json.dump(2) << '\n';
  file.close();
  if (file) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[bench] '{}' cannot be written: name another --output", path));
}

Status publish(const Flags& flags, const nlohmann::json& json, const std::string& table) {
  if (!flags.output.empty()) TW_RETURN_IF_ERROR(write_json(flags.output, json));
  return tools::print(flags.format == "json" ? json.dump(2) + "\n" : table);
}

tuner::TuneOptions tuning_of(const Flags& flags) {
  tuner::TuneOptions options;
  options.budget_s = flags.budget_s;
  options.seed = static_cast<uint64_t>(flags.seed);
  return options;
}

Result<CompareOptions> compare_options(const Flags& flags, const Target& target) {
  CompareOptions options;
  const std::string usual = flags.expressions ? "halide" : "onednn";
  TW_TRY(options.peer, find_peer(flags.peer.empty() ? usual : flags.peer));
  options.target = target;
  options.search = flags.search == "no"     ? Search::No
                   : flags.search == "more" ? Search::More
                                            : Search::Missing;
  options.tuning = tuning_of(flags);
  options.rounds = static_cast<int>(flags.rounds);
  options.cold = flags.cold;
  options.seed = static_cast<uint64_t>(flags.seed);
  return options;
}

Result<std::vector<Row>> compare_all(const std::vector<Item>& items,
                                     const std::vector<int>& threads, CompareOptions options,
                                     db::Store& store, const tuner::Environment& environment,
                                     const tools::Surroundings& here) {
  std::vector<Row> rows;
  for (const int count : threads) {
    options.tuning.threads = count;
    const auto pool = std::make_shared<runtime::ThreadPool>(runtime::PoolOptions{.threads = count});
    for (const Item& item : items) {
      if (environment.interrupts->load() > 0) return rows;
      tools::ProgressDisplay display(here, fmt::format("{} on {} threads", item.name, count));
      TW_TRY(Row row, compare(item, options, pool, store, environment,
                              [&](const tuner::Progress& progress) { display.update(progress); }));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Result<int> run_comparison(const Flags& flags, const tools::Surroundings& here,
                           const Target& target, const std::vector<Item>& items,
                           const std::vector<int>& threads, const tuner::Environment& environment) {
  TW_TRY(const CompareOptions options, compare_options(flags, target));
  TW_TRY(db::Store store, tools::open_database(flags.place, here, db::OpenMode::ReadWrite));
  TW_TRY(const std::vector<Row> rows,
         compare_all(items, threads, options, store, environment, here));
  const Heading heading{flags.expressions ? "expressions" : flags.suite,
                        options.peer.name,
                        options.peer.version,
                        here.version,
                        date_of(here.now_ms()),
                        target,
                        options.rounds,
                        options.cold,
                        options.peer.row_major ? "row-major" : "storage"};
  TW_RETURN_IF_ERROR(publish(flags, as_json(heading, rows), as_table(heading, rows, here.color)));
  if (environment.interrupts->load() > 0) return static_cast<int>(ErrorCode::Interrupted);
  const bool complete =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.error.empty(); });
  return complete ? 0 : static_cast<int>(ErrorCode::NoCandidate);
}

Result<int> run_throughput(const Flags& flags, const tools::Surroundings& here,
                           const Target& target, const std::vector<Item>& items,
                           const std::vector<int>& threads, const tuner::Environment& environment) {
  std::vector<Throughput> results;
  for (const int count : threads)
    for (const Item& item : items) {
      tuner::TuneOptions options = tuning_of(flags);
      options.threads = count;
      tools::ProgressDisplay display(here,
                                     fmt::format("tuning {} on {} threads", item.name, count));
      TW_TRY(Throughput result, measure_throughput(item, target, options, environment,
                                                   [&](const tuner::Progress& progress) {
                                                     display.update(progress);
                                                   }));
      results.push_back(std::move(result));
    }
  nlohmann::json json = as_json(results);
  json.update({{"date", date_of(here.now_ms())},
               {"program_version", here.version},
               {"machine", machine_json(target)}});
  TW_RETURN_IF_ERROR(publish(flags, json, as_table(results)));
  return 0;
}

Result<int> run_scoring(const Flags& flags, const tools::Surroundings& here, const Target& target,
                        const std::vector<Item>& items, const std::vector<int>& threads,
                        const tuner::Environment& environment) {
  if (threads.size() != 1)
    return fail(ErrorCode::Usage, "[bench] --scoring takes one number of --threads");
  TW_TRY(
      const ScoringReport report,
      measure_scoring(items, target, {flags.points, threads[0], static_cast<uint64_t>(flags.seed)},
                      environment.clock));
  nlohmann::json json = as_json(report);
  json.update({{"date", date_of(here.now_ms())},
               {"program_version", here.version},
               {"machine", machine_json(target)}});
  TW_RETURN_IF_ERROR(publish(flags, json, as_table(report)));
  return 0;
}

Result<int> bench(const Flags& flags, const tools::Surroundings& here) {
  const Target target = host_target();
  TW_TRY(const std::vector<int> threads, thread_counts(flags.threads, target));
  TW_TRY(const std::vector<Item> items, chosen_items(flags));
  tuner::Environment environment = tools::tuning_environment(flags.place, here);
  environment.interrupts = &tools::watch_interrupts();
  const auto run = flags.scoring ? run_scoring : flags.throughput ? run_throughput : run_comparison;
  return run(flags, here, target, items, threads, environment);
}

Result<int> run(const std::vector<std::string>& arguments, const tools::Surroundings& here) {
  Flags flags;
  const std::vector<tools::Verb> verbs = {
      verb_of(flags, [&](const tools::Surroundings& around) { return bench(flags, around); })};
  std::vector<std::string> line = {"bench"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  TW_TRY(const tools::CommandLine command, tools::parse_command_line(verbs, line, here));
  if (command.verb) return command.verb->run(here);
  TW_RETURN_IF_ERROR(tools::print(command.help));
  return 0;
}

int main_of(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments[0] == "worker")
    return tuner::worker_main({arguments.begin() + 1, arguments.end()});
  Status stack = tools::ensure_stack();
  tools::Surroundings here = tools::look_around(argc > 0 ? argv[0] : nullptr);
  here.arguments = arguments;
  const Result<int> code = stack ? run(arguments, here) : tl::unexpected<Error>(stack.error());
  if (code) return *code;
  fmt::print(stderr, "tilewright-bench: {}\n", code.error().message);
  return static_cast<int>(code.error().code);
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) {
  try {
    return tw::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tilewright-bench: [internal] {}: please report it\n", error.what());
    return static_cast<int>(tw::ErrorCode::Internal);
  }
}
