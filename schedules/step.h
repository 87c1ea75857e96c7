// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scheduling steps as plain data. Each struct lists its fields once, in `fields()`. Printing,
// parsing, the usage lines of the documentation and the bindings of other languages are derived
// from that list, and TW_STEPS lists the structs. steps/<name>.cpp defines the effect of a step on
// the loops. Plain values; thread-safe.
//
// The names are Halide's; a comment gives TVM's name if it differs. A step names a stage of the
// compute, and loops of that stage. Splitting `x` makes `x.0` (outer) and `x.1` (inner); fusing `y`
// and `x` makes `y*x`. docs/schedules.md shows a program before and after each step.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Treatment of a split factor that does not divide the extent, such as factor 4 for extent 10.
///   Guard: iterations past the end are skipped by a condition or, where possible, by loop bounds.
///   Exact: the step is illegal.
///   Shift: the last tile starts earlier and overlaps the tile before: 0, 4 and 6 (Halide:
///          ShiftInwards, TVM: none). Legal only on serial loops of stages that do not reduce.
enum class Tail { Guard, Exact, Shift };
std::string_view to_string(Tail tail);

/// The way in which rfactor divides the terms of a reduction among partial results. With factor 4
/// and 12 terms there are four partial results, and
///   Interleaved: partial result 0 sums the terms 0, 4 and 8;
///   Blocks: partial result 0 sums the terms 0, 1 and 2 (for a matrix product: split-K).
enum class Partition { Interleaved, Blocks };
std::string_view to_string(Partition partition);

/// The own names of the N loops that a step makes ("as no ni" in schedule text); empty if the
/// author gave none. Later steps may use an own name wherever a derived name ("n.0") is valid. A
/// Schedule stores its steps with derived names only, so own names affect neither its text nor its
/// hash.
template <size_t N>
struct OwnNames {
  std::vector<std::string> names = {};
  friend bool operator==(const OwnNames&, const OwnNames&) = default;
};

/// A field of a step: its name and the member that holds its value. Schedule text may leave out an
/// optional field. The field then has the default value of the struct.
template <typename S, typename T>
struct Field {
  using Type = T;
  std::string_view name;
  T S::*member;
  bool is_optional = false;
  /// True if the value names one or more loops. They are loops of the step's `consumer` if the step
  /// has that field, else of its `stage`.
  bool names_loops = false;
};
template <typename S, typename T>
constexpr Field<S, T> field(std::string_view name, T S::*member) {
  return {name, member};
}
template <typename S, typename T>
constexpr Field<S, T> optional(std::string_view name, T S::*member) {
  return {name, member, true};
}
template <typename S, typename T>
constexpr Field<S, T> loop_field(std::string_view name, T S::*member) {
  return {name, member, false, true};
}

