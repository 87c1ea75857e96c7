// SPDX-License-Identifier: Apache-2.0
// Lesson 3: let the tuner find the schedule, keep it in a database, and run the kernel.
//
// The lesson prints only what is equal on all machines: no times, and not the schedule that won.

#include <fmt/format.h>

#include <filesystem>

#include "codegen/abi.h"
#include "db/store.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "lessons/lesson.h"
#include "runtime/session.h"
#include "tuner/measure/reference.h"
#include "tuner/tune.h"
#include "tuner/workers/device.h"

using namespace tw;
using lessons::must;

// Declares max(a b, 0) on a small shape, so that the lesson takes little time and the interpreter
// can check all elements.
dsl::Workload declare() {
  using namespace dsl;
  const Axis m("m", 48), n("n", 64), k("k", 40);
  const Tensor a = input("a", Float32, {m, k}), b = weight("b", Float32, {k, n});
  const Tensor c = compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
  return must(workload(compute("out", {m, n}, max(c(m, n), constant(Float32, 0)))));
}

// Runs the kernel on row-major arrays. The kernel itself packs the arrays that it reads in another
// layout.
dsl::Array run(const runtime::Kernel& kernel, runtime::ThreadPool& pool, dsl::Arrays& inputs) {
  dsl::Array out = must(dsl::Array::make(Float32, {48, 64}));
  const std::vector<runtime::Buffer> buffers = {{inputs.at("a").data.data(), Float32, {48, 40}, {}},
                                                {inputs.at("b").data.data(), Float32, {40, 64}, {}},
                                                {out.data.data(), Float32, {48, 64}, {}}};
  must(kernel.call(buffers, pool));
  return out;
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "worker")
    return tuner::worker_main({argv + 2, argv + argc});

  const dsl::Workload workload = declare();
  const Target target = host_target();
  // The tuner reads no clock, environment variable or host name by itself; the program passes them
  // as an Environment, which default_environment() fills. By default, processes of this program
  // build and run the candidates (see the first lines of main()), so that a candidate that crashes
  // does no harm.
  const tuner::Environment environment = tuner::default_environment();
  fmt::print("workload: {}\n", workload.key());

  // Tune. Each candidate is compiled, verified against a reference, and only then timed. It is
  // stored as an immutable record, even if it failed, and later runs learn from all records. The
  // lesson begins with an empty database, so that it prints the same text each time.
  const std::filesystem::path folder = "lesson_3.files", cache = folder / "cache";
  const std::string database = folder / "lesson.db";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(cache);
  db::Store store = must(db::Store::open(database, db::OpenMode::ReadWrite));
  const tuner::TuneOptions options = {.budget_s = 60, .trials = 16};
  const tuner::Tuned tuned =
      must(tuner::tune(workload, target, options, store, environment, nullptr));
  fmt::print("ended: {}\n", tuner::to_string(tuned.ended));
  fmt::print("records: {}\n", must(store.info()).records);
  fmt::print("the best is correct: {}, its schedule begins with '{}'\n",
             tuned.best.status == db::TrialStatus::Ok, tuned.best.schedule.substr(0, 3));

  // Ask again, with Effort::None: nothing is measured. The best schedule comes from the database
  // and is only compiled.
  const tuner::Tuned known = must(
      tuner::tune(workload, target, {.effort = tuner::Effort::None}, store, environment, nullptr));
  fmt::print("again: {}, records: {}\n", tuner::to_string(known.ended), must(store.info()).records);

  // A session finds kernels by their workload and has no compiler. If its cache directory has the
  // compiled artifact of a kernel, the session loads the artifact; otherwise it returns an error
  // that says what to do.
  const db::Record& best = known.best;
  runtime::Session session = must(runtime::Session::open({.database = database,
                                                          .cache = cache,
                                                          .threads = 1,
                                                          .device = tuner::device_text(target),
                                                          .codegen_abi = codegen::codegen_abi}));
  fmt::print(
      "before it is in the cache: {}\n",
      session.kernel(workload.key()).error().code == ErrorCode::NotCompiled ? "not compiled" : "?");
  const std::string name = runtime::artifact_name(workload.key(), best.schedule, target.to_string(),
                                                  codegen::codegen_abi);
  must(runtime::write_artifact(cache / name, known.artifact));
  const runtime::Kernel kernel = must(session.kernel(workload.key()));

  // Compare with the definition.
  Random random(7);
  dsl::Arrays inputs = {{"a", must(dsl::Array::make(Float32, {48, 40}))},
                        {"b", must(dsl::Array::make(Float32, {40, 64}))}};
  for (auto& [input, array] : inputs) dsl::fill_normal(array, random);
  const dsl::Array got = run(kernel, session.pool(), inputs);
  const dsl::Arrays expected = must(dsl::interpret(workload.compute, inputs));
  const double error = tuner::relative_error(got, expected.at("out"));
  fmt::print("agrees with the interpreter: {}\n", error <= tuner::tolerance_of(workload));
}
