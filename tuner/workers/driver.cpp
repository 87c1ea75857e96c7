// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/driver.h"

#include <cstdlib>

namespace tw::tuner {
namespace {

void point_drivers_to(const std::string& directory) {
  ::setenv("POCL_CACHE_DIR", directory.c_str(), 1);
  ::setenv("CUDA_CACHE_PATH", directory.c_str(), 1);
  // The cache of CUDA's driver is turned off. It changes modes of files, which is forbidden, and
  // the driver compiles only two small modules.
  ::setenv("CUDA_CACHE_DISABLE", "1", 1);
}

/// Opens the device and loads a module, so that the driver starts its threads. Returns null if the
/// device cannot be opened. If the module cannot be loaded, the runner fails later with its own
/// kernels.
std::shared_ptr<runtime::Device> warmed_up(const codegen::Backend& backend, int index) {
  const auto device = backend.open({.index = index});
  if (!device) return nullptr;
  (void)(*device)->load(backend.compare_kernels().code);
  return *device;
}

}  // namespace

ProcessLimits driver_limits(const codegen::Backend& backend, const std::string& directory) {
  return {.address_space_bytes = 0,
          .open_files = 1024,
          .may_start_programs = backend.driver_starts_programs,
          .runs_drivers = true,
          .scratch_dir = directory};
}

Result<StartedDriver> start_driver(const codegen::Backend& backend, int index,
                                   const std::string& directory, Confined confined) {
  point_drivers_to(directory);
  StartedDriver started;
  if (backend.leaves_processor_idle) started.device = warmed_up(backend, index);
  if (confined == Confined::No) return started;
  TW_TRY(started.restrictions, restrict_self(driver_limits(backend, directory)));
  return started;
}

}  // namespace tw::tuner
