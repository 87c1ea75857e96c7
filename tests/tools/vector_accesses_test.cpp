// SPDX-License-Identifier: Apache-2.0
// Tests that vector loops over contiguous elements stay vectors on the way to machine code. The
// accesses of a Program are counted and compared with those that the back end is given, and with
// the instructions.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "codegen/compile.h"
#include "codegen/inspect.h"
#include "dsl/parse.h"
#include "schedules/program/dot_products.h"
#include "schedules/program/simplify.h"
#include "schedules/space/find_point.h"
#include "schedules/space/space.h"
#include "tests/nightly.h"
#include "tools/suites.h"
#include "tuner/search/scoring.h"

namespace tw::tools {
namespace {

using codegen::AccessCounts;
using schedules::Block;
using schedules::Program;
using schedules::Stmt;

int samples() { return static_cast<int>(cases_asked_for(cases_of(1, 20))); }

// ---- what is compiled -----------------------------------------------------------------------

struct Case {
  std::string name;
  dsl::Workload workload;
  bool is_of_suite = false;
};

dsl::Workload expression(const std::string& text) {
  auto compute = dsl::parse_compute(text);
  if (!compute) throw std::runtime_error(text + ": " + compute.error().message);
  return dsl::workload(*compute).value();
}

/// The example of README, expressions with partial vectors along each dimension, and a stencil with
/// overlapping reads.
const std::pair<const char*, const char*> expressions[] = {
    {"scale_rows",
     "input a: f32[1024, 512]\ninput s: f32[1024]\nout: f32[i=1024, j=512] = a[i, j] * s[i]"},
    {"shifted", "input a: f32[5001]\nout: f32[i=5000] = a[i + 1] * 2.0 + a[i]"},
    {"stencil",
     "input a: f32[34, 34, 34]\nout: f32[z=32, y=32, x=32] = a[z + 1, y + 1, x + 1] * 0.4 + "
     "(a[z, y + 1, x + 1] + a[z + 2, y + 1, x + 1] + a[z + 1, y, x + 1] + a[z + 1, y + 2, x + 1]"
     " + a[z + 1, y + 1, x] + a[z + 1, y + 1, x + 2]) * 0.1"},
    {"bytes", "input a: u8[77, 1000]\nout: u8[i=77, j=1000] = max(a[i, j], u8(3))"}};

const char* const keys[] = {
    "add_relu n=1 c=3 h=5 w=33 f32 fast",    "gelu rows=7 cols=1000 f32 fast",
    "layer_norm rows=33 cols=1000 f32 fast", "reduce_sum rows=33 cols=1000 f32 fast",
    "softmax rows=33 cols=1000 f32 fast",    "softmax rows=5 cols=33 f32 fast"};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const dsl::Operator& op : dsl::operators())
    all.push_back({std::string(op.name),
                   *dsl::make_workload(op.name, *dsl::parse_shape(op.example, op.name))});
  for (const char* key : keys) all.push_back({key, *dsl::parse_workload(key)});
  for (const auto& [name, text] : expressions) all.push_back({name, expression(text)});
  for (const char* name : {"blur", "color", "int_conv5x5", "pairwise", "softmax"}) {
    std::stringstream text;
    text << std::ifstream(fmt::format("{}/bench/expressions/{}.tw", TW_SOURCE_DIR, name)).rdbuf();
    all.push_back({fmt::format("{}.tw", name), expression(text.str())});
  }
  for (const SuiteInfo& info : suites()) {
    const auto items = suite(info.name);
    for (const SuiteItem& item : *items)
      if (!item.workload.is_empty())
        all.push_back({fmt::format("{}/{}", info.name, item.name), item.workload, true});
  }
  return all;
}

// ---- what a Program says --------------------------------------------------------------------

struct Accesses {
  std::map<std::string, AccessCounts> of;
  /// Some vector loop has conditions on its lanes, or a number of lanes that is no power of two.
  bool has_partial_vectors = false;
};

class Walk {
 public:
  static Accesses of(const Program& program, const Target& target) {
    Walk walk(target);
    for (const auto& argument : program.arguments)
      walk.buffers_[argument.buffer.name] = argument.buffer;
    for (const auto& buffer : program.scratch) walk.buffers_[buffer.name] = buffer;
    for (const auto& phase : program.phases) {
      const auto mark = walk.bounds_.mark();
      for (const auto& axis : phase.axes)
        walk.bounds_.push_loop(axis.variable, dsl::Expr(0), dsl::Expr(axis.extent));
      walk.block(*phase.body);
      walk.bounds_.restore(mark);
    }
    return walk.found_;
  }

