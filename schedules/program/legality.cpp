// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/legality.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/integer.h"
#include "schedules/program/bounds.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"
#include "schedules/program/global_names.h"
#include "schedules/program/specialised.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/program/threads.h"
#include "schedules/program/tma_copies.h"

namespace tw::schedules {
namespace {

tl::unexpected<Error> illegal(const std::string& why, const Stmt& stmt) {
  return fail(ErrorCode::Invalid, fmt::format("[legality] {}\n{}", why, to_string(Block{stmt}, 1)));
}

class AccessChecker {
 public:
  explicit AccessChecker(const Program& program) : buffers_(global_buffers(program)) {}

  Status check_phase(const Phase& phase) {
    const auto mark = bounds_.mark();
    push_axes(phase, bounds_);
    Status status = check(*phase.body);
    bounds_.restore(mark);
    return status;
  }

 private:
  Status check(const Block& body) {
    for (const Stmt& stmt : body) TW_RETURN_IF_ERROR(check(stmt));
    return {};
  }

  Status check(const Stmt& stmt) {
    const auto mark = bounds_.mark();
    const Status status = schedules::visit(
        stmt, [&](const Loop& loop) { return check_loop(loop, stmt); },
        [&](const If& branch) -> Status {
          TW_RETURN_IF_ERROR(check_reads(branch.condition, stmt));
          bounds_.push_condition(branch.condition);
          return check(*branch.body);
        },
        [&](const Assign& assign) { return check_assign(assign, stmt); },
        [&](const Allocate& allocate) {
          buffers_[allocate.buffer.name] = &allocate.buffer;
          return check(*allocate.body);
        },
        [&](const PrefetchLines& prefetch) { return check_prefetch(prefetch, stmt); },
        always<Barrier, Commit, Wait>(Status{}));
    bounds_.restore(mark);
    return status;
  }

  Status check_assign(const Assign& assign, const Stmt& stmt) {
    TW_RETURN_IF_ERROR(check_access(assign.buffer, assign.indices, assign.value.type(), stmt));
    for (const Expr& index : assign.indices) TW_RETURN_IF_ERROR(check_reads(index, stmt));
    if (assign.guard) {
      TW_RETURN_IF_ERROR(check_guard(assign, stmt));
      bounds_.push_condition(assign.guard->condition);
    }
    TW_RETURN_IF_ERROR(check_reads(assign.value, stmt));
    return assign.asynchronous ? check_asynchronous(assign, stmt) : Status{};
  }

  Status check_guard(const Assign& assign, const Stmt& stmt) {
    const Guard& guard = *assign.guard;
    if (assign.combine != Combine::None)
      return illegal("a guarded value is stored, and not combined", stmt);
    if (!guard.otherwise.as<dsl::Const>() || guard.otherwise.type() != assign.value.type())
      return illegal(fmt::format("what is stored otherwise is a literal of {}",
                                 tw::to_string(assign.value.type())),
                     stmt);
    return check_reads(guard.condition, stmt);
  }

  Status check_loop(const Loop& loop, const Stmt& stmt) {
    if (loop.kind != LoopKind::Serial && (!dsl::as_int(loop.begin) || !dsl::as_int(loop.end)))
      return illegal("an unrolled or vector loop needs literal bounds", stmt);
    const auto dot = dot_product(loop);
    if (loop.kind == LoopKind::Vector && !dot) TW_RETURN_IF_ERROR(check_lanes(loop, stmt));
    if (loop.pipeline) TW_RETURN_IF_ERROR(check_pipeline(loop, stmt));
    TW_RETURN_IF_ERROR(check_reads(loop.begin, stmt));
    TW_RETURN_IF_ERROR(check_reads(loop.end, stmt));
    if (!bounds_.push_loop(loop.variable, loop.begin, loop.end).fits_int32())
      return illegal("a loop has to count in 32 bits", stmt);
    if (!dot) return check(*loop.body);
    bounds_.push_loop(dot->depth->variable, dot->depth->begin, dot->depth->end);
    return check(*dot->depth->body);
  }

  /// Checks that a vector loop is innermost, and that its lanes do not add to one element.
  static Status check_lanes(const Loop& loop, const Stmt& stmt) {
    bool nested = false, shares = false;
    for_each(*loop.body, [&](const Stmt& inner) {
      const Assign* assign = inner.as<Assign>();
      nested |= !assign && !inner.as<If>();
      if (!assign || assign->combine == dsl::Combine::None) return;
      shares |= std::none_of(assign->indices.begin(), assign->indices.end(),
                             [&](const Expr& e) { return dsl::uses_var(e, loop.variable); });
    });
    if (nested)
      return illegal("a vector loop must be the innermost loop, or one of a dot product", stmt);
    if (shares) return illegal("lanes of a vector that is no dot product add to one element", stmt);
    return {};
  }