/// Splits `loop` into loop.0 (outer, ceil(extent / factor) iterations) and loop.1 (inner, `factor`
/// iterations).
struct Split {
  static constexpr std::string_view name = "split";
  std::string stage, loop;
  int64_t factor = 1;
  Tail tail = Tail::Guard;
  OwnNames<2> names = {};  ///< names of the outer and the inner loop
  static constexpr auto fields() {
    return std::tuple(field("stage", &Split::stage), loop_field("loop", &Split::loop),
                      field("factor", &Split::factor), optional("tail", &Split::tail),
                      optional("names", &Split::names));
  }
};
/// Fuses two adjacent loops into one, which is named `outer*inner`.
struct Fuse {
  static constexpr std::string_view name = "fuse";
  std::string stage, outer, inner;
  OwnNames<1> names = {};
  static constexpr auto fields() {
    return std::tuple(field("stage", &Fuse::stage), loop_field("outer", &Fuse::outer),
                      loop_field("inner", &Fuse::inner), optional("names", &Fuse::names));
  }
};
/// Puts the named loops into the given order, outermost first. They need not be adjacent: the named
/// loops change places among themselves, and all other loops keep their places. For loops m, k, n,
/// `reorder c n m` gives n, k, m.
struct Reorder {
  static constexpr std::string_view name = "reorder";
  std::string stage;
  std::vector<std::string> loops;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Reorder::stage), loop_field("loops", &Reorder::loops));
  }
};
struct Unroll {
  static constexpr std::string_view name = "unroll";
  std::string stage, loop;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Unroll::stage), loop_field("loop", &Unroll::loop));
  }
};
/// Turns the loop into vector operations. The loop must be innermost and run over a spatial axis.
/// There is one exception: if the innermost loop is a reduction loop of 2 to 4 iterations, and the
/// loop directly around it is vectorized, the innermost loop may be vectorized too. Each lane then
/// sums a dot product (dot_products.h).
struct Vectorize {
  static constexpr std::string_view name = "vectorize";
  std::string stage, loop;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Vectorize::stage), loop_field("loop", &Vectorize::loop));
  }
};
/// Turns the loop's iterations into tasks. Parallel loops must be the outermost loops of a stage
/// that is not computed inside of another stage.
struct Parallel {
  static constexpr std::string_view name = "parallel";
  std::string stage, loop;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Parallel::stage), loop_field("loop", &Parallel::loop));
  }
};
/// Turns the loop's iterations into threads of a block (TVM: bind to threadIdx). Bound loops nested
/// directly inside each other number the threads row by row: for loops i and j in 0..16, thread (i,
/// j) is number i * 16 + j. A reduction loop can be bound if it is the innermost loop and the only
/// reduction loop of its stage. The threads of a warp then share the iterations of this loop and
/// combine their partial results.
struct Bind {
  static constexpr std::string_view name = "bind";
  std::string stage, loop;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Bind::stage), loop_field("loop", &Bind::loop));
  }
};
/// Computes `stage` inside of the loop `loop` of `consumer`. Each iteration first computes the
/// region of the stage that it reads.
struct ComputeAt {
  static constexpr std::string_view name = "compute_at";
  std::string stage, consumer, loop;
  static constexpr auto fields() {
    return std::tuple(field("stage", &ComputeAt::stage), field("consumer", &ComputeAt::consumer),
                      loop_field("loop", &ComputeAt::loop));
  }
};
/// Keeps the buffer of a stage that is computed at a loop of `consumer` from one iteration of that
/// loop to the next, as a sliding window. An iteration computes only the elements that no earlier
/// iteration computed. `loop` is the loop of `consumer` directly around the loop at which the stage
/// is computed. Each iteration of `loop` begins with a new window.
struct StoreAt {
  static constexpr std::string_view name = "store_at";
  std::string stage, consumer, loop;
  static constexpr auto fields() {
    return std::tuple(field("stage", &StoreAt::stage), field("consumer", &StoreAt::consumer),
                      loop_field("loop", &StoreAt::loop));
  }
};
/// Replaces reads of a stage by the expression of the stage. The stage must not be a reduction.
struct Inline {
  static constexpr std::string_view name = "inline";
  std::string stage;
  static constexpr auto fields() { return std::tuple(field("stage", &Inline::stage)); }
};
/// Computes the elementwise stage `stage` where the reduction `into`, which `stage` reads, writes
/// its result (TVM: reverse_compute_inline). The reduction's own tensor is not stored in memory.
struct Epilogue {
  static constexpr std::string_view name = "epilogue";
  std::string stage, into;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Epilogue::stage), field("into", &Epilogue::into));
  }
};
/// Accumulates the results of an iteration of `loop` in a separate buffer, and writes them to the
/// stage's tensor at the end of the iteration.
struct CacheWrite {
  static constexpr std::string_view name = "cache_write";
  std::string stage, loop;
  Scope scope = Scope::Register;
  static constexpr auto fields() {
    return std::tuple(field("stage", &CacheWrite::stage), loop_field("loop", &CacheWrite::loop),
                      optional("scope", &CacheWrite::scope));
  }
};
/// At the start of each iteration of `loop`, copies the part of `tensor` that the iteration reads
/// to a buffer. A new stage `<tensor>@<stage>` makes the copy. `readers` are the stages that read
/// the copy instead of the tensor: `stage`, or stages that are computed inside of it. Without
/// `readers`, only `stage` reads the copy. Epilogues still read the tensor.
struct CacheRead {
  static constexpr std::string_view name = "cache_read";
  std::string tensor, stage, loop;
  std::vector<std::string> readers = {};
  static constexpr auto fields() {
    return std::tuple(field("tensor", &CacheRead::tensor), field("stage", &CacheRead::stage),
                      loop_field("loop", &CacheRead::loop),
                      optional("readers", &CacheRead::readers));
  }
};
/// Keeps the elements of a stage that is computed inside of another stage in the threads that
/// compute them: in registers, or in the thread's local memory (Halide: store_in with
/// MemoryType::Register; TVM: set_scope "local"). Each thread may read only the elements that it
/// computed. The stage must not reduce, and one of its loops must be bound to threads.
struct StoreIn {
  static constexpr std::string_view name = "store_in";
  std::string stage;
  Scope scope = Scope::Register;
  static constexpr auto fields() {
    return std::tuple(field("stage", &StoreIn::stage), optional("scope", &StoreIn::scope));
  }
};
/// Copies an operand of a reduction's term to a buffer before it is used. At the start of each
/// iteration of `loop`, a new stage computes the values of the operand that the iteration uses. Its
/// name is `<tensor>@<stage>`, or `<tensor>.<operand>@<stage>` if that name is taken. The buffer
/// has a dimension for each of the `loops`, which must be all the loops inside of `loop` that the
/// operand depends on. `operand` is 1 or 2 for the factors of a product, and 1 for any other term.
///
/// Elements of the buffer that lie in a tail or in padding, where there is nothing to read, are the
/// neutral element, such as 0 for a sum. Therefore a reduction whose operands are all staged
/// accumulates without guards. There is one exception: if the tensor is padded, some elements of
/// the buffer are used only by results beyond the end of an axis, which are never stored. These
/// elements may be any elements of the tensor.
struct CacheOperand {
  static constexpr std::string_view name = "cache_operand";
  std::string stage;
  int64_t operand = 1;
  std::string loop;
  std::vector<std::string> loops;
  static constexpr auto fields() {
    return std::tuple(
        field("stage", &CacheOperand::stage), field("operand", &CacheOperand::operand),
        loop_field("loop", &CacheOperand::loop), loop_field("loops", &CacheOperand::loops));
  }
};
/// Passes the results that one iteration of the accumulator's loop (cache_write) computes through
/// shared memory. Threads write the results to a shared buffer with a dimension for each of the
/// `loops`, and a new stage `<result>@<stage>` copies them to the result's tensor. In the copy,
/// neighbouring threads write neighbouring elements of memory (TVM: cache_write to shared memory;
/// CUTLASS: a staged epilogue). The `loops` must be all the loops inside of the accumulator's loop
/// that do not reduce.
struct CacheResult {
  static constexpr std::string_view name = "cache_result";
  std::string stage;
  std::vector<std::string> loops;
  static constexpr auto fields() {
    return std::tuple(field("stage", &CacheResult::stage),
                      loop_field("loops", &CacheResult::loops));
  }
};
/// Turns `loop` and all loops inside of it into the tensor tile named `tile`. From the outermost to
/// the innermost they run over
///   tile of a warp: a lane's two rows, a lane's two columns, and the terms (tensor_tiles.h);
///   tile of a warpgroup: a lane's two rows, the blocks of eight columns, a lane's two columns in a
///     block, and the terms; the blocks may be two loops, over groups of 64 columns and over the
///     blocks in a group;
///   tile of a core: rows, columns, groups of terms, and the terms in a group (core_tiles.h).
struct Tensorize {
  static constexpr std::string_view name = "tensorize";
  std::string stage, loop, tile;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Tensorize::stage), loop_field("loop", &Tensorize::loop),
                      field("tile", &Tensorize::tile));
  }
};
/// Pipelines the copies of a stage that cache_operand made. They are started `depth` - 1 iterations
/// before they are used, so that they overlap with computation (TVM: software_pipeline). These are
/// iterations of the loop at which the stage is computed. The buffer holds the data of `depth`
/// iterations. All stages that are pipelined at one loop must have the same depth.
struct Pipeline {
  static constexpr std::string_view name = "pipeline";
  std::string stage;
  int64_t depth = 2;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Pipeline::stage), field("depth", &Pipeline::depth));
  }
};
/// Turns the copies of a pipelined stage into TMA copies, which one thread issues. The copy engine
/// of the GPU moves a box at a time: a tile of the source tensor (tma_copies.h). A box spans all
/// loops of the stage.
struct Bulk {
  static constexpr std::string_view name = "bulk";
  std::string stage;
  static constexpr auto fields() { return std::tuple(field("stage", &Bulk::stage)); }
};
/// Lets producer warps issue the TMA copies of the pipeline in the stage's loops, so that the
/// threads that compute do not wait for each other (CUTLASS: warp specialisation; specialised.h).
struct Specialise {
  static constexpr std::string_view name = "specialise";
  std::string stage;
  static constexpr auto fields() { return std::tuple(field("stage", &Specialise::stage)); }
};
/// Makes the blocks of threads persistent (CUTLASS: persistent kernel): the launch has only as many
/// blocks as the GPU runs at once, and each block computes several tasks of the stage one after
/// another. Producer warps start the copies of the next task while the threads that compute still
/// store their results, so the stage must have producer warps (specialise).
struct Persist {
  static constexpr std::string_view name = "persist";
  std::string stage;
  static constexpr auto fields() { return std::tuple(field("stage", &Persist::stage)); }
};
/// Limits the registers of a thread, so that `blocks` blocks of threads fit into the registers of a
/// multiprocessor at once (CUDA: minBlocksPerMultiprocessor of __launch_bounds__). The compiler may
/// then spill registers. The stage must have a phase of its own.
struct LaunchBounds {
  static constexpr std::string_view name = "launch_bounds";
  std::string stage;
  int64_t blocks = 2;
  static constexpr auto fields() {
    return std::tuple(field("stage", &LaunchBounds::stage), field("blocks", &LaunchBounds::blocks));
  }
};
/// Pads the buffer of a stage that cache_operand or cache_result made. The buffer's dimensions from
/// `loop` inwards become one dimension that is `elements` longer (TVM: storage_align): with 8
/// elements, [64, 32] becomes [64, 40]. Neighbours along the next outer dimension then lie in
/// different banks of shared memory.
struct Pad {
  static constexpr std::string_view name = "pad";
  std::string stage, loop;
  int64_t elements = 1;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Pad::stage), loop_field("loop", &Pad::loop),
                      field("elements", &Pad::elements));
  }
};
/// Swizzles the shared buffer of a stage that cache_operand or cache_result made: chunks of 16
/// bytes are permuted, so that elements of successive rows lie in different banks. `bytes` is the
/// size of the groups in which chunks change places: 32, 64 or 128, as in
/// CU_TENSOR_MAP_SWIZZLE_32B, _64B and _128B, the patterns that TMA and wgmma support. Neither
/// values nor indices in the program change; Buffer::swizzle has the formula.
struct Swizzle {
  static constexpr std::string_view name = "swizzle";
  std::string stage;
  int64_t bytes = 128;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Swizzle::stage), field("bytes", &Swizzle::bytes));
  }
};
/// Splits the reduction over `axis` in two. A new stage `<stage>.rf` computes `factor` partial
/// results along a new axis `<axis>_rf`, and the stage itself reduces these. If each partial result
/// combines every `factor`-th element (interleaved), the new axis is the last one of the new stage.
/// If it combines neighbouring elements (blocks), the new axis is the first one. Must precede all
/// steps on the stage's loops; an epilogue may come first. A second rfactor, over `<axis>_rf`,
/// splits the reduction of the partial results in the same way. Its new stage `<stage>.rf.rf` reads
/// `<stage>.rf`, and the stage itself reads `<stage>.rf.rf`.
struct Rfactor {
  static constexpr std::string_view name = "rfactor";
  std::string stage, axis;
  int64_t factor = 1;
  Partition partition = Partition::Interleaved;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Rfactor::stage), field("axis", &Rfactor::axis),
                      field("factor", &Rfactor::factor),
                      optional("partition", &Rfactor::partition));
  }
};
/// Computes a convolution along `axis` by Winograd's algorithm F(tile, taps) of toom_cook.h, `tile`
/// outputs at a time. The stage is replaced by four stages: `<stage>.u` (transformed weights),
/// `<stage>.v` (transformed data), `<stage>.m` (sums of their products), and a stage with the old
/// name, which transforms `<stage>.m` to the result. If the data are more than a plain element of a
/// tensor, as with padding, a stage `<stage>.d` computes them first. A second `winograd` step, on
/// `<stage>.m` and along another axis, gives the two-dimensional algorithm. Must precede any other
/// step on the stage.
struct Winograd {
  static constexpr std::string_view name = "winograd";
  std::string stage, axis;
  int64_t tile = 2;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Winograd::stage), field("axis", &Winograd::axis),
                      field("tile", &Winograd::tile));
  }
};
/// Packs the factors of a sum of products for an instruction that sums `multiple` products at once.
/// A stage `<stage>.<tensor>` copies each factor. In the copy the dimension of the reduction axis
/// is last, and zeros at its end make its extent a multiple of `multiple` (TVM: pad_einsum). If
/// `type` is given, the copy has elements of that type. A factor that needs neither zeros nor
/// another type is not copied. Each factor must be an element of a tensor, and the two tensors must
/// differ. In each tensor one dimension must have the axis itself as its index, and must be as long
/// as the axis. Must precede any other step on the stage.
struct PackFactors {
  static constexpr std::string_view name = "pack_factors";
  std::string stage, axis;
  int64_t multiple = 2;
  std::string type = {};
  static constexpr auto fields() {
    return std::tuple(field("stage", &PackFactors::stage), field("axis", &PackFactors::axis),
                      field("multiple", &PackFactors::multiple),
                      optional("type", &PackFactors::type));
  }
};
/// Copies each padded factor of a sum of products. A factor is padded if it is 0 wherever its
/// indices are outside of the tensor. A stage `<stage>.<tensor>` makes the copy, which contains the
/// zeros, so that the products need no condition (TVM: a stage `pad`). In the copy the dimension of
/// the reduction axis `axis` is last. The factor must be an element of the tensor, and the
/// condition must say no more than that the factor's indices are within the tensor. Must precede
/// any other step on the stage.
struct PadFactors {
  static constexpr std::string_view name = "pad_factors";
  std::string stage, axis;
  static constexpr auto fields() {
    return std::tuple(field("stage", &PadFactors::stage), field("axis", &PadFactors::axis));
  }
};
/// Prefetches, while an iteration of `loop` runs, the cache lines of `tensor` that the next
/// iteration reads. Each iteration of `at`, a loop inside of `loop`, requests an equal share of the
/// lines (Halide: prefetch, which requests all lines at once). An iteration of `loop` must read a
/// contiguous part of the tensor's memory.
struct Prefetch {
  static constexpr std::string_view name = "prefetch";
  std::string stage, tensor, loop, at;
  static constexpr auto fields() {
    return std::tuple(field("stage", &Prefetch::stage), field("tensor", &Prefetch::tensor),
                      loop_field("loop", &Prefetch::loop), loop_field("at", &Prefetch::at));
  }
};
/// Computes a stage once when constants are loaded, instead of in each call. The stage may read
/// only constant inputs (dsl::Input::constant), other prepared stages, and stages that are computed
/// inside of it. It must not be an output (prepared.h).
struct Prepare {
  static constexpr std::string_view name = "prepare";
  std::string stage;
  static constexpr auto fields() { return std::tuple(field("stage", &Prepare::stage)); }
};
/// Stores a tensor in another layout (dsl/layout.h). Inputs are packed before the call of the
/// kernel, and outputs are unpacked after it.
struct SetLayout {
  static constexpr std::string_view name = "set_layout";
  std::string tensor, layout;
  static constexpr auto fields() {
    return std::tuple(field("tensor", &SetLayout::tensor), field("layout", &SetLayout::layout));
  }
};

