// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random steps of all kinds, in any order. Most of them make sense, so that many are legal.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "schedules/lowering/prefetch.h"
#include "schedules/nest.h"
#include "schedules/prepared.h"
#include "schedules/schedule.h"
#include "tests/schedules/random_problem.h"

namespace tw::schedules {

/// Features that the random generator should favour.
enum class Favour { Nothing, Threads };

class StepMaker {
 public:
  StepMaker(Random& random, const Nest& nest, Favour favour = Favour::Nothing)
      : random_(random), nest_(nest), favour_(favour) {}

  /// Makes a step. `progress` is the position in the schedule, from 0 to 1: early steps mostly
  /// arrange stages, later ones split and reorder loops, and the last ones mark loops, e.g. as
  /// parallel.
  Step make(double progress) {
    if (const auto constant = constant_stage(); constant && random_.chance(0.3))
      return Prepare{*constant};
    const double turn = progress + (random_.unit() - 0.5) * 0.6;
    if (turn < 0.2) return structural();
    if (turn < 0.75) return arranging();
    return marking();
  }

 private:
  Step structural() {
    switch (random_.below(6)) {
      case 0:
        return Inline{stage().stage.name};
      case 1:
        return epilogue();
      case 2:
        return rfactor();
      case 3:
      case 4:
        return layout();
      default:
        return split();
    }
  }
  Step arranging() {
    if (favour_ == Favour::Threads && random_.chance(0.4)) return placing();
    if (holder() && random_.chance(favour_ == Favour::Threads ? 0.3 : 0.2)) return holding();
    switch (random_.below(14)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return split();
      case 4:
        return fuse();
      case 5:
      case 6:
      case 7:
        return reorder();
      case 8:
      case 9:
        return compute_at();
      case 10:
        return cache_read();
      case 11:
      case 12:
        return cache_operand();
      default:
        return cache_write();
    }
  }
  /// Returns a step that makes a buffer or moves a stage into a loop, where threads share the
  /// buffer.
  Step placing() {
    switch (random_.below(4)) {
      case 0:
        return cache_write();
      case 1:
        return compute_at();
      default:
        return cache_operand();
    }
  }
  Step marking() {
    if (favour_ == Favour::Nothing && random_.chance(0.08)) return prefetch();
    if (holder() && random_.chance(0.15)) return holding();
    if (const auto step = keeping(); step && random_.chance(0.8)) return *step;
    for (const StageNest& s : nest_.stages)
      if (has_whole_results(s) && random_.chance(0.4)) return cache_result(s);
    if (favour_ == Favour::Threads && random_.chance(0.7))
      return random_.chance(0.8) ? bind() : parallel();
    switch (random_.below(11)) {
      case 8:
      case 9:
      case 10:
        return bind();
      case 0:
      case 1:
        return Unroll{stage().stage.name, loop()};
      case 2:
      case 3:
        return vectorize();
      case 4:
      case 5:
        return parallel();
      case 6:
        return cache_write();
      default:
        return split();
    }
  }

  /// Returns a random stage that reads only constants, and is neither prepared nor computed inside
  /// of another stage nor an output.
  std::optional<std::string> constant_stage() {
    std::vector<std::string> names;
    for (const StageNest& s : nest_.stages)
      if (!s.prepared && !s.at && !nest_.compute.is_output(s.result()) && reads_constants(s))
        names.push_back(s.stage.name);
    if (names.empty()) return std::nullopt;
    return random_.pick(names);
  }
  bool reads_constants(const StageNest& s) const {
    bool all = true;
    for_each_read(s.stage.body, [&](const dsl::Read& r) {
      const dsl::Input* input = nest_.compute.find_input(r.tensor);
      all &= input ? input->constant : is_kernel_argument(nest_, r.tensor);
    });
    return all;
  }

  const StageNest& stage() {
    current_ =
        &nest_
             .stages[static_cast<size_t>(random_.below(static_cast<int64_t>(nest_.stages.size())))];
    return *current_;
  }
  const StageNest& reduction_stage() {
    for (int attempt = 0; attempt < 4; ++attempt)
      if (stage().stage.combine != dsl::Combine::None) break;
    return *current_;
  }
  /// Returns a random loop of the stage that was picked last, or "none".
  std::string loop() {
    if (current_->loops.empty()) return "none";
    return current_
        ->loops[static_cast<size_t>(random_.below(static_cast<int64_t>(current_->loops.size())))]
        .name;
  }
  /// Like loop(), but prefers reduction loops.
  std::string reduction_loop() {
    std::vector<std::string> names;
    for (const NestLoop& l : current_->loops)
      if (l.reduction) names.push_back(l.name);
    return names.empty() ? loop() : random_.pick(names);
  }
  std::string tensor() {
    std::vector<std::string> names;
    for (const dsl::Input& input : nest_.compute.inputs) names.push_back(input.name);
    for (const StageNest& s : nest_.stages) names.push_back(s.result());
    return random_.pick(names);
  }
  int64_t factor() { return random_.pick(std::vector<int64_t>{1, 2, 2, 3, 4, 4, 5, 8}); }

