// SPDX-License-Identifier: Apache-2.0
// tilewright-bench: compares kernels with those of other libraries, and measures how fast the tuner
// works and how soon its searches find fast kernels. The tuner's workers are processes of the same
// program, called as `tilewright-bench worker`.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/isa.h"
#include "base/text.h"
#include "bench/ablation_mode.h"
#include "bench/compare.h"
#include "bench/databases/database.h"
#include "bench/databases/side_by_side.h"
#include "bench/mode.h"
#include "bench/planning.h"
#include "bench/random_workloads.h"
#include "bench/scoring.h"
#include "bench/search/mode.h"
#include "bench/throughput.h"
#include "bench/training/corpus_mode.h"
#include "bench/training/pretrain_mode.h"
#include "bench/twins.h"
#include "runtime/private_file.h"
#include "tools/flags/command_line.h"
#include "tools/flags/workload_flags.h"
#include "tools/hand_schedule.h"
#include "tools/imported_model.h"
#include "tools/interrupts.h"
#include "tools/reports/progress.h"
#include "tools/reports/report.h"
#include "tools/standard_streams.h"
#include "tools/suites.h"
#include "tuner/network/scheme_costs.h"
#include "tuner/processes/scratch.h"
#include "tuner/targets.h"

namespace tw::bench {
namespace {

const std::vector<Mode>& modes();

/// For each switch of a mode, true if it was given.
using Chosen = std::map<std::string, bool>;

std::vector<tools::Flag> switches_of(Chosen& chosen) {
  std::vector<tools::Flag> flags;
  for (const Mode& mode : modes()) {
    if (mode.name.empty()) continue;
    std::vector<std::string> excludes = mode.excludes;
    for (const Mode& other : modes())
      if (!other.name.empty() && other.name != mode.name) excludes.push_back(other.name);
    flags.push_back({mode.name, tools::Switch{&chosen[mode.name]}, mode.help, std::move(excludes)});
  }
  return flags;
}

tools::Verb verb_of(Flags& f, Chosen& chosen,
                    std::function<Result<int>(const tools::Surroundings&)> run) {
  using namespace tools;
  std::vector<Flag> own = {
      {"suite",
       Text{&f.suite},
       "a table of workloads: resnet50_conv, odd_conv, gemm",
       {"expressions"}},
      {"expressions", Switch{&f.expressions}, "the operands are files with expressions"},
      {"random",
       Whole{&f.random, 0, 10'000},
       "so many random workloads of each of --kinds, drawn by --seed",
       {"suite", "expressions", "batch", "dtype", "layout", "workloads", "corpus", "pretrain"}},
      {"kinds", Text{&f.kinds}, "of --random and --corpus: conv,dense; default: all kinds"},
      {"points", Whole{&f.points, 10, 1'000'000}, "that --scoring takes of each workload"},
      {"samples", Whole{&f.samples, 1, 1'000'000}, "legal ones of each workload, for --optimum"},
      {"records", Whole{&f.records, 1'000, 100'000'000}, "that --database asks"},
      {"comparisons", Whole{&f.comparisons, 1, 100'000}, "of each kind that --twins makes"},
      {"only", Text{&f.only}, "rows by name: r04,r15"},
      {"model", Text{&f.model},
       "of --ablation: ONNX files or standing models, separated by commas: resnet50,vgg16"},
      {"dim", Texts{&f.dimensions}, "of --model: NAME=VALUE of a symbolic dimension, batch=1"},
      {"peer", Choice{&f.peer, {"onednn", "halide", "ggml", "cublas", "cudnn"}},
       "what to compare with: halide for expressions, ggml for weights of few bits; of GPUs cublas "
       "for products, cudnn for convolutions"},
      {"target", Text{&f.target}, "host, or a GPU of this machine: cuda, cuda:sm_90a"},
      {"batch", Text{&f.batch}, "images of a suite's convolutions: 1,32,128"},
      {"dtype", Choice{&f.dtype, {"f32", "f16", "bf16"}}, "of a suite's arrays"},
      {"layout", Texts{&f.layouts},
       "how our kernels keep an input or output, TENSOR=LAYOUT (in=NHWC); may be repeated"},
      {"graphs", Switch{&f.graphs}, "of GPUs: submit calls as CUDA graphs"},
      {"schedule",
       Path{&f.schedule},
       "of one row: time the kernel of the schedule in this file; - is standard input",
       {"tune"}},
      {"threads", Text{&f.threads}, "numbers of threads: 1,2"},
      {"rounds", Whole{&f.rounds, 1, 10'000}, "of ours, peer, peer, ours"},
      {"state", Choice{&f.state, {"hot", "cold", "network"}},
       "cold: weights come from memory, on GPUs all arrays; network: so do weights, and outputs go "
       "there, inputs were just written"},
      {"tune", Choice{&f.tune, {"no", "missing", "more"}},
       "search for kernels: never, where the database has none, always"},
      {"budget", Seconds{&f.budget_s},
       "time to search for each kernel, of --ablation for each network, of --corpus in all: "
       "500ms, 60s, 5m"},
      {"seed", Whole{&f.seed, 0, INT64_MAX}, "of random choices and data"},
      {"strategies", Text{&f.strategies},
       "of --search: some of evolution,taught,analytic,blind,random,adams2019,tvm"},
      {"known", Path{&f.known},
       "of --search: a database; what it knows of other workloads teaches `taught`"},
      {"trials", Whole{&f.trials, 0, INT64_MAX},
       "of --search and --side-by-side: at most so many for each search; of --corpus: for each "
       "workload"},
      {"plot", Path{&f.plot}, "of --search: draw the curves there, .svg or .png"},
      {"replay", Switch{&f.replay}, "of --search: on recorded trials, by default the own ones"},
      {"record", Path{&f.record}, "of --search and --corpus: append trials there, to be replayed"},
      {"pretrained", Path{&f.pretrained}, "of --pretrain: write the model there"},
      {"workloads", Path{&f.workloads}, "a folder of tables; default: the program's own"},
      {"output", Path{&f.output}, "write a summary of the results as JSON there too"},
      {"trace", Switch{&f.trace},
       "of --output: with schedules, every form of the peer, and the course of each search"},
      {"format",
       Choice(&f.format, {{"table", tools::Format::Table}, {"json", tools::Format::Json}}),
       "of standard output"}};
  return {.name = "bench",
          .summary = "compare kernels with other libraries",
          .flags = concatenated({switches_of(chosen), std::move(own), flags_of(f.place)}),
          .operands = {{"FILES", Paths{&f.files},
                        "expressions, recorded trials, networks, or a database"}},
          .run = std::move(run)};
}

/// Parses a list of numbers such as "1,2". Fails with Usage if a number is not from 1 to `most`.
Result<std::vector<int64_t>> counts_of(const char* flag, const std::string& text, int64_t most) {
  std::vector<int64_t> counts;
  for (const std::string& part : split(text, ',')) {
    const auto count = parse_int(trim(part));
    if (!count || *count < 1 || *count > most)
      return fail(ErrorCode::Usage, fmt::format("[bench] --{} '{}': expected numbers from 1 to {}",
                                                flag, text, most));
    counts.push_back(*count);
  }
  return counts;
}

/// Returns the numbers of threads to measure. For a GPU only 1 is allowed, since one thread of the
/// host launches the kernels.
Result<std::vector<int>> thread_counts(const std::string& text, const Target& target) {
  TW_TRY(const std::vector<int64_t> counts,
         counts_of("threads", text, target.is_gpu() ? 1 : target.machine.cores));
  return std::vector<int>(counts.begin(), counts.end());
}

/// Returns the name of the suite that the results are for.
std::string suite_of(const Flags& flags, const Mode& mode) {
  if (flags.random > 0) return "random";
  return flags.suite.empty() ? mode.suite : flags.suite;
}

/// Returns the items with each batch size of --batch, the items of one batch size after those of
/// another.
Result<std::vector<Item>> variants_of(const Flags& flags, const std::vector<Item>& items) {
  constexpr int64_t most_images = 4096;
  TW_TRY(const std::vector<int64_t> batches, counts_of("batch", flags.batch, most_images));
  TW_TRY(const DType dtype, parse_dtype(flags.dtype));
  TW_TRY(const dsl::Layouts layouts, dsl::parse_layouts(join(flags.layouts, " ")));
  std::vector<Item> all;
  for (const int64_t batch : batches) {
    TW_TRY(std::vector<Item> some, variants(items, batch, dtype));
    for (Item& item : some) {
      TW_TRY(item.workload, dsl::with_layouts(std::move(item.workload), layouts));
    }
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

Result<std::vector<Item>> random_items(const Flags& flags) {
  TW_TRY(const std::vector<const Kind*> kinds, choose_kinds(flags.kinds));
  std::vector<Item> items;
  for (const Kind* kind : kinds)
    for (int64_t number = 0; number < flags.random; ++number) {
      TW_TRY(Item item, draw_item(*kind, static_cast<uint64_t>(flags.seed), number));
      items.push_back(std::move(item));
    }
  return select(std::move(items), flags.only);
}

Result<std::vector<Item>> chosen_items(const Flags& flags, const Mode& mode) {
  if (mode.takes_networks == flags.model.empty())
    return fail(ErrorCode::Usage,
                "[bench] --model and --ablation need each other: --ablation --model resnet50");
  if (mode.takes_networks || !mode.takes_workloads) return std::vector<Item>();
  if (!flags.expressions && !flags.replay && !flags.files.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[bench] '{}': files need --expressions", flags.files[0]));
  if (flags.random > 0) return random_items(flags);
  std::vector<Item> items;
  if (flags.expressions) {
    for (const std::string& path : flags.files) {
      TW_TRY(Item item, load_expression(path));
      items.push_back(std::move(item));
    }
    if (items.empty()) return fail(ErrorCode::Usage, "[bench] --expressions: name their files");
    return select(std::move(items), flags.only);
  }
  const std::string suite = suite_of(flags, mode);
  if (suite.empty())
    return fail(ErrorCode::Usage,
                "[bench] what to run? --suite NAME, --expressions FILES or a mode: --help");
  TW_TRY(const std::vector<Item> all,
         flags.workloads.empty() ? tools::suite(suite) : load_suite(flags.workloads, suite));
  TW_TRY(items, select(all, flags.only.empty() && flags.suite.empty() ? mode.only : flags.only));
  return variants_of(flags, items);
}

std::string usual_peer(const Call& call) {
  if (!call.gpu) return call.flags.expressions ? "halide" : "onednn";
  return call.items[0].workload.op == "conv2d" ? "cudnn" : "cublas";
}

/// Returns the schedule that --schedule names; empty without this flag. With the flag, fails with
/// Usage unless there is exactly one item.
Result<std::string> schedule_of_row(const Call& call) {
  if (call.flags.schedule.empty()) return std::string();
  if (call.items.size() != 1)
    return fail(ErrorCode::Usage,
                fmt::format("[bench] --schedule is of one row, and {} are chosen: name one with "
                            "--only",
                            call.items.size()));
  TW_TRY(tools::HandSchedule by_hand,
         tools::read_hand_schedule(call.flags.schedule, call.items[0].workload, call.target));
  return std::move(by_hand.text);
}

Result<CompareOptions> compare_options(const Call& call) {
  const Flags& flags = call.flags;
  CompareOptions options;
  TW_TRY(options.schedule, schedule_of_row(call));
  TW_TRY(options.peer, find_peer(flags.peer.empty() ? usual_peer(call) : flags.peer,
                                 call.gpu != nullptr, call.here.environment.cuda_directories));
  if (options.peer.keeps_threads && call.threads.size() > 1)
    return fail(ErrorCode::Usage,
                fmt::format("[bench] --threads {}: {} {} keeps the number of threads with which it "
                            "starts: give one number a run",
                            flags.threads, options.peer.name, options.peer.version));
  options.target = call.target;
  options.search = flags.tune == "no"     ? Search::No
                   : flags.tune == "more" ? Search::More
                                          : Search::Missing;
  options.tuning = call.tuning(1);
  options.rounds = static_cast<int>(flags.rounds);
  options.cache = parse_cache_state(flags.state).value_or(CacheState::Hot);
  options.seed = static_cast<uint64_t>(flags.seed);
  return options;
}

/// Returns the setup of contenders on a GPU. There, either all arrays come from memory (cold) or
/// none do (hot), so the state "network" is an error.
Result<DeviceSetup> device_setup(const Call& call) {
  DeviceSetup setup{.device = call.gpu, .graphs = call.flags.graphs};
  if (call.flags.state == "network")
    return fail(ErrorCode::Usage, "[bench] --state network: of GPUs expected hot or cold");
  if (call.flags.state == "cold") {
    TW_TRY(setup.evicting, make_evicting(*call.gpu));
  }
  return setup;
}

Result<std::vector<Row>> compare_all(const Call& call, CompareOptions options, db::Store& store) {
  std::vector<Row> rows;
  for (const int count : call.threads) {
    options.tuning.threads = count;
    const auto pool = std::make_shared<runtime::ThreadPool>(runtime::PoolOptions{.threads = count});
    for (const Item& item : call.items) {
      if (call.interrupted()) return rows;
      tools::ProgressDisplay display(call.here, fmt::format("{} on {} threads", item.name, count));
      TW_TRY(Row row, compare(item, options, pool, store, call.environment,
                              [&](const tuner::Progress& progress) { display.update(progress); }));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Result<int> run_comparison(const Call& call) {
  const Flags& flags = call.flags;
  TW_TRY(CompareOptions options, compare_options(call));
  DeviceSetup on_gpu;
  if (call.gpu) {
    TW_TRY(on_gpu, device_setup(call));
    options.gpu = &on_gpu;
  }
  TW_TRY(db::Store store, tools::open_database(flags.place, call.here, db::OpenMode::ReadWrite));
  TW_TRY(const std::vector<Row> rows, compare_all(call, options, store));
  const Heading heading{flags.expressions ? "expressions" : call.suite,
                        options.peer.name,
                        options.peer.version,
                        call.here.environment.program_version,
                        date_of(call.here.environment.now_ms()),
                        call.target,
                        options.rounds,
                        options.tuning.budget_s,
                        options.cache,
                        options.peer.row_major ? "row-major" : "storage",
                        flags.graphs};
  TW_RETURN_IF_ERROR(
      publish(call, as_json(heading, rows), as_table(heading, rows, call.here.color)));
  if (call.interrupted()) return static_cast<int>(ErrorCode::Interrupted);
  const bool complete =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.error.empty(); });
  return complete ? 0 : static_cast<int>(ErrorCode::NoCandidate);
}

Result<int> run_throughput(const Call& call) {
  std::vector<Throughput> results;
  for (const int count : call.threads)
    for (const Item& item : call.items) {
      tools::ProgressDisplay display(call.here,
                                     fmt::format("tuning {} on {} threads", item.name, count));
      TW_TRY(
          Throughput result,
          measure_throughput(item, call.target, call.tuning(count), call.environment,
                             [&](const tuner::Progress& progress) { display.update(progress); }));
      results.push_back(std::move(result));
    }
  TW_RETURN_IF_ERROR(publish(call, as_json(results), as_table(results)));
  return 0;
}

Result<int> run_scoring(const Call& call) {
  if (call.threads.size() != 1)
    return fail(ErrorCode::Usage, "[bench] --scoring takes one number of --threads");
  TW_TRY(const ScoringReport report, measure_scoring(call.items, call.target,
                                                     {call.flags.points, call.threads[0],
                                                      static_cast<uint64_t>(call.flags.seed)},
                                                     call.environment.clock));
  TW_RETURN_IF_ERROR(publish(call, as_json(report), as_table(report)));
  return 0;
}

/// Measures the planning of a standing model or of the model in a file. The schemes are those from
/// which `tune --model` plans.
Result<Planning> planned_model(const std::string& model, const Call& call, db::Store& store) {
  TW_TRY(const tools::ImportedModel passed,
         tools::import_model({.model = model}, call.target, call.flags.place, call.here,
                             *call.environment.interrupts));
  const int threads = call.threads[0];
  const StopToken stop = call.environment.stop();
  const int64_t before_ns = call.environment.clock();
  TW_TRY(tuner::SchemeCosts costs,
         tuner::SchemeCosts::predict(passed.graph, {call.target, threads, stop}, store,
                                     tuner::predict_for(call.target, threads, stop)));
  const int64_t predicted_ns = call.environment.clock();
  TW_TRY(Planning planning, measure_planning(passed.graph, costs.schemes(), costs.transform_cost(),
                                             call.flags.rounds, call.environment.clock));
  planning.name = passed.name;
  planning.predicting_s = static_cast<double>(predicted_ns - before_ns) * 1e-9;
  return planning;
}

Result<int> run_planning(const Call& call) {
  constexpr size_t nodes = 1000, states = 20;
  TW_TRY(const tuner::Scratch folder, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(folder.path() + "/empty.db", db::OpenMode::ReadWrite));
  std::vector<Planning> plans;
  for (const std::string& model : call.flags.files) {
    TW_TRY(Planning planning, planned_model(model, call, store));
    plans.push_back(std::move(planning));
  }
  const Solving solving = measure_solving(nodes, states, static_cast<uint64_t>(call.flags.seed),
                                          call.flags.rounds, call.environment.clock);
  TW_RETURN_IF_ERROR(publish(call, planning_json(plans, solving), planning_table(plans, solving)));
  return 0;
}

Result<int> run_database(const Call& call) {
  TW_TRY(const tuner::Scratch folder, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(const DatabaseFigures figures,
         measure_database({.database = call.flags.files.empty() ? "" : call.flags.files[0],
                           .folder = folder.path(),
                           .records = call.flags.records,
                           .rounds = call.flags.rounds,
                           .seed = static_cast<uint64_t>(call.flags.seed)},
                          call.environment.clock));
  TW_RETURN_IF_ERROR(publish(call, as_json(figures), as_table(figures)));
  return 0;
}

Result<int> run_side_by_side(const Call& call) {
  if (call.flags.files.empty())
    return fail(ErrorCode::Usage,
                "[bench] --side-by-side: name the address of a server without records, and perhaps "
                "recordings");
  std::vector<std::string> files(call.flags.files.begin() + 1, call.flags.files.end());
  if (files.empty()) files = {TW_BENCH_RECORDING};
  TW_TRY(const std::vector<tuner::Recording> recordings, recordings_in(files));
  TW_TRY(const tuner::Scratch folder, tuner::Scratch::make(tuner::temporary_places()));
  SideBySideOptions options{.database = call.flags.files.front(),
                            .folder = folder.path(),
                            .seed = static_cast<uint64_t>(call.flags.seed)};
  if (call.flags.trials > 0) options.trials = call.flags.trials;
  TW_TRY(const std::vector<SideBySideCase> cases,
         measure_side_by_side(recordings, options, call.environment));
  TW_RETURN_IF_ERROR(publish(call, as_json(cases, options), as_table(cases)));
  return 0;
}

/// Adds the flags that only comparisons of kernels accept to the excluded flags.
std::vector<std::string> on_processors(std::vector<std::string> excludes) {
  for (const char* flag : {"target", "batch", "dtype", "layout", "graphs", "schedule"})
    excludes.emplace_back(flag);
  return excludes;
}

const std::vector<Mode>& modes() {
  static const std::vector<Mode> table = {
      {"", "", {}, "", "", run_comparison},
      {"throughput", "candidates a second that the tuner builds and measures",
       on_processors({"peer"}), "resnet50_conv", "r04", run_throughput},
      {"scoring", "points a second from schedule to prediction; nothing is built",
       on_processors({"peer", "tune", "state", "expressions"}), "resnet50_conv", "", run_scoring},
      {"planning", "how long plans of the networks named take; nothing is built",
       on_processors({"peer", "tune", "state", "expressions", "suite", "only"}), "", "",
       run_planning, false, false},
      {"database",
       "how fast the tuning database answers, merges and opens; FILES: an empty one, or a server",
       on_processors({"peer", "tune", "state", "expressions", "suite", "only", "workloads"}), "",
       "", run_database, false, false},
      {"side-by-side",
       "how much sooner runs that share a server find what one finds; FILES: its address, recorded "
       "trials",
       on_processors({"peer", "tune", "state", "expressions", "suite", "only", "workloads"}), "",
       "", run_side_by_side, false, false},
      {"twins", "whether a kernel is told from its copy, and from one slowed by 3 %",
       on_processors({"peer", "tune", "state", "expressions"}), "resnet50_conv", "", run_twins},
      {"search", "how soon searches find fast kernels",
       on_processors({"peer", "tune", "state", "expressions"}), "resnet50_conv", "r04", run_search},
      {"optimum",
       "the cost model's choices, compared with the best of many samples; nothing is built",
       {"peer", "tune", "state", "graphs", "schedule"},
       "resnet50_conv",
       "",
       run_optimum,
       false,
       true,
       false},
      {"corpus", "gathers trials of random workloads, which the cost model is trained on",
       on_processors({"peer", "tune", "state", "expressions", "suite", "only", "workloads",
                      "replay", "strategies", "known", "plot", "output"}),
       "", "", run_corpus, false, false},
      {"pretrain", "trains the cost model on corpora, FILES, and judges it on what it has not seen",
       on_processors({"peer", "tune", "state", "expressions", "suite", "only", "workloads"}), "",
       "", run_pretrain, false, false},
      {"ablation", "what each way of choosing layouts and kernels saves in networks",
       on_processors({"peer", "tune", "state", "expressions", "suite", "only", "workloads"}), "",
       "", run_ablation, true},
  };
  return table;
}

/// Returns the mode whose switch was given, or the first mode if there was no switch.
const Mode& mode_of(const Chosen& chosen) {
  for (const Mode& mode : modes())
    if (const auto it = chosen.find(mode.name); it != chosen.end() && it->second) return mode;
  return modes().front();
}

/// Returns the target of --target: this machine's processor, one of its GPUs or, for a mode that
/// needs no device, any GPU with CUDA.
Result<tuner::ChosenTarget> target_of(const Flags& flags, const Mode& mode,
                                      const tools::Surroundings& here) {
  if (flags.target == "host") return tuner::ChosenTarget{host_target(), {}};
  TW_TRY(tuner::ChosenTarget chosen, tuner::chosen_target(flags.target, here.environment));
  if (chosen.target.architecture != Architecture::Cuda)
    return fail(ErrorCode::Usage, fmt::format("[bench] --target {}: expected host, cuda or "
                                              "cuda:sm_90a and the like",
                                              flags.target));
  if (chosen.missing.empty() || !mode.needs_device) return chosen;
  return fail(ErrorCode::Environment,
              fmt::format("[bench] --target {}: {}", flags.target, join(chosen.missing, "; and ")));
}

Result<int> bench(const Flags& flags, const Mode& mode, const tools::Surroundings& here) {
  TW_TRY(const tuner::ChosenTarget chosen, target_of(flags, mode, here));
  const Target& target = chosen.target;
  std::shared_ptr<runtime::Device> gpu;
  if (target.is_gpu() && mode.needs_device) {
    TW_TRY(gpu, runtime::open_cuda_device({.index = chosen.device}));
  } else if (flags.graphs && !target.is_gpu()) {
    return fail(ErrorCode::Usage, "[bench] --graphs: expected a GPU, --target cuda");
  }
  for (const std::string& path : {flags.output, flags.pretrained})
    if (!path.empty()) TW_RETURN_IF_ERROR(runtime::check_output(path, "results.json"));
  TW_TRY(std::vector<int> threads, thread_counts(flags.threads, target));
  TW_TRY(std::vector<Item> items, chosen_items(flags, mode));
  tuner::Environment environment = tools::tuning_environment(flags.place, here, chosen.device);
  environment.interrupts = &tools::watch_interrupts();
  const std::string suite = flags.expressions ? "" : suite_of(flags, mode);
  return mode.run(
      {flags, here, target, gpu, suite, std::move(items), std::move(threads), environment});
}

Result<int> run(const std::vector<std::string>& arguments, const tools::Surroundings& here) {
  Flags flags;
  Chosen chosen;
  const std::vector<tools::Verb> verbs = {verb_of(
      flags, chosen,
      [&](const tools::Surroundings& around) { return bench(flags, mode_of(chosen), around); })};
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
  Status ready = check_max_isa();
  if (ready) ready = tools::ensure_stack();
  tools::Surroundings here = tools::look_around(argc > 0 ? argv[0] : nullptr);
  here.arguments = arguments;
  const Result<int> code = ready ? run(arguments, here) : tl::unexpected<Error>(ready.error());
  if (code) return *code;
  tools::print_error(fmt::format("tilewright-bench: {}\n", code.error().message));
  return static_cast<int>(code.error().code);
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) {
  try {
    return tw::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    tw::tools::print_error(
        fmt::format("tilewright-bench: [internal] {}: please report it\n", error.what()));
    return static_cast<int>(tw::ErrorCode::Internal);
  }
}
