// SPDX-License-Identifier: Apache-2.0
// Artifacts: what the compiler makes of programs, and how failures stay with their kernel.

#include "codegen/compile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <tuple>

#include "codegen/abi.h"
#include "codegen/c_emitter.h"
#include "codegen/command.h"
#include "codegen/inspect.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "schedules/program/pack.h"
#include "schedules/schedule.h"
#include "tests/codegen/kernels.h"
#include "tests/codegen/runs.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr;
using testing::Not;

int occurrences(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
  return count;
}

CompileOptions counting_spills() {
  CompileOptions options;
  options.count_spills = true;
  return options;
}

Argument blocked_argument(bool is_output, DType type = Float32) {
  Argument a = argument("x", type, {}, is_output);
  a.shape = {2, 5, 3};
  a.letters = "NCH";
  a.layout = *dsl::Layout::parse("NCH4c", a.letters);
  a.buffer.extents = a.layout.storage_shape(a.shape);
  return a;
}

/// x in NCH4c -> y in NCH4c, y = 2 x: both need packing.
KernelSpec doubling_spec() {
  Argument in = blocked_argument(false), out = blocked_argument(true);
  out.buffer.name = "y";
  const std::vector<Expr> at = {var("n"), var("c"), var("h"), var("v")};
  const Program program = single_phase(
      {in, out}, {{"n", 2}, {"c", 2}},
      {serial("h", 3,
              {vector("v", 4, {assign("y", at, f32("x", at) * dsl::constant(Float32, 2))})})});
  return {"doubling", "tw1", program, 60};
}

TEST(Compile, KernelPacksRunsAndUnpacks) {
  const KernelSpec spec = doubling_spec();
  auto artifacts = compile({&spec, 1}, host_target());
  ASSERT_TRUE(artifacts) << artifacts.error().message;
  ASSERT_TRUE((*artifacts)[0]) << (*artifacts)[0].error().message;
  const runtime::KernelInfo info = (*artifacts)[0]->info;
  EXPECT_EQ(info.arguments[0].layout, "NCH4c");
  EXPECT_EQ(info.arguments[0].storage_elements, 2 * 2 * 3 * 4);
  EXPECT_EQ(info.toolchain, "halide-21.0.0");
  EXPECT_EQ(info.codegen_abi, codegen_abi);
  const auto kernel = runtime::Kernel::load(std::move(*(*artifacts)[0]));
  ASSERT_TRUE(kernel) << kernel.error().message;
  std::vector<float> x(30), y(30, -1);
  std::iota(x.begin(), x.end(), 1.0f);
  runtime::ThreadPool pool(runtime::PoolOptions{});
  const Status called =
      kernel->call(std::vector<runtime::Buffer>{{x.data(), Float32, {2, 5, 3}, {}},
                                                {y.data(), Float32, {2, 5, 3}, {}}},
                   pool);
  ASSERT_TRUE(called) << called.error().message;
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 2 * x[i]);
}

/// out = a u, with u = w w + 1 prepared in blocks of four columns, and t, the sums of its columns.
dsl::Compute with_constant_stages() {
  return dsl::parse_compute(R"(
input a: f32[3, 4]
weight w: f32[6, 4]
u: f32[c=4, k=6] = w[k, c] * w[k, c] + 1.0
t: f32[k=6] = sum(c=4) u[c, k]
p: f32[m=3, k=6] = sum(c=4) a[m, c] * u[c, k]
out: f32[m=3, k=6] = p[m, k] - t[k]
)")
      .value();
}

KernelSpec prepared_spec(const std::string& steps = "") {
  const auto schedule =
      schedules::parse_schedule(with_constant_stages(),
                                "tw1\nprepare u\nprepare t\nset_layout u AB4b\nsplit u k 4\n"
                                "reorder u k.0 c k.1\nparallel u k.0\n" +
                                    steps);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return {"prepared", schedule->to_string(), schedule->program().value(), 0};
}

