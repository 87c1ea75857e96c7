// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/host_emulator.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "codegen/abi.h"
#include "codegen/command.h"
#include "runtime/library.h"
#include "schedules/program/tma_copies.h"

namespace tw::codegen {
namespace {

constexpr int64_t compile_timeout_ns = 300'000'000'000;

using Call = void(void* const* arguments);

/// The source tensor of TMA copies. On the CPU, a kernel's parameter for a tensor map is a pointer
/// to it (MapParameter).
struct EmulatedMap {
  const runtime::TensorMap* map;
  const unsigned char* data;
};
struct MapParameter {
  const EmulatedMap* map;
};

/// Returns the bytes of a box in the order of its destination: swizzled as the map says, with zeros
/// for elements outside of the tensor.
std::vector<unsigned char> box_of(const EmulatedMap& from, const int* first) {
  const runtime::TensorMap& map = *from.map;
  const auto size = static_cast<size_t>(size_bytes(map.type));
  int64_t elements = 1;
  for (const int64_t box : map.box) elements *= box;
  std::vector<unsigned char> bytes(static_cast<size_t>(elements) * size);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i, offset = 0;
    bool exists = true;
    for (size_t d = 0; d < map.box.size(); ++d) {
      const int64_t index = first[d] + rest % map.box[d];
      rest /= map.box[d];
      exists &= index >= 0 && index < map.extents[d];
      offset += index * (d == 0 ? static_cast<int64_t>(size) : map.strides[d - 1]);
    }
    size_t to = static_cast<size_t>(i) * size;
    if (map.swizzle > 0) to ^= ((to >> 7) & (static_cast<size_t>(map.swizzle) / 16 - 1)) << 4;
    if (exists) std::memcpy(&bytes[to], from.data + offset, size);
  }
  return bytes;
}

/// An mbarrier in shared memory. It counts arrivals of threads and bytes of copies. A phase is
/// complete when all expected threads and bytes have arrived. Phases are numbered from 0.
class BoxBarrier {
 public:
  explicit BoxBarrier(int arrivals = 1) : arrivals_(arrivals) {}
  void arrive() { ++arrived_; }
  void expect(int64_t bytes) { expected_ += bytes; }
  void bring(unsigned char* to, std::vector<unsigned char> bytes) {
    expected_ -= static_cast<int64_t>(bytes.size());
    copies_.push_back({to, std::move(bytes)});
  }
  bool has_copies() const { return !copies_.empty(); }

  /// Returns true if the phase of this parity is over. Emulated copies arrive as late as possible:
  /// when a thread waits for them, or when the next phase begins.
  bool is_over(int parity) {
    if (phase_ % 2 == parity) complete();
    return phase_ % 2 != parity;
  }
  /// Ends the phase if all expected threads and bytes have arrived.
  void complete() {
    if (!all_arrived() || expected_ != 0) return;
    for (const Copy& copy : copies_) std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    copies_.clear();
    arrived_ = 0;
    ++phase_;
  }
  bool all_arrived() const { return arrived_ == arrivals_; }

 private:
  struct Copy {
    unsigned char* to;
    std::vector<unsigned char> bytes;
  };
  int arrivals_, arrived_ = 0;
  int64_t expected_ = 0;  ///< bytes expected and not copied yet
  int phase_ = 0;
  std::vector<Copy> copies_;
};

/// The threads of a block as fibers on stacks of their own.
class Block {
 public:
  // Bytes of a fiber's stack. They far exceed the local buffers, which have at most 4 KiB for each
  // of several threads, and max_stack_bytes for a task without threads.
  static size_t stack_bytes_for(int threads) {
    return threads == 1 ? 2 * max_stack_bytes : 64 << 10;
  }