/// Every step: the struct, and the member function of Schedule that appends it.
#define TW_STEPS(X)              \
  X(Split, split)                \
  X(Fuse, fuse)                  \
  X(Reorder, reorder)            \
  X(Unroll, unroll)              \
  X(Vectorize, vectorize)        \
  X(Parallel, parallel)          \
  X(Bind, bind)                  \
  X(ComputeAt, compute_at)       \
  X(StoreAt, store_at)           \
  X(Inline, inlined)             \
  X(Epilogue, epilogue)          \
  X(CacheWrite, cache_write)     \
  X(CacheRead, cache_read)       \
  X(StoreIn, store_in)           \
  X(CacheOperand, cache_operand) \
  X(CacheResult, cache_result)   \
  X(Pipeline, pipeline)          \
  X(Bulk, bulk)                  \
  X(Specialise, specialise)      \
  X(Persist, persist)            \
  X(LaunchBounds, launch_bounds) \
  X(Pad, pad)                    \
  X(Swizzle, swizzle)            \
  X(Tensorize, tensorize)        \
  X(Rfactor, rfactor)            \
  X(Winograd, winograd)          \
  X(PackFactors, pack_factors)   \
  X(PadFactors, pad_factors)     \
  X(Prefetch, prefetch)          \
  X(Prepare, prepare)            \
  X(SetLayout, set_layout)

template <typename Ignored, typename... Steps>
using VariantOf = std::variant<Steps...>;
#define TW_STEP_TYPE(Type, method) , Type
using Step = VariantOf<void TW_STEPS(TW_STEP_TYPE)>;
#undef TW_STEP_TYPE

/// Prints a step on one line, e.g. "split out x 14" or "reorder out k.0 y x.0 c x.1".
std::string to_string(const Step& step);
/// Parses a step. Invalid if the text is no step; the message names the wrong word.
Result<Step> parse_step(std::string_view line);

/// The error for words that are no step. `word` is the index of the wrong word. If a word is
/// missing at the end, `word` is the number of words.
struct BadStep {
  Error error;
  size_t word = 0;
};
tl::expected<Step, BadStep> parse_step(const std::vector<std::string>& words);

/// Usage lines of all steps, e.g. "split STAGE LOOP FACTOR [guard|exact|shift] [as OUTER INNER]",
/// in the order of TW_STEPS.
std::vector<std::string> step_usages();

}  // namespace tw::schedules
