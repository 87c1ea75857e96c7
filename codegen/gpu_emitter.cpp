// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu_emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/integer.h"
#include "codegen/abi.h"
#include "codegen/c_printer.h"
#include "codegen/gpu_prelude.h"
#include "codegen/vector_accesses.h"
#include "schedules/nest.h"
#include "schedules/specialised.h"
#include "schedules/tensor_tiles.h"
#include "schedules/threads.h"
#include "schedules/tma_copies.h"

namespace tw::codegen {
namespace {

using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Block;
using schedules::Branches;
using schedules::Buffer;
using schedules::Commit;
using schedules::Expr;
using schedules::FactorLayout;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;
using schedules::TensorNest;
using schedules::TensorTile;
using schedules::ThreadNest;
using schedules::tile_part;
using schedules::TmaCopy;
using schedules::Wait;

/// Iterations of a loop over rows that are unrolled, so that their loads do not wait for each
/// other. The analytic model of GPUs assumes as many (cost_model/gpu_analytic.cpp).
constexpr int64_t loads_in_flight = 4;

constexpr CSpelling cuda_spelling = {.int8 = "signed char",
                                     .uint8 = "unsigned char",
                                     .uint16 = "unsigned short",
                                     .int32 = "int",
                                     .uint32 = "unsigned",
                                     .int64 = "long long",
                                     .uint64 = "unsigned long long",
                                     .int32_min = "(-2147483647 - 1)",
                                     .int64_min = "(-9223372036854775807 - 1)",
                                     .before_int64 = "",
                                     .after_int64 = "LL",
                                     .nan = "TW_NAN",
                                     .infinity = "TW_INFINITY",
                                     .float_suffix = "f",
                                     .has_narrow_functions = true,
                                     .is_reserved = is_reserved_on_gpu};
constexpr CSpelling opencl_spelling = {.int8 = "char",
                                       .uint8 = "uchar",
                                       .uint16 = "ushort",
                                       .int32 = "int",
                                       .uint32 = "uint",
                                       .int64 = "long",
                                       .uint64 = "ulong",
                                       .int32_min = "(-2147483647 - 1)",
                                       .int64_min = "(-9223372036854775807 - 1)",
                                       .before_int64 = "",
                                       .after_int64 = "L",
                                       .nan = "NAN",
                                       .infinity = "INFINITY",
                                       .float_suffix = "",
                                       .has_narrow_functions = true,
                                       .is_reserved = is_reserved_on_gpu};

bool orders_threads(const Stmt& stmt) {
  bool found = false;
  schedules::for_each(Block{stmt}, [&](const Stmt& s) {
    found |= schedules::visit(s, always<Barrier, Commit, Wait>(true),
                              always<Loop, If, Assign, Allocate, schedules::PrefetchLines>(false));
  });
  return found;
}

class KernelPrinter : public CPrinter {
 public:
  KernelPrinter(const Program& program, const Phase& phase, const CSpelling& spelling)
      : CPrinter(program, phase, spelling), threads_(schedules::threads_of(*phase.body)) {
    dropped_ = schedules::numbered_dimensions(*phase.body);
  }

  std::string print_kernel(GpuKernel& kernel) {
    kernel.blocks = phase_.tasks();
    kernel.threads = static_cast<int>(threads_);
    std::vector<std::string> parameters;
    for (const auto& argument : program_.arguments) parameters.push_back(parameter(argument));
    parameters.push_back(scratch_parameter());
    find_shared(*phase_.body);
    // A swizzled buffer is a multiple of its swizzle's period. Sorted by decreasing period, each
    // buffer ends where the next one is aligned.
    std::ranges::stable_sort(shared_, std::greater<>(), &Buffer::swizzle);
    find_boxes(kernel);
    for (size_t i = 0; i < kernel.maps.size(); ++i)
      parameters.push_back(fmt::format("const __grid_constant__ tw_tensor_map tw_map_{}", i));
    place_shared(kernel);
    find_copies();
    schedules::for_each(*phase_.body, [&](const Stmt& stmt) {
      runs_warpgroups_ |= has_warpgroups() && is_of_warpgroup(stmt);
    });
    print_phase(kernel);
    return fmt::format(
        "// {}: {} x {}\n{}{}({}) {{\n{}{}{}}}\n", phase_.name, counted(kernel.blocks, "block"),
        counted(kernel.threads, "thread"), head(kernel.threads), kernel.name,
        fmt::format("{}", fmt::join(parameters, ", ")), declarations(kernel), numbers(), body_);
  }

 protected:
  // ---- overridden by dialects ---------------------------------------------------------------
  virtual std::string head(int64_t threads) const = 0;
  virtual std::string parameter(const schedules::Argument& argument) = 0;
  virtual std::string scratch_parameter() const = 0;
  virtual std::string_view block_number() const = 0;
  virtual std::string_view thread_number() const = 0;
  virtual std::string_view barrier() const = 0;
  virtual std::string_view in_global()
      const = 0;  ///< address space qualifier of pointers to global memory
  virtual std::string declare_shared(const std::string& name, const Buffer& buffer) const = 0;
  virtual std::string_view aligned()
      const = 0;  ///< qualifier of an array that is accessed as vectors
  /// Largest size of static shared memory, in bytes; more than that is dynamic.
  virtual int64_t most_static_bytes() const = 0;
  virtual std::string copied(DType type, int64_t lanes, const std::string& to,
                             const std::string& from) const = 0;
  virtual std::string zeroed(DType type, int64_t lanes, const std::string& to) const = 0;
  /// Prints a vector loop that reads at once what it stores one by one; false: it is a loop.
  virtual bool print_scatter(const Loop&, int) { return false; }
  /// Prints a tile of the nest; false: it is loops like others.
  virtual bool print_tile(const TensorNest&, int) { return false; }
  /// True if threads of a warp can exchange values of the type by shuffles.
  virtual bool can_shuffle(DType) const { return false; }
  /// True if the dialect has tensor-core instructions of warpgroups (wgmma), which are
  /// asynchronous.
  virtual bool has_warpgroups() const { return false; }
  /// True if copies use the prelude's cp.async functions, in commit groups; else each is an
  /// ordinary load and store.
  virtual bool has_asynchronous_copies() const = 0;
  /// True if thread 0 issues TMA copies by the prelude's functions; else it copies element by
  /// element.
  virtual bool has_tma_copies() const = 0;

  int64_t alignment_of(const Buffer& buffer) const {
    const bool has_boxes = std::ranges::count(tma_tiles_, buffer.name, [](const TmaTile& box) {
                             return box.copy.destination;
                           }) > 0;
    return std::max(has_boxes ? schedules::tma_alignment : schedules::shared_alignment,
                    buffer.swizzle_period());
  }

