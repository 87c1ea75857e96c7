// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that tune() needs from its process and machine, such as a clock, as a value that is
// passed in, so that a run can be reproduced and tested. default_environment() and default_places()
// read these values from the process. They are the only code of the library that reads the
// environment, the wall clock, the host's name or a random source, and only programs call them.
//
//   int main(int argc, char** argv) {
//     if (argc > 1 && std::string_view(argv[1]) == "worker")
//       return worker_main({argv + 2, argv + argc});
//     const Environment environment = default_environment();
//     auto store = db::Store::open(default_places().database, db::OpenMode::ReadWrite);
//     if (!store) return 1;
//     auto tuned = tune(workload, host_target(), {}, *store, environment, nullptr);
//     return tuned ? 0 : 1;
//   }
//
// A plain value.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

class Notes;

struct Environment {
  std::vector<std::string> worker;  ///< argv of the worker program, e.g. {"tilewright", "worker"}
  std::string code_generator;       ///< directory of libtw_halide.so; empty: looked for
  /// Directories in which NVRTC is looked for first, also by the builders
  /// (codegen::NvrtcOptions::directories).
  std::vector<std::string> cuda_directories = {};
  int device = 0;  ///< index of a GPU target's device, as in runtime::DeviceOptions
  /// Workers limit what they may do (processes/sandbox.h). Without limits a candidate may do what
  /// the user may.
  bool sandbox = true;
  Clock clock;                      ///< monotonic, ns
  std::function<int64_t()> now_ms;  ///< wall clock: provenance only
  std::string host;                 ///< hash of the host's name: provenance only
  std::string session;              ///< names this run in its records
  std::string program_version;
  const std::atomic<int>* interrupts = nullptr;  ///< 1: stop and keep what there is; 2: at once
  /// Twice the number of interrupts after the first one: for work that the first one does not stop,
  /// and the second one at once. nullptr: nothing stops it.
  const std::atomic<int>* later_interrupts = nullptr;
  Notes* notes = nullptr;  ///< collects what a run went on without (notes.h); may be null
  /// The time on the clock from which on the run behaves as if the user had interrupted it once.
  int64_t ends_ns = INT64_MAX;

  /// A token that stops for the user's interrupts or at `ends_ns`. The counter must outlive it.
  StopToken stop() const {
    const StopToken user = stop_on_interrupt(interrupts);
    return ends_ns == INT64_MAX ? user : any_of(user, stop_at(clock, ends_ns));
  }
  bool interrupted() const { return stop().is_stopped(); }
};

/// The environment of this process: this program is the worker program (see above), NVRTC is looked
/// for in $CUDA_HOME/lib64 and $CUDA_PATH/lib64, the session has a random name, nobody interrupts.
Environment default_environment();

/// Default paths of the program's files, which the user may override.
struct Places {
  std::string database;  ///< $XDG_DATA_HOME/tilewright/tilewright.db
  std::string cache;     ///< $XDG_CACHE_HOME/tilewright: compiled kernels
  std::string shipped;   ///< shipped_database() of this program
  /// $XDG_CONFIG_HOME/tilewright.toml, the program's settings; empty where there is no home.
  std::string configuration;
  std::string fallback;  ///< why these lie in a temporary directory; empty: they do not
};
Places default_places();

/// Makes the directory, with its parents, private to the user. Environment when it cannot, Invalid
/// when it is another user's: kernels in it would be run.
Status make_private_directory(const std::string& path);

/// PREFIX/share/tilewright/shipped.db of a program PREFIX/bin/NAME; empty where there is no file.
std::string shipped_database(const std::string& program);

}  // namespace tw::tuner
