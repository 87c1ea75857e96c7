// SPDX-License-Identifier: Apache-2.0
#pragma once
// Our side: a compiled kernel with its arrays packed, and where such kernels come from.

#include <atomic>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "bench/contender.h"
#include "db/record.h"
#include "db/store.h"
#include "runtime/artifact.h"
#include "runtime/thread_pool.h"
#include "tuner/tune.h"

namespace tw::bench {

/// What a call includes.
enum class Interface {
  Storage,  ///< Kernel::run alone: arrays stay in the kernel's layouts, as between two layers
  Logical,  ///< also packing what is not constant and unpacking outputs: row-major in and out
};

Result<std::unique_ptr<Contender>> make_ours(const runtime::Artifact& artifact, const Setup& setup,
                                             Interface interface,
                                             std::shared_ptr<runtime::ThreadPool> pool);

/// When to search for a schedule: never, where the database has none, or always.
enum class Search { No, Missing, More };

struct Found {
  runtime::Artifact artifact;
  std::string schedule;
  tuner::Progress progress;  ///< of the search, where there was one
  bool searched = false;
};

/// The best kernel that is known for the workload on this machine, found first where `search` says
/// so. NoCandidate where there is none.
Result<Found> find_kernel(const dsl::Workload& workload, const Target& target,
                          const tuner::TuneOptions& options, Search search, db::Store& store,
                          const tuner::Environment& environment,
                          const tuner::OnProgress& on_progress);

}  // namespace tw::bench