  void access_as_vectors(const std::string& buffer) { as_vectors_.insert(buffer); }

  VectorBuffer vector_buffer(const std::string& name) const {
    const auto found = dropped_.find(name);
    return {buffer(name), found == dropped_.end() ? std::vector<size_t>{} : found->second};
  }

 private:
  static std::string counted(int64_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  }

  // ---- buffers ------------------------------------------------------------------------------

  /// A shared buffer without a thread loop in its scope is private to thread 0.
  static bool is_shared(const Allocate& allocate) {
    return allocate.buffer.scope == Scope::Shared && schedules::has_threads(*allocate.body);
  }

  /// Sibling buffers of one name share memory of the largest one's size.
  void find_shared(const Block& body) {
    schedules::for_each(body, [&](const Stmt& stmt) {
      const Allocate* allocate = stmt.as<Allocate>();
      if (!allocate || !is_shared(*allocate)) return;
      const auto same = std::ranges::find(shared_, allocate->buffer.name, &Buffer::name);
      if (same == shared_.end()) {
        shared_.push_back(allocate->buffer);
      } else if (same->elements() < allocate->buffer.elements()) {
        *same = allocate->buffer;
      }
    });
  }

  void place_shared(GpuKernel& kernel) {
    for (const Buffer& b : shared_) {
      kernel.shared_bytes = round_up(kernel.shared_bytes, alignment_of(b));
      shared_offsets_.push_back(kernel.shared_bytes);
      kernel.shared_bytes += round_up(std::max<int64_t>(b.bytes(), 1), schedules::shared_alignment);
    }
    const int64_t barriers = (is_specialised() ? 2 : 1) * mbarriers_ * schedules::mbarrier_bytes;
    if (kernel.shared_bytes + barriers > most_static_bytes())
      kernel.dynamic_shared_bytes = kernel.shared_bytes;
    kernel.shared_bytes += barriers;
  }

  std::string declarations(const GpuKernel& kernel) {
    std::string text;
    const ScratchLayout layout = scratch_layout(program_);
    for (size_t i = 0; i < program_.scratch.size(); ++i) {
      const Buffer& b = program_.scratch[i];
      if (is_touched(b.name))
        text +=
            pointer(in_global(), b, fmt::format("scratch + {}", int64_literal(layout.offsets[i])));
    }
    for (size_t i = 0; i < shared_.size(); ++i) {
      const Buffer& b = shared_[i];
      if (kernel.dynamic_shared_bytes > 0) {
        text += pointer("", b, fmt::format("(unsigned char*)tw_shared + {}", shared_offsets_[i]));
      } else {
        text += "  " + declare_shared(identifier(b.name), b) + "\n";
      }
    }
    return text;
  }

  std::string pointer(std::string_view space, const Buffer& b, const std::string& address) {
    const std::string type = fmt::format("{}{}*", space, storage_type(b.type));
    return fmt::format("  {0} const {1} = ({0})({2});\n", type, identifier(b.name), address);
  }

  /// Number of elements of a private buffer that each thread holds.
  int64_t own_elements(const Buffer& b) const {
    const auto found = dropped_.find(b.name);
    int64_t elements = 1;
    for (size_t d = 0; d < b.extents.size(); ++d)
      if (found == dropped_.end() || std::ranges::count(found->second, d) == 0)
        elements *= b.extents[d];
    return std::max<int64_t>(1, elements);
  }

  void print_allocate(const Allocate& allocate, bool is_last, int indent) override {
    if (is_shared(allocate)) return print_body(*allocate.body, indent);
    const Buffer& b = allocate.buffer;
    const int inner = is_last ? indent : indent + 1;
    const std::string before = std::move(body_);
    body_.clear();
    print_body(*allocate.body, inner);
    const std::string body = std::move(body_);
    body_ = before;
    if (!is_last) line(indent, "{");
    line(inner, fmt::format("{}{} {}[{}];", as_vectors_.contains(b.name) ? aligned() : "",
                            storage_type(b.type), buffer_identifier(b.name), own_elements(b)));
    body_ += body;
    if (!is_last) line(indent, "}");
  }

  // ---- threads ------------------------------------------------------------------------------

  std::string numbers() {
    std::string text;
    const std::vector<std::string> axes = numbered_by("block", phase_.axes);
    if (!axes.empty()) text += fmt::format("  const int block = {};\n", block_number());
    if (uses_thread_) text += fmt::format("  const int thread = {};\n", thread_number());
    for (const std::string& axis : axes) text += "  " + axis + "\n";
    return text + mbarrier_declarations();
  }

  void print_body(const Block& block, int indent) override {
    if (is_block_uniform_) return print_uniform(block, indent);
    print(block, indent);
  }

  /// True if all threads of the block execute the statement; else thread 0 executes it alone.
  bool concerns_all(const Stmt& stmt) const {
    return schedules::has_threads(Block{stmt}) || orders_threads(stmt) ||
           (can_reduce_in_warp() && schedules::has_reductions(Block{stmt}));
  }
  bool can_reduce_in_warp() const { return threads_ >= warp_threads && can_shuffle(Float32); }

  /// Prints statements at a point that all threads of the block reach together. Consecutive
  /// statements that concern thread 0 alone go under one condition.
  void print_uniform(const Block& block, int indent) {
    for (size_t i = 0; i < block.size(); ++i) {
      if (const size_t nest = warpgroups_ahead(block, i); nest > i) {
        print_overlapped(block, i, nest, indent);
        i = nest;
      } else if (!concerns_all(block[i])) {
        const auto end = std::find_if(block.begin() + static_cast<ptrdiff_t>(i), block.end(),
                                      [&](const Stmt& s) { return concerns_all(s); });
        print_once({block.begin() + static_cast<ptrdiff_t>(i), end}, indent);
        i = static_cast<size_t>(end - block.begin()) - 1;
      } else {
        print_uniform(block[i], i + 1 == block.size(), indent);
      }
    }
  }

  /// Requires: concerns_all(stmt).
  void print_uniform(const Stmt& stmt, bool is_last, int indent) {
    schedules::visit(
        stmt,
        [&](const Loop& loop) {
          if (loop.kind == LoopKind::Thread)
            return print_divergent([&] { print_nest(loop, indent); });
          if (loop.kind == LoopKind::Reduce)
            return print_divergent([&] { print_reduction(loop, indent); });
          print_loop(loop, indent);
        },
        [&](const If& branch) { print_if(branch, indent); },
        [&](const Assign&) { TW_CHECK(false, "thread 0 alone assigns outside of nests"); },
        [&](const Allocate& allocate) { print_allocate(allocate, is_last, indent); },
        [&](const Barrier&) {
          if (threads_ > 1) print_barrier(indent);
        },
        [&](const Commit&) { print_order(nullptr, indent); },
        [&](const Wait& wait) { print_order(&wait, indent); },
        // The warps of other blocks hide the latency of memory.
        ignore<schedules::PrefetchLines>);
  }

