// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/check_placements.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/lowering/accumulation.h"
#include "schedules/lowering/placed_buffers.h"
#include "schedules/lowering/prefetch.h"
#include "schedules/prepared.h"

namespace tw::schedules {
namespace {

/// True if the stage, or a stage that is computed inside of it, reads the tensor.
bool reads_inside(const Nest& nest, const StageNest& s, const std::string& tensor) {
  return reads(s, tensor) ||
         std::any_of(nest.stages.begin(), nest.stages.end(), [&](const StageNest& other) {
           return other.at && other.at->consumer == s.stage.name &&
                  reads_inside(nest, other, tensor);
         });
}

/// Checks the loop along which the window of a stage slides.
Status check_window(const Nest& nest, const StageNest& s) {
  const NestLoop& loop = loop_around(nest, s);
  const auto illegal = [&](const std::string& why) {
    return fail(ErrorCode::Invalid,
                fmt::format("[store_at] {}\n  {}", why, describe(*nest.find(s.at->consumer))));
  };
  const bool in_order = loop.kind == LoopKind::Serial || loop.kind == LoopKind::Unrolled;
  if (!in_order || loop.parallel)
    return illegal(
        fmt::format("the window of '{}' slides along loop '{}', whose iterations must "
                    "run one after the other, not {}",
                    s.stage.name, loop.name, loop.parallel ? "as tasks" : "as vectors or threads"));
  for (const StageNest& other : nest.stages) {
    if (std::any_of(other.loops.begin(), other.loops.end(),
                    [](const NestLoop& l) { return l.kind == LoopKind::Thread; }))
      return illegal(
          fmt::format("'{}' has a window, and '{}' has threads: windows slide where a "
                      "task has one thread",
                      s.stage.name, other.stage.name));
    if (!other.at || other.at->consumer != s.at->consumer || other.at->loop != loop.name) continue;
    if (other.depth > 1)
      return illegal(
          fmt::format("'{}' is pipelined along the loop '{}', along which the window of "
                      "'{}' slides",
                      other.stage.name, loop.name, s.stage.name));
    if (reads_inside(nest, s, other.result()))
      return illegal(
          fmt::format("'{}' has a window along loop '{}' and reads '{}', which an "
                      "iteration of that loop computes only when it begins",
                      s.stage.name, loop.name, other.stage.name));
  }
  return {};
}

Status check_pipeline(const Nest& nest, const StageNest& s) {
  const auto illegal = [&](const std::string& why) {
    return fail(ErrorCode::Invalid,
                fmt::format("[pipeline] {}\n  {}", why, describe(*nest.find(s.at->consumer))));
  };
  const NestLoop& loop = loop_around(nest, s);
  if (loop.kind != LoopKind::Serial)
    return illegal(fmt::format("loop '{}' around '{}' is unrolled", loop.name, s.stage.name));
  for (const StageNest& other : nest.stages) {
    if (!other.at || other.at->consumer != s.at->consumer || other.at->loop != loop.name) continue;
    if (other.depth > 1 && other.depth != s.depth)
      return illegal(fmt::format("'{}' is {} iterations deep and '{}' {}, at the same loop '{}'",
                                 s.stage.name, s.depth, other.stage.name, other.depth, loop.name));
    if (reads_inside(nest, s, other.result()))
      return illegal(
          fmt::format("'{}' reads '{}', which an iteration of loop '{}' computes only "
                      "when it begins",
                      s.stage.name, other.stage.name, loop.name));
  }
  return {};
}

/// The epilogue of a stage runs after the loops in which the stage accumulates. Checks that the
/// buffers which it reads are allocated outside of these loops.
Status check_epilogue(const Nest& nest, const StageNest& s) {
  for (const StageNest& other : nest.stages) {
    if (!other.at || other.at->consumer != s.stage.name) continue;
    bool is_read = false;
    for_each_read(s.epilogue->body,
                  [&](const dsl::Read& r) { is_read |= r.tensor == other.result(); });
    if (is_read && static_cast<size_t>(s.find_loop(other.at->loop)) >= core_start(s))
      return fail(
          ErrorCode::Invalid,
          fmt::format("[epilogue] '{}' reads '{}', which is computed at loop '{}', where sums are "
                      "not complete: compute it at a loop outside of the reduction\n  {}",
                      s.epilogue->name, other.stage.name, other.at->loop, describe(s)));
  }
  return {};
}

}  // namespace

Status check_placements(const Nest& nest) {
  for (const StageNest& s : nest.stages)
    if (s.depth > 1) TW_RETURN_IF_ERROR(check_pipeline(nest, s));
  for (const StageNest& s : nest.stages)
    if (s.window) TW_RETURN_IF_ERROR(check_window(nest, s));
  for (const StageNest& s : nest.stages)
    if (s.epilogue && !s.stage.scan) TW_RETURN_IF_ERROR(check_epilogue(nest, s));
  for (const StageNest& s : nest.stages)
    if (s.stored_in) TW_RETURN_IF_ERROR(check_stored(s));
  for (const StageNest& s : nest.stages)
    for (const StageNest::Ahead& ahead : s.prefetches)
      TW_RETURN_IF_ERROR(prefetch_lines(nest, s, ahead));
  return check_prepared(nest);
}

Status check_swizzles(const Phase& phase) {
  for (const Buffer& buffer : local_buffers(*phase.body))
    if (buffer.swizzle > 0 && buffer.scope != Scope::Shared)
      return fail(ErrorCode::Invalid,
                  fmt::format("[swizzle] '{}' is {}: only what threads share is swizzled",
                              buffer.name, to_string(buffer.scope)));
  return {};
}

}  // namespace tw::schedules
