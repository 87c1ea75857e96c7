// SPDX-License-Identifier: Apache-2.0
// Runs broken kernels as candidates. They are broken in every way we could think of. No broken
// kernel may be reported as correct or be timed, and a correct kernel must still pass after any of
// them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <optional>
#include <regex>

#include "base/random.h"
#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/c_emitter.h"
#include "codegen/command.h"
#include "runtime/artifact.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"
#include "tests/nightly.h"
#include "tests/sanitizers.h"
#include "tests/tuner/mutants.h"
#include "tests/tuner/tuning.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {
namespace {

using schedules::Program;

constexpr std::array<const char*, 6> workloads = {
    "conv2d n=1 c=3 h=9 w=11 k=5 r=3 s=3 pad=1 f32 fast",
    "dense m=7 n=19 k=13 f32 fast",
    "conv2d n=1 c=4 h=9 w=9 k=6 r=3 s=3 stride=2 pad=1 groups=2 f32 strict",
    "dense m=7 n=19 k=13 i8 fast",
    "softmax rows=5 cols=37 f32 fast",
    // Long sums may have a larger error. Wrong results must be found all the same.
    "expr fast input x: f32[9, 25088]; s: f32[i=9] = sum(k=25088) x[i, k]; "
    "mean: f32[i=9] = s[i] / 25088.0",
};
constexpr double timeout_s = 2;
constexpr int rejected_between_checks = 12;

/// A kernel under test, and the statuses that its measurement may have, separated by spaces.
struct Kernel {
  std::string name, source, statuses;
  std::vector<runtime::PhaseInfo> phases;
  int64_t scratch_bytes = 0;
};

std::string c_name(DType type) {
  if (type == Float32) return "float";
  if (type == Int8) return "int8_t";
  return "int32_t";
}

bool suits(const Mutant& mutant, const dsl::Workload& workload, const Program& program) {
  const DType out = program.arguments.back().buffer.type;
  // These mutants end soon only under an address space limit, which such a build cannot set.
  if (has_shadow_memory && mutant.name.starts_with("eats_memory")) return false;
  // The address that "wild" writes may be shadow memory. A child that is forked under
  // ThreadSanitizer, as "forks" does, hangs before it reaches its loop.
  if (has_thread_sanitizer && (mutant.name == "wild" || mutant.name == "forks")) return false;
  switch (mutant.suits) {
    case Suits::Any:
      return true;
    case Suits::Float:
      return out == Float32;
    case Suits::Int32:
      return out == Int32;
    case Suits::Signed:
      return workload.op != "softmax";
    case Suits::HasScratch:
      return !program.scratch.empty();
  }
  return false;
}

/// A workload with its correct kernel as C, its workers, and broken kernels that are made from the
/// correct one.
class Planted {
 public:
  explicit Planted(std::string_view key)
      : workload_(workload_of(key)), program_(parallel_program(workload_)) {
    workers_.emplace(value(start_workers(host_target(), 2, test_environment(), timeout_s)));
    const std::string plain = schedules::Schedule(workload_.compute).to_string();
    const BuildOutcome reference = value(
        build_one(*workers_->builder, {.kernels = {{workload_.key(), plain}}, .packs = true}));
    (void)value(workers_->runner->prepare(workload_.key(), {reference.artifact}, Needed::No));
    source_ = value(codegen::emit_c(program_, "good")) + frame();
  }

  const dsl::Workload& workload() const { return workload_; }
  const Program& program() const { return program_; }
  Kernel correct() const {
    return {"correct", "", "ok", phases_of(program_, "good"),
            codegen::scratch_layout(program_).bytes};
  }

  Kernel broken(const Mutant& mutant) const {
    Kernel kernel = correct();
    kernel.name = mutant.name;
    kernel.statuses = mutant.statuses;
    kernel.source = fmt::format("MUTANT({}) {{ {}\n return 0; }}\n", mutant.name, mutant.body);
    kernel.phases.back() = {std::string(mutant.name), mutant.name.starts_with("race") ? 2 : 1};
    return kernel;
  }