  /// Warpgroup instructions read shared memory through the asynchronous proxy, which is not ordered
  /// with ordinary stores and copies (PTX ISA, "Async proxy"): each thread puts a fence after its
  /// own writes, before the barrier.
  void print_barrier(int indent) {
    if (runs_warpgroups_) line(indent, "tw_fence_async();");
    line(indent,
         is_specialised() ? fmt::format("tw_sync<{}>();", threads_) : std::string(barrier()));
  }

  /// Index of a nest of warpgroup instructions that may be issued before the statements from `i` to
  /// the nest, which are the copies of a pipeline; `i` if there is none. Legality has proved that
  /// no barrier is needed between the two, so the copies write no element that the nest reads; and
  /// this function checks that they access no accumulators.
  size_t warpgroups_ahead(const Block& block, size_t i) const {
    if (!runs_warpgroups_) return i;
    for (size_t j = i; j < block.size(); ++j) {
      const Stmt& stmt = block[j];
      const Loop* loop = stmt.as<Loop>();
      if (loop && loop->kind == LoopKind::Thread && is_nest_of_warpgroups(*loop)) {
        const Block before(block.begin() + static_cast<ptrdiff_t>(i),
                           block.begin() + static_cast<ptrdiff_t>(j));
        return touches_own(before) ? i : j;
      }
      if (!stmt.as<Commit>() && orders_threads(stmt)) return i;
    }
    return i;
  }

  /// True for a nest that all threads execute and that consists of warpgroup instructions.
  bool is_nest_of_warpgroups(const Loop& loop) const {
    const ThreadNest nest = schedules::thread_nest(loop);
    return nest.threads() == threads_ &&
           std::ranges::all_of(*nest.loops.back()->body, [](const Stmt& s) {
             const Loop* l = s.as<Loop>();
             return l && is_warpgroup_tiles(*l);
           });
  }

  /// True if the statements access a buffer that is private to a thread.
  bool touches_own(const Block& statements) const {
    const auto is_own = [&](const std::string& name) {
      const Scope scope = buffer(name).scope;
      return scope == Scope::Local || scope == Scope::Register;
    };
    bool found = false;
    schedules::for_each(statements, [&](const Stmt& stmt) {
      schedules::for_each_access(
          stmt, [&](const schedules::BufferAccess& access) { found |= is_own(access.buffer); });
    });
    return found;
  }

  /// Issues the instructions of the nest, prints the copies before it, then waits for the
  /// instructions: they run while the threads copy.
  void print_overlapped(const Block& block, size_t i, size_t nest, int indent) {
    waits_later_ = true;
    print_divergent([&] { print_nest(*block[nest].as<Loop>(), indent); });
    waits_later_ = false;
    const std::set<std::string> awaited = std::exchange(awaited_, {});
    print_uniform(
        {block.begin() + static_cast<ptrdiff_t>(i), block.begin() + static_cast<ptrdiff_t>(nest)},
        indent);
    for (const std::string& sums : awaited) print_awaited(sums, indent);
  }

  void print_awaited(const std::string& sums, int indent) {
    line(indent, fmt::format("tw_wgmma_wait({});", buffer_identifier(sums)));
  }

  /// Prints a commit of asynchronous copies or, given `wait`, a wait for them. Nothing is printed
  /// if the copies are synchronous.
  void print_order(const Wait* wait, int indent) {
    if (mbarriers_ > 0) print_tma_order(wait, indent);
    if (!has_copies_to_order_) return;
    line(indent, wait ? fmt::format("tw_wait<{}>();", wait->pending) : "tw_commit();");
  }

  template <typename F>
  void print_divergent(F&& print) {
    is_block_uniform_ = false;
    print();
    is_block_uniform_ = true;
  }

  void print_once(const Block& statements, int indent) {
    if (threads_ == 1) return print_divergent([&] { print(statements, indent); });
    uses_thread_ = true;
    line(indent, "if (thread == 0) {");
    print_divergent([&] { print(statements, indent + 1); });
    line(indent, "}");
  }