 private:
  explicit Walk(const Target& target) : target_(target) {}
  void block(const Block& body) {
    for (const Stmt& stmt : body) statement(stmt);
  }

  void statement(const Stmt& stmt) {
    const auto mark = bounds_.mark();
    if (const auto* loop = stmt.as<schedules::Loop>()) {
      const int64_t copies = copies_;
      const std::string lane = lane_;
      bounds_.push_loop(loop->variable, loop->begin, loop->end);
      const bool is_literal =
          loop->kind == schedules::LoopKind::Unrolled || loop->kind == schedules::LoopKind::Vector;
      const int64_t trips = is_literal ? *dsl::as_int(loop->end) - *dsl::as_int(loop->begin) : 1;
      if (loop->kind == schedules::LoopKind::Vector) {
        lane_ = loop->variable;
        found_.has_partial_vectors |= (trips & (trips - 1)) != 0;
      } else {
        copies_ *= trips;
      }
      const auto dot = schedules::dot_product(*loop);
      const Form form = dot ? form_of(*dot) : Form::Instruction;
      if (form != Form::Loops) block(*loop->body);
      if (form != Form::Instruction) {
        // A lane sums several products. Each of them is a vector of its own.
        copies_ *= *dsl::as_int(dot->depth->end);
        bounds_.push_loop(dot->depth->variable, dot->depth->begin, dot->depth->end);
        block(*dot->depth->body);
      }
      copies_ = copies;
      lane_ = lane;
    } else if (const auto* branch = stmt.as<schedules::If>()) {
      found_.has_partial_vectors |= !lane_.empty() && dsl::uses_var(branch->condition, lane_);
      reads(branch->condition);
      bounds_.push_condition(branch->condition);
      block(*branch->body);
    } else if (const auto* allocate = stmt.as<schedules::Allocate>()) {
      buffers_[allocate->buffer.name] = allocate->buffer;
      block(*allocate->body);
    } else if (const auto* assign = stmt.as<schedules::Assign>()) {
      access(assign->buffer, assign->indices, assign->combine == dsl::Combine::None ? 1 : 2);
      for (const dsl::Expr& index : assign->indices) reads(index);
      reads(assign->value);
    }
    bounds_.restore(mark);
  }

  /// Tells whether a dot product is one instruction, or a vector for each product (Loops). It is
  /// Loops unless its factors lie in memory as an instruction reads them. If they do but the bounds
  /// do not prove that the shift of its digit is defined, either form may result.
  enum class Form { Instruction, Loops, Either };
  Form form_of(const schedules::DotProduct& dot) {
    const int64_t depth = *dsl::as_int(dot.depth->end);
    const auto mark = bounds_.mark();
    bounds_.push_loop(dot.depth->variable, dot.depth->begin, dot.depth->end);
    const auto lies = [&](const std::string& name, const std::vector<dsl::Expr>& indices,
                          int64_t of_lane, int64_t of_product) {
      const schedules::Affine address = address_of(name, indices);
      return address.coefficient(dsl::var(dot.lanes->variable)) == of_lane &&
             address.coefficient(dsl::var(dot.depth->variable)) == of_product;
    };
    const DType sum = buffers_.at(dot.sum->buffer).type;
    const bool is_read = schedules::find_dot_instruction(target_, dot, sum, depth) &&
                         lies(dot.sum->buffer, dot.sum->indices, 1, 0) &&
                         lies(dot.shared->tensor, dot.shared->indices, 0, 1) &&
                         lies(dot.own->tensor, dot.own->indices, depth, 1);
    const auto least = dot.digit ? bounds_.lower(dot.digit->shift) : 0;
    const auto most = dot.digit ? bounds_.upper(dot.digit->shift) : 0;
    bounds_.restore(mark);
    if (!is_read) return Form::Loops;
    return least && most && *least >= 0 && *most < 8 ? Form::Instruction : Form::Either;
  }

  schedules::Affine address_of(const std::string& name, const std::vector<dsl::Expr>& indices) {
    const schedules::Buffer& buffer = buffers_.at(name);
    const dsl::Expr address =
        schedules::to_expr(schedules::linear_address(buffer.extents, indices));
    return schedules::reduce_divisions(schedules::to_affine(schedules::simplify(address, bounds_)),
                                       bounds_);
  }