/// The outputs for a = 1, 2, 3, ... and weights that are all `w`.
std::vector<float> with_weights(float w) {
  std::vector<float> out;
  for (int m = 0; m < 3; ++m) {
    float sum = 0;
    for (int c = 0; c < 4; ++c) sum += static_cast<float>(4 * m + c + 1);
    for (int k = 0; k < 6; ++k) out.push_back((sum - 4) * (w * w + 1));
  }
  return out;
}

TEST(Compile, PreparedStagesRunWhenConstantsAreLoaded) {
  const KernelSpec spec = prepared_spec();
  auto artifacts = compile({&spec, 1}, host_target());
  ASSERT_TRUE(artifacts) << artifacts.error().message;
  ASSERT_TRUE((*artifacts)[0]) << (*artifacts)[0].error().message;
  const auto bytes = runtime::artifact_bytes(*(*artifacts)[0]);
  ASSERT_TRUE(bytes) << bytes.error().message;
  const auto again = runtime::parse_artifact(*bytes);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *(*artifacts)[0]);

  const runtime::KernelInfo& info = again->info;
  ASSERT_TRUE(info.preparation);
  EXPECT_EQ(info.preparation->inputs, std::vector<int>{1});
  ASSERT_EQ(info.preparation->buffers.size(), 2u);
  EXPECT_EQ(info.preparation->buffers[0].name, "u");
  EXPECT_EQ(info.preparation->buffers[0].storage_elements, 4 * 8);
  EXPECT_EQ(info.preparation->phases.size(), 2u);
  EXPECT_TRUE(info.arguments[1].only_prepares);
  EXPECT_EQ(info.arguments.size(), 3u);
  EXPECT_EQ(runtime::call_buffers(info).size(), 5u);

  const auto kernel = runtime::Kernel::load(*again);
  ASSERT_TRUE(kernel) << kernel.error().message;
  runtime::ThreadPool pool(runtime::PoolOptions{.threads = 2});
  std::vector<float> a(12), w(24, 2), out(18), u(32), t(6);
  std::iota(a.begin(), a.end(), 1.0f);
  std::vector<void*> buffers = {a.data(), w.data(), out.data(), u.data(), t.data()};
  ASSERT_TRUE(kernel->prepare(buffers, pool));
  buffers[1] = nullptr;  // calls do not read it
  ASSERT_TRUE(kernel->run(buffers, pool));
  EXPECT_EQ(out, with_weights(2));

  // Until it is prepared again the kernel has the old constants.
  std::ranges::fill(w, 3.0f);
  ASSERT_TRUE(kernel->run(buffers, pool));
  EXPECT_EQ(out, with_weights(2));
  buffers[1] = w.data();
  ASSERT_TRUE(kernel->prepare_backwards(buffers));
  ASSERT_TRUE(kernel->run(buffers, pool));
  EXPECT_EQ(out, with_weights(3));

  std::ranges::fill(w, 1.0f);
  const std::vector<runtime::Buffer> arrays = {{a.data(), Float32, {3, 4}, {}},
                                               {w.data(), Float32, {6, 4}, {}},
                                               {out.data(), Float32, {3, 6}, {}}};
  ASSERT_TRUE(kernel->call(arrays, pool));
  EXPECT_EQ(out, with_weights(1));

  buffers[1] = nullptr;
  EXPECT_THAT(kernel->prepare(buffers, pool).error().message, HasSubstr("null given"));
  buffers.pop_back();
  EXPECT_EQ(kernel->run(buffers, pool).error().code, ErrorCode::Usage);
}

TEST(Compile, HashesTellPreparationsApart) {
  const std::vector<KernelSpec> specs = {prepared_spec(), prepared_spec("split t k 3"),
                                         prepared_spec("parallel t k")};
  for (const Target& target : {host_target(), *parse_target("opencl")}) {
    const auto artifacts = compile(specs, target);
    ASSERT_TRUE(artifacts) << artifacts.error().message;
    for (const auto& artifact : *artifacts) ASSERT_TRUE(artifact) << artifact.error().message;
    EXPECT_EQ((*artifacts)[0]->info.preparation->phases.size(), 2u);
    EXPECT_NE(code_hash(*(*artifacts)[0]), code_hash(*(*artifacts)[2])) << target.to_string();
  }
}