  /// The threads of the first warp each combine every 32nd iteration, then combine their partial
  /// results by shuffles:
  ///   if (thread < 32) {
  ///     float tw_own = 0.0f;
  ///     for (...; j += 32) tw_own = tw_own + partial[j];
  ///     for (int tw_mask = 16; tw_mask > 0; tw_mask /= 2)
  ///       tw_own = tw_own + tw_shuffle(tw_own, tw_mask);
  ///     if (thread == 0) out[i] += tw_own;
  ///   }
  void print_reduction(const Loop& loop, int indent) {
    const Assign& assign = *loop.body->front().as<Assign>();
    const DType type = buffer(assign.buffer).type;
    if (!can_shuffle(type)) return print_once({Stmt{loop}}, indent);
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

  std::string combined(std::string_view target, dsl::Combine combine, const Expr& a,
                       const Expr& b) {
    const dsl::BinaryOp op = combine == dsl::Combine::Sum    ? dsl::BinaryOp::Add
                             : combine == dsl::Combine::Prod ? dsl::BinaryOp::Mul
                             : combine == dsl::Combine::Min  ? dsl::BinaryOp::Min
                                                             : dsl::BinaryOp::Max;
    return fmt::format("{} = {};", target, value(dsl::binary(op, a, b)));
  }

  void print_nest(const Loop& loop, int indent) {
    const ThreadNest nest = schedules::thread_nest(loop);
    std::vector<schedules::TaskAxis> variables;
    for (const Loop* l : nest.loops) {
      variables.push_back({l->variable, *dsl::as_int(l->end)});
      used_variables_.erase(l->variable);  // a sibling's may have the same name
    }
    const Block& body = *nest.loops.back()->body;
    const std::string before = std::exchange(body_, {});
    nest_ = &nest;
    print(body, indent);
    nest_ = nullptr;
    const std::string text = std::exchange(body_, before);
    const std::vector<std::string> numbers =
        numbered_by("thread", variables);  // marks them as used in the text
    const bool is_partial = nest.threads() < threads_;
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

  /// The lines of the text, one step further in.
  static std::string further_in(std::string_view text) {
    std::string result;
    while (!text.empty()) {
      const size_t end = text.find('\n') + 1;
      result += "  ";
      result += text.substr(0, end);
      text.remove_prefix(end);
    }
    return result;
  }

  // ---- loops and vectors --------------------------------------------------------------------

  void print_loop(const Loop& loop, int indent) override {
    if (runs_warpgroups_ && issued_sums_.empty() && is_warpgroup_tiles(loop))
      return print_warpgroup_tiles(loop, indent);
    if (loop.kind == LoopKind::Vector &&
        (print_vectors(loop, indent) || print_scatter(loop, indent)))
      return;
    if (loop.tile && print_tile(*schedules::tensor_nest(loop, *nest_), indent)) return;
    if (loop.kind == LoopKind::Bulk && print_tma_copy(loop, indent)) return;
    // In a tensor tile without an instruction the loops that index the accumulators are unrolled,
    // so that the accumulators stay in registers.
    const bool is_rolled = loop.kind == LoopKind::Serial || loop.kind == LoopKind::Reduce ||
                           loop.kind == LoopKind::Bulk;
    const bool is_unrolled =
        loop.kind == LoopKind::Tensor ? dsl::is_int(loop.end, tile_part) : !is_rolled;
    line(indent, is_unrolled         ? "#pragma unroll"
                 : is_row_loop(loop) ? fmt::format("#pragma unroll {}", loads_in_flight)
                                     : "#pragma unroll 1");
    if (loop.pipeline && loop.pipeline->slots < *dsl::as_int(loop.end))
      return print_pipeline(loop, indent);
    line(indent, for_head(loop) + " {");
    print_body(*loop.body, indent + 1);
    line(indent, "}");
  }

  /// True for an innermost loop of a thread that reads global memory and does not fill shared
  /// memory, as those over rows. Partly unrolled, the loads of several iterations are in flight.
  bool is_row_loop(const Loop& loop) const {
    if (loop.kind != LoopKind::Serial && loop.kind != LoopKind::Reduce) return false;
    const auto end = dsl::as_int(loop.end);
    if (loop.pipeline || (end && *end < loads_in_flight)) return false;
    bool reads_global = false, is_plain = true;
    const auto see = [&](const Stmt& stmt) {
      const Assign* assign = stmt.as<Assign>();
      is_plain &= assign && buffer(assign->buffer).scope != Scope::Shared;
      if (!assign) return;
      schedules::for_each_read(assign->value, [&](const dsl::Read& read) {
        reads_global |= is_global(buffer(read.tensor).scope);
      });
    };
    for (const Stmt& stmt : *loop.body) {
      const Loop* vector = stmt.as<Loop>();
      if (!vector || vector->kind != LoopKind::Vector) {
        see(stmt);
      } else {
        for (const Stmt& inner : *vector->body) see(inner);
      }
    }
    return is_plain && reads_global;
  }

  static bool is_of_warpgroup(const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    return loop && loop->tile && loop->tile->is_of_warpgroup;
  }
  /// True for loops that contain tiles of warpgroups and nothing else.
  static bool is_warpgroup_tiles(const Loop& loop) {
    if (loop.tile) return loop.tile->is_of_warpgroup;
    return !loop.body->empty() && std::ranges::all_of(*loop.body, [](const Stmt& s) {
      const Loop* inner = s.as<Loop>();
      return inner && is_warpgroup_tiles(*inner);
    });
  }

  /// Prints a sequence of warpgroup instructions between a fence and a wait for their results:
  ///   tw_wgmma_fence(acc); ... tw_wgmma_m64n128k16_bf16(acc, ...); ... tw_wgmma_wait(acc);
  void print_warpgroup_tiles(const Loop& loop, int indent) {
    schedules::for_each(Block{{loop}}, [&](const Stmt& stmt) {
      if (is_of_warpgroup(stmt))
        issued_sums_.insert(schedules::tensor_nest(*stmt.as<Loop>(), *nest_)->sum->buffer);
    });
    for (const std::string& sums : issued_sums_)
      line(indent, fmt::format("tw_wgmma_fence({});", buffer_identifier(sums)));
    print_loop(loop, indent);
    line(indent, "tw_wgmma_commit();");
    if (waits_later_) {
      awaited_.merge(issued_sums_);
    } else {
      for (const std::string& sums : issued_sums_) print_awaited(sums, indent);
    }
    issued_sums_.clear();
  }

  /// The slot is a second loop counter. With a remainder in its place NVRTC 13.0 cannot prove that
  /// addresses are aligned and splits reads of 16 bytes into four. If every iteration has its own
  /// slot, the loop variable is the slot.
  void print_pipeline(const Loop& loop, int indent) {
    const int64_t slots = loop.pipeline->slots;
    const std::string variable = identifier(loop.variable);
    const std::string name = identifier("slot of " + loop.variable);
    line(indent, fmt::format("for ({0} {1} = 0, {2} = 0; {1} < {3}; ++{1}, {2} = {2} == {4} ? 0 : "
                             "{2} + 1) {{",
                             index_type_, variable, name, *dsl::as_int(loop.end), slots - 1));
    held_.emplace_back(dsl::var(loop.variable) % Expr(slots), name);
    print_body(*loop.body, indent + 1);
    held_.pop_back();
    line(indent, "}");
  }

  /// Prints a dense copy, or a fill with zeros, as accesses of at most 16 bytes; false if the loop
  /// is neither.
  bool print_vectors(const Loop& loop, int indent) {
    const auto vectors = vector_access_of(loop);
    if (!vectors) return false;
    const Assign& assign = *loop.body->front().as<Assign>();
    const Buffer& b = buffer(assign.buffer);
    const auto* read = assign.value.as<dsl::Read>();
    as_vectors_.insert(assign.buffer);
    if (read) as_vectors_.insert(read->tensor);
    if (vectors->needs_loop) {
      line(indent, "#pragma unroll");
      line(indent++, for_head(loop, vectors->lanes) + " {");
    }
    const std::string to = element(b, vectors->to);
    const std::string from = read ? element(buffer(read->tensor), vectors->from) : "";
    if (!read) {
      line(indent, zeroed(b.type, vectors->lanes, to));
    } else if (const int64_t bytes = vectors->lanes * size_bytes(b.type);
               is_asynchronous(assign, bytes)) {
      line(indent, asynchronous({to, from, bytes}));
    } else {
      line(indent, copied(b.type, vectors->lanes, to, from));
    }
    if (vectors->needs_loop) line(indent - 1, "}");
    return true;
  }

  std::optional<VectorAccess> vector_access_of(const Loop& loop) const {
    return find_vector_access(loop, [&](const std::string& name) { return vector_buffer(name); });
  }

  // ---- asynchronous copies ------------------------------------------------------------------

  /// Finds out whether the phase has asynchronous copies that commits and waits must order, TMA
  /// copies excluded. As vectors, elements of any size can be copied asynchronously.
  void find_copies() {
    std::set<const Assign*> in_boxes;
    schedules::for_each(*phase_.body, [&](const Stmt& stmt) {
      const Loop* loop = stmt.as<Loop>();
      if (mbarriers_ > 0 && loop && loop->kind == LoopKind::Bulk)
        schedules::for_each(*loop->body,
                            [&](const Stmt& inner) { in_boxes.insert(inner.as<Assign>()); });
      const Assign* assign = stmt.as<Assign>();
      has_copies_to_order_ |= assign && assign->value.as<dsl::Read>() &&
                              is_asynchronous(*assign, 16) && !in_boxes.contains(assign);
    });
  }

  // ---- TMA copies ---------------------------------------------------------------------------
  // The copies between two commits are a commit group, numbered from 0. Group n signals mbarrier
  // n % mbarriers_, and n / mbarriers_ % 2 is the parity of the mbarrier's phase to wait for.

  struct TmaTile {
    TmaCopy copy;
    size_t map;  ///< index into GpuKernel::maps
  };

  void find_boxes(GpuKernel& kernel) {
    if (!has_tma_copies() || !schedules::has_tma_copies(*phase_.body)) return;
    const auto copies = schedules::tma_copies(program_, phase_);
    TW_CHECK(copies, "a legal program");
    for (const TmaCopy& copy : *copies) {
      if (std::ranges::count(shared_, copy.destination, &Buffer::name) == 0) continue;
      const runtime::TensorMap map = map_of(copy);
      const auto known = std::ranges::find(kernel.maps, map);
      tma_tiles_.push_back({copy, static_cast<size_t>(known - kernel.maps.begin())});
      if (known == kernel.maps.end()) kernel.maps.push_back(map);
    }
    if (tma_tiles_.empty()) return;
    mbarriers_ = schedules::tma_barriers(*phase_.body);
    uses_thread_ = true;
  }

  runtime::TensorMap map_of(const TmaCopy& copy) const {
    runtime::TensorMap map;
    map.type = buffer(copy.source).type;
    map.swizzle = static_cast<int>(buffer(copy.destination).swizzle);
    const auto& arguments = program_.arguments;
    const auto argument =
        std::ranges::find(arguments, copy.source, [](const auto& a) { return a.buffer.name; });
    map.argument = static_cast<int>(argument - arguments.begin());
    if (argument == arguments.end()) {
      const auto scratch = std::ranges::find(program_.scratch, copy.source, &Buffer::name);
      map.offset =
          scratch_layout(program_).offsets[static_cast<size_t>(scratch - program_.scratch.begin())];
    }
    for (const schedules::TmaDimension& d : copy.dimensions) {
      if (!map.extents.empty()) map.strides.push_back(d.stride * size_bytes(map.type));
      map.extents.push_back(d.extent);
      map.box.push_back(d.box);
    }
    return map;
  }

  std::string mbarrier_declarations() const {
    if (mbarriers_ == 0) return "";
    return fmt::format(
        "  __shared__ __align__(8) unsigned long long tw_barriers[{0}];\n{2}"
        "  int tw_committed = 0, tw_arrived = 0;\n"
        "  if (thread == 0) tw_open_barriers(tw_barriers, {0}, 1);\n{3}  {1}\n{4}",
        mbarriers_, barrier(),
        is_specialised() ? fmt::format("  __shared__ __align__(8) unsigned long long "
                                       "tw_emptied[{}];\n",
                                       mbarriers_)
                         : "",
        is_specialised() ? fmt::format("  if (thread == 0) tw_open_barriers(tw_emptied, {}, {});\n",
                                       mbarriers_, threads_ / warp_threads)
                         : "",
        producer_text_);
  }

  // ---- specialised phases -------------------------------------------------------------------
  // Producer warps issue the TMA copies; their thread numbers follow those of the consumers. Each
  // consumer warp arrives at `tw_emptied` when it comes to its wait: then the buffer that the
  // iteration before has read may be overwritten.

  bool is_specialised() const { return phase_.specialised && mbarriers_ > 0; }

  void print_phase(GpuKernel& kernel) {
    if (!is_specialised()) return print_uniform(*phase_.body, 1);
    kernel.threads += static_cast<int>(schedules::producer_threads);
    parts_ = schedules::specialised_body(phase_);
    const auto registers = registers_of(threads_);
    line(1, fmt::format("if (thread >= {}) {{", threads_));
    if (registers) line(2, fmt::format("tw_fewer_registers<{}>();", registers->producer));
    line(2, fmt::format("if (thread == {}) {{", threads_));
    print_producer(parts_.producer, 3);
    line(2, "}");
    line(2, "return;");
    line(1, "}");
    if (registers) line(1, fmt::format("tw_more_registers<{}>();", registers->consumer));
    producer_text_ = std::move(body_);
    body_.clear();
    print_uniform(parts_.consumer, 1);
  }

  /// Registers of one thread. At the start all threads have equal shares of the multiprocessor's
  /// registers; producers keep a quarter of theirs, and consumers share what is released. Whole
  /// warpgroups move registers in steps of 8 and keep at least 24 (PTX ISA, "setmaxnreg"). nullopt:
  /// the shares stay equal.
  struct Registers {
    int64_t producer, consumer;
  };
  static std::optional<Registers> registers_of(int64_t consumer_threads) {
    constexpr int64_t step = 8, least = 24, warpgroup = 4 * warp_threads;
    const auto in_steps = [](int64_t registers) { return registers / step * step; };
    const int64_t all_threads = consumer_threads + schedules::producer_threads;
    const int64_t equal = in_steps(cuda_registers / all_threads);
    const int64_t kept = in_steps(equal / 4);
    if (consumer_threads % warpgroup != 0 || equal > cuda_registers_per_thread || kept < least)
      return std::nullopt;
    const int64_t given = (equal - kept) * schedules::producer_threads;
    return Registers{kept, equal + in_steps(given / consumer_threads)};
  }

  void print_producer(const Block& body, int indent) {
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
          },
          [&](const If& branch) {
            line(indent, fmt::format("if ({}) {{", value(branch.condition)));
            print_producer(*branch.body, indent + 1);
            line(indent, "}");
          },
          [&](const Commit&) {
            line(indent,
                 fmt::format("tw_arrive(&tw_barriers[tw_committed & {}]);", mbarriers_ - 1));
            line(indent, "++tw_committed;");
          },
          [&](const Barrier&) {
            line(indent,
                 fmt::format("tw_wait_at(&tw_emptied[tw_arrived & {}], tw_arrived >> {} & 1);",
                             mbarriers_ - 1, mbarriers_shift()));
            line(indent, "++tw_arrived;");
          },
          ignore<Assign, Allocate, Wait, schedules::PrefetchLines>);  // consumers execute these
  }
  int mbarriers_shift() const { return std::countr_zero(static_cast<uint64_t>(mbarriers_)); }

