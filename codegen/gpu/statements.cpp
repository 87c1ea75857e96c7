// SPDX-License-Identifier: Apache-2.0
// The statements of a thread: loops, arrays, vectors, copies, and the order of copies.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "codegen/gpu/printer.h"
#include "schedules/nest.h"

namespace tw::codegen {

using schedules::Allocate;
using schedules::Assign;
using schedules::Branches;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Scope;
using schedules::Stmt;
using schedules::Wait;

namespace {

/// Number of iterations by which row loops (is_row_loop()) are unrolled, so that their loads do not
/// wait for each other. The analytic model of GPUs assumes this number
/// (cost_model/gpu_analytic.cpp).
constexpr int64_t loads_in_flight = 4;

bool reads_table(const Assign& assign) {
  int64_t reads = 0;
  dsl::for_each(assign.value, [&](const dsl::Expr& e) { reads += e.as<dsl::Read>() != nullptr; });
  return reads > 1;
}

}  // namespace

// ---- loops and arrays -----------------------------------------------------------------------

void KernelPrinter::print_loop(const Loop& loop, int indent) {
  if (plan_.runs_warpgroups && is_warpgroup_tiles(loop))
    return print_awaited(issue_tiles(loop, indent), indent);
  if (loop.kind == LoopKind::Vector &&
      (print_vectors(loop, indent) || print_scatter(loop, indent) ||
       print_vector_store(loop, indent)))
    return;
  if (loop.tile && dialect_.has_tensor_tiles)
    return print_tile(*schedules::tensor_nest(loop, *nest_), indent);
  if (loop.kind == LoopKind::Bulk && print_tma_copy(loop, indent)) return;
  line(indent, pragma_of(loop));
  if (loop.pipeline && loop.pipeline->slots < *dsl::as_int(loop.end)) {
    print_pipeline(loop, indent);
  } else {
    line(indent, for_head(loop) + " {");
    print_body(*loop.body, indent + 1);
    line(indent, "}");
  }
  if (plan_.is_persistent && loop.pipeline) print_end_of_pipeline(false, indent);
}

/// Returns the unroll pragma of a loop. If a tensor tile is printed as loops, the loops that index
/// its accumulators are unrolled, so that the accumulators stay in registers.
std::string KernelPrinter::pragma_of(const Loop& loop) const {
  const bool is_rolled =
      loop.kind == LoopKind::Serial || loop.kind == LoopKind::Reduce || loop.kind == LoopKind::Bulk;
  const bool is_unrolled =
      loop.kind == LoopKind::Tensor ? dsl::is_int(loop.end, schedules::tile_part) : !is_rolled;
  if (is_unrolled) return "#pragma unroll";
  return fmt::format("#pragma unroll {}", is_row_loop(loop) ? loads_in_flight : 1);
}

/// True for a row loop: a loop of a few assignments of a thread that reads global memory. It
/// contains no loops other than vector loops and a nest of thread loops. If it is partly unrolled,
/// the loads of several iterations are in flight at a time.
bool KernelPrinter::is_row_loop(const Loop& loop) const {
  if (loop.kind != LoopKind::Serial && loop.kind != LoopKind::Reduce) return false;
  const auto end = dsl::as_int(loop.end);
  if (loop.pipeline || (end && *end < loads_in_flight)) return false;
  bool reads_global = false;
  const std::function<bool(const Block&)> is_plain = [&](const Block& body) {
    return std::ranges::all_of(body, [&](const Stmt& stmt) {
      if (const Loop* inner = stmt.as<Loop>())
        return (inner->kind == LoopKind::Vector || inner->kind == LoopKind::Thread) &&
               is_plain(*inner->body);
      const Assign* assign = stmt.as<Assign>();
      if (!assign || assign->asynchronous) return false;
      schedules::for_each_read(assign->value, [&](const dsl::Read& read) {
        reads_global |= is_global(buffer(read.tensor).scope);
      });
      return true;
    });
  };
  return is_plain(*loop.body) && reads_global;
}

/// Prints a pipelined loop, with the slot as a second loop counter. If the slot were computed as a
/// remainder, NVRTC 13.0 could not prove that addresses are aligned, and would split reads of 16
/// bytes into four. If every iteration has its own slot, the loop variable is the slot.
void KernelPrinter::print_pipeline(const Loop& loop, int indent) {
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

void KernelPrinter::print_allocate(const Allocate& allocate, bool is_last, int indent) {
  if (is_shared(allocate)) return print_body(*allocate.body, indent);
  const Buffer& b = allocate.buffer;
  const int inner = is_last ? indent : indent + 1;
  // The body is printed first, because it decides whether the array is accessed as vectors.
  const std::string before = std::exchange(body_, {});
  print_body(*allocate.body, inner);
  const std::string body = std::exchange(body_, before);
  if (!is_last) line(indent, "{");
  line(inner, fmt::format("{}{} {}[{}];", as_vectors_.contains(b.name) ? dialect_.aligned : "",
                          storage_type(b.type), buffer_identifier(b.name), own_elements(b)));
  body_ += body;
  if (!is_last) line(indent, "}");
}

/// Returns the number of elements of a private buffer that each thread holds.
int64_t KernelPrinter::own_elements(const Buffer& b) const {
  const auto found = dropped_.find(b.name);
  int64_t elements = 1;
  for (size_t d = 0; d < b.extents.size(); ++d)
    if (found == dropped_.end() || std::ranges::count(found->second, d) == 0)
      elements *= b.extents[d];
  return std::max<int64_t>(1, elements);
}

/// A swizzle moves each chunk of 16 bytes as a whole, so a vector inside of a chunk stays
/// contiguous.
std::string KernelPrinter::placed(const Buffer& b, const std::string& index) const {
  return b.swizzle == 0 ? index : dialect_.swizzled(b, index);
}

// ---- vectors --------------------------------------------------------------------------------

/// Prints a dense copy, or a fill with zeros, as accesses of at most 16 bytes.
bool KernelPrinter::print_vectors(const Loop& loop, int indent) {
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
    line(indent, dialect_.zeroed(b.type, vectors->lanes, to));
  } else if (const int64_t bytes = vectors->lanes * size_bytes(b.type);
             is_asynchronous(assign, bytes)) {
    line(indent, asynchronous({to, from, bytes}));
  } else {
    line(indent, dialect_.copied(b.type, vectors->lanes, to, from));
  }
  if (vectors->needs_loop) line(indent - 1, "}");
  return true;
}

/// Prints a copy whose reads are contiguous and whose stores are not: one vector read, and a store
/// for each element.
bool KernelPrinter::print_scatter(const Loop& loop, int indent) {
  if (!dialect_.vector_type) return false;
  const auto from =
      find_scatter(loop, [&](const std::string& name) { return vector_buffer(name); });
  if (!from) return false;
  const Assign& assign = *loop.body->front().as<Assign>();
  const std::string& source = assign.value.as<dsl::Read>()->tensor;
  const DType type = buffer(source).type;
  const int64_t lanes = *dsl::as_int(loop.end), bytes = size_bytes(type);
  as_vectors_.insert(source);
  line(indent, "{");
  line(indent + 1, fmt::format("const {0} tw_v = *(const {0}*)&{1};",
                               dialect_.vector_type(type, lanes), element(buffer(source), *from)));
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

/// Prints a store of computed values to global or shared memory as one vector store. Contiguous
/// values that all lanes read are loaded as vectors. If each lane has its own condition and only
/// some of the conditions hold, the elements are stored one by one:
///   if ((i < 7) && (i + 1 < 7)) {
///     const float2 tw_v0 = *(const float2*)&a[i];
///     *(unsigned*)&c[i] = tw_pack_bf16(tw_v0.x + 1, tw_v0.y + 1);
///   } else {
///     if (i < 7) { c[i] = tw_to_bf16(a[i] + 1); }
///     if (i + 1 < 7) { c[i + 1] = tw_to_bf16(a[i + 1] + 1); }
///   }
bool KernelPrinter::print_vector_store(const Loop& loop, int indent) {
  const auto store =
      find_vector_store(loop, [&](const std::string& name) { return vector_buffer(name); });
  if (!store) return false;
  const Buffer& b = buffer(store->assigns[0].buffer);
  if (!is_global(b.scope) && !plan_.is_shared(b.name)) return false;
  std::vector<std::string> conditions;
  for (const Expr& condition : store->conditions) conditions.push_back(value(condition));
  if (store->needs_loop) {
    line(indent, "#pragma unroll");
    line(indent++, for_head(loop, store->lanes) + " {");
  }
  if (conditions.empty()) {
    print_lanes(*store, indent);
  } else {
    line(indent, conditions.size() == 1
                     ? fmt::format("if ({}) {{", conditions[0])
                     : fmt::format("if (({})) {{", fmt::join(conditions, ") && (")));
    print_lanes(*store, indent + 1);
  }
  if (conditions.size() > 1) {
    line(indent, "} else {");
    for (size_t i = 0; i < conditions.size(); ++i)
      print_if({store->conditions[i], schedules::block({{store->assigns[i]}})}, indent + 1);
  }
  if (!conditions.empty()) line(indent, "}");
  if (store->needs_loop) line(indent - 1, "}");
  return true;
}

/// Prints the loads and the store of all lanes. Where an expression reads an element of a loaded
/// vector, the text names the vector's element.
void KernelPrinter::print_lanes(const VectorStore& store, int indent) {
  const size_t held_before = held_.size();
  std::vector<std::string> loads;
  for (const VectorStore::Load& load : store.loads)
    if (is_global(buffer(load.buffer).scope) || plan_.is_shared(load.buffer))
      hold_lanes(load, loads);
  const Buffer& b = buffer(store.assigns[0].buffer);
  std::vector<std::string> values;
  for (const Assign& lane : store.assigns)
    values.push_back(size_bytes(b.type) == 2 ? before_rounding(b.type, lane.value)
                                             : value(lane.value));
  held_.resize(held_before);
  const std::string stored = dialect_.stored(b.type, values, element(b, store.to));
  as_vectors_.insert(b.name);
  if (loads.empty()) return line(indent, stored);
  line(indent, "{");
  for (const std::string& load : loads) line(indent + 1, load);
  line(indent + 1, stored);
  line(indent, "}");
}

/// Appends vector loads, of at most 16 bytes each, to `loads`. Adds each element's read and its
/// name in the text to held_, so that the read is printed as this name.
void KernelPrinter::hold_lanes(const VectorStore::Load& load, std::vector<std::string>& loads) {
  if (!dialect_.vector_type) return;
  constexpr int64_t most_bytes = 16, word_bytes = 4;
  const Buffer& b = buffer(load.buffer);
  const int64_t bytes = size_bytes(b.type), lanes = std::ssize(load.reads);
  // A swizzle may move apart two chunks of 16 bytes that are adjacent in dense memory.
  if (b.swizzle != 0 && lanes * bytes > most_bytes) return;
  const int64_t in_one = std::min(lanes, most_bytes / bytes);
  const std::string type = dialect_.vector_type(b.type, in_one);
  const std::string first = element(b, load.from);
  as_vectors_.insert(b.name);
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t lane = i % in_one;
    if (lane == 0)
      loads.push_back(fmt::format("const {0} tw_v{1} = ((const {0}*)&{2})[{3}];", type,
                                  loads.size(), first, i / in_one));
    std::string name = fmt::format("tw_v{}", loads.size() - 1);
    if (in_one * bytes > word_bytes) name += fmt::format(".{}", "xyzw"[lane * bytes / word_bytes]);
    if (const int64_t shift = lane * bytes % word_bytes * 8; shift > 0)
      name = fmt::format("({} >> {})", name, shift);
    if (bytes < word_bytes) name = fmt::format("({})({})", storage_type(b.type), name);
    held_.emplace_back(load.reads[static_cast<size_t>(i)], loaded(b.type, name).text);
  }
}

std::optional<VectorAccess> KernelPrinter::vector_access_of(const Loop& loop) const {
  return find_vector_access(loop, [&](const std::string& name) { return vector_buffer(name); });
}

VectorBuffer KernelPrinter::vector_buffer(const std::string& name) const {
  const auto found = dropped_.find(name);
  return {buffer(name), found == dropped_.end() ? std::vector<size_t>{} : found->second};
}

// ---- copies ---------------------------------------------------------------------------------

/// Prints a plain copy without converting 16-bit floats; all other assignments as CPrinter does.
void KernelPrinter::print_assign(const Assign& assign, int indent) {
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

/// Prints a guarded assignment. An asynchronous copy that stores zeros if the condition fails
/// becomes one cp.async with the condition as an operand; it then reads nothing and writes zeros.
void KernelPrinter::print_branches(const Branches& branches, int indent) {
  const auto copy = branches.stores_zeros ? copy_of(*branches.taken.body) : std::nullopt;
  if (!copy) return CPrinter::print_branches(branches, indent);
  line(indent, asynchronous(*copy, value(branches.taken.condition)));
}

/// Returns the operands of the copy if the body is one asynchronous copy. Returns nullopt for other
/// bodies, and if the address of the source is read from a table: where the condition of the copy
/// fails, the table must not be read.
std::optional<KernelPrinter::Copy> KernelPrinter::copy_of(const Block& body) {
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

std::string KernelPrinter::asynchronous(const Copy& copy, const std::string& condition) {
  return fmt::format("tw_copy_async<{}>(&{}, &{}{}{});", copy.bytes, copy.to, copy.from,
                     condition.empty() ? "" : ", ", condition);
}

bool KernelPrinter::is_asynchronous(const Assign& assign, int64_t bytes) const {
  return codegen::is_asynchronous(assign, bytes, plan_, dialect_, find_buffer_);
}

bool KernelPrinter::print_tma_copy(const Loop& loop, int indent) {
  const auto box =
      std::ranges::find(plan_.boxes, loop.body.get(), [](const BoxCopy& b) { return b.copy.body; });
  if (box == plan_.boxes.end()) return false;
  std::string first;
  for (const schedules::TmaDimension& d : box->copy.dimensions) {
    const std::string index = value(d.first);
    first += index_type_ == "int" ? ", " + index : fmt::format(", (int)({})", index);
  }
  line(
      indent,
      fmt::format("tw_copy_box<{}>(&{}, tw_map_{}, &tw_barriers[tw_committed & {}], {}{});",
                  box->copy.dimensions.size(), element(buffer(box->copy.destination), box->copy.to),
                  box->map, plan_.mbarriers - 1, box->copy.bytes, first));
  return true;
}

// ---- barriers, commits and waits ------------------------------------------------------------

/// Prints a barrier. Warpgroup instructions read shared memory through the asynchronous proxy. This
/// proxy is not ordered with ordinary stores and copies (PTX ISA, "Async proxy"). So each thread
/// puts a fence after its own writes, before the barrier.
void KernelPrinter::print_barrier(int indent) {
  if (plan_.runs_warpgroups) line(indent, "tw_fence_async();");
  line(indent, plan_.has_producers ? fmt::format("tw_sync<{}>();", plan_.threads)
                                   : std::string(dialect_.barrier));
}

void KernelPrinter::print_order(const Wait* wait, int indent) {
  if (plan_.mbarriers > 0) print_tma_order(wait, indent);
  if (!plan_.has_cp_async) return;
  line(indent, wait ? fmt::format("tw_wait<{}>();", wait->pending) : "tw_commit();");
}

/// Prints the commit of a group of TMA copies if `wait` is null, else the wait for groups.
void KernelPrinter::print_tma_order(const Wait* wait, int indent) {
  if (!wait && plan_.has_producers) return line(indent, "++tw_committed;");
  if (plan_.has_producers) print_leave(indent);
  if (!wait) {
    line(indent, fmt::format("if (thread == 0) tw_arrive(&tw_barriers[tw_committed & {}]);",
                             plan_.mbarriers - 1));
    return line(indent, "++tw_committed;");
  }
  line(indent, "#pragma unroll 1");
  line(indent,
       wait->pending == 0
           ? "for (; tw_arrived < tw_committed; ++tw_arrived) {"
           : fmt::format("for (; tw_arrived < tw_committed - {}; ++tw_arrived) {{", wait->pending));
  print_wait_at("tw_barriers", indent + 1);
  line(indent, "}");
}

/// Prints the end of the pipeline in a task of a persistent block. Consumers release all slots, and
/// wait for the commit groups of the last iterations, because no iteration has waited for these.
/// The producer waits until the consumers have released the slots. As a result, each mbarrier is in
/// the phase that the group numbers of the next task assume.
void KernelPrinter::print_end_of_pipeline(bool of_producer, int indent) {
  line(indent, "#pragma unroll 1");
  line(indent, "for (; tw_arrived < tw_committed; ++tw_arrived) {");
  if (!of_producer) print_leave(indent + 1);
  print_wait_at(of_producer ? "tw_emptied" : "tw_barriers", indent + 1);
  line(indent, "}");
}

/// Prints the arrival of a consumer warp at the mbarrier of the next commit group for which the
/// warp waits. The mbarrier is in `tw_emptied`.
void KernelPrinter::print_leave(int indent) {
  line(indent, fmt::format("tw_leave(&tw_emptied[tw_arrived & {}]);", plan_.mbarriers - 1));
}

/// Prints the wait for commit group `tw_arrived` at its mbarrier. `mbarriers` is the name of the
/// array of mbarriers.
void KernelPrinter::print_wait_at(std::string_view mbarriers, int indent) {
  line(indent, fmt::format("tw_wait_at(&{}[tw_arrived & {}], tw_arrived >> {} & 1);", mbarriers,
                           plan_.mbarriers - 1, mbarriers_shift()));
}

int KernelPrinter::mbarriers_shift() const {
  return std::countr_zero(static_cast<uint64_t>(plan_.mbarriers));
}

}  // namespace tw::codegen