TEST(Compile, PackingFillsTheRoundingWithZeros) {
  for (const DType type : {Float32, BFloat16, Int8}) {
    const Argument input = blocked_argument(false, type);
    const Program program = schedules::pack_program(input);
    const Storage inputs = integer_inputs(program, 1);
    expect_agreement(program, inputs);
    Storage storage = inputs;
    ASSERT_TRUE(schedules::evaluate(program, storage));
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t c = 0; c < 8; ++c)
        for (int64_t h = 0; h < 3; ++h) {
          const int64_t at = ((n * 2 + c / 4) * 3 + h) * 4 + c % 4;
          const double expected =
              c < 5 ? load_float(type, inputs.at("logical").data(), (n * 5 + c) * 3 + h) : 0;
          EXPECT_EQ(load_float(type, storage["storage"].data(), at), expected);
        }
    const Program unpack = schedules::pack_program(blocked_argument(true, type));
    Storage back = {{"storage", storage["storage"]}};
    ASSERT_TRUE(schedules::evaluate(unpack, back));
    EXPECT_EQ(back["logical"], inputs.at("logical"));
  }
}

TEST(Compile, TheSameBatchGivesTheSameBytes) {
  const std::vector<KernelSpec> specs = {
      doubling_spec(), {"tail", "tw1", guarded_tail(37), 37}, doubling_spec()};
  const auto first = compile(specs, host_target()), second = compile(specs, host_target());
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->size(), 3u);
  for (size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE((*first)[i]) << (*first)[i].error().message;
    EXPECT_EQ((*first)[i], (*second)[i]);
  }
  EXPECT_EQ((*first)[0]->info, (*first)[2]->info);
}

/// A kernel that computes the maximum of term(x) over each row of 64 numbers.
KernelSpec largest_spec(const std::string& name, const std::function<Expr(Expr)>& term) {
  const Expr x = term(f32("x", {var("row"), var("i")}));
  const Program program = single_phase(
      {argument("x", Float32, {8, 64}, false), argument("y", Float32, {8}, true)}, {{"row", 8}},
      {assign("y", {var("row")}, dsl::identity(Combine::Max, Float32)),
       unrolled("i", 64, {assign("y", {var("row")}, x, Combine::Max)})});
  return {name, "tw1", program, 512};
}

// In a batch with strict operations, LLVM does not vectorize a maximum over a row.
TEST(Compile, StrictOperationsDoNotChangeOtherKernels) {
  const Expr least = dsl::identity(Combine::Max, Float32), zero = dsl::constant(Float32, 0);
  const std::vector<KernelSpec> specs = {
      largest_spec("first", [](Expr x) { return x; }),
      largest_spec("masked", [&](Expr x) { return x + dsl::select(x < zero, least, zero); }),
      largest_spec("last", [](Expr x) { return x * x; })};
  const auto together = compile(specs, host_target());
  ASSERT_TRUE(together) << together.error().message;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto alone = compile({&specs[i], 1}, host_target());
    ASSERT_TRUE(alone) << alone.error().message;
    ASSERT_TRUE((*together)[i]) << (*together)[i].error().message;
    EXPECT_EQ((*together)[i]->info, (*alone)[0]->info);
    EXPECT_EQ(disassemble((*together)[i]->object, host_target()).value(),
              disassemble((*alone)[0]->object, host_target()).value())
        << specs[i].workload;
  }
}

