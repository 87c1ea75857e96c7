// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/integer.h"
#include "base/isa.h"

namespace tw::runtime {
namespace {

using KernelFunction = int32_t (*)(void* const* buffers, void* scratch, int32_t task);

struct Phase {
  std::string symbol;
  int64_t tasks = 0;
  KernelFunction function = nullptr;
};

struct TaskContext {
  KernelFunction function;
  void* const* buffers;
  void* scratch;
};

int32_t run_task(void* context, int32_t task) noexcept {
  const auto& [function, buffers, scratch] = *static_cast<const TaskContext*>(context);
  return function(buffers, scratch, task);
}

tl::unexpected<Error> failed_phase(const std::string& symbol, int32_t code) {
  return fail(ErrorCode::Internal, fmt::format("[kernel] phase '{}' failed with {}: expected 0; "
                                               "compile the kernel again and report this",
                                               symbol, code));
}

Status run_phases(const std::vector<Phase>& phases, void* const* buffers, void* scratch,
                  ThreadPool& pool, int threads) {
  for (const Phase& phase : phases) {
    TaskContext context{phase.function, buffers, scratch};
    // With at most one task for each thread, a static distribution is enough. With more tasks, a
    // dynamic distribution gives fewer tasks to cores that other programs use.
    const int limit = threads > 0 ? std::min(threads, pool.threads()) : pool.threads();
    const auto distribution = phase.tasks <= limit ? Distribution::Static : Distribution::Dynamic;
    const int32_t code = pool.parallel_for(phase.tasks, &run_task, &context, threads, distribution);
    if (code != 0) return failed_phase(phase.symbol, code);
  }
  return {};
}

Result<std::vector<Phase>> bind_phases(const Library& library,
                                       const std::vector<PhaseInfo>& infos) {
  std::vector<Phase> phases;
  for (const PhaseInfo& info : infos) {
    TW_TRY(void* const address, library.symbol(info.symbol));
    phases.push_back({info.symbol, info.tasks, reinterpret_cast<KernelFunction>(address)});
  }
  return phases;
}

/// Asks the system for permission to use the tile registers of AMX, if the target has them. Other
/// instructions need no permission.
Status request_registers(const std::string& target) {
  if (target.find("amx_tile") == std::string::npos) return {};
  const Status allowed = request_tile_registers();
  if (allowed) return {};
  return fail(allowed.error().code,
              fmt::format("{}; compile for a target without amx_tile", allowed.error().message));
}

bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

Status run_phases_backwards(const std::vector<Phase>& phases, void* const* buffers, void* scratch) {
  for (const Phase& phase : phases)
    for (int64_t task = phase.tasks - 1; task >= 0; --task)
      if (const int32_t code = phase.function(buffers, scratch, static_cast<int32_t>(task));
          code != 0)
        return failed_phase(phase.symbol, code);
  return {};
}

Status check_pointer(const ArgumentInfo& argument, const void* data) {
  const auto bytes = static_cast<uint64_t>(storage_bytes(argument));
  if (data == nullptr && bytes > 0)
    return wrong_argument(argument, fmt::format("null given, expected {} bytes", bytes));
  if (is_aligned(data, size_bytes(argument.dtype))) return {};
  return wrong_argument(argument, fmt::format("misaligned pointer given, expected a multiple of {}",
                                              size_bytes(argument.dtype)));
}

Status check_storage(const std::vector<ArgumentInfo>& arguments, std::span<void* const> buffers) {
  TW_RETURN_IF_ERROR(check_count(arguments, buffers.size()));
  std::vector<ByteRange> ranges;
  ranges.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ArgumentInfo& argument = arguments[i];
    if (argument.only_prepares) {
      ranges.push_back({});
      continue;
    }
    TW_RETURN_IF_ERROR(check_pointer(argument, buffers[i]));
    const auto bytes = static_cast<uint64_t>(storage_bytes(argument));
    const uint64_t begin = reinterpret_cast<uintptr_t>(buffers[i]);
    ranges.push_back(bytes == 0 ? ByteRange{} : ByteRange{begin, begin + bytes});
  }
  return check_overlaps(arguments, ranges);
}

// Computes the offsets of blocks in an arena, before the arena is allocated.
class Blocks {
 public:
  /// Adds a block of `bytes` bytes and returns its offset; nullopt if the sum of all blocks does
  /// not fit 64 bits.
  std::optional<int64_t> add(int64_t bytes) {
    const int64_t offset = total_;
    const auto end = checked_add(total_, bytes);
    const auto padded = end ? checked_add(*end, arena_alignment - 1) : std::nullopt;
    if (!padded) return std::nullopt;
    total_ = *padded / arena_alignment * arena_alignment;
    return offset;
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

// The memory of one argument of a call: the caller's array if the kernel can use it as it is, else
// a copy in the arena.
struct Placement {
  StridedView view;
  // Offset of a contiguous copy of the logical array; nullopt: not copied.
  std::optional<int64_t> copied;
  std::optional<int64_t> packed;  // offset of the array in storage layout; nullopt: not packed
  char* logical = nullptr;
  char* storage = nullptr;
};

// Checks that the artifact has the code that converts to the layout of the argument. An artifact
// that was made only to be measured lacks this code.
Status check_convertible(const ArgumentInfo& argument) {
  if (argument.layout.empty() || !argument.pack.empty()) return {};
  return fail(
      ErrorCode::Unsupported,
      fmt::format("[kernel] {} '{}' is stored as '{}' and the artifact has no code to convert "
                  "it: compile it with packs, or use run() on arrays in storage layout",
                  argument.is_output ? "output" : "input", argument.name, argument.layout));
}

Result<Placement> place(const ArgumentInfo& argument, StridedView view, Blocks& plan) {
  TW_RETURN_IF_ERROR(check_convertible(argument));
  Placement placement;
  const bool direct = is_contiguous(view) && is_aligned(view.data, view.element_bytes);
  placement.view = std::move(view);
  if (!direct) placement.copied = plan.add(logical_bytes(argument));
  if (!argument.pack.empty()) placement.packed = plan.add(storage_bytes(argument));
  if ((!direct && !placement.copied) || (!argument.pack.empty() && !placement.packed))
    return wrong_argument(argument, "the working memory of the call does not fit 64 bits");
  return placement;
}

/// Adds the buffers of the preparation to the plan and returns their offsets.
Result<std::vector<int64_t>> place_prepared(const KernelInfo& info, Blocks& plan) {
  std::vector<int64_t> offsets;
  if (!info.preparation) return offsets;
  for (const ArgumentInfo& buffer : info.preparation->buffers) {
    const auto offset = plan.add(storage_bytes(buffer));
    if (!offset)
      return wrong_argument(buffer, "the working memory of the call does not fit 64 bits");
    offsets.push_back(*offset);
  }
  return offsets;
}

void resolve(Placement& placement, char* arena) {
  placement.logical = placement.copied ? arena + *placement.copied : placement.view.data;
  placement.storage = placement.packed ? arena + *placement.packed : placement.logical;
}

}  // namespace

struct Kernel::State {
  KernelInfo info;
  std::vector<ArgumentInfo> buffers;  ///< call_buffers()
  Library library;
  std::vector<Phase> phases;
  std::map<std::string, std::vector<Phase>> packs;
  std::vector<Phase> preparation;
  std::shared_ptr<ArenaCache> arenas;