  /// Returns kernels in which one phase before the last does nothing or leaves out its last task.
  std::vector<Kernel> with_broken_phases() const {
    std::vector<Kernel> kernels;
    for (size_t i = 0; i + 1 < program_.phases.size(); ++i) {
      Kernel skipped = correct();
      skipped.name = skipped.phases[i].symbol = fmt::format("skips_phase_{}", i);
      skipped.source = fmt::format("MUTANT({}) {{ return 0; }}\n", skipped.name);
      Kernel short_of_one = correct();
      short_of_one.name = fmt::format("short_phase_{}", i);
      short_of_one.phases[i].tasks -= 1;
      skipped.statuses = short_of_one.statuses = "wrong nondeterministic";
      kernels.push_back(std::move(skipped));
      if (short_of_one.phases[i].tasks > 0) kernels.push_back(std::move(short_of_one));
    }
    return kernels;
  }

  /// Returns, for each loop of the tiled kernel, a copy in which this loop has one iteration less.
  /// Loops that set sums to zero are left out, because a tail never uses some of these sums. A
  /// softmax has no such kernels, because its result is right with any value in place of the
  /// maximum.
  std::vector<Kernel> with_short_loops() const {
    const std::optional<Program> program = tiled_program(workload_);
    if (!program || workload_.op == "softmax") return {};
    std::vector<Kernel> kernels;
    const std::string text = value(codegen::emit_c(*program, "PREFIX"));
    const std::string body = text.substr(text.find("TW_EXPORT int32_t"));
    const std::regex loop(R"(< ([^;]+); \+\+)"),
        zeroes(R"([^;=]*(for [^;]*;[^;]*;[^;=]*)*\] = 0[.0f]*;)");
    for (std::sregex_iterator at(body.begin(), body.end(), loop), end; at != end; ++at) {
      if (std::regex_search(at->suffix().str(), zeroes, std::regex_constants::match_continuous))
        continue;
      Kernel kernel;
      kernel.name = fmt::format("loop_{}", kernels.size());
      kernel.statuses = "wrong nondeterministic oob";
      kernel.source = body.substr(0, static_cast<size_t>(at->position())) + "< " + (*at)[1].str() +
                      " - 1; ++" + at->suffix().str();
      kernel.source = std::regex_replace(kernel.source, std::regex("PREFIX"), kernel.name);
      kernel.phases = phases_of(*program, kernel.name);
      kernel.scratch_bytes = codegen::scratch_layout(*program).bytes;
      kernels.push_back(std::move(kernel));
    }
    return kernels;
  }

  /// Compiles all kernels into one object and measures each. Measures a correct kernel after every
  /// twelve, and at the end.
  void expect_rejected(const std::vector<Kernel>& kernels) {
    std::string source = source_;
    for (const Kernel& kernel : kernels) source += kernel.source;
    object_ = compile(source);
    int since_check = 0, rejected = 0;
    for (const Kernel& kernel : kernels) {
      SCOPED_TRACE(workload_.key() + ": " + kernel.name);
      const MeasureReply reply = measure(kernel);
      EXPECT_THAT(split(kernel.statuses, ' '), testing::Contains(db::to_string(reply.status)))
          << reply.reason;
      EXPECT_TRUE(reply.samples_ns.empty()) << "it was timed";
      EXPECT_EQ(reply.latency_ns, 0);
      EXPECT_FALSE(reply.reason.empty());
      rejected += reply.status != db::TrialStatus::Ok;
      if (++since_check % rejected_between_checks == 0) expect_correct_passes();
    }
    expect_correct_passes();
    fmt::print("[   count  ] {} of {} broken kernels of '{}' rejected\n", rejected, kernels.size(),
               workload_.key());
  }

 private:
  template <typename T>
  static T value(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }

  static bool all_row_major(const Program& program) {
    return std::all_of(program.arguments.begin(), program.arguments.end(),
                       [](const auto& argument) { return argument.layout.is_row_major(); });
  }

