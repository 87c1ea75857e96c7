// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds our kernel in the database or by a search, and makes a contender of it: the compiled kernel
// with its arrays packed.

#include <atomic>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "bench/peers/contender.h"
#include "db/record.h"
#include "db/store.h"
#include "runtime/artifact.h"
#include "runtime/thread_pool.h"
#include "tuner/tune.h"

namespace tw::bench {

/// Says which work a call of our contender includes.
enum class Interface {
  Storage,  ///< only Kernel::run(): arrays stay in the kernel's layouts, as between two layers
  Logical,  ///< also packing of inputs that are not constant, and unpacking of outputs
};

Result<std::unique_ptr<Contender>> make_ours(const runtime::Artifact& artifact, const Setup& setup,
                                             Interface interface,
                                             std::shared_ptr<runtime::ThreadPool> pool);

/// Says when to search for a schedule. No: never. Missing: if the database has no schedule that was
/// measured on this machine. More: always.
enum class Search { No, Missing, More };

struct Found {
  runtime::Artifact artifact;
  std::string schedule;
  bool searched = false;  ///< true if the schedule was searched for now
};

/// Builds the kernel of the given schedule. The database is not read.
Result<Found> build_kernel(const dsl::Workload& workload, const Target& target,
                           const std::string& schedule, int threads,
                           const tuner::Environment& environment);

/// Returns the best known kernel of the workload on this machine; records of other machines do not
/// count. `search` says if the kernel is searched for first. Without a search, if no kernel was
/// tuned for the workload's state of the caches, the best kernel that was tuned with hot caches is
/// returned. Fails with NoCandidate if there is no such kernel either.
Result<Found> find_kernel(const dsl::Workload& workload, const Target& target,
                          const tuner::TuneOptions& options, Search search, db::Store& store,
                          const tuner::Environment& environment,
                          const tuner::OnProgress& on_progress);

}  // namespace tw::bench
