// SPDX-License-Identifier: Apache-2.0
#pragma once
// Helpers for tests of whole tuning runs: a temporary directory, an environment with a real worker
// process, and small workloads.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/target.h"
#include "codegen/cpu_codegen.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// The key of a workload that is tuned within a second.
inline constexpr const char* small = "dense m=16 n=32 k=24 f32 fast";

/// A temporary directory, which the destructor removes.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tw_tuner_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  /// Writes an executable shell script to the folder and returns its path.
  std::string script(const std::string& name, const std::string& body) const {
    const std::string path = *this / name;
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

 private:
  std::string path_;
};

/// True if the plugin that generates code was built, which requires the Halide wheel.
inline bool can_generate_code() {
  for (const std::string& directory : codegen::plugin_directories())
    if (std::filesystem::exists(directory + "/libtw_halide.so")) return true;
  return false;
}

inline Environment test_environment(std::vector<std::string> worker = {TW_TUNING_WORKER}) {
  Environment environment;
  environment.worker = std::move(worker);
  environment.clock = monotonic_clock();
  environment.now_ms = [] { return int64_t{1'700'000'000'000}; };
  environment.host = "0123456789abcdef";
  environment.session = "test";
  environment.program_version = "0";
  return environment;
}

/// Returns the number of trials so far, of any status.
inline int64_t total(const Progress& progress) {
  int64_t trials = 0;
  for (const auto& [status, count] : progress.trials) trials += count;
  return trials;
}

inline dsl::Workload workload_of(std::string_view key) {
  auto workload = dsl::parse_workload(key);
  if (!workload) throw std::runtime_error(workload.error().message);
  return std::move(*workload);
}

inline db::Store open_store(const std::string& path) {
  auto store = db::Store::open(path, db::OpenMode::ReadWrite);
  if (!store) throw std::runtime_error(store.error().message);
  return std::move(*store);
}

}  // namespace tw::tuner