  bool print_tma_copy(const Loop& loop, int indent) {
    const auto box = std::ranges::find(tma_tiles_, loop.body.get(),
                                       [](const TmaTile& b) { return b.copy.body; });
    if (box == tma_tiles_.end()) return false;
    std::string first;
    for (const schedules::TmaDimension& d : box->copy.dimensions) {
      const std::string index = value(d.first);
      first += index_type_ == "int" ? ", " + index : fmt::format(", (int)({})", index);
    }
    line(indent, fmt::format("tw_copy_box<{}>(&{}, tw_map_{}, &tw_barriers[tw_committed & {}], "
                             "{}{});",
                             box->copy.dimensions.size(),
                             element(buffer(box->copy.destination), box->copy.to), box->map,
                             mbarriers_ - 1, box->copy.bytes, first));
    return true;
  }

  /// Prints the commit of a group of TMA copies or, given `wait`, the wait for one.
  void print_tma_order(const Wait* wait, int indent) {
    if (!wait && is_specialised()) return line(indent, "++tw_committed;");
    if (is_specialised())
      line(indent, fmt::format("tw_leave(&tw_emptied[tw_arrived & {}]);", mbarriers_ - 1));
    if (!wait) {
      line(indent, fmt::format("if (thread == 0) tw_arrive(&tw_barriers[tw_committed & {}]);",
                               mbarriers_ - 1));
      return line(indent, "++tw_committed;");
    }
    line(indent, "#pragma unroll 1");
    line(indent, wait->pending == 0
                     ? "for (; tw_arrived < tw_committed; ++tw_arrived) {"
                     : fmt::format("for (; tw_arrived < tw_committed - {}; ++tw_arrived) {{",
                                   wait->pending));
    line(indent + 1, fmt::format("tw_wait_at(&tw_barriers[tw_arrived & {}], tw_arrived >> {} & 1);",
                                 mbarriers_ - 1, mbarriers_shift()));
    line(indent, "}");
  }