  void reads(const dsl::Expr& expr) {
    dsl::for_each(expr, [&](const dsl::Expr& e) {
      if (const auto* read = e.as<dsl::Read>()) access(read->tensor, read->indices, 1);
    });
  }

  void access(const std::string& name, const std::vector<dsl::Expr>& indices, int64_t times) {
    const schedules::Affine address = address_of(name, indices);
    bool uses_lane = false, are_neighbours = true;
    for (const auto& term : address.terms) {
      if (lane_.empty() || !dsl::uses_var(term.atom, lane_)) continue;
      uses_lane = true;
      are_neighbours &= term.coefficient == 1 && term.atom.as<dsl::Var>() != nullptr;
    }
    AccessCounts& counts = found_.of[name];
    (!uses_lane       ? counts.scalar
     : are_neighbours ? counts.contiguous
                      : counts.lanewise) += times * copies_;
  }

  const Target& target_;
  schedules::Bounds bounds_;
  std::map<std::string, schedules::Buffer> buffers_;
  Accesses found_;
  std::string lane_;  ///< of the vector loop around; empty: none
  int64_t copies_ = 1;
};

class VectorAccesses : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const auto toolchain = codegen::cpu_toolchain(); !toolchain)
      GTEST_SKIP() << toolchain.error().message;
  }
  const Target target_ = *parse_target(GetParam());
};

/// Expects that simplification only leaves accesses out, and never turns vectors into lanes or
/// single elements. If `never_branches`, it must not turn them into branches for single lanes
/// either, which happens where the target has no mask for an access.
void expect_as_said(const std::string& name, const Program& program, const Target& target,
                    bool never_branches) {
  const auto given = codegen::count_accesses(program, target);
  ASSERT_TRUE(given) << name << ": " << given.error().message;
  const Accesses said = Walk::of(program, target);
  for (const auto& [buffer, counts] : said.of) {
    const auto found = given->find(buffer);
    const AccessCounts actual = found == given->end() ? AccessCounts{} : found->second;
    const bool holds = actual.lanewise <= counts.lanewise && actual.scalar <= counts.scalar &&
                       (actual.contiguous > 0) == (counts.contiguous > 0) &&
                       (actual.branching == 0 || !never_branches);
    EXPECT_TRUE(holds) << fmt::format(
        "{}: {} has {} contiguous, {} lanewise, {} scalar accesses; the back end is given {}, {}, "
        "{} and {} masks that it cannot do\n{}",
        name, buffer, counts.contiguous, counts.lanewise, counts.scalar, actual.contiguous,
        actual.lanewise, actual.scalar, actual.branching, to_string(program));
  }
}

TEST_P(VectorAccesses, Fault78_ContiguousAccessesReachTheBackEndAsVectors) {
  for (const Case& c : cases()) {
    const auto space = schedules::Space::derive(c.workload.compute, target_);
    Random random(78);
    schedules::Point point = space.default_point();
    for (int i = 0; i <= samples(); point = space.sample(random)) {
      const auto program = space.schedule(point).program();
      if (!program) continue;
      expect_as_said(c.name, *program, target_, i == 0);
      ++i;
    }
  }
}

// Tests schedules close to those with which a search ends. Nothing is measured: the cost model
// chooses the schedule, and more points are mutations of it.
TEST_P(VectorAccesses, Fault78_TunedSchedulesReachTheBackEndAsVectors) {
  TW_ONLY_NIGHTLY();
  for (const Case& c : due(cases(), 8)) {
    const auto space = schedules::Space::derive(c.workload.compute, target_);
    const auto text = tuner::predicted_schedule({c.workload.compute}, target_, 1);
    ASSERT_TRUE(text) << c.name << ": " << text.error().message;
    const auto tuned = schedules::parse_schedule(c.workload.compute, *text);
    ASSERT_TRUE(tuned) << c.name << ": " << tuned.error().message;
    const std::optional<schedules::Point> best = schedules::point_of(space, *tuned);
    Random random(78);
    auto program = tuned->program();
    ASSERT_TRUE(program) << c.name << ": " << program.error().message;
    expect_as_said(c.name, *program, target_, true);
    for (int i = 0; best && i < samples(); ++i) {
      program = space.schedule(space.mutate(*best, random)).program();
      if (program) expect_as_said(c.name, *program, target_, false);
    }
  }
}

