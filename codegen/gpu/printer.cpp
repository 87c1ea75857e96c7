// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "codegen/abi.h"
#include "schedules/nest.h"
#include "schedules/program/specialised.h"

namespace tw::codegen {

using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Commit;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::PrefetchLines;
using schedules::Stmt;
using schedules::ThreadNest;
using schedules::Wait;

namespace {

/// Returns the lines of the text, indented by one more step.
std::string further_in(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t end = text.find('\n') + 1;
    result += "  ";
    result += text.substr(0, end);
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace

KernelPrinter::KernelPrinter(const schedules::Program& program, const schedules::Phase& phase,
                             const DialectRow& dialect)
    : CPrinter(program, phase, dialect.spelling),
      dialect_(dialect),
      find_buffer_([this](const std::string& name) -> const Buffer& { return buffer(name); }),
      plan_(plan_kernel(program, phase, dialect, find_buffer_)) {
  dropped_ = schedules::numbered_dimensions(*phase.body);
  uses_thread_ = plan_.mbarriers > 0;
}

std::string KernelPrinter::print_kernel(GpuKernel& kernel) {
  kernel.blocks = phase_.tasks();
  kernel.persistent = plan_.is_persistent;
  kernel.threads =
      static_cast<int>(plan_.threads + (plan_.has_producers ? schedules::producer_threads : 0));
  kernel.shared_bytes = plan_.shared_bytes;
  kernel.dynamic_shared_bytes = plan_.dynamic_bytes;
  kernel.maps = plan_.maps;
  std::vector<std::string> parameters;
  for (const schedules::Argument& argument : program_.arguments)
    parameters.push_back(dialect_.parameter(storage_type(argument.buffer.type),
                                            identifier(argument.buffer.name), argument.is_output));
  parameters.emplace_back(dialect_.scratch_parameter);
  for (size_t i = 0; i < kernel.maps.size(); ++i)
    parameters.push_back(fmt::format("const __grid_constant__ tw_tensor_map tw_map_{}", i));
  print_phase();
  // print_phase() has found the indices and the buffers that the body uses. Declarations are
  // printed only for these indices and these scratch buffers.
  const std::string numbered = numbers(), declared = declarations();
  return fmt::format("// {}: {} x {}\n{}{}({}) {{\n{}{}{}}}\n", phase_.name,
                     counted(kernel.blocks, "block"), counted(kernel.threads, "thread"),
                     dialect_.head(kernel.threads, phase_.resident_blocks), kernel.name,
                     fmt::join(parameters, ", "), declared, numbered, body_);
}

// ---- around the statements ------------------------------------------------------------------

std::string KernelPrinter::declarations() {
  std::string text;
  const ScratchLayout layout = scratch_layout(program_);
  for (size_t i = 0; i < program_.scratch.size(); ++i) {
    const Buffer& b = program_.scratch[i];
    if (is_touched(b.name))
      text += pointer(dialect_.in_global, b,
                      fmt::format("scratch + {}", int64_literal(layout.offsets[i])));
  }
  for (const SharedArray& array : plan_.shared) {
    const Buffer& b = array.buffer;
    if (plan_.dynamic_bytes > 0) {
      text += pointer("", b, fmt::format("(unsigned char*)tw_shared + {}", array.offset));
    } else {
      text += "  " + dialect_.declare_shared(b, identifier(b.name), array.alignment) + "\n";
    }
  }
  return text;
}

std::string KernelPrinter::pointer(std::string_view space, const Buffer& b,
                                   const std::string& address) {
  const std::string type = fmt::format("{}{}*", space, storage_type(b.type));
  return fmt::format("  {0} const {1} = ({0})({2});\n", type, identifier(b.name), address);
}

std::string KernelPrinter::numbers() {
  std::string text;
  const std::vector<std::string> axes =
      plan_.is_persistent ? std::vector<std::string>() : numbered_by("block", phase_.axes);
  if (!axes.empty()) text += fmt::format("  const int block = {};\n", dialect_.block_number);
  if (uses_thread_) text += fmt::format("  const int thread = {};\n", dialect_.thread_number);
  for (const std::string& axis : axes) text += "  " + axis + "\n";
  return text + mbarrier_declarations();
}

std::string KernelPrinter::mbarrier_declarations() const {
  if (plan_.mbarriers == 0) return "";
  const bool has_producers = plan_.has_producers;
  return fmt::format(
      "  __shared__ __align__(8) unsigned long long tw_barriers[{0}];\n{2}"
      "  int tw_committed = 0, tw_arrived = 0;\n"
      "  if (thread == 0) tw_open_barriers(tw_barriers, {0}, 1);\n{3}  {1}\n{4}",
      plan_.mbarriers, dialect_.barrier,
      has_producers ? fmt::format("  __shared__ __align__(8) unsigned long long tw_emptied[{}];\n",
                                  plan_.mbarriers)
                    : "",
      has_producers ? fmt::format("  if (thread == 0) tw_open_barriers(tw_emptied, {}, {});\n",
                                  plan_.mbarriers, plan_.threads / warp_threads)
                    : "",
      producer_text_);
}

// ---- producers and consumers ----------------------------------------------------------------
// Producers have the thread numbers after those of the consumers. Each consumer warp arrives at
// `tw_emptied` when it reaches its wait. The arrival says that the buffers that the previous
// iteration read may be overwritten.

void KernelPrinter::print_phase() {
  if (!plan_.has_producers) return print_uniform(*phase_.body, 1);
  const schedules::SpecialisedBody parts = schedules::specialised_body(phase_);
  const auto registers = moved_registers(plan_.threads, phase_.resident_blocks);
  line(1, fmt::format("if (thread >= {}) {{", plan_.threads));
  if (registers) line(2, fmt::format("tw_fewer_registers<{}>();", registers->producer));
  line(2, fmt::format("if (thread == {}) {{", plan_.threads));
  print_tasks([&](int indent) { print_producer(parts.producer, indent); }, 3);
  line(2, "}");
  line(2, "return;");
  line(1, "}");
  if (registers) line(1, fmt::format("tw_more_registers<{}>();", registers->consumer));
  producer_text_ = std::exchange(body_, {});
  print_tasks(
      [&](int indent) {
        print_uniform(parts.consumer, indent);
        // The next task uses the same shared memory.
        if (plan_.is_persistent) print_barrier(indent);
      },
      1);
}

/// Prints the statements of a task. In a persistent block, a loop over the block's tasks surrounds
/// the statements:
///   for (unsigned block = blockIdx.x; block < 392; block += gridDim.x) { ... }
void KernelPrinter::print_tasks(const std::function<void(int indent)>& print_task, int indent) {
  if (!plan_.is_persistent) return print_task(indent);
  const std::string before = std::exchange(body_, {});
  print_task(indent + 1);
  const std::string text = std::exchange(body_, before);
  line(indent, "#pragma unroll 1");
  line(indent, fmt::format("for (unsigned block = {0}; block < {1}; block += {2}) {{",
                           dialect_.block_number, phase_.tasks(), dialect_.blocks));
  for (const std::string& axis : numbered_by("block", phase_.axes)) line(indent + 1, axis);
  body_ += text;
  line(indent, "}");
}

void KernelPrinter::print_producer(const Block& body, int indent) {
  for (const Stmt& stmt : body)
    schedules::visit(
        stmt,
        [&](const Loop& loop) {
          if (loop.kind == LoopKind::Bulk) {
            TW_CHECK(print_tma_copy(loop, indent), "a legal box");
            return;
          }
          line(indent, "#pragma unroll 1");
          line(indent, for_head(loop) + " {");
          print_producer(*loop.body, indent + 1);
          line(indent, "}");
          if (plan_.is_persistent && loop.pipeline) print_end_of_pipeline(true, indent);
        },
        [&](const If& branch) {
          line(indent, fmt::format("if ({}) {{", value(branch.condition)));
          print_producer(*branch.body, indent + 1);
          line(indent, "}");
        },
        [&](const Commit&) {
          line(indent,
               fmt::format("tw_arrive(&tw_barriers[tw_committed & {}]);", plan_.mbarriers - 1));
          line(indent, "++tw_committed;");
        },
        [&](const Barrier&) {
          print_wait_at("tw_emptied", indent);
          line(indent, "++tw_arrived;");
        },
        ignore<Assign, Allocate, Wait, PrefetchLines>);  // consumers execute these
}

// ---- all threads of a block, or one ---------------------------------------------------------

void KernelPrinter::print_body(const Block& block, int indent) {
  if (is_block_uniform_) return print_uniform(block, indent);
  print(block, indent);
}

void KernelPrinter::print_uniform(const Block& block, int indent) {
  for (size_t i = 0; i < block.size(); ++i) {
    if (const size_t nest = warpgroups_ahead(block, i, plan_, find_buffer_); nest > i) {
      print_overlapped(block, i, nest, indent);
      i = nest;
    } else if (!concerns_all(block[i], plan_)) {
      const auto end = std::find_if(block.begin() + static_cast<ptrdiff_t>(i), block.end(),
                                    [&](const Stmt& s) { return concerns_all(s, plan_); });
      print_once({block.begin() + static_cast<ptrdiff_t>(i), end}, indent);
      i = static_cast<size_t>(end - block.begin()) - 1;
    } else {
      print_uniform(block[i], i + 1 == block.size(), indent);
    }
  }
}

void KernelPrinter::print_uniform(const Stmt& stmt, bool is_last, int indent) {
  const auto print_statements = [&](const Block& body, int inner) { print(body, inner); };
  schedules::visit(
      stmt,
      [&](const Loop& loop) {
        if (loop.kind == LoopKind::Thread)
          return print_divergent([&] { print_nest(loop, print_statements, indent); });
        if (loop.kind == LoopKind::Reduce)
          return print_divergent([&] { print_reduction(loop, indent); });
        print_loop(loop, indent);
      },
      [&](const If& branch) { print_if(branch, indent); },
      [&](const Assign&) { TW_CHECK(false, "thread 0 alone assigns outside of nests"); },
      [&](const Allocate& allocate) { print_allocate(allocate, is_last, indent); },
      [&](const Barrier&) {
        if (plan_.threads > 1) print_barrier(indent);
      },
      [&](const Commit&) { print_order(nullptr, indent); },
      [&](const Wait& wait) { print_order(&wait, indent); },
      // Prefetches are not needed: the warps of other blocks hide the latency of memory.
      ignore<PrefetchLines>);
}

void KernelPrinter::print_once(const Block& statements, int indent) {
  if (plan_.threads == 1) return print_divergent([&] { print(statements, indent); });
  uses_thread_ = true;
  line(indent, "if (thread == 0) {");
  print_divergent([&] { print(statements, indent + 1); });
  line(indent, "}");
}

/// Prints the body of a nest of thread loops, with the declarations of its loop variables in front.
/// The body is printed first, because only the variables that it uses are declared.
void KernelPrinter::print_nest(const Loop& loop, const PrintBody& print_inside, int indent) {
  const ThreadNest nest = schedules::thread_nest(loop);
  std::vector<schedules::TaskAxis> variables;
  for (const Loop* l : nest.loops) {
    variables.push_back({l->variable, *dsl::as_int(l->end)});
    used_variables_.erase(l->variable);  // a sibling's variable may have the same name
  }
  const Block& body = *nest.loops.back()->body;
  const std::string before = std::exchange(body_, {});
  nest_ = &nest;
  print_inside(body, indent);
  nest_ = nullptr;
  const std::string text = std::exchange(body_, before);
  const std::vector<std::string> numbers =
      numbered_by("thread", variables);  // declarations of the variables that the text uses
  const bool is_partial = nest.threads() < plan_.threads;
  const bool declares = !body.empty() && body.back().as<Allocate>();
  if (numbers.empty() && !is_partial && !declares) {
    body_ += text;
    return;
  }
  uses_thread_ |= is_partial || !numbers.empty();
  line(indent, is_partial ? fmt::format("if (thread < {}) {{", nest.threads()) : "{");
  for (const std::string& number : numbers) line(indent + 1, number);
  body_ += further_in(text);
  line(indent, "}");
}

/// Prints, in this order: the issue of the nest's warpgroup instructions, the copies that stand
/// before the nest in the block, and the wait for the instructions. So the instructions run while
/// the threads copy. `i` is the index of the first copy in the block, and `nest` is the index of
/// the nest.
void KernelPrinter::print_overlapped(const Block& block, size_t i, size_t nest, int indent) {
  std::set<std::string> sums;
  const auto issue = [&](const Block& body, int inner) {
    for (const Stmt& tiles : body) sums.merge(issue_tiles(*tiles.as<Loop>(), inner));
  };
  print_divergent([&] { print_nest(*block[nest].as<Loop>(), issue, indent); });
  print_uniform(
      {block.begin() + static_cast<ptrdiff_t>(i), block.begin() + static_cast<ptrdiff_t>(nest)},
      indent);
  print_awaited(sums, indent);
}

// ---- reductions -----------------------------------------------------------------------------

/// Prints a reduction by the first warp. Each of its threads combines every 32nd iteration; then
/// the threads combine their partial results by shuffles:
///   if (thread < 32) {
///     float tw_own = 0.0f;
///     for (...; j += 32) tw_own = tw_own + partial[j];
///     for (int tw_mask = 16; tw_mask > 0; tw_mask /= 2)
///       tw_own = tw_own + tw_shuffle(tw_own, tw_mask);
///     if (thread == 0) out[i] += tw_own;
///   }
void KernelPrinter::print_reduction(const Loop& loop, int indent) {
  const Assign& assign = *loop.body->front().as<Assign>();
  const DType type = buffer(assign.buffer).type;
  const bool can_shuffle = dialect_.has_shuffles && (type == Float32 || type == Int32);
  if (!can_shuffle) return print_once({Stmt{loop}}, indent);
  const Expr own = dsl::read("own part of a reduction", {}, type);
  const Expr others = dsl::read("other part of a reduction", {}, type);
  held_.emplace_back(own, "tw_own");
  held_.emplace_back(others, "tw_other");
  uses_thread_ = true;
  const std::string word(storage_type(type));
  line(indent, fmt::format("if (thread < {}) {{", warp_threads));
  line(indent + 1,
       fmt::format("{} tw_own = {};", word, value(dsl::identity(assign.combine, type))));
  const int64_t begin = *dsl::as_int(loop.begin);
  line(indent + 1, fmt::format("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", index_type_,
                               identifier(loop.variable),
                               begin == 0 ? "thread" : fmt::format("{} + thread", begin),
                               *dsl::as_int(loop.end), warp_threads));
  line(indent + 2, combined("tw_own", assign.combine, own, assign.value));
  line(indent + 1, "}");
  line(indent + 1, "#pragma unroll");
  line(indent + 1,
       fmt::format("for (int tw_mask = {}; tw_mask > 0; tw_mask /= 2) {{", warp_threads / 2));
  line(indent + 2, fmt::format("const {} tw_other = tw_shuffle(tw_own, tw_mask);", word));
  line(indent + 2, combined("tw_own", assign.combine, own, others));
  line(indent + 1, "}");
  line(indent + 1, "if (thread == 0) {");
  print_assign({assign.buffer, assign.indices, own, assign.combine}, indent + 2);
  line(indent + 1, "}");
  line(indent, "}");
  held_.resize(held_.size() - 2);
}

std::string KernelPrinter::combined(std::string_view target, dsl::Combine combine, const Expr& a,
                                    const Expr& b) {
  const dsl::BinaryOp op = combine == dsl::Combine::Sum    ? dsl::BinaryOp::Add
                           : combine == dsl::Combine::Prod ? dsl::BinaryOp::Mul
                           : combine == dsl::Combine::Min  ? dsl::BinaryOp::Min
                                                           : dsl::BinaryOp::Max;
  return fmt::format("{} = {};", target, value(dsl::binary(op, a, b)));
}

}  // namespace tw::codegen