  struct Copy {
    std::string to, from;  ///< elements
    int64_t bytes;
  };

  /// True if the copy, which the program allows to be asynchronous, can be: cp.async copies 4 bytes
  /// or more from global to shared memory.
  bool is_asynchronous(const Assign& assign, int64_t bytes) const {
    const auto* read = assign.value.as<dsl::Read>();
    return assign.asynchronous && has_asynchronous_copies() && bytes >= 4 &&
           std::ranges::count(shared_, assign.buffer, &Buffer::name) > 0 &&
           (!read || is_global(buffer(read->tensor).scope));
  }
  static bool reads_table(const Assign& assign) {
    int64_t reads = 0;
    dsl::for_each(assign.value, [&](const Expr& e) { reads += e.as<dsl::Read>() != nullptr; });
    return reads > 1;
  }
  static bool is_global(Scope scope) { return scope == Scope::Argument || scope == Scope::Scratch; }

  static std::string asynchronous(const Copy& copy, const std::string& condition = "") {
    return fmt::format("tw_copy_async<{}>(&{}, &{}{}{});", copy.bytes, copy.to, copy.from,
                       condition.empty() ? "" : ", ", condition);
  }

  /// The operands of a body that is one asynchronous copy; nullopt for other bodies, and if the
  /// address cannot be computed when the copy is not made.
  std::optional<Copy> copy_of(const Block& body) {
    const Loop* loop = body[0].as<Loop>();
    std::optional<VectorAccess> vectors;
    if (loop) vectors = vector_access_of(*loop);
    if (loop && (!vectors || vectors->needs_loop)) return std::nullopt;
    const Assign& assign = *(loop ? loop->body->front() : body[0]).as<Assign>();
    const auto* read = assign.value.as<dsl::Read>();
    const Buffer& b = buffer(assign.buffer);
    const int64_t bytes = (vectors ? vectors->lanes : 1) * size_bytes(b.type);
    if (!read || !is_asynchronous(assign, bytes) || reads_table(assign)) return std::nullopt;
    return Copy{element(b, vectors ? vectors->to : assign.indices),
                element(buffer(read->tensor), vectors ? vectors->from : read->indices), bytes};
  }

  /// A copy whose alternative stores zeros becomes one cp.async with a condition: where it fails,
  /// cp.async reads nothing and writes zeros.
  void print_branches(const Branches& branches, int indent) override {
    const auto copy = branches.stores_zeros ? copy_of(*branches.taken.body) : std::nullopt;
    if (!copy) return CPrinter::print_branches(branches, indent);
    line(indent, asynchronous(*copy, value(branches.taken.condition)));
  }

  /// Copies of 16-bit floats do not convert them.
  void print_assign(const Assign& assign, int indent) override {
    const auto* read = assign.value.as<dsl::Read>();
    const Buffer& b = buffer(assign.buffer);
    if (!read || assign.combine != schedules::Combine::None || buffer(read->tensor).type != b.type)
      return CPrinter::print_assign(assign, indent);
    const std::string to = element(b, assign.indices);
    const std::string from = element(buffer(read->tensor), read->indices);
    const int64_t bytes = size_bytes(b.type);
    line(indent, is_asynchronous(assign, bytes) ? asynchronous({to, from, bytes})
                                                : fmt::format("{} = {};", to, from));
  }

  const int64_t threads_;
  const ThreadNest* nest_ = nullptr;  // the nest that is being printed
  bool is_block_uniform_ = true, uses_thread_ = false, has_copies_to_order_ = false;
  bool runs_warpgroups_ = false, waits_later_ = false;
  std::set<std::string> awaited_;  // accumulators of instructions to wait for after the copies
  std::set<std::string>
      issued_sums_;  // the sums of the instructions that are being printed, not awaited
  std::vector<Buffer> shared_;
  std::vector<int64_t> shared_offsets_;
  std::vector<TmaTile> tma_tiles_;
  schedules::SpecialisedBody parts_;
  std::string producer_text_;  ///< text of the producer warps
  int64_t mbarriers_ = 0;      ///< number of groups of TMA copies that may be in flight
  std::set<std::string> as_vectors_;
};

class CudaPrinter final : public KernelPrinter {
 public:
  CudaPrinter(const Program& program, const Phase& phase)
      : KernelPrinter(program, phase, cuda_spelling) {}