/// A convolution with a row of 33 elements that is padded by 6 on both sides; the dilation is 6.
dsl::Compute dilated_row() {
  const std::string inside = "0 <= x + s * 6 - 6 && x + s * 6 - 6 < 33";
  return dsl::parse_compute(
             "input a: f32[33]\nweight w: f32[3]\nout: f32[x=33] = sum(s=3) select(" + inside +
             ", a[x + s * 6 - 6], 0.0) * w[s]")
      .value();
}

// Different tasks do different things, so the simplifier makes a branch with two cases. The
// accesses of both cases count.
TEST_P(VectorAccesses, CasesOfMergedBranchesAreCounted) {
  const auto program = schedules::Schedule(dilated_row())
                           .split("out", "x", 8)
                           .reorder("out", {"x.0", "s", "x.1"})
                           .cache_write("out", "x.0")
                           .vectorize("out", "x.1")
                           .parallel("out", "x.0")
                           .program();
  ASSERT_TRUE(program) << program.error().message;
  const auto counts = codegen::count_accesses(*program, target_);
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->at("out").contiguous, 3) << to_string(*program);
  EXPECT_EQ(counts->at("out").scalar, 1) << to_string(*program);
}

// If lanes may take a branch differently, code for a target without masks has two versions: one for
// vectors in which all lanes take the branch, and a fallback. Only vectors at borders run the
// fallback.
TEST_P(VectorAccesses, FallbacksAtBordersAreNotCounted) {
  const auto program = schedules::Schedule(dilated_row())
                           .split("out", "x", 16)
                           .split("out", "x.1", 4)
                           .reorder("out", {"x.0", "s", "x.1.0", "x.1.1"})
                           .cache_write("out", "x.0")
                           .vectorize("out", "x.1.1")
                           .unroll("out", "x.1.0")
                           .parallel("out", "x.0")
                           .program();
  ASSERT_TRUE(program) << program.error().message;
  const auto counts = codegen::count_accesses(*program, target_);
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->at("out").contiguous, 4) << to_string(*program);
  EXPECT_EQ(counts->at("out").branching, 0) << to_string(*program);
}

/// Returns the number of instructions that load or store single elements of vectors.
int lanewise_instructions(const std::string& disassembly) {
  static const std::regex instruction(
      "v?insertps\\s+\\$0x[0-9a-f]+,[^,]*\\(|v?pinsr[bwdq]\\s+\\$0x[0-9a-f]+,[^,]*\\(|"
      "v?(extractps|pextr[bwdq])\\s.*\\)\\n|v?p?(gather|scatter)[dq]");
  return static_cast<int>(
      std::distance(std::sregex_iterator(disassembly.begin(), disassembly.end(), instruction), {}));
}

TEST_P(VectorAccesses, Fault78_ObjectsOfContiguousLoopsLoadAndStoreNoLanes) {
  std::vector<codegen::KernelSpec> specs;
  std::vector<std::string> names;
  for (const Case& c : cases()) {
    if (c.is_of_suite && !is_nightly()) continue;
    const auto space = schedules::Space::derive(c.workload.compute, target_);
    const auto schedule = space.schedule(space.default_point());
    const auto program = schedule.program();
    ASSERT_TRUE(program) << c.name << ": " << program.error().message;
    const Accesses said = Walk::of(*program, target_);
    int64_t lanewise = said.has_partial_vectors;
    // A vector loop that is cut to one lane, beside whole ones, is a partial vector too.
    for (const auto& [buffer, counts] : said.of)
      lanewise += counts.lanewise + (counts.contiguous > 0 ? counts.scalar : 0);
    if (lanewise > 0) continue;
    names.push_back(c.name);
    specs.push_back({c.workload.key(), schedule.to_string(), *program, 0, false});
  }
  EXPECT_GE(specs.size(), 12u);
  const auto artifacts = codegen::compile(specs, target_);
  ASSERT_TRUE(artifacts) << artifacts.error().message;
  for (size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE((*artifacts)[i]) << names[i] << ": " << (*artifacts)[i].error().message;
    const auto text = codegen::disassemble((*artifacts)[i]->object, target_);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(lanewise_instructions(*text), 0) << names[i] << "\n"
                                               << to_string(specs[i].program) << *text;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VectorAccesses,
                         ::testing::Values("x86-64-v4", "x86-64-v3", "x86-64-linux-sse4_1"),
                         [](const auto& isa) {
                           return isa.param == "x86-64-v4"   ? "Avx512"
                                  : isa.param == "x86-64-v3" ? "Avx2"
                                                             : "Sse41";
                         });

}  // namespace
}  // namespace tw::tools