  Block(Call* call, void* const* arguments, int threads, unsigned* thread_number, uint8_t poison)
      : call_(call),
        arguments_(arguments),
        thread_number_(thread_number),
        poison_(poison),
        stack_bytes_(stack_bytes_for(threads)),
        fibers_(static_cast<size_t>(threads)) {
    stacks_ =
        static_cast<char*>(mmap(nullptr, stack_bytes_ * fibers_.size(), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    TW_CHECK(stacks_ != MAP_FAILED, "memory for stacks that are hardly touched");
  }
  Block(const Block&) = delete;
  ~Block() { munmap(stacks_, stack_bytes_ * fibers_.size()); }

  /// Runs the block to its end. Before each round, in which the threads run up to their next
  /// barrier, `order` returns the order in which they run.
  Status run(const std::function<const std::vector<size_t>&()>& order) {
    for (size_t i = 0; i < fibers_.size(); ++i) start(i);
    barriers_.clear();
    fault_.clear();
    running_ = this;
    for (bool all_done = false; !all_done;) {
      for (const size_t thread : order())
        if (fibers_[thread].may_run && fault_.empty()) resume(thread);
      if (!fault_.empty())
        return fail(ErrorCode::Invalid,
                    fmt::format("[host emulator] {}", std::exchange(fault_, {})));
      if (release_boxes()) continue;
      TW_TRY(const bool some_go_on, release_warps());
      if (some_go_on) continue;
      TW_TRY(const bool first_go_on, release_first());
      if (first_go_on) continue;
      TW_RETURN_IF_ERROR(check_boxes());
      TW_RETURN_IF_ERROR(check_arrivals());
      all_done = fibers_[0].line == done;
      for (Fiber& fiber : fibers_) fiber.may_run = true;
    }
    for (const auto& [at, barrier] : barriers_)
      if (barrier.has_copies())
        return fail(ErrorCode::Invalid,
                    "[host emulator] a block ends while boxes are on their way");
    return {};
  }

  /// Implements __syncthreads().
  static void arrive(int line) { wait(line, 0); }
  /// Implements tw_sync(), a barrier of the first `threads` threads of the block.
  static void arrive_among(int line, int threads) {
    running().among = static_cast<size_t>(threads);
    wait(line, 0);
  }
  /// Implements the barriers in instructions of a warp or of a warpgroup.
  static void arrive_in_warp(int line, int threads) { wait(line, static_cast<size_t>(threads)); }
  /// Notes an error of an instruction whose operands are invalid. The first error ends the block.
  static void fault(const char* what) {
    if (running_->fault_.empty()) running_->fault_ = what;
  }

  /// Implements tw_copy_async(). The elements are copied when the thread waits for the commit group
  /// of the copy. Until then the destination holds a pattern.
  static void defer(void* to, const void* value, int bytes) {
    Fiber& fiber = running();
    Copy copy{static_cast<unsigned char*>(to), {}, static_cast<size_t>(bytes), fiber.committed};
    std::memcpy(copy.value, value, copy.bytes);
    std::memset(to, running_->poison_, copy.bytes);
    fiber.copies.push_back(copy);
  }
  /// Implements tw_commit().
  static void commit() { ++running().committed; }
  /// Implements tw_wait().
  static void wait_for(int pending) {
    Fiber& fiber = running();
    std::erase_if(fiber.copies, [&](const Copy& copy) {
      const bool arrives = copy.group < fiber.committed - pending;
      if (arrives) std::memcpy(copy.to, copy.value, copy.bytes);
      return arrives;
    });
  }

  /// Implements tw_open_barriers().
  static void open_barrier(void* at, int arrivals) {
    running_->barriers_[at] = BoxBarrier(arrivals);
  }
  /// Implements tw_copy_box(). As in defer(), the elements are copied later: when the phase of the
  /// mbarrier ends.
  static void begin_box(void* to, const MapParameter* parameter, void* at, int bytes, int rank,
                        const int* first) {
    const EmulatedMap& map = *parameter->map;
    BoxBarrier& barrier = begin_phase(at);
    const int64_t alignment = std::max<int64_t>(schedules::tma_alignment, 8 * map.map->swizzle);
    if (reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(alignment) != 0)
      stop(fmt::format("a box goes to an address that is no multiple of {}", alignment));
    if (static_cast<size_t>(rank) != map.map->box.size())
      stop(fmt::format("a box of {} dimensions is copied by {}", map.map->box.size(), rank));
    std::vector<unsigned char> box = box_of(map, first);
    std::memset(to, running_->poison_, box.size());
    barrier.expect(bytes);
    barrier.bring(static_cast<unsigned char*>(to), std::move(box));
  }
  /// Implements tw_arrive().
  static void arrive_at(void* at) { begin_phase(at).arrive(); }
  /// Implements tw_wait_at().
  static void wait_for_parity(void* at, int parity) {
    Fiber& fiber = running();
    while (!barrier_at(at).is_over(parity)) {
      fiber.box = at;
      fiber.parity = parity;
      pause();
    }
  }

 private:
  static constexpr int done = -1;
  static constexpr size_t warp = 32;
  struct Copy {
    unsigned char* to;
    unsigned char value[16];
    size_t bytes;
    int group;
  };
  struct Fiber {
    ucontext_t context;
    int line = 0;      ///< source line of the barrier where it waits
    size_t meets = 0;  ///< number of threads of that barrier: a warp or warpgroup; 0: all
    bool may_run = true;
    size_t among = 0;     ///< number of threads if it is a barrier of the first threads, else 0
    void* box = nullptr;  ///< mbarrier where it waits for boxes
    int parity = 0;
    std::vector<Copy> copies;  ///< copies in flight
    int committed = 0;         ///< number of commit groups
  };
  static Fiber& running() { return running_->fibers_[running_->current_]; }

  static void wait(int line, size_t meets) {
    Block& block = *running_;
    Fiber& fiber = block.fibers_[block.current_];
    fiber.line = line;
    fiber.meets = meets;
    swapcontext(&fiber.context, &block.scheduler_);
  }
  static void pause() { swapcontext(&running().context, &running_->scheduler_); }
  /// Ends the block with an error.
  static void stop(const std::string& why) {
    running_->fault_ = why;
    for (;;) pause();
  }

  static BoxBarrier& barrier_at(void* at) {
    const auto found = running_->barriers_.find(at);
    if (found == running_->barriers_.end()) stop("a barrier of boxes is used before it is opened");
    return found->second;
  }
  /// Returns the mbarrier for an arrival or a copy. An mbarrier has one phase at a time, so this
  /// ends the block with an error if all threads have arrived in the phase but the bytes of its
  /// boxes have not.
  static BoxBarrier& begin_phase(void* at) {
    BoxBarrier& barrier = barrier_at(at);
    barrier.complete();
    if (barrier.all_arrived()) stop("a barrier is used again before its boxes have arrived");
    return barrier;
  }

  /// Marks the threads whose boxes have arrived as able to run. Returns true if there are any.
  bool release_boxes() {
    bool any = false;
    for (Fiber& fiber : fibers_) {
      if (fiber.box == nullptr || !barriers_[fiber.box].is_over(fiber.parity)) continue;
      fiber.box = nullptr;
      fiber.may_run = any = true;
    }
    return any;
  }

  Status check_boxes() const {
    for (size_t thread = 0; thread < fibers_.size(); ++thread)
      if (fibers_[thread].box != nullptr)
        return fail(
            ErrorCode::Invalid,
            fmt::format("[host emulator] thread {} waits for boxes that never arrive", thread));
    return {};
  }

  static void enter() {
    Block& block = *running_;
    block.call_(block.arguments_);
    block.fibers_[block.current_].line = done;
    block.fibers_[block.current_].meets = 0;
    // Returns to the scheduler, by uc_link.
  }

  void start(size_t thread) {
    fibers_[thread].copies.clear();
    fibers_[thread].box = nullptr;
    fibers_[thread].among = 0;
    fibers_[thread].committed = 0;
    ucontext_t& context = fibers_[thread].context;
    fibers_[thread].may_run = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks_ + thread * stack_bytes_;
    context.uc_stack.ss_size = stack_bytes_;
    context.uc_link = &scheduler_;
    makecontext(&context, &Block::enter, 0);
  }

  void resume(size_t thread) {
    current_ = thread;
    fibers_[thread].may_run = false;
    *thread_number_ = static_cast<unsigned>(thread);
    swapcontext(&scheduler_, &fibers_[thread].context);
  }

  /// Marks the warps and warpgroups whose lanes have all reached the same instruction as able to
  /// run, and returns true if there are any. Fails with Invalid if only some lanes have reached an
  /// instruction.
  Result<bool> release_warps() {
    bool any = false;
    for (size_t thread = 0; thread < fibers_.size(); ++thread) {
      const size_t meets = fibers_[thread].meets;
      if (meets == 0) continue;
      const size_t first = thread / meets * meets, end = std::min(first + meets, fibers_.size());
      const bool all_meet =
          end - first == meets &&
          std::all_of(fibers_.begin() + static_cast<ptrdiff_t>(first),
                      fibers_.begin() + static_cast<ptrdiff_t>(end), [&](const Fiber& fiber) {
                        return fiber.meets == meets && fiber.line == fibers_[thread].line;
                      });
      if (!all_meet)
        return fail(
            ErrorCode::Invalid,
            fmt::format("[host emulator] an instruction of a {} that not all lanes of threads "
                        "{} to {} reach",
                        meets == warp ? "warp" : "warpgroup", first, first + meets - 1));
      for (size_t other = first; other < end; ++other) {
        fibers_[other].may_run = true;
        fibers_[other].meets = 0;
      }
      any = true;
    }
    return any;
  }

  /// Marks the first threads of the block as able to run if all of them have reached their barrier
  /// (tw_sync()). Returns false if no thread waits at such a barrier. Fails with Invalid if only
  /// some of these threads have reached it.
  Result<bool> release_first() {
    const size_t among = fibers_[0].among;
    if (std::any_of(fibers_.begin() + static_cast<ptrdiff_t>(among), fibers_.end(),
                    [](const Fiber& fiber) { return fiber.among > 0; }) ||
        std::any_of(fibers_.begin(), fibers_.begin() + static_cast<ptrdiff_t>(among),
                    [&](const Fiber& fiber) {
                      return fiber.among != among || fiber.line != fibers_[0].line;
                    }))
      return fail(ErrorCode::Invalid,
                  "[host emulator] the first threads of a block part at a barrier of theirs");
    for (size_t thread = 0; thread < among; ++thread) {
      fibers_[thread].among = 0;
      fibers_[thread].may_run = true;
    }
    return among > 0;
  }

  Status check_arrivals() const {
    for (size_t thread = 1; thread < fibers_.size(); ++thread)
      if (fibers_[thread].line != fibers_[0].line)
        return fail(
            ErrorCode::Invalid,
            fmt::format("[host emulator] threads part at a barrier: thread 0 {}, thread {} {}",
                        whereabouts(fibers_[0]), thread, whereabouts(fibers_[thread])));
    return {};
  }
  static std::string whereabouts(const Fiber& fiber) {
    return fiber.line == done ? "has ended" : fmt::format("waits in line {}", fiber.line);
  }

  static thread_local Block* running_;
  Call* const call_;
  void* const* const arguments_;
  unsigned* const thread_number_;
  const uint8_t poison_;
  const size_t stack_bytes_;
  std::vector<Fiber> fibers_;
  char* stacks_ = nullptr;
  ucontext_t scheduler_;
  size_t current_ = 0;
  std::string fault_;
  std::map<void*, BoxBarrier> barriers_;  ///< by address
};

thread_local Block* Block::running_ = nullptr;

/// The numbers 0 to n - 1 in the order that the options say.
class Order {
 public:
  Order(size_t n, const EmulatorOptions& options)
      : options_(options), random_(options.seed), all_(n) {
    std::iota(all_.begin(), all_.end(), size_t{0});
    if (options.order == ThreadOrder::Backward) std::reverse(all_.begin(), all_.end());
  }
  const std::vector<size_t>& next() {
    if (options_.order == ThreadOrder::Shuffled) random_.shuffle(all_);
    return all_;
  }

 private:
  const EmulatorOptions& options_;
  Random random_;
  std::vector<size_t> all_;
};

/// Shared memory that a launch asks for, and canaries after it.
class DynamicShared {
 public:
  explicit DynamicShared(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), memory_(bytes_ / sizeof(Line) + 2) {}

  unsigned char* data() { return memory_.front().bytes; }
  void fill(uint8_t poison) {
    std::memset(data(), poison, bytes_);
    std::memset(data() + bytes_, canary, canaries);
  }
  bool is_intact() {
    return std::all_of(data() + bytes_, data() + bytes_ + canaries,
                       [](unsigned char byte) { return byte == canary; });
  }

 private:
  static constexpr unsigned char canary = 0x5c;
  static constexpr size_t canaries = 64;
  struct alignas(1024) Line {  // swizzles depend on the bits of addresses
    unsigned char bytes[1024];
  };
  size_t bytes_;
  std::vector<Line> memory_;
};

}  // namespace

struct HostEmulator::Module {
  runtime::Library library;