// Inspects, without running it, a kernel of a convolution that reaches 117.8 of 118.2 GFLOP/s on a
// Zen 4 core: 14 x 2 accumulators stay in registers, each updated by one instruction per step.
TEST(Compile, CodeHashesTellKernelsApartByWhatTheyDo) {
  std::vector<KernelSpec> specs(4, doubling_spec());
  specs[1].schedule = "tw1\n# as the first, under another name";
  specs[2].schedule = "tw1\n# twice the tasks";
  specs[2].program.phases[0].axes = {{"n", 2}, {"c", 2}, {"again", 2}};
  specs[3].schedule = "tw1\n# another loop";
  specs[3].program =
      single_phase(specs[0].program.arguments, specs[0].program.phases[0].axes,
                   {serial("h", 3,
                           {assign("y", {var("n"), var("c"), var("h"), Expr(0)},
                                   f32("x", {var("n"), var("c"), var("h"), Expr(1)}))})});
  for (const Target& target : {host_target(), *parse_target("opencl")}) {
    SCOPED_TRACE(target.to_string());
    const auto artifacts = compile(specs, target);
    ASSERT_TRUE(artifacts) << artifacts.error().message;
    std::vector<std::string> hashes;
    for (const auto& artifact : *artifacts) {
      ASSERT_TRUE(artifact) << artifact.error().message;
      hashes.push_back(code_hash(*artifact));
    }
    EXPECT_NE((*artifacts)[0]->object, (*artifacts)[1]->object);
    EXPECT_EQ(hashes[0], hashes[1]);
    EXPECT_NE(hashes[0], hashes[2]);
    EXPECT_NE(hashes[0], hashes[3]);
    runtime::Artifact moved = *(*artifacts)[0];
    moved.info.arguments[0].layout = "NCH2c";
    EXPECT_NE(code_hash(moved), hashes[0]);
    runtime::Artifact wider = *(*artifacts)[0];
    wider.info.phases[0].threads *= 2;
    EXPECT_EQ(code_hash(wider) != hashes[0], target.is_gpu());
    runtime::Artifact mapped = *(*artifacts)[0];
    mapped.info.phases[0].maps = {{.extents = {64}, .box = {16}}};
    runtime::Artifact swizzled = mapped;
    swizzled.info.phases[0].maps[0].swizzle = 128;
    EXPECT_NE(code_hash(mapped), hashes[0]);
    EXPECT_NE(code_hash(swizzled), code_hash(mapped));
  }
}

TEST(Compile, AccumulatorsStayInRegisters) {
  const auto target = parse_target("x86-64-v4");
  ASSERT_TRUE(target);
  const KernelSpec spec{"conv", "tw1", direct_conv(64, 64, 56, 56, 2, 14), 1};
  const auto artifacts = compile({&spec, 1}, *target, counting_spills());
  ASSERT_TRUE(artifacts) << artifacts.error().message;
  ASSERT_TRUE((*artifacts)[0]) << (*artifacts)[0].error().message;
  EXPECT_EQ((*artifacts)[0]->info.spills, 0);
  const auto text = disassemble((*artifacts)[0]->object, *target);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(occurrences(*text, "vfmadd"), 28) << *text;
}

// Tiles of three vectors over rows of 56: the lanes that the second tile lacks are masked, and
// the accumulators stay in registers.
TEST(Compile, ATileThatEndsInsideAVectorIsMasked) {
  const auto target = parse_target("x86-64-v4");
  const auto workload = dsl::parse_workload(
      "conv2d n=1 c=8 h=8 w=56 k=4 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast");
  ASSERT_TRUE(workload) << workload.error().message;
  const std::string text =
      "tw1\nsplit out x 48\nsplit out x.1 16\nreorder out n x.0 k y c r s x.1.0 x.1.1\n"
      "cache_write out y\nvectorize out x.1.1\nunroll out x.1.0\nunroll out s\nparallel out n\n"
      "parallel out x.0";
  const auto schedule = schedules::parse_schedule(workload->compute, text);
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  ASSERT_TRUE(program) << program.error().message;
  const KernelSpec spec{"conv", text, *program, 1};
  const auto artifacts = compile({&spec, 1}, *target, counting_spills());
  ASSERT_TRUE(artifacts && (*artifacts)[0]);
  const auto code = disassemble((*artifacts)[0]->object, *target);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_GT(occurrences(*code, "{%k"), 0) << *code;
  EXPECT_EQ((*artifacts)[0]->info.spills, 0) << *code;
}