 private:
  /// The second launch bound, one resident block, keeps the compiler from spilling registers to fit
  /// more blocks.
  std::string head(int64_t threads) const override {
    return fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 1)\n", threads);
  }
  std::string parameter(const schedules::Argument& argument) override {
    const Buffer& b = argument.buffer;
    const std::string name = identifier(b.name);
    return argument.is_output
               ? fmt::format("{}* {}", storage_type(b.type), name)
               : fmt::format("const {}* __restrict__ {}", storage_type(b.type), name);
  }
  std::string scratch_parameter() const override { return "unsigned char* scratch"; }
  std::string_view block_number() const override { return "blockIdx.x"; }
  std::string_view thread_number() const override { return "threadIdx.x"; }
  std::string_view barrier() const override { return "__syncthreads();"; }
  std::string_view in_global() const override { return ""; }
  std::string_view aligned() const override { return "__align__(16) "; }
  int64_t most_static_bytes() const override { return schedules::most_static_shared_bytes; }
  std::string declare_shared(const std::string& name, const Buffer& b) const override {
    return fmt::format("__shared__ __align__({}) {} {}[{}];", alignment_of(b), storage_type(b.type),
                       name, std::max<int64_t>(1, b.elements()));
  }

  /// A swizzle moves 16-byte chunks as a whole, and with them every vector inside of a chunk.
  std::string placed(const Buffer& b, const std::string& index) const override {
    if (b.swizzle == 0) return index;
    return fmt::format("tw_swizzled<{}, {}>({})", b.swizzle, size_bytes(b.type), index);
  }

  static std::string vector_type(DType type, int64_t lanes) {
    if (size_bytes(type) == 4) return fmt::format("{}{}", type == Float32 ? "float" : "int", lanes);
    const int64_t bytes = lanes * size_bytes(type);
    if (bytes == 2) return "unsigned short";
    return bytes == 4 ? "unsigned" : fmt::format("uint{}", bytes / 4);
  }
  std::string copied(DType type, int64_t lanes, const std::string& to,
                     const std::string& from) const override {
    return fmt::format("*({0}*)&{1} = *(const {0}*)&{2};", vector_type(type, lanes), to, from);
  }
  std::string zeroed(DType type, int64_t lanes, const std::string& to) const override {
    return fmt::format("*({0}*)&{1} = {{}};", vector_type(type, lanes), to);
  }
  bool has_asynchronous_copies() const override { return true; }
  bool can_shuffle(DType type) const override { return type == Float32 || type == Int32; }
  bool has_tma_copies() const override { return true; }

  bool print_scatter(const Loop& loop, int indent) override {
    const auto from =
        find_scatter(loop, [&](const std::string& name) { return vector_buffer(name); });
    if (!from) return false;
    const Assign& assign = *loop.body->front().as<Assign>();
    const std::string& source = assign.value.as<dsl::Read>()->tensor;
    const DType type = buffer(source).type;
    const int64_t lanes = *dsl::as_int(loop.end), bytes = size_bytes(type);
    access_as_vectors(source);
    line(indent, "{");
    line(indent + 1, fmt::format("const {0} tw_v = *(const {0}*)&{1};", vector_type(type, lanes),
                                 element(buffer(source), *from)));
    for (int64_t i = 0; i < lanes; ++i) {
      const std::vector<Expr> to = dsl::substitute(assign.indices, {{loop.variable, Expr(i)}});
      std::string value = fmt::format("tw_v.{}", "xyzw"[i * bytes / 4]);
      if (const int64_t shift = i * bytes % 4 * 8; shift > 0) value += fmt::format(" >> {}", shift);
      if (bytes < 4) value = fmt::format("({})({})", storage_type(type), value);
      line(indent + 1, fmt::format("{} = {};", element(buffer(assign.buffer), to), value));
    }
    line(indent, "}");
    return true;
  }

  /// Calls the instruction with this lane's elements of the tile:
  ///   const float2 tw_a0 = *(const float2*)&a[...], tw_a1 = ..., tw_b = ...;
  ///   tw_mma_m16n8k8_tf32(acc[0], acc[1], acc[2], acc[3], tw_a0.x, tw_a1.x, tw_a0.y, ...);
  bool print_tile(const TensorNest& nest, int indent) override {
    const TensorTile& tile = *nest.tile;
    if (tile.is_of_warpgroup) return print_warpgroup(nest, indent);
    const Expr i = lane_number();
    line(indent, "{");
    declare_factors("tw_a0", tile, *nest.by_row, row_indices(nest, Expr(0), i), indent + 1);
    declare_factors("tw_a1", tile, *nest.by_row, row_indices(nest, Expr(1), i), indent + 1);
    declare_factors("tw_b", tile, *nest.by_column, column_indices(nest, i), indent + 1);
    std::string sums;
    for (int64_t part = 0; part < tile_part; ++part)
      for (int64_t column = 0; column < tile_part; ++column) {
        const std::vector<Expr> at = dsl::substitute(
            nest.sum->indices,
            {{nest.part->variable, Expr(part)}, {nest.column->variable, Expr(column)}});
        sums += element(buffer(nest.sum->buffer), at) + ", ";
      }
    line(indent + 1, fmt::format("tw_{}({}tw_a0.x, tw_a1.x, tw_a0.y, tw_a1.y, tw_b.x, tw_b.y);",
                                 tile.name, sums));
    line(indent, "}");
    return true;
  }

  bool has_warpgroups() const override { return true; }

  /// Calls the instruction with the first of a thread's accumulators and the descriptors of its
  /// factors:
  ///   tw_wgmma_m64n128k16_bf16(&acc[0], tw_descriptor<128>(&a[...]), tw_descriptor<128>(&b[...]));
  bool print_warpgroup(const TensorNest& nest, int indent) {
    const Buffer& by_row = buffer(nest.by_row->tensor);
    const Buffer& by_column = buffer(nest.by_column->tensor);
    const FactorLayout a = layout_of_rows(nest, by_row), b = layout_of_columns(nest, by_column);
    line(indent, fmt::format("{}(&{}, {}, {});", warpgroup_function(nest, a, b),
                             element(buffer(nest.sum->buffer), first_of_sums(nest)),
                             descriptor(by_row, a, first_of_rows(nest)),
                             descriptor(by_column, b, first_of_columns(nest))));
    return true;
  }

  /// "tw_wgmma_m64n128k16_bf16" of the tile "wgmma_m64k16_bf16"; then "_t" and which factors are
  /// MN-major: "_ta", "_tb" or "_tab".
  static std::string warpgroup_function(const TensorNest& nest, const FactorLayout& a,
                                        const FactorLayout& b) {
    std::string name = fmt::format("tw_{}", nest.tile->name);
    name.insert(name.find('k'), fmt::format("n{}", schedules::columns_of(nest)));
    if (a.is_mn_major || b.is_mn_major) name += "_t";
    if (a.is_mn_major) name += "a";
    if (b.is_mn_major) name += "b";
    return name;
  }