  template <typename T>
  Result<T*> find(const std::string& name) const {
    TW_TRY(void* address, library.symbol(name));
    return reinterpret_cast<T*>(address);
  }
};

Result<HostEmulator> HostEmulator::compile(const std::string& text,
                                           const std::vector<std::string>& kernels) {
  std::string source(host_emulator_prelude());
  source += "#line 1 \"kernels.cu\"\n" + text;
  for (const std::string& kernel : kernels)
    source += fmt::format(
        "extern \"C\" void tw_call_{0}(void* const* arguments) {{ tw_call({0}, arguments); }}\n",
        kernel);
  TW_TRY(const MemoryFile input, MemoryFile::create("emulator", source));
  TW_TRY(const MemoryFile output, MemoryFile::create("shared"));
  // -fno-strict-aliasing, since kernels access elements as vectors.
  TW_TRY(const std::string said,
         run_command({"c++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing",
                      "-ffp-contract=off", "-fsanitize=alignment,bounds,signed-integer-overflow",
                      "-fno-sanitize-recover=all", "-x", "c++", input.path(), "-o", output.path()},
                     compile_timeout_ns));
  TW_TRY(const std::string shared, output.content());
  TW_TRY(runtime::Library library, runtime::Library::load(shared));
  return HostEmulator(std::make_shared<const Module>(Module{std::move(library)}));
}

Status HostEmulator::launch(const GpuKernel& kernel, const std::vector<void*>& arguments,
                            const EmulatorOptions& options) const {
  struct Index {
    unsigned x;
  };
  TW_TRY(Call* const call, module_->find<Call>("tw_call_" + kernel.name));
  TW_TRY(Index* const block_index, module_->find<Index>("blockIdx"));
  TW_TRY(Index* const thread_index, module_->find<Index>("threadIdx"));
  TW_TRY(Index* const grid, module_->find<Index>("gridDim"));
  TW_TRY(auto* const barrier, module_->find<void (*)(int)>("tw_barrier"));
  TW_TRY(auto* const warp_barrier, module_->find<void (*)(int, int)>("tw_warp_barrier"));
  TW_TRY(auto* const fault, module_->find<void (*)(const char*)>("tw_fail"));
  TW_TRY(auto* const begin_block, module_->find<void()>("tw_begin_block"));
  TW_TRY(auto* const dynamic_bytes, module_->find<int64_t>("tw_dynamic_bytes"));
  TW_TRY(auto* const defer, module_->find<void (*)(void*, const void*, int)>("tw_defer"));
  TW_TRY(auto* const commit, module_->find<void (*)()>("tw_commit"));
  TW_TRY(auto* const wait_for, module_->find<void (*)(int)>("tw_wait_for"));
  TW_TRY(auto* const open_barrier, module_->find<void (*)(void*, int)>("tw_open_barrier"));
  TW_TRY(auto* const barrier_of, module_->find<void (*)(int, int)>("tw_barrier_of"));
  TW_TRY(auto* const begin_box,
         module_->find<void (*)(void*, const MapParameter*, void*, int, int, const int*)>(
             "tw_begin_box"));
  TW_TRY(auto* const arrive_at, module_->find<void (*)(void*)>("tw_arrive_at"));
  TW_TRY(auto* const wait_for_parity, module_->find<void (*)(void*, int)>("tw_wait_for_parity"));
  TW_TRY(auto* const dynamic, module_->find<unsigned char*>("tw_shared"));
  TW_TRY(auto* const begin, module_->find<unsigned char*()>("tw_shared_begin"));
  TW_TRY(auto* const end, module_->find<unsigned char*()>("tw_shared_end"));

  DynamicShared shared(kernel.dynamic_shared_bytes);
  *dynamic = shared.data();
  *barrier = Block::arrive;
  *dynamic_bytes = kernel.dynamic_shared_bytes;
  *warp_barrier = Block::arrive_in_warp;
  *fault = Block::fault;
  *defer = Block::defer;
  *commit = Block::commit;
  *wait_for = Block::wait_for;
  *open_barrier = Block::open_barrier;
  *barrier_of = Block::arrive_among;
  *begin_box = Block::begin_box;
  *arrive_at = Block::arrive_at;
  *wait_for_parity = Block::wait_for_parity;
  std::vector<EmulatedMap> maps;
  for (const runtime::TensorMap& map : kernel.maps) {
    TW_RETURN_IF_ERROR(runtime::check_tensor_map(map));
    maps.push_back(
        {&map, static_cast<const unsigned char*>(arguments[static_cast<size_t>(map.argument)]) +
                   map.offset});
    if (reinterpret_cast<uintptr_t>(maps.back().data) % 16 != 0)
      return fail(ErrorCode::Invalid, "[host emulator] a tensor map of memory that is not aligned");
  }
  std::vector<void*> parameters = arguments;
  for (EmulatedMap& map : maps) parameters.push_back(&map);
  Block block(call, parameters.data(), kernel.threads, &thread_index->x, options.poison);
  const int64_t launched =
      kernel.persistent ? std::min(kernel.blocks, options.persistent_blocks) : kernel.blocks;
  grid->x = static_cast<unsigned>(launched);
  Order blocks(static_cast<size_t>(launched), options);
  Order threads(static_cast<size_t>(kernel.threads), options);
  for (const size_t number : blocks.next()) {
    begin_block();
    std::fill(begin(), end(), options.poison);
    shared.fill(options.poison);
    block_index->x = static_cast<unsigned>(number);
    TW_RETURN_IF_ERROR(block.run([&]() -> const auto& { return threads.next(); }));
    if (!shared.is_intact())
      return fail(ErrorCode::Invalid,
                  fmt::format("[host emulator] {} writes past its {} bytes of shared memory",
                              kernel.name, kernel.dynamic_shared_bytes));
  }
  return {};
}

}  // namespace tw::codegen