/// A product in tiles of 4 x 16 with b packed in panels, of which the next one is prefetched.
Program prefetching_product(int64_t m, int64_t n, int64_t k) {
  const auto workload =
      dsl::parse_workload(fmt::format("dense m={} n={} k={} f32 fast", m, n, k)).value();
  const auto schedule = schedules::parse_schedule(
      workload.compute,
      "tw1; set_layout b NK16n; split out n 16; split out m 4; split out k 4;"
      "reorder out n.0 m.0 k.0 k.1 m.1 n.1; cache_write out m.0; vectorize out n.1;"
      "unroll out m.1; unroll out k.1; parallel out n.0; prefetch out b n.0 k.0");
  return schedule.value().program().value();
}

TEST(Compile, PrefetchesStandInTheLoop) {
  const auto target = parse_target("x86-64-v4");
  const Program program = prefetching_product(24, 64, 64);
  expect_agreement(program, integer_inputs(program, 1));
  EXPECT_EQ(occurrences(emit_c(program, "product").value(), "__builtin_prefetch(&b["), 1);
  const KernelSpec spec{"product", "tw1", program, 1};
  const auto artifacts = compile({&spec, 1}, *target, counting_spills());
  ASSERT_TRUE(artifacts) << artifacts.error().message;
  ASSERT_TRUE((*artifacts)[0]) << (*artifacts)[0].error().message;
  const std::string code = disassemble((*artifacts)[0]->object, *target).value();
  // One line for each block of 4 terms; behind it the block's 16 multiply-adds, and then a jump.
  EXPECT_EQ(occurrences(code, "prefetch"), 1) << code;
  EXPECT_EQ(occurrences(code, "prefetcht0"), 1) << code;
  const std::string behind = code.substr(code.find("prefetch"));
  const std::string turn = behind.substr(0, behind.find("\tj"));
  EXPECT_EQ(occurrences(turn, "vfmadd"), 16) << code;
  EXPECT_EQ((*artifacts)[0]->info.spills, 0) << code;
}