  /// Returns a program with random tiles and without packed layouts, so that its arguments are
  /// those of the correct kernel. Returns nullopt if 500 random points give none.
  static std::optional<Program> tiled_program(const dsl::Workload& workload) {
    const auto space = schedules::Space::derive(workload.compute, host_target());
    Random random(1);
    for (int attempt = 0; attempt < 500; ++attempt)
      if (const auto program = space.schedule(space.sample(random)).program())
        if (all_row_major(*program) && codegen::check_limits(*program)) return *program;
    return std::nullopt;
  }

  /// Returns a program with the loops as declared. The outermost loops are parallel, up to the
  /// first with more than one iteration.
  static Program parallel_program(const dsl::Workload& workload) {
    schedules::Schedule schedule(workload.compute);
    for (const dsl::Stage& stage : workload.compute.stages)
      for (const dsl::Axis& axis : stage.axes) {
        schedule = schedule.parallel(stage.name, axis.name);
        if (axis.extent > 1) break;
      }
    return value(schedule.program());
  }

  static std::vector<runtime::PhaseInfo> phases_of(const Program& program,
                                                   const std::string& prefix) {
    std::vector<runtime::PhaseInfo> phases;
    for (size_t i = 0; i < program.phases.size(); ++i)
      phases.push_back({codegen::phase_symbol(prefix, i), program.phases[i].tasks()});
    return phases;
  }

