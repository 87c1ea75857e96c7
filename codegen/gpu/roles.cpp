// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/roles.h"

#include <algorithm>
#include <set>

#include "base/integer.h"
#include "codegen/abi.h"
#include "schedules/nest.h"
#include "schedules/program/specialised.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/program/threads.h"

namespace tw::codegen {
namespace {

using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Block;
using schedules::Buffer;
using schedules::Commit;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;
using schedules::TmaCopy;
using schedules::Wait;

bool orders_threads(const Stmt& stmt) {
  bool found = false;
  schedules::for_each(Block{stmt}, [&](const Stmt& s) {
    found |= schedules::visit(s, always<Barrier, Commit, Wait>(true),
                              always<Loop, If, Assign, Allocate, schedules::PrefetchLines>(false));
  });
  return found;
}

// ---- shared memory --------------------------------------------------------------------------

/// Returns the arrays in shared memory, those with the widest swizzle first. Buffers of the same
/// name in sibling blocks of statements share one array, which has the size of the largest buffer.
std::vector<SharedArray> shared_arrays(const Block& body) {
  std::vector<SharedArray> shared;
  const auto name_of = [](const SharedArray& array) { return array.buffer.name; };
  schedules::for_each(body, [&](const Stmt& stmt) {
    const Allocate* allocate = stmt.as<Allocate>();
    if (!allocate || !is_shared(*allocate)) return;
    const auto same = std::ranges::find(shared, allocate->buffer.name, name_of);
    if (same == shared.end()) {
      shared.push_back({allocate->buffer});
    } else if (same->buffer.elements() < allocate->buffer.elements()) {
      same->buffer = allocate->buffer;
    }
  });
  std::ranges::stable_sort(shared, std::greater<>(),
                           [](const SharedArray& array) { return array.buffer.swizzle; });
  return shared;
}

void place_shared(KernelPlan& plan, int64_t most_static_bytes) {
  for (SharedArray& array : plan.shared) {
    const bool has_boxes = std::ranges::any_of(
        plan.boxes, [&](const BoxCopy& box) { return box.copy.destination == array.buffer.name; });
    array.alignment = std::max(has_boxes ? schedules::tma_alignment : schedules::shared_alignment,
                               array.buffer.swizzle_period());
    array.offset = round_up(plan.shared_bytes, array.alignment);
    plan.shared_bytes = array.offset + round_up(std::max<int64_t>(array.buffer.bytes(), 1),
                                                schedules::shared_alignment);
  }
  const int64_t mbarriers = (plan.has_producers ? 2 : 1) * plan.mbarriers;
  const int64_t mbarrier_bytes = mbarriers * schedules::mbarrier_bytes;
  if (plan.shared_bytes + mbarrier_bytes > most_static_bytes)
    plan.dynamic_bytes = plan.shared_bytes;
  plan.shared_bytes += mbarrier_bytes;
}

// ---- TMA copies -----------------------------------------------------------------------------

runtime::TensorMap map_of(const TmaCopy& copy, const Program& program, const FindBuffer& buffer) {
  runtime::TensorMap map;
  map.type = buffer(copy.source).type;
  map.swizzle = static_cast<int>(buffer(copy.destination).swizzle);
  const auto& arguments = program.arguments;
  const auto argument =
      std::ranges::find(arguments, copy.source, [](const auto& a) { return a.buffer.name; });
  map.argument = static_cast<int>(argument - arguments.begin());
  if (argument == arguments.end()) {
    const auto scratch = std::ranges::find(program.scratch, copy.source, &Buffer::name);
    map.offset =
        scratch_layout(program).offsets[static_cast<size_t>(scratch - program.scratch.begin())];
  }
  for (const schedules::TmaDimension& d : copy.dimensions) {
    if (!map.extents.empty()) map.strides.push_back(d.stride * size_bytes(map.type));
    map.extents.push_back(d.extent);
    map.box.push_back(d.box);
  }
  return map;
}

void find_boxes(const Program& program, const Phase& phase, const FindBuffer& buffer,
                KernelPlan& plan) {
  if (!schedules::has_tma_copies(*phase.body)) return;
  const auto copies = schedules::tma_copies(program, phase);
  TW_CHECK(copies, "a legal program");
  for (const TmaCopy& copy : *copies) {
    if (!plan.is_shared(copy.destination)) continue;
    const runtime::TensorMap map = map_of(copy, program, buffer);
    const auto known = std::ranges::find(plan.maps, map);
    plan.boxes.push_back({copy, static_cast<size_t>(known - plan.maps.begin())});
    if (known == plan.maps.end()) plan.maps.push_back(map);
  }
  if (!plan.boxes.empty()) plan.mbarriers = schedules::tma_barriers(*phase.body);
}

// ---- copies by threads ----------------------------------------------------------------------

/// True if threads make asynchronous copies in the phase, so that commits and waits must order
/// them. TMA copies do not count. Elements of any size count, because even small elements can be
/// copied asynchronously as vectors.
bool has_cp_async(const Phase& phase, const KernelPlan& plan, const DialectRow& dialect,
                  const FindBuffer& buffer) {
  bool found = false;
  std::set<const Assign*> in_boxes;
  schedules::for_each(*phase.body, [&](const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    if (plan.mbarriers > 0 && loop && loop->kind == LoopKind::Bulk)
      schedules::for_each(*loop->body,
                          [&](const Stmt& inner) { in_boxes.insert(inner.as<Assign>()); });
    const Assign* assign = stmt.as<Assign>();
    found |= assign && assign->value.as<dsl::Read>() &&
             is_asynchronous(*assign, 16, plan, dialect, buffer) && !in_boxes.contains(assign);
  });
  return found;
}

// ---- warpgroups -----------------------------------------------------------------------------

/// True for a nest that all threads execute and that consists of warpgroup instructions.
bool is_nest_of_warpgroups(const Loop& loop, const KernelPlan& plan) {
  const schedules::ThreadNest nest = schedules::thread_nest(loop);
  return nest.threads() == plan.threads &&
         std::ranges::all_of(*nest.loops.back()->body, [](const Stmt& s) {
           const Loop* l = s.as<Loop>();
           return l && is_warpgroup_tiles(*l);
         });
}

/// True if the statements access a buffer that is private to a thread.
bool touches_own(const Block& statements, const FindBuffer& buffer) {
  bool found = false;
  schedules::for_each(statements, [&](const Stmt& stmt) {
    schedules::for_each_access(stmt, [&](const schedules::BufferAccess& access) {
      const Scope scope = buffer(access.buffer).scope;
      found |= scope == Scope::Local || scope == Scope::Register;
    });
  });
  return found;
}

}  // namespace

bool KernelPlan::is_shared(const std::string& name) const {
  return std::ranges::any_of(shared,
                             [&](const SharedArray& array) { return array.buffer.name == name; });
}

KernelPlan plan_kernel(const Program& program, const Phase& phase, const DialectRow& dialect,
                       const FindBuffer& buffer) {
  KernelPlan plan;
  plan.threads = schedules::threads_of(*phase.body);
  plan.reduces_in_warps = dialect.has_shuffles && plan.threads >= warp_threads;
  plan.shared = shared_arrays(*phase.body);
  if (dialect.has_tma_copies) find_boxes(program, phase, buffer, plan);
  plan.has_producers = phase.specialised && plan.mbarriers > 0;
  plan.is_persistent = phase.persistent && plan.has_producers;
  place_shared(plan, dialect.most_static_bytes);
  plan.has_cp_async = has_cp_async(phase, plan, dialect, buffer);
  if (dialect.has_tensor_tiles)
    schedules::for_each(*phase.body,
                        [&](const Stmt& stmt) { plan.runs_warpgroups |= is_warpgroup_tile(stmt); });
  return plan;
}

bool is_global(Scope scope) { return scope == Scope::Argument || scope == Scope::Scratch; }

bool is_shared(const Allocate& allocate) {
  return allocate.buffer.scope == Scope::Shared && schedules::has_threads(*allocate.body);
}

bool concerns_all(const Stmt& stmt, const KernelPlan& plan) {
  return schedules::has_threads(Block{stmt}) || orders_threads(stmt) ||
         (plan.reduces_in_warps && schedules::has_reductions(Block{stmt}));
}

bool is_asynchronous(const Assign& assign, int64_t bytes, const KernelPlan& plan,
                     const DialectRow& dialect, const FindBuffer& buffer) {
  const auto* read = assign.value.as<dsl::Read>();
  return assign.asynchronous && dialect.has_asynchronous_copies && bytes >= 4 &&
         plan.is_shared(assign.buffer) && (!read || is_global(buffer(read->tensor).scope));
}

bool is_warpgroup_tile(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  return loop && loop->tile && loop->tile->is_of_warpgroup;
}

bool is_warpgroup_tiles(const Loop& loop) {
  if (loop.tile) return loop.tile->is_of_warpgroup;
  return !loop.body->empty() && std::ranges::all_of(*loop.body, [](const Stmt& s) {
    const Loop* inner = s.as<Loop>();
    return inner && is_warpgroup_tiles(*inner);
  });
}

size_t warpgroups_ahead(const Block& block, size_t i, const KernelPlan& plan,
                        const FindBuffer& buffer) {
  if (!plan.runs_warpgroups) return i;
  for (size_t j = i; j < block.size(); ++j) {
    const Stmt& stmt = block[j];
    const Loop* loop = stmt.as<Loop>();
    if (loop && loop->kind == LoopKind::Thread && is_nest_of_warpgroups(*loop, plan)) {
      const Block before(block.begin() + static_cast<ptrdiff_t>(i),
                         block.begin() + static_cast<ptrdiff_t>(j));
      return touches_own(before, buffer) ? i : j;
    }
    if (!stmt.as<Commit>() && orders_threads(stmt)) return i;
  }
  return i;
}

std::optional<MovedRegisters> moved_registers(int64_t consumer_threads, int64_t resident_blocks) {
  constexpr int64_t step = 8, least = 24, warpgroup = 4 * warp_threads;
  const auto in_steps = [](int64_t registers) { return registers / step * step; };
  const int64_t all_threads = consumer_threads + schedules::producer_threads;
  const int64_t equal = in_steps(cuda_registers / (resident_blocks * all_threads));
  const int64_t kept = in_steps(equal / 4);
  if (consumer_threads % warpgroup != 0 || equal > cuda_registers_per_thread || kept < least)
    return std::nullopt;
  const int64_t given = (equal - kept) * schedules::producer_threads;
  return MovedRegisters{kept, equal + in_steps(given / consumer_threads)};
}

}  // namespace tw::codegen