  /// Checks that the iterations of a pipelined loop begin with a wait and a barrier, and that the
  /// loop has enough slots. Code generators rely on the number of slots and of commit groups in
  /// flight that LoopPipeline states.
  static Status check_pipeline(const Loop& loop, const Stmt& stmt) {
    const Block& body = *loop.body;
    const auto end = dsl::as_int(loop.end);
    if (loop.kind != LoopKind::Serial || !dsl::is_int(loop.begin, 0) || !end)
      return illegal("a pipeline is a serial loop with literal bounds, from 0", stmt);
    const auto [ahead, slots] = *loop.pipeline;
    const Wait* wait = body.empty() ? nullptr : body[0].as<Wait>();
    if (!wait || wait->pending != ahead - 1 || body.size() < 2 || !body[1].as<Barrier>())
      return illegal(
          fmt::format(
              "an iteration of a pipeline that is {} ahead begins by `wait {}` and a barrier",
              ahead, ahead - 1),
          stmt);
    if (slots >= std::min(ahead + 1, *end)) return {};
    return illegal(
        fmt::format("a pipeline that is {} ahead needs a slot more, not {}", ahead, slots), stmt);
  }

  Status check_prefetch(const PrefetchLines& prefetch, const Stmt& stmt) {
    TW_RETURN_IF_ERROR(check_reads(prefetch.offset, stmt));
    const auto found = buffers_.find(prefetch.buffer);
    if (found == buffers_.end() || found->second->scope != Scope::Argument)
      return illegal(fmt::format("there is no argument '{}'", prefetch.buffer), stmt);
    const Buffer& buffer = *found->second;
    const int64_t line = prefetched_line_bytes / size_bytes(buffer.type);
    if (bounds_.proves_inside(prefetch.offset, buffer.elements() - (prefetch.lines - 1) * line))
      return {};
    return illegal("a line that is prefetched is not proved to begin inside of its buffer", stmt);
  }

  Status check_asynchronous(const Assign& assign, const Stmt& stmt) const {
    const bool is_copy = assign.value.as<dsl::Read>() || assign.value.as<dsl::Const>();
    if (buffers_.at(assign.buffer)->scope == Scope::Shared && is_copy &&
        assign.combine == Combine::None)
      return {};
    return illegal("what is asynchronous is a copy into a shared buffer", stmt);
  }

  /// Checks the reads of an expression. The right side of `a && b` is evaluated only where `a`
  /// holds: `i < 7 && p[i] < 3` reads no p[7].
  Status check_reads(const Expr& expr, const Stmt& stmt) {
    if (const auto* both = expr.as<dsl::Binary>(); both && both->op == dsl::BinaryOp::And) {
      TW_RETURN_IF_ERROR(check_reads(both->a, stmt));
      const auto mark = bounds_.mark();
      bounds_.push_condition(both->a);
      const Status right = check_reads(both->b, stmt);
      bounds_.restore(mark);
      return right;
    }
    Status status;
    dsl::for_each(expr, [&](const Expr& e) {
      const dsl::Read* r = e.as<dsl::Read>();
      if (r && status) status = check_access(r->tensor, r->indices, r->type, stmt);
    });
    return status;
  }

  Status check_access(const std::string& name, const std::vector<Expr>& indices, DType type,
                      const Stmt& stmt) {
    const auto found = buffers_.find(name);
    if (found == buffers_.end()) return illegal(fmt::format("there is no buffer '{}'", name), stmt);
    const Buffer* buffer = found->second;
    if (type != buffer->type)
      return illegal(fmt::format("'{}' holds {}, not {}", name, tw::to_string(buffer->type),
                                 tw::to_string(type)),
                     stmt);
    if (indices.size() != buffer->extents.size())
      return illegal(fmt::format("'{}' has {} dimensions, not {}", name, buffer->extents.size(),
                                 indices.size()),
                     stmt);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (bounds_.proves_inside(indices[d], buffer->extents[d])) continue;
      return illegal(
          fmt::format("index {} of '{}', {}, is not proved inside 0..{} ({})", d, name,
                      dsl::to_string(indices[d]), buffer->extents[d], what_is_known(indices[d])),
          stmt);
    }
    return {};
  }

  std::string what_is_known(const Expr& index) const {
    bool is_data = false;
    dsl::for_each(index, [&](const Expr& e) { is_data |= e.as<dsl::Read>() != nullptr; });
    if (is_data)
      return "data needs bounds to be an index: clamp the whole index, or guard the read with "
             "select()";
    const auto low = bounds_.lower(index), high = bounds_.upper(index);
    if (!low && !high) return "nothing is known of it; indices are sums of axes times literals";
    return fmt::format("it may be {}..{}; the end of a range is not in it",
                       low ? std::to_string(*low) : "?", high ? std::to_string(*high + 1) : "?");
  }