  Step split() {
    const std::string name = stage().stage.name;
    return Split{
        name, loop(), factor(),
        random_.pick(std::vector<Tail>{Tail::Guard, Tail::Guard, Tail::Exact, Tail::Shift})};
  }
  Step fuse() {
    const StageNest& s = stage();
    if (s.loops.size() < 2) return Fuse{s.stage.name, "i", "j"};
    const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(s.loops.size()) - 1));
    return Fuse{s.stage.name, s.loops[at].name, s.loops[at + 1].name};
  }
  Step reorder() {
    const StageNest& s = stage();
    std::vector<std::string> loops;
    for (const NestLoop& l : s.loops)
      if (random_.chance(0.8)) loops.push_back(l.name);
    random_.shuffle(loops);
    return Reorder{s.stage.name, loops};
  }
  Step vectorize() {
    const StageNest& s = stage();
    for (size_t i = s.loops.size(); i > 0; --i)
      if (!s.loops[i - 1].reduction) return Vectorize{s.stage.name, s.loops[i - 1].name};
    return Vectorize{s.stage.name, "none"};
  }
  Step parallel() {
    const StageNest& s = stage();
    for (const NestLoop& l : s.loops)
      if (!l.parallel) return Parallel{s.stage.name, l.name};
    return Parallel{s.stage.name, "none"};
  }
  Step compute_at() {
    const std::string producer = stage().stage.name;
    for (int attempt = 0; attempt < 4 && stage().stage.name == producer; ++attempt) {
    }
    return ComputeAt{producer, current_->stage.name, loop()};
  }
  Step cache_read() {
    const std::string name = stage().stage.name, read = tensor(), at = loop();
    std::vector<std::string> readers;
    for (const StageNest& s : nest_.stages)
      if (s.at && s.at->consumer == name && reads(s, read) && random_.chance(0.7))
        readers.push_back(s.stage.name);
    return CacheRead{read, name, at, readers};
  }
  /// Mostly picks the outermost loop that is not bound yet, because bound loops must be nested
  /// perfectly.
  Step bind() {
    const StageNest& s = stage();
    for (const NestLoop& l : s.loops)
      if (!l.parallel && !l.reduction && l.kind == LoopKind::Serial && random_.chance(0.6))
        return Bind{s.stage.name, l.name};
    return Bind{s.stage.name, loop()};
  }
  /// Returns a cache_operand step that lists the loops on which the operand depends, in random
  /// order.
  Step cache_operand() {
    const StageNest& s = reduction_stage();
    const dsl::Binary* product = s.stage.body.as<dsl::Binary>();
    const bool second = product && product->op == dsl::BinaryOp::Mul && random_.chance(0.5);
    const dsl::Expr term = !product ? s.stage.body : second ? product->b : product->a;
    const dsl::Expr operand = dsl::substitute(term, s.axis);
    const std::string at = favour_ == Favour::Threads ? reduction_loop() : loop();
    std::vector<std::string> loops;
    for (size_t i = static_cast<size_t>(s.find_loop(at) + 1); i < s.loops.size(); ++i)
      if (dsl::uses_var(operand, s.loops[i].variable)) loops.push_back(s.loops[i].name);
    random_.shuffle(loops);
    return CacheOperand{s.stage.name, second ? 2 : 1, at, loops};
  }
  /// Returns a random stage that copies an operand or results to a buffer, or null if there is
  /// none.
  const StageNest* holder() {
    std::vector<const StageNest*> holders;
    for (const StageNest& s : nest_.stages)
      if (s.is_staged_operand || s.copies_results()) holders.push_back(&s);
    return holders.empty() ? nullptr : random_.pick(holders);
  }
  Step holding() {
    const StageNest& s = *holder();
    return s.copies_results() || random_.chance(0.3) ? pad(s) : pipeline(s);
  }
  /// Mostly picks the same depth as that of a pipeline that the nest already has.
  Step pipeline(const StageNest& s) {
    int64_t depth = 2 + random_.below(3);
    for (const StageNest& other : nest_.stages)
      if (other.depth > 1 && random_.chance(0.9)) depth = other.depth;
    return Pipeline{s.stage.name, depth};
  }
  Step pad(const StageNest& s) {
    const std::string axis = random_.pick(s.stage.axes).name;
    return Pad{s.stage.name, axis.substr(s.stage.name.size() + 1), factor()};
  }
  Step cache_write() {
    const std::string name = reduction_stage().stage.name;
    return CacheWrite{name, loop(), random_.chance(0.7) ? Scope::Register : Scope::Local};
  }
  /// A stage that is computed inside of another one and does not reduce can keep its elements in
  /// threads. This takes three steps: bind a loop of the consumer, bind a loop of the stage with
  /// the same extent, and store_in. Returns the next of these steps for such a stage; nullopt if
  /// there is none.
  std::optional<Step> keeping() const {
    for (const StageNest& s : nest_.stages) {
      if (!s.at || s.stored_in || s.window || s.stage.combine != dsl::Combine::None ||
          s.is_staged_operand || s.copies_results())
        continue;
      if (std::ranges::any_of(s.loops, is_bound)) return StoreIn{s.stage.name};
      const StageNest& consumer = *nest_.find(s.at->consumer);
      for (size_t i = static_cast<size_t>(consumer.find_loop(s.at->loop)) + 1;
           i < consumer.loops.size(); ++i) {
        const NestLoop& reads = consumer.loops[i];
        for (const NestLoop& own : s.loops)
          if (own.kind == LoopKind::Serial && own.extent == reads.extent && !reads.reduction)
            return is_bound(reads) ? Bind{s.stage.name, own.name}
                                   : Bind{consumer.stage.name, reads.name};
      }
    }
    return std::nullopt;
  }
  static bool is_bound(const NestLoop& loop) { return loop.kind == LoopKind::Thread; }
  static bool has_whole_results(const StageNest& s) {
    if (!s.cache || s.at) return false;
    const auto end = s.loops.begin() + s.find_loop(s.cache->loop) + 1;
    return std::none_of(s.loops.begin(), end, [](const NestLoop& l) { return l.reduction; });
  }
  /// Returns a cache_result step that lists the loops of the accumulator in random order.
  Step cache_result(const StageNest& s) {
    std::vector<std::string> loops;
    for (size_t i = static_cast<size_t>(s.find_loop(s.cache->loop) + 1); i < s.loops.size(); ++i)
      if (!s.loops[i].reduction) loops.push_back(s.loops[i].name);
    random_.shuffle(loops);
    return CacheResult{s.stage.name, loops};
  }
  /// Returns a prefetch step. It is mostly legal if some stage reads a contiguous part of an input
  /// in each iteration of a loop.
  Step prefetch() {
    Prefetch step{"none", "none", "none", "none"};
    for (int attempt = 0; attempt < 30; ++attempt) {
      const StageNest& s = stage();
      const auto loops = static_cast<int64_t>(s.loops.size());
      if (loops < 2 || !s.prefetches.empty() || nest_.compute.inputs.empty()) continue;
      const int64_t at = 1 + random_.below(loops - 1), outer = random_.below(at);
      step = {s.stage.name, random_.pick(nest_.compute.inputs).name,
              s.loops[static_cast<size_t>(outer)].name, s.loops[static_cast<size_t>(at)].name};
      if (prefetch_lines(nest_, s, {step.tensor, step.loop, step.at})) break;
    }
    return step;
  }
  Step epilogue() {
    const std::string into = reduction_stage().stage.name;
    return Epilogue{stage().stage.name, into};
  }
  Step rfactor() {
    const StageNest& s = reduction_stage();
    if (s.stage.reduction.empty()) return Rfactor{s.stage.name, "none", 2};
    return Rfactor{s.stage.name, random_.pick(s.stage.reduction).name, factor(),
                   random_.chance(0.5) ? Partition::Interleaved : Partition::Blocks};
  }
  Step layout() {
    const std::string name = tensor();
    return SetLayout{name, random_layout(random_, nest_.compute.letters_of(name))};
  }

  Random& random_;
  const Nest& nest_;
  const Favour favour_;
  const StageNest* current_ = nullptr;
};

}  // namespace tw::schedules