// The addresses of prefetches are read from what objdump prints.
TEST(Compile, ToolsDoNotTranslate) {
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("LANGUAGE", "fr", 1);
  const auto printed =
      run_command({"objdump", "-d", "/proc/self/exe", "--stop-address=0"}, 20'000'000'000);
  unsetenv("LANGUAGE");
  unsetenv("LC_ALL");
  ASSERT_TRUE(printed) << printed.error().message;
  EXPECT_NE(printed->find("file format"), std::string::npos) << printed->substr(0, 400);
}

TEST(Command, ALostExitStatusIsAnError) {
  const auto former = std::signal(SIGCHLD, SIG_IGN);
  const auto failing = run_command({"false"}, 20'000'000'000);
  std::signal(SIGCHLD, former);
  ASSERT_FALSE(failing);
  EXPECT_EQ(failing.error().code, ErrorCode::Environment);
  EXPECT_NE(failing.error().message.find("SIGCHLD"), std::string::npos) << failing.error().message;
}

TEST(Compile, PrefetchesOfTailsAgree) {
  for (const auto& [m, n, k] : {std::tuple{23, 60, 30}, {5, 33, 7}}) {
    const Program program = prefetching_product(m, n, k);
    expect_agreement(program, integer_inputs(program, 2));
  }
}

// Rows of 14 elements are vectors of 16 lanes. Each has a row of its own in the accumulator, whose
// elements stay in registers: one update an instruction, no masked stores but those of the results.
TEST(Compile, AccumulatorsOfPartialVectorsStayInRegisters) {
  const auto target = parse_target("x86-64-v4");
  const auto workload = dsl::parse_workload(
      "conv2d n=1 c=16 h=14 w=14 k=16 r=1 s=1 stride=1 pad=0 dilation=1 groups=1 f32 fast");
  ASSERT_TRUE(workload) << workload.error().message;
  const std::string text =
      "tw1\nsplit out k 8\nsplit out y 2\nreorder out n k.0 y.0 c r s k.1 y.1 x\n"
      "cache_write out y.0\nvectorize out x\nunroll out k.1\nunroll out y.1\nparallel out n";
  const auto schedule = schedules::parse_schedule(workload->compute, text);
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  ASSERT_TRUE(program) << program.error().message;
  const KernelSpec spec{"conv", text, *program, 1};
  const auto artifacts = compile({&spec, 1}, *target, counting_spills());
  ASSERT_TRUE(artifacts && (*artifacts)[0]);
  const auto code = disassemble((*artifacts)[0]->object, *target);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(occurrences(*code, "vfmadd"), 16) << *code;
  EXPECT_EQ((*artifacts)[0]->info.spills, 0) << *code;
}

// A concatenation of many tensors reads one of them for each row, behind a jump for each tensor but
// the last; otherwise the only jumps are those of the loop.
TEST(Compile, ConcatenationsOfManyTensorsBranch) {
  const auto target = parse_target("x86-64-v4");
  std::string text, body = "in7[a - 112, b, c]";
  for (int i = 0; i < 8; ++i) text += fmt::format("input in{}: f32[16, 14, 14]\n", i);
  for (int i = 6; i >= 0; --i)
    body = fmt::format("select(a < {}, in{}[a - {}, b, c], {})", 16 * i + 16, i, 16 * i, body);
  const auto compute = dsl::parse_compute(text + "out: f32[a=128, b=14, c=14] = " + body);
  ASSERT_TRUE(compute) << compute.error().message;
  const auto schedule = schedules::parse_schedule(*compute, "tw1\nvectorize out c\nparallel out a");
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  ASSERT_TRUE(program) << program.error().message;
  const KernelSpec spec{"concat", "tw1", *program, 1};
  const auto artifacts = compile({&spec, 1}, *target);
  ASSERT_TRUE(artifacts && (*artifacts)[0]);
  const auto code = disassemble((*artifacts)[0]->object, *target);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_GE(occurrences(*code, ":\tj"), 7) << *code;
}

TEST(Compile, SpillsAreCounted) {
  const auto target = parse_target("x86-64-v4");
  const KernelSpec spec{"conv", "tw1", direct_conv(32, 32, 4, 28, 2, 28), 1};
  const auto artifacts = compile({&spec, 1}, *target, counting_spills());
  ASSERT_TRUE(artifacts && (*artifacts)[0]);
  EXPECT_GT((*artifacts)[0]->info.spills, 20);  // 56 accumulators, 32 registers
  EXPECT_EQ(count_spills("  vmovups %zmm0,0x40(%rsp)\n  vmovups %zmm0,(%rsp,%rax,4)\n"
                         "  mov %rax,0x8(%rsp)\n  vmovups %zmm1,0x40(%rbp)\n",
                         Architecture::X86_64),
            1);
  EXPECT_EQ(
      count_spills("  str q0, [sp, #16]\n  ldr x0, [sp]\n  ldr q1, [x2]\n", Architecture::Arm64),
      1);
}

TEST(Compile, Fault06_IndicesBeyond32BitsUse64) {
  constexpr int64_t row = int64_t{1} << 30;
  const Expr last = Expr(row - 1);
  const Program program = single_phase(
      {argument("in", Int8, {5, row}, false), argument("out", Int8, {5, 16}, true)}, {{"t", 5}},
      {vector("v", 16,
              {assign("out", {var("t"), var("v")},
                      dsl::read("in", {var("t"), last - var("v")}, Int8))})});
  const auto text = emit_c(program, "k");
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("const int64_t t = task;"));

  const KernelSpec spec{"far", "tw1", program, 1};
  auto artifacts = compile({&spec, 1}, host_target());
  ASSERT_TRUE(artifacts && (*artifacts)[0]);
  const auto kernel = runtime::Kernel::load(std::move(*(*artifacts)[0]));
  ASSERT_TRUE(kernel) << kernel.error().message;
  const size_t bytes = 5 * row;
  void* far = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(far, MAP_FAILED);
  auto* in = static_cast<int8_t*>(far);
  for (int64_t t = 0; t < 5; ++t) in[t * row + row - 1] = static_cast<int8_t>(t + 1);
  int8_t out[80] = {};
  runtime::ThreadPool pool(runtime::PoolOptions{});
  void* buffers[] = {in, out};
  ASSERT_TRUE(kernel->run(buffers, pool));
  for (int64_t t = 0; t < 5; ++t) EXPECT_EQ(out[t * 16], t + 1);
  munmap(far, bytes);
}

TEST(Compile, Fault43_RejectedProgramsFailAlone) {
  // A vector loop whose bounds are no literals has no meaning to the back end, which throws.
  const Expr t = var("t");
  const Program planted = single_phase(
      {argument("in", Float32, {64}, false), argument("out", Float32, {64}, true)}, {{"t", 8}},
      {loop("v", 0, t, LoopKind::Vector,
            {assign("out", {t * 8 + var("v")}, f32("in", {var("v")}))})});
  const std::vector<KernelSpec> specs = {{"bad", "tw1", planted, 1},
                                         {"good", "tw1", guarded_tail(20), 1}};
  const auto artifacts = compile(specs, host_target());
  ASSERT_TRUE(artifacts) << artifacts.error().message;
  ASSERT_FALSE((*artifacts)[0]);
  EXPECT_EQ((*artifacts)[0].error().code, ErrorCode::Unsupported);
  EXPECT_THAT((*artifacts)[0].error().message, HasSubstr("[codegen] the compiler rejects"));
  EXPECT_THAT((*artifacts)[0].error().message, Not(HasSubstr("\n")));
  EXPECT_TRUE((*artifacts)[1]) << (*artifacts)[1].error().message;
}

TEST(Compile, ThreadsMayCompileAtOnce) {
  const auto work = [] {
    for (const int64_t n : {17, 37}) {
      const KernelSpec spec{"tail" + std::to_string(n), "tw1", guarded_tail(n), 1};
      const auto artifacts = compile({&spec, 1}, host_target());
      EXPECT_TRUE(artifacts && (*artifacts)[0]);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Compile, TooMuchStackIsUnsupported) {
  const KernelSpec spec{"large", "tw1", large_local(1100), 1};
  const auto artifacts = compile({&spec, 1}, host_target());
  ASSERT_TRUE(artifacts);
  ASSERT_FALSE((*artifacts)[0]);
  EXPECT_EQ((*artifacts)[0].error().code, ErrorCode::Unsupported);
  EXPECT_THAT((*artifacts)[0].error().message, HasSubstr("local buffers"));
}

TEST(Compile, AMissingPluginIsAnEnvironmentError) {
  const KernelSpec spec{"tail", "tw1", guarded_tail(16), 1};
  CompileOptions options;
  options.cpu.plugin_directories = {"/nonexistent"};
  const auto artifacts = compile({&spec, 1}, host_target(), options);
  ASSERT_FALSE(artifacts);
  EXPECT_EQ(artifacts.error().code, ErrorCode::Environment);
  EXPECT_THAT(artifacts.error().message, HasSubstr("halide==21.0.0"));
}

TEST(Compile, Arm64ObjectsRunUnderEmulation) {
  for (const Program& program :
       {direct_conv(16, 16, 2, 4, 1, 4), guarded_tail(37), subtract_mean(3, 8),
        padded_row_conv(3, 7, BFloat16), padded_row_conv(3, 7, Int8)}) {
    const Storage inputs = integer_inputs(program, 17);
    Storage expected = inputs;
    ASSERT_TRUE(schedules::evaluate(program, expected));
    const auto actual = run_arm(program, inputs);
    if (!actual && actual.error().message.find("cannot be started") != std::string::npos)
      GTEST_SKIP() << "[SKIP] " << actual.error().message;
    ASSERT_TRUE(actual) << actual.error().message;
    EXPECT_EQ(difference(program, expected, *actual, 1e-6, 1e-6), "");
  }
}

}  // namespace
}  // namespace tw::codegen
