// SPDX-License-Identifier: Apache-2.0
#include "schedules/specialised.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "schedules/bulk_copies.h"
#include "schedules/legality.h"
#include "schedules/threads.h"

namespace tw::schedules {
namespace {

bool is_bulk(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  return loop && loop->kind == LoopKind::Bulk;
}

/// What an iteration of a pipeline begins with.
bool begins_by_waiting(const Block& body) {
  return body.size() > 2 && body[0].as<Wait>() && body[1].as<Barrier>();
}

/// Without what threads do; barriers where a pipeline has one.
Block asking_part(const Block& body) {
  Block result;
  const bool waits = begins_by_waiting(body);
  for (size_t i = 0; i < body.size(); ++i) {
    const Stmt& stmt = body[i];
    if (is_bulk(stmt) || stmt.as<Commit>() || (waits && i == 1)) {
      result.push_back(stmt);
    } else if (const Allocate* allocate = stmt.as<Allocate>()) {
      for (Stmt& inner : asking_part(*allocate->body)) result.push_back(std::move(inner));
    } else if (const Loop* loop = stmt.as<Loop>(); loop && loop->kind != LoopKind::Thread) {
      Loop part = *loop;
      part.body = block(asking_part(*loop->body));
      if (!part.body->empty()) result.push_back({std::move(part)});
    } else if (const If* branch = stmt.as<If>()) {
      Block inner = asking_part(*branch->body);
      if (!inner.empty()) result.push_back({If{branch->condition, block(std::move(inner))}});
    }
  }
  return result;
}

Block computing_part(const Block& body) {
  Block result;
  const bool waits = begins_by_waiting(body);
  for (size_t i = 0; i < body.size(); ++i) {
    const Stmt& stmt = body[i];
    if (is_bulk(stmt) || (waits && i == 1)) continue;
    if (const Allocate* allocate = stmt.as<Allocate>()) {
      result.push_back({Allocate{allocate->buffer, block(computing_part(*allocate->body))}});
    } else if (const Loop* loop = stmt.as<Loop>(); loop && loop->kind != LoopKind::Thread) {
      Loop part = *loop;
      part.body = block(computing_part(*loop->body));
      if (!part.body->empty()) result.push_back({std::move(part)});
    } else if (const If* branch = stmt.as<If>()) {
      Block inner = computing_part(*branch->body);
      if (!inner.empty()) result.push_back({If{branch->condition, block(std::move(inner))}});
    } else {
      result.push_back(stmt);
    }
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
      if (loop && loop->kind == LoopKind::Serial && begins_by_waiting(*loop->body)) return loop;
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
    const Block body = computing_part(*pipeline.body);
    for (const Stmt& stmt : body)
      if (stmt.as<Barrier>() || !(stmt.as<Wait>() || stmt.as<Commit>() || has_threads(Block{stmt})))
        return wrong("one thread computes in the pipeline, or threads wait for each other");
    Status status;
    for_each(body, [&](const Stmt& stmt) {
      const Assign* assign = stmt.as<Assign>();
      if (status && stmt.as<Barrier>()) status = wrong("threads wait for each other");
      if (status && assign && !own.contains(assign->buffer))
        status = wrong(
            fmt::format("threads write '{}' in the pipeline, which others see", assign->buffer));
    });
    return status;
  }

  const Phase& phase_;
};

}  // namespace

SpecialisedBody specialised_body(const Phase& phase) {
  return {asking_part(*phase.body), computing_part(*phase.body)};
}

Status check_specialised(const Phase& phase, const Limits& limits) {
  if (!phase.specialised) return {};
  TW_RETURN_IF_ERROR(PipelineChecker(phase).check());
  const int64_t threads = threads_of(*phase.body);
  const int64_t shared = shared_bytes(*phase.body);
  if (shared > limits.shared_bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("[specialise] {} bytes between threads, with their barriers, at most "
                            "{}\n  stage '{}'",
                            shared, limits.shared_bytes, phase.name));
  if (threads % warp_threads == 0 && threads + asking_threads <= limits.threads) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[specialise] {} threads, expected whole warps, and room for {} more\n  "
                          "stage '{}'",
                          threads, asking_threads, phase.name));
}

}  // namespace tw::schedules
