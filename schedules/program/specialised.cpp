// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/specialised.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "schedules/program/legality.h"
#include "schedules/program/threads.h"
#include "schedules/program/tma_copies.h"

namespace tw::schedules {
namespace {

bool is_bulk(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  return loop && loop->kind == LoopKind::Bulk;
}

/// True if a barrier that is statement `i` of a body is the one at the beginning of a pipeline's
/// iteration, after the wait.
bool is_barrier_of_pipeline(bool in_pipeline, size_t i) { return in_pipeline && i == 1; }

void append_nonempty(const Stmt& around, Block part, Block& result) {
  if (!part.empty()) result.push_back(with_body(around, block(std::move(part))));
}

/// Returns the producers' part of the body: TMA copies, commits and the pipeline's barriers,
/// without the thread loops.
Block producer_part(const Block& body, bool in_pipeline = false) {
  Block result;
  for (size_t i = 0; i < body.size(); ++i) {
    const Stmt& stmt = body[i];
    schedules::visit(
        stmt,
        [&](const Loop& loop) {
          if (loop.kind == LoopKind::Bulk) {
            result.push_back(stmt);
          } else if (loop.kind != LoopKind::Thread) {
            append_nonempty(stmt, producer_part(*loop.body, loop.pipeline.has_value()), result);
          }
        },
        [&](const If& branch) { append_nonempty(stmt, producer_part(*branch.body), result); },
        [&](const Allocate& allocate) {
          for (Stmt& inner : producer_part(*allocate.body)) result.push_back(std::move(inner));
        },
        [&](const Barrier&) {
          if (is_barrier_of_pipeline(in_pipeline, i)) result.push_back(stmt);
        },
        [&](const Commit&) { result.push_back(stmt); }, ignore<Assign, Wait, PrefetchLines>);
  }
  return result;
}

Block consumer_part(const Block& body, bool in_pipeline = false) {
  Block result;
  for (size_t i = 0; i < body.size(); ++i) {
    const Stmt& stmt = body[i];
    const auto keep = [&] { result.push_back(stmt); };
    schedules::visit(
        stmt,
        [&](const Loop& loop) {
          if (loop.kind == LoopKind::Thread) {
            keep();
          } else if (loop.kind != LoopKind::Bulk) {
            append_nonempty(stmt, consumer_part(*loop.body, loop.pipeline.has_value()), result);
          }
        },
        [&](const If& branch) { append_nonempty(stmt, consumer_part(*branch.body), result); },
        [&](const Allocate& allocate) {
          result.push_back(with_body(stmt, block(consumer_part(*allocate.body))));
        },
        [&](const Barrier&) {
          if (!is_barrier_of_pipeline(in_pipeline, i)) keep();
        },
        [&](const Assign&) { keep(); }, [&](const Commit&) { keep(); },
        [&](const Wait&) { keep(); }, [&](const PrefetchLines&) { keep(); });
  }
  return result;
}

class PipelineChecker {
 public:
  explicit PipelineChecker(const Phase& phase) : phase_(phase) {}

  Status check() {
    const Block* around = phase_.body.get();
    const Loop* pipeline = find_pipeline(*around);
    while (!pipeline) {
      const auto inner =
          std::ranges::find_if(*around, [](const Stmt& s) { return s.as<Allocate>() != nullptr; });
      if (inner == around->end()) return wrong("there is no pipeline outside of other loops");
      around = inner->as<Allocate>()->body.get();
      pipeline = find_pipeline(*around);
    }
    if (count<Wait>(*phase_.body) != 1) return wrong("there are several pipelines");
    TW_RETURN_IF_ERROR(check_copies());
    return check_pipeline(*pipeline);
  }

 private:
  Status wrong(const std::string& why) const {
    return fail(ErrorCode::Invalid, fmt::format("[specialise] {}\n  stage '{}'", why, phase_.name));
  }

  static const Loop* find_pipeline(const Block& body) {
    for (const Stmt& stmt : body) {
      const Loop* loop = stmt.as<Loop>();
      if (loop && loop->pipeline) return loop;
    }
    return nullptr;
  }

  template <typename T>
  static int count(const Block& body) {
    int count = 0;
    for_each(body, [&](const Stmt& stmt) { count += stmt.as<T>() != nullptr; });
    return count;
  }

  Status check_copies() const {
    std::set<const Stmt*> in_boxes;
    Status status;
    for_each(*phase_.body, [&](const Stmt& stmt) {
      if (is_bulk(stmt))
        for_each(*stmt.as<Loop>()->body, [&](const Stmt& inner) { in_boxes.insert(&inner); });
      const Assign* assign = stmt.as<Assign>();
      if (status && assign && assign->asynchronous && !in_boxes.contains(&stmt))
        status = wrong(
            fmt::format("'{}' is copied by threads: bulk copies leave them free", assign->buffer));
    });
    return status;
  }

  Status check_pipeline(const Loop& pipeline) const {
    std::set<std::string> own;
    for (const Buffer& buffer : local_buffers(*phase_.body))
      if (buffer.scope == Scope::Local || buffer.scope == Scope::Register) own.insert(buffer.name);
    const Block body = consumer_part(*pipeline.body, true);
    for (const Stmt& stmt : body)
      if (stmt.as<Barrier>() || !(stmt.as<Wait>() || stmt.as<Commit>() || has_threads(Block{stmt})))
        return wrong("one thread computes in the pipeline, or threads wait for each other");
    Status status;
    for_each(body, [&](const Stmt& stmt) {
      if (status && stmt.as<Barrier>()) status = wrong("threads wait for each other");
      for_each_access(stmt, [&](const BufferAccess& access) {
        if (status && access.is_store && !own.contains(access.buffer))
          status = wrong(
              fmt::format("threads write '{}' in the pipeline, which others see", access.buffer));
      });
    });
    return status;
  }

  const Phase& phase_;
};

}  // namespace

SpecialisedBody specialised_body(const Phase& phase) {
  return {producer_part(*phase.body), consumer_part(*phase.body)};
}

Status check_specialised(const Phase& phase, const Limits& limits) {
  if (phase.persistent && !phase.specialised)
    return fail(ErrorCode::Invalid,
                fmt::format("[persist] there are no producer warps\n  stage '{}'", phase.name));
  if (!phase.specialised) return {};
  TW_RETURN_IF_ERROR(PipelineChecker(phase).check());
  const int64_t threads = threads_of(*phase.body);
  const int64_t shared = shared_bytes(*phase.body);
  if (shared > limits.shared_bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("[specialise] {} bytes between threads, with their barriers, at most "
                            "{}\n  stage '{}'",
                            shared, limits.shared_bytes, phase.name));
  if (threads % warp_threads == 0 && threads + producer_threads <= limits.threads) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[specialise] {} threads, expected whole warps, and room for {} more\n  "
                          "stage '{}'",
                          threads, producer_threads, phase.name));
}

}  // namespace tw::schedules