  Bounds bounds_;
  BuffersByName buffers_;  // all buffers of the program
};

}  // namespace

int gpu_architecture(const Target& target) {
  return target.machine.gpu ? target.machine.gpu->architecture : 0;
}

bool copies_asynchronously(const Target& target) {
  return target.machine.gpu && target.machine.gpu->has_asynchronous_copies();
}

Limits limits_of(const Target& target) {
  Limits limits;
  if (!target.is_gpu()) return limits;
  limits.is_gpu = true;
  limits.gpu_architecture = gpu_architecture(target);
  limits.architecture_specific = target.gpu.ends_with('a');
  limits.threads = target.machine.gpu->block_threads;
  limits.resident_threads = target.machine.gpu->resident_threads;
  limits.shared_bytes = target.machine.gpu->block_shared_bytes;
  return limits;
}

Limits limits_searched(const Target& target) {
  Limits limits = limits_of(target);
  limits.unrolled_statements =
      target.is_gpu() ? most_gpu_statements_searched : most_statements_searched;
  return limits;
}

int64_t unrolled_statements(const Block& body) {
  int64_t count = 0;
  for (const Stmt& stmt : body)
    count += schedules::visit(
        stmt,
        [](const Loop& loop) {
          // Targets without the instruction make a vector of each product of the dot product.
          const auto dot = dot_product(loop);
          const Loop& copied = dot ? *dot->depth : loop;
          const int64_t copies = dot || loop.kind == LoopKind::Unrolled
                                     ? *dsl::as_int(copied.end) - *dsl::as_int(copied.begin)
                                     : 1;
          return copies * unrolled_statements(*loop.body);
        },
        [](const If& branch) { return unrolled_statements(*branch.body); },
        [](const Allocate& allocate) { return unrolled_statements(*allocate.body); },
        [](const Assign& assign) { return stores(assign); },
        [](const PrefetchLines& prefetch) { return prefetch.lines; },
        always<Barrier, Commit, Wait>(int64_t{0}));
  return count;
}

int64_t stack_bytes(const Block& body) {
  int64_t bytes = 0;
  for (const Buffer& buffer : local_buffers(body))
    bytes += round_up(buffer.bytes(), buffer_alignment);
  return bytes;
}

tl::unexpected<Error> too_large(const std::string& phase, const Limits& limits) {
  return fail(ErrorCode::Invalid,
              fmt::format("[legality] stage '{}' unrolls to more than {} statements", phase,
                          limits.unrolled_statements));
}

/// Checks that a multiprocessor can run as many blocks at once as the launch bounds say.
Status check_launch_bounds(const Phase& phase, const Limits& limits) {
  const int64_t threads =
      threads_of(*phase.body) + (phase.specialised && limits.is_gpu ? producer_threads : 0);
  if (phase.resident_blocks == 1 || phase.resident_blocks * threads <= limits.resident_threads)
    return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[launch_bounds] {} blocks of {} threads, but a multiprocessor runs at "
                          "most {} threads at once\n  stage '{}'",
                          phase.resident_blocks, threads, limits.resident_threads, phase.name));
}

Status check_legal(const Program& program, const Limits& limits) {
  if (program.preparation) TW_RETURN_IF_ERROR(check_legal(*program.preparation, limits));
  AccessChecker checker(program);
  for (const Phase& phase : program.phases) {
    TW_RETURN_IF_ERROR(checker.check_phase(phase));
    TW_RETURN_IF_ERROR(check_tensor_tiles(phase, limits));
    TW_RETURN_IF_ERROR(check_core_tiles(program, phase));
    TW_RETURN_IF_ERROR(check_tma_copies(program, phase, limits));
    TW_RETURN_IF_ERROR(check_specialised(phase, limits));
    TW_RETURN_IF_ERROR(check_launch_bounds(phase, limits));
    if (unrolled_statements(*phase.body) > limits.unrolled_statements)
      return too_large(phase.name, limits);
    if (has_threads(*phase.body)) {
      TW_RETURN_IF_ERROR(check_threads(phase, limits));
      continue;
    }
    // A phase without thread loops runs on one thread or one warp, so it has no barriers to check.
    // Each thread of the warp has its own copy of the private buffers.
    const bool is_warp = threads_of(*phase.body) > 1;
    const int64_t bytes = stack_bytes(*phase.body);
    const int64_t most = is_warp ? limits.thread_bytes : limits.local_bytes;
    if (bytes > most)
      return fail(ErrorCode::Invalid,
                  fmt::format("[legality] stage '{}' keeps {} bytes in a {}, at most {}",
                              phase.name, bytes, is_warp ? "thread" : "task", most));
  }
  return {};
}

}  // namespace tw::schedules
