// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on its seeds and on mutations of them. In a build with TW_COVERAGE (preset
// `fuzz`), mutants that reach new code are mutated further.
//
//   tw_fuzz TARGET [--inputs N] [--seed S] [--corpus DIRECTORY]
//   tw_fuzz TARGET FILE ...           runs only these inputs, to study a failure
//
// The default of N is TW_FUZZ_INPUTS, or else 4,000. The inputs run in a child process. If an input
// ends the process, takes more than a second of processor time (ten with sanitizers), or takes more
// than 1 GiB, it is written to fuzz-TARGET.input and the exit code is 1. --corpus keeps the inputs
// that reach new code for the next run.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/hash.h"
#include "base/result.h"
#include "base/text.h"
#include "tests/fuzz/coverage.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"
#include "tests/sanitizers.h"

#ifdef __SANITIZE_ADDRESS__
// tests/suppressions.cpp explains the first option. A small quarantine bounds the memory of a run.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "intercept_tls_get_addr=0:quarantine_size_mb=16:max_allocation_size_mb=1024";
}
#endif

namespace tw::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int64_t most_seconds = has_shadow_memory ? 10 : 1;
constexpr int64_t most_bytes = int64_t{1} << 30;
constexpr size_t most_kept = 20'000;

struct Options {
  const Target* target = nullptr;
  int64_t inputs = 4'000, seed = 1;
  std::string corpus;
  std::vector<std::string> files;
};

/// Memory that the child shares with the parent. The parent reads it when the child has died.
struct Shared {
  int64_t inputs, accepted, kept;
  double slowest_s, seconds;
  size_t bytes;
  char input[1 << 22];
};

double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t peak_bytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

/// SIGPROF ends the process after `seconds` of processor time, and SIGALRM after 30 times as much
/// wall time, for inputs that only wait. 0 removes both limits.
void limit_time(int64_t seconds) {
  const itimerval limit = {{}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  alarm(static_cast<unsigned>(30 * seconds));
}

void limit_memory() {
  if (has_shadow_memory) return;
  const rlimit limit = {most_bytes, most_bytes};
  setrlimit(RLIMIT_AS, &limit);
}

/// Runs an input. Returns true if it reached new code.
bool run_one(const Target& target, const std::string& input, Shared& shared) {
  TW_CHECK(input.size() <= sizeof shared.input);
  std::memcpy(shared.input, input.data(), input.size());
  shared.bytes = input.size();
  limit_time(most_seconds);
  const double begun = processor_seconds();
  begin_input();
  const bool accepted = target.accepts(input);
  const bool is_new = reached_something_new();
  const double taken = processor_seconds() - begun;
  limit_time(0);
  TW_CHECK(peak_bytes() <= most_bytes, "the input takes more than 1 GiB");
  ++shared.inputs;
  shared.accepted += accepted;
  shared.slowest_s = std::max(shared.slowest_s, taken);
  shared.seconds += taken;
  return is_new;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> inputs_to_begin_with(const Options& options) {
  std::vector<std::string> inputs = options.target->seeds();
  if (options.corpus.empty()) return inputs;
  fs::create_directories(options.corpus);
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(options.corpus)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) inputs.push_back(read_file(path));
  return inputs;
}

std::string next_input(const Target& target, const std::vector<std::string>& kept, Random& random) {
  const std::string &input = random.pick(kept), &other = random.pick(kept);
  if (target.mutated && random.chance(0.7)) return target.mutated(input, other, random);
  return mutated_bytes(input, other, target.words, random);
}

void fuzz(const Options& options, Shared& shared) {
  const Target& target = *options.target;
  std::vector<std::string> kept = inputs_to_begin_with(options);
  for (const std::string& input : kept) run_one(target, input, shared);
  TW_CHECK(shared.accepted > 0, "no seed is accepted");
  Random random(static_cast<uint64_t>(options.seed));
  while (shared.inputs < options.inputs) {
    std::string input = next_input(target, kept, random);
    if (!run_one(target, input, shared) || kept.size() >= most_kept) continue;
    ++shared.kept;
    if (!options.corpus.empty())
      std::ofstream(fs::path(options.corpus) / short_hash(input), std::ios::binary) << input;
    kept.push_back(std::move(input));
  }
}

void run_in_child(const Options& options, Shared& shared) {
  limit_memory();
  if (options.files.empty()) fuzz(options, shared);
  for (const std::string& file : options.files) run_one(*options.target, read_file(file), shared);
  fmt::print(
      "{}: {} inputs, {} accepted, {} reached new code, {:.0f} s, slowest {:.1f} ms, {} MiB\n",
      options.target->name, shared.inputs, shared.accepted, shared.kept, shared.seconds,
      shared.slowest_s * 1e3, peak_bytes() >> 20);
}

int report_death(const Options& options, const Shared& shared, int status) {
  const std::string file = fmt::format("fuzz-{}.input", options.target->name);
  std::ofstream(file, std::ios::binary) << std::string_view(shared.input, shared.bytes);
  const std::string how =
      !WIFSIGNALED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
      : WTERMSIG(status) == SIGPROF
          ? fmt::format("it took more than {} s of processor time", most_seconds)
      : WTERMSIG(status) == SIGALRM ? fmt::format("it took more than {} s", 30 * most_seconds)
                                    : fmt::format("signal {}", WTERMSIG(status));
  fmt::print(stderr, "{}: input {} ended the process: {}; it is in {}\n", options.target->name,
             shared.inputs, how, file);
  return 1;
}

int run(const Options& options) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TW_CHECK(memory != MAP_FAILED);
  auto& shared = *static_cast<Shared*>(memory);
  const pid_t child = fork();
  TW_CHECK(child >= 0);
  if (child == 0) {
    run_in_child(options, shared);
    std::exit(0);
  }
  int status = 0;
  TW_CHECK(waitpid(child, &status, 0) == child);
  return status == 0 ? 0 : report_death(options, shared, status);
}

int usage(const std::vector<Target>& known) {
  fmt::print(stderr,
             "usage: tw_fuzz TARGET [--inputs N] [--seed S] [--corpus DIRECTORY] [FILE ...]\n");
  for (const Target& target : known)
    fmt::print(stderr, "  {:12} {}\n", target.name, target.summary);
  return 2;
}

/// Parses the arguments into `options`. Returns false if they are not as the usage says.
bool parse(const std::vector<std::string>& arguments, Options& options) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (!flag.starts_with("--")) {
      options.files.push_back(flag);
      continue;
    }
    if (++i == arguments.size()) return false;
    const auto number = parse_int(arguments[i]);
    if (flag == "--corpus")
      options.corpus = arguments[i];
    else if (flag == "--inputs" && number)
      options.inputs = *number;
    else if (flag == "--seed" && number)
      options.seed = *number;
    else
      return false;
  }
  return true;
}

int main_of(const std::vector<std::string>& arguments) {
  const std::vector<Target> known = targets();
  Options options;
  for (const Target& target : known)
    if (!arguments.empty() && arguments[0] == target.name) options.target = &target;
  if (const char* inputs = std::getenv("TW_FUZZ_INPUTS"))
    options.inputs = parse_int(inputs).value_or(options.inputs);
  if (!options.target || !parse(arguments, options)) return usage(known);
  return run(options);
}

}  // namespace
}  // namespace tw::fuzz

int main(int argc, char** argv) { return tw::fuzz::main_of({argv + 1, argv + argc}); }
