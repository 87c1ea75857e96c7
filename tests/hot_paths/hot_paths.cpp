// SPDX-License-Identifier: Apache-2.0
// Fixed work on the hot paths of the tuner, i.e. on the code in which a search spends its own time.
// hot_paths_test.py counts the instructions. `hot_paths FOLDER` runs all paths. Each path is a
// function of its own, which callgrind finds by its name; preparations are outside of these
// functions. `hot_paths --compiler` prints the build type and the compiler's version, on which the
// counts depend as well.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cost_model/cost_model.h"
#include "dsl/workload.h"
#include "schedules/space/space.h"
#include "tests/db/samples.h"

namespace {

using namespace tw;
using schedules::Space;

template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "hot_paths: {}\n", result.error().message);
  std::exit(1);
}

constexpr int points_a_space = 24;

/// Returns the search spaces of a 3 x 3, a pointwise and a depthwise convolution and of a matrix
/// product.
std::vector<Space> spaces(const Target& target) {
  std::vector<Space> all;
  for (const char* key :
       {"conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast",
        "conv2d n=1 c=256 h=14 w=14 k=1024 r=1 s=1 stride=1 pad=0 dilation=1 groups=1 f32 fast",
        "conv2d n=1 c=144 h=56 w=56 k=144 r=3 s=3 stride=1 pad=1 dilation=1 groups=144 f32 fast",
        "dense m=128 n=768 k=768 f32 fast"})
    all.push_back(Space::derive(must(dsl::parse_workload(key)).compute, target));
  return all;
}

/// Returns a model trained on these features of kernels, each with a made-up throughput.
cost_model::WorkloadModel model_of(const std::vector<std::vector<float>>& rows) {
  std::vector<cost_model::Sample> samples;
  for (const std::vector<float>& row : rows) {
    cost_model::Sample& sample = samples.emplace_back();
    sample.features = row;
    sample.throughput = 1 / static_cast<double>(samples.size());
  }
  cost_model::CostModel model;
  if (!model.add(samples)) std::abort();
  return model.for_group(0);
}

}  // namespace

// extern "C" gives the functions plain names, without namespaces and arguments. hot_paths_test.py
// passes these names to callgrind.
extern "C" {

[[gnu::noinline]] void hot_schedule(const std::vector<Space>& spaces,
                                    std::vector<schedules::Schedule>& made) {
  Random random(1);
  for (const Space& space : spaces) {
    schedules::Point point = space.sample(random);
    for (int i = 0; i < points_a_space; ++i) {
      point = i % 2 == 0 ? space.sample(random) : space.mutate(point, random);
      made.push_back(space.schedule(point));
      if (made.back().to_string().empty()) std::abort();
    }
  }
}

[[gnu::noinline]] void hot_lower(const std::vector<schedules::Schedule>& made,
                                 std::vector<schedules::Program>& programs) {
  for (const schedules::Schedule& schedule : made)
    if (auto program =
            schedule.program({.unrolled_statements = schedules::most_statements_searched}))
      programs.push_back(std::move(*program));
}

[[gnu::noinline]] void hot_features(const std::vector<schedules::Program>& programs,
                                    const Target& target, std::vector<std::vector<float>>& rows) {
  for (const schedules::Program& program : programs)
    rows.push_back(must(cost_model::extract_features(program, target, 1)));
}

[[gnu::noinline]] void hot_predict(const cost_model::WorkloadModel& model,
                                   const std::vector<std::vector<float>>& rows) {
  for (int i = 0; i < 10; ++i)
    if (model.predict(rows).size() != rows.size()) std::abort();
}

[[gnu::noinline]] void hot_append(db::Store& store, const std::vector<db::Record>& records) {
  if (must(store.append(records)).inserted != static_cast<int64_t>(records.size())) std::abort();
}

[[gnu::noinline]] void hot_look_up(db::Store& store, const std::vector<db::Record>& records) {
  for (const db::Record& record : records)
    if (!must(store.best({.workload = record.workload, .target = record.target}))) std::abort();
}

}  // extern "C"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::string(argv[1]) == "--compiler") {
    fmt::print("{} {}\n", TW_BUILD, __VERSION__);
    return 0;
  }
  const Target target = must(parse_target("x86-64-v4"));
  const std::vector<Space> all = spaces(target);
  std::vector<schedules::Schedule> made;
  std::vector<schedules::Program> programs;
  std::vector<std::vector<float>> rows;
  hot_schedule(all, made);
  hot_lower(made, programs);
  hot_features(programs, target, rows);
  hot_predict(model_of(rows), rows);

  db::Store store =
      must(db::Store::open(std::string(argv[1]) + "/hot.db", db::OpenMode::ReadWrite));
  std::vector<db::Record> records;
  for (int64_t i = 0; i < 256; ++i) records.push_back(db::sample_record(i, i % 8));
  hot_append(store, records);
  hot_look_up(store, records);
  fmt::print("{} schedules, {} programs\n", made.size(), programs.size());
  return 0;
}