  /// Returns the C code before the bodies of mutants: headers, and the names that the bodies use.
  std::string frame() const {
    const auto& first = program_.arguments.front().buffer;
    const auto& last = program_.arguments[program_.arguments.size() - 2].buffer;
    const auto& out = program_.arguments.back().buffer;
    const size_t phase = program_.phases.size() - 1;
    return fmt::format(R"(
#include <alloca.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
void* _Znwm(unsigned long);
typedef {type} T;
enum {{ N = {n}, N0 = {n0}, N_LAST = {n_last}, ARGUMENTS = {arguments}, SCRATCH = {scratch} }};
static T fresh[N];
static void elsewhere_(void* const* buffers, void* scratch, T* out) {{
  void* moved[ARGUMENTS];
  memcpy(moved, buffers, sizeof moved);
  moved[ARGUMENTS - 1] = out;
  for (int32_t task = 0; task < {tasks}; ++task) good_p{phase}(moved, scratch, task);
}}
#define elsewhere(p) elsewhere_(buffers, scratch, p)
#define good() elsewhere(out)
__attribute__((noinline)) static int recurse(int depth) {{
  volatile char frame[1024];
  frame[0] = (char)depth;
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}}
__attribute__((noinline)) static T left_on_stack(void) {{
  T deep[4096];
  __asm__ volatile("" : : "r"(deep) : "memory");
  T sum = 0;
  for (int i = 0; i < 4096; ++i) sum += deep[i];
  return sum;
}}
#define MUTANT(name) \
  TW_EXPORT int32_t name##_(void* const* buffers, void* scratch, int32_t task, const {in0}* in0, \
                            const {in_last}* in_last, T* out); \
  TW_EXPORT int32_t name(void* const* buffers, void* scratch, int32_t task) {{ \
    return name##_(buffers, scratch, task, buffers[0], buffers[ARGUMENTS - 2], buffers[ARGUMENTS - 1]); \
  }} \
  TW_EXPORT int32_t name##_(void* const* buffers, void* scratch, int32_t task, const {in0}* in0, \
                            const {in_last}* in_last, T* out)
)",
                       fmt::arg("type", c_name(out.type)), fmt::arg("n", out.elements()),
                       fmt::arg("n0", first.elements()), fmt::arg("n_last", last.elements()),
                       fmt::arg("arguments", program_.arguments.size()),
                       fmt::arg("scratch", codegen::scratch_layout(program_).bytes),
                       fmt::arg("tasks", program_.phases[phase].tasks()), fmt::arg("phase", phase),
                       fmt::arg("in0", c_name(first.type)), fmt::arg("in_last", c_name(last.type)));
  }

  std::string compile(const std::string& source) const {
    std::ofstream(folder_ / "kernels.c") << source;
    const auto compiled =
        codegen::run_command({"cc", "-shared", "-fPIC", "-O1", "-w", folder_ / "kernels.c", "-o",
                              folder_ / "kernels.so", "-lm"},
                             120'000'000'000);
    if (!compiled) throw std::runtime_error(compiled.error().message);
    std::ifstream file(folder_ / "kernels.so", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  MeasureReply measure(const Kernel& kernel) {
    runtime::Artifact artifact;
    artifact.info.workload = workload_.key();
    artifact.info.schedule = "tw1";
    artifact.info.target = host_target().to_string();
    artifact.info.toolchain = "cc";
    artifact.info.codegen_abi = codegen::codegen_abi;
    artifact.info.phases = kernel.phases;
    artifact.info.scratch_bytes = kernel.scratch_bytes;
    for (const schedules::Argument& a : program_.arguments)
      artifact.info.arguments.push_back(
          {a.buffer.name, a.buffer.type, a.is_output, a.shape, "", a.buffer.elements(), ""});
    artifact.object = object_;
    const std::string name = value(workers_->artifacts->put(artifact));
    return value(workers_->runner->measure({.artifact = name}));
  }

  void expect_correct_passes() {
    const MeasureReply reply = measure(correct());
    // On a busy machine, even a correct kernel may find no undisturbed moment for its timing.
    EXPECT_TRUE(reply.status == db::TrialStatus::Ok || reply.status == db::TrialStatus::TooFast ||
                reply.status == db::TrialStatus::Unstable)
        << db::to_string(reply.status) << ": " << reply.reason;
  }

  Folder folder_;
  dsl::Workload workload_;
  Program program_;
  std::optional<Workers> workers_;
  std::string source_, object_;
};

void expect_rejected(int fault, size_t workload) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Planted planted(workloads[workload]);
  std::vector<Kernel> kernels;
  for (const Mutant& mutant : mutants)
    if (mutant.fault == fault && suits(mutant, planted.workload(), planted.program()))
      kernels.push_back(planted.broken(mutant));
  ASSERT_FALSE(kernels.empty());
  planted.expect_rejected(kernels);
}

TEST(BrokenKernels, Fault34_CrashesAreRejected) { expect_rejected(34, 0); }
TEST(BrokenKernels, Fault35_EndlessOnesMeetTheirDeadline) { expect_rejected(35, 0); }
TEST(BrokenKernels, Fault36_NoProcessesSocketsFilesOrAllMemory) { expect_rejected(36, 0); }
TEST(BrokenKernels, Fault40_TheConnectionIsNotTrusted) { expect_rejected(40, 0); }

class BrokenKernelsOf : public testing::TestWithParam<size_t> {};
TEST_P(BrokenKernelsOf, Fault37_AccessesOutsideAreRejected) { expect_rejected(37, GetParam()); }
TEST_P(BrokenKernelsOf, Fault38_WrongResultsAreRejected) { expect_rejected(38, GetParam()); }
TEST_P(BrokenKernelsOf, Fault39_MutatedInputsAndChanceAreRejected) {
  expect_rejected(39, GetParam());
}
TEST_P(BrokenKernelsOf, Fault38_ShortPhasesAndLoopsAreRejected) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Planted planted(workloads[GetParam()]);
  std::vector<Kernel> kernels = planted.with_broken_phases();
  for (Kernel& kernel : due(planted.with_short_loops(), 8)) kernels.push_back(std::move(kernel));
  if (kernels.empty()) GTEST_SKIP() << "one phase, and packed in every schedule";
  planted.expect_rejected(kernels);
}
TEST(BrokenKernels, Fault76_LongSumsThatLeaveATermOutAreRejected) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Planted planted(workloads.back());
  Kernel kernel = planted.correct();
  kernel.statuses = "wrong";
  // All other rows are right. The error is small beside the largest element, so a bound that is
  // relative to that element would not find it.
  kernel.name = "short_by_one_term";
  kernel.source =
      "MUTANT(short_by_one_term) { good(); out[1] -= in0[2 * 25088 - 1] / 25088; return 0; }\n";
  kernel.phases.back() = {kernel.name, 1};
  planted.expect_rejected({kernel});
}
INSTANTIATE_TEST_SUITE_P(Workloads, BrokenKernelsOf, testing::Range(size_t{0}, workloads.size()));

}  // namespace
}  // namespace tw::tuner