  /// Returns those pointers of a call that the functions of the preparation get, after checking
  /// them.
  Result<std::vector<void*>> of_preparation(std::span<void* const> given) const {
    TW_RETURN_IF_ERROR(check_count(buffers, given.size()));
    std::vector<void*> pointers;
    const auto take = [&](size_t i) -> Status {
      pointers.push_back(given[i]);
      return check_pointer(buffers[i], given[i]);
    };
    for (const int input : info.preparation->inputs)
      TW_RETURN_IF_ERROR(take(static_cast<size_t>(input)));
    for (size_t i = info.arguments.size(); i < buffers.size(); ++i) TW_RETURN_IF_ERROR(take(i));
    return pointers;
  }

  Status convert(int argument, const void* from, void* to, ThreadPool& pool, int threads) const {
    const ArgumentInfo& about = info.arguments[static_cast<size_t>(argument)];
    TW_RETURN_IF_ERROR(check_convertible(about));
    if (about.pack.empty()) {
      std::memcpy(to, from, static_cast<size_t>(storage_bytes(about)));
      return {};
    }
    void* const buffers[] = {const_cast<void*>(from), to};
    return run_phases(packs.at(about.pack), buffers, nullptr, pool, threads);
  }
};

Result<Kernel> Kernel::load(Artifact artifact, const KernelOptions& options) {
  TW_RETURN_IF_ERROR(check_info(artifact.info));
  TW_RETURN_IF_ERROR(check_target(artifact.info.target, options.machine));
  TW_RETURN_IF_ERROR(request_registers(artifact.info.target));
  TW_TRY(Library library, Library::load(artifact.object, options.library));
  TW_TRY(std::vector<Phase> phases, bind_phases(library, artifact.info.phases));
  std::map<std::string, std::vector<Phase>> packs;
  for (const auto& [name, infos] : artifact.info.packs) {
    TW_TRY(packs[name], bind_phases(library, infos));
  }
  std::vector<Phase> preparation;
  if (artifact.info.preparation) {
    TW_TRY(preparation, bind_phases(library, artifact.info.preparation->phases));
  }
  std::vector<ArgumentInfo> buffers = call_buffers(artifact.info);
  auto arenas = options.arenas ? options.arenas : std::make_shared<ArenaCache>();
  return Kernel(std::make_shared<const State>(
      State{std::move(artifact.info), std::move(buffers), std::move(library), std::move(phases),
            std::move(packs), std::move(preparation), std::move(arenas)}));
}

const KernelInfo& Kernel::info() const { return state_->info; }

Status Kernel::run(std::span<void* const> buffers, ThreadPool& pool, int threads) const {
  if (state_->info.scratch_bytes == 0) return run_on(buffers, nullptr, pool, threads);
  TW_TRY(auto arena, state_->arenas->take(state_->info.scratch_bytes));
  const BorrowedArena scratch(*state_->arenas, std::move(arena));
  return run_on(buffers, scratch.data(), pool, threads);
}

Status Kernel::run_on(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                      int threads) const {
  TW_RETURN_IF_ERROR(check_storage(state_->buffers, buffers));
  return run_phases(state_->phases, buffers.data(), scratch, pool, threads);
}

Status Kernel::run_unchecked(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                             int threads) const {
  return run_phases(state_->phases, buffers.data(), scratch, pool, threads);
}

Status Kernel::run_backwards(std::span<void* const> buffers, void* scratch) const {
  TW_RETURN_IF_ERROR(check_storage(state_->buffers, buffers));
  return run_phases_backwards(state_->phases, buffers.data(), scratch);
}

Status Kernel::prepare(std::span<void* const> buffers, ThreadPool& pool, int threads) const {
  if (!state_->info.preparation) return {};
  TW_TRY(const std::vector<void*> pointers, state_->of_preparation(buffers));
  TW_TRY(auto arena, state_->arenas->take(state_->info.preparation->scratch_bytes));
  const BorrowedArena scratch(*state_->arenas, std::move(arena));
  return run_phases(state_->preparation, pointers.data(), scratch.data(), pool, threads);
}

Status Kernel::prepare_backwards(std::span<void* const> buffers) const {
  if (!state_->info.preparation) return {};
  TW_TRY(const std::vector<void*> pointers, state_->of_preparation(buffers));
  TW_TRY(auto arena, state_->arenas->take(state_->info.preparation->scratch_bytes));
  const BorrowedArena scratch(*state_->arenas, std::move(arena));
  return run_phases_backwards(state_->preparation, pointers.data(), scratch.data());
}

Status Kernel::pack(int argument, const void* logical, void* storage, ThreadPool& pool,
                    int threads) const {
  return state_->convert(argument, logical, storage, pool, threads);
}

Status Kernel::unpack(int argument, const void* storage, void* logical, ThreadPool& pool,
                      int threads) const {
  return state_->convert(argument, storage, logical, pool, threads);
}

Status Kernel::call(std::span<const Buffer> buffers, ThreadPool& pool, int threads) const {
  const KernelInfo& info = state_->info;
  TW_TRY(std::vector<StridedView> views, views_of(info.arguments, buffers));
  Blocks plan;
  if (!plan.add(info.scratch_bytes))
    return fail(ErrorCode::Environment, "[kernel] out of memory: the scratch does not fit 64 bits");
  std::vector<Placement> placements;
  for (size_t i = 0; i < views.size(); ++i) {
    TW_TRY(Placement placement, place(info.arguments[i], std::move(views[i]), plan));
    placements.push_back(std::move(placement));
  }
  TW_TRY(const std::vector<int64_t> prepared, place_prepared(info, plan));
  TW_TRY(auto arena, state_->arenas->take(plan.total()));
  const BorrowedArena memory(*state_->arenas, std::move(arena));
  std::vector<void*> storages;
  for (size_t i = 0; i < placements.size(); ++i) {
    Placement& at = placements[i];
    resolve(at, memory.data());
    storages.push_back(at.storage);
    if (info.arguments[i].is_output) continue;
    if (at.copied) gather(at.view, at.logical);
    if (at.packed)
      TW_RETURN_IF_ERROR(pack(static_cast<int>(i), at.logical, at.storage, pool, threads));
  }
  for (const int64_t offset : prepared) storages.push_back(memory.data() + offset);
  TW_RETURN_IF_ERROR(prepare(storages, pool, threads));
  void* const scratch = info.scratch_bytes > 0 ? memory.data() : nullptr;
  TW_RETURN_IF_ERROR(run_phases(state_->phases, storages.data(), scratch, pool, threads));
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement& at = placements[i];
    if (!info.arguments[i].is_output) continue;
    if (at.packed)
      TW_RETURN_IF_ERROR(unpack(static_cast<int>(i), at.storage, at.logical, pool, threads));
    if (at.copied) scatter(at.logical, at.view);
  }
  return {};
}

}  // namespace tw::runtime