  /// The descriptor of a factor. It holds the unswizzled address: the hardware applies the swizzle.
  std::string descriptor(const Buffer& b, const FactorLayout& layout,
                         const std::vector<Expr>& first) {
    Buffer dense = b;
    dense.swizzle = 0;
    const std::string function =
        layout.is_mn_major ? fmt::format("tw_descriptor_mn<{}, {}>", b.swizzle, layout.group_bytes)
                           : fmt::format("tw_descriptor<{}>", b.swizzle);
    return fmt::format("{}(&{})", function, element(dense, first));
  }

  /// Declares this lane's elements of a factor, two 32-bit registers. `indices` are those of one
  /// element, as expressions of lane_number().
  void declare_factors(std::string_view name, const TensorTile& tile, const dsl::Read& factor,
                       const std::vector<Expr>& indices, int indent) {
    const int64_t count = schedules::lane_elements(tile);
    const std::string type = tile.operand == Float32 ? "float2" : "uint2";
    std::string value;
    if (const auto first = first_lane_indices(vector_buffer(factor.tensor), indices, count)) {
      value = fmt::format("*(const {}*)&{}", type, element(buffer(factor.tensor), *first));
    } else {
      std::vector<std::string> halves;
      for (int64_t half = 0; half < count; half += count / 2)
        halves.push_back(packed(tile, factor, indices, half, half + count / 2));
      value = fmt::format("{{{}}}", fmt::join(halves, ", "));
    }
    line(indent, fmt::format("const {} {} = {};", type, name, value));
  }

  /// Elements in one register, the first in the lowest bits.
  std::string packed(const TensorTile& tile, const dsl::Read& factor,
                     const std::vector<Expr>& indices, int64_t begin, int64_t end) {
    std::string text;
    for (int64_t i = begin; i < end; ++i) {
      const std::vector<Expr> at =
          dsl::substitute(indices, {{lane_number().as<dsl::Var>()->name, Expr(i)}});
      const std::string one = element(buffer(factor.tensor), at);
      const int bits = size_bytes(tile.operand) * 8;
      if (bits == 32) return one;
      text += fmt::format("{}(unsigned)({}){}", i == begin ? "" : " | ",
                          bits == 16 ? "unsigned short" : "unsigned char", one);
      if (i > begin) text += fmt::format(" << {}", (i - begin) * bits);
    }
    return text;
  }
};

class OpenClPrinter final : public KernelPrinter {
 public:
  OpenClPrinter(const Program& program, const Phase& phase)
      : KernelPrinter(program, phase, opencl_spelling) {}

 private:
  std::string head(int64_t threads) const override {
    return fmt::format("__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid ", threads);
  }
  std::string parameter(const schedules::Argument& argument) override {
    const Buffer& b = argument.buffer;
    return fmt::format("__global {}{}* {}{}", argument.is_output ? "" : "const ",
                       storage_type(b.type), argument.is_output ? "" : "restrict ",
                       identifier(b.name));
  }
  std::string scratch_parameter() const override { return "__global uchar* scratch"; }
  std::string_view block_number() const override { return "get_group_id(0)"; }
  std::string_view thread_number() const override { return "get_local_id(0)"; }
  std::string_view barrier() const override {
    return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
  }
  std::string_view in_global() const override { return "__global "; }
  std::string_view aligned() const override { return ""; }  // vload4 needs no alignment
  int64_t most_static_bytes() const override { return std::numeric_limits<int64_t>::max(); }
  std::string declare_shared(const std::string& name, const Buffer& b) const override {
    return fmt::format("__local {} {}[{}];", storage_type(b.type), name,
                       std::max<int64_t>(1, b.elements()));
  }
  std::string copied(DType, int64_t lanes, const std::string& to,
                     const std::string& from) const override {
    return fmt::format("vstore{0}(vload{0}(0, &{2}), 0, &{1});", lanes, to, from);
  }
  std::string zeroed(DType type, int64_t lanes, const std::string& to) const override {
    return fmt::format("vstore{0}(({1}{0})(0), 0, &{2});", lanes, storage_type(type), to);
  }
  bool has_asynchronous_copies() const override { return false; }
  bool has_tma_copies() const override { return false; }
};

Status check_countable(const Program& program) {
  for (const Phase& phase : program.phases)
    if (phase.tasks() > std::numeric_limits<int32_t>::max())
      return fail(ErrorCode::Unsupported,
                  fmt::format("[codegen] phase '{}' has {} tasks, at most {} can be numbered: make "
                              "fewer loops parallel",
                              phase.name, phase.tasks(), std::numeric_limits<int32_t>::max()));
  return {};
}

/// GPUs for which searches are made compute f64 at a fraction of the rate of f32, or not at all.
Status check_types(const Program& program) {
  bool has_double = false;
  const auto note = [&](DType type) { has_double |= type == Float64; };
  for (const schedules::Argument& argument : program.arguments) note(argument.buffer.type);
  for (const Phase& phase : program.phases)
    schedules::for_each(*phase.body, [&](const Stmt& stmt) {
      schedules::for_each_expression(stmt, [&](const schedules::Expr& expr) {
        dsl::for_each(expr, [&](const schedules::Expr& e) { note(e.type()); });
      });
    });
  if (!has_double) return {};
  return fail(ErrorCode::Unsupported,
              "[codegen] kernels for GPUs do not compute in f64: use f32, or a target that is a "
              "processor");
}

std::string print_kernel(const Program& program, const Phase& phase, GpuDialect dialect,
                         GpuKernel& kernel) {
  if (dialect == GpuDialect::Cuda) return CudaPrinter(program, phase).print_kernel(kernel);
  return OpenClPrinter(program, phase).print_kernel(kernel);
}

}  // namespace

Result<GpuCode> emit_gpu(const Program& program, const std::string& prefix, GpuDialect dialect) {
  const NamedProgram named{prefix, &program};
  return emit_gpu({&named, 1}, dialect);
}

Result<GpuCode> emit_gpu(std::span<const NamedProgram> programs, GpuDialect dialect) {
  GpuCode code;
  for (const auto& [prefix, program] : programs) {
    TW_RETURN_IF_ERROR(check_countable(*program));
    TW_RETURN_IF_ERROR(check_types(*program));
    for (size_t i = 0; i < program->phases.size(); ++i) {
      GpuKernel& kernel = code.kernels.emplace_back(GpuKernel{.name = phase_symbol(prefix, i)});
      const std::string text = print_kernel(*program, program->phases[i], dialect, kernel);
      code.text += (code.text.empty() ? "" : "\n") + text;
    }
  }
  code.text.insert(0, dialect == GpuDialect::Cuda ? cuda_functions_for(code.text)
                                                  : opencl_functions_for(code.text));
  return code;
}

}  // namespace tw::codegen
