// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that tune() needs from its process and machine, such as a clock. An Environment is
// passed in, so that a run can be reproduced and tested. default_environment() reads the values of
// an Environment from the process, and default_places() reads the default paths of files. In the
// library only these two functions read the wall clock, the host's name, a random source or the
// environment (except TILEWRIGHT_MAX_ISA, base/isa.h), and only programs call them.
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
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

class Notes;

struct Environment {
  std::vector<std::string> worker;  ///< argv of the worker program, e.g. {"tilewright", "worker"}
  std::string code_generator;       ///< directory of libtw_halide.so; empty: it is searched for
  /// Directories in which this process and the builders search for NVRTC before they search
  /// elsewhere (codegen::NvrtcOptions::directories).
  std::vector<std::string> cuda_directories = {};
  int device = 0;  ///< index of a GPU target's device, as in runtime::DeviceOptions
  /// True if workers limit what they may do (processes/sandbox.h). Without limits a candidate may
  /// do whatever the user may do.
  bool sandbox = true;
  Clock clock;                      ///< monotonic, ns
  std::function<int64_t()> now_ms;  ///< wall-clock time; for provenance only
  std::string host;                 ///< hash of the host's name; for provenance only
  std::string session;              ///< names this run in its records
  std::string program_version;
  /// Counts the user's interrupts. At 1 the run stops and keeps its results; at 2 it stops at once.
  /// nullptr: nothing interrupts.
  const std::atomic<int>* interrupts = nullptr;
  /// A counter of interrupts for work that continues after the first interrupt, such as building a
  /// network from the kernels that are known so far. It is twice the number of interrupts after the
  /// first one: 0 after one interrupt, and 2 after two, which stops the work at once. nullptr:
  /// nothing stops the work.
  const std::atomic<int>* later_interrupts = nullptr;
  Notes* notes = nullptr;  ///< collects what the run gave up or replaced (notes.h); may be null
  /// From this time on the clock, the run behaves as if the user had interrupted it once.
  int64_t ends_ns = INT64_MAX;

  /// Returns a token that stops when the user interrupts, or at `ends_ns`. The counter `interrupts`
  /// must outlive the token.
  StopToken stop() const {
    const StopToken user = stop_on_interrupt(interrupts);
    return ends_ns == INT64_MAX ? user : any_of(user, stop_at(clock, ends_ns));
  }
  bool interrupted() const { return stop().is_stopped(); }
};

/// Returns the environment of this process. The worker program is this program (see above), NVRTC
/// is searched for in $CUDA_HOME/lib64 and $CUDA_PATH/lib64, the session has a random name, and no
/// counter of interrupts is set.
Environment default_environment();

/// Default paths of the program's files, which the user may override.
struct Places {
  std::string database;  ///< $XDG_DATA_HOME/tilewright/tilewright.db
  std::string cache;     ///< $XDG_CACHE_HOME/tilewright, for compiled kernels
  std::string shipped;   ///< shipped_database() of this program
  /// $XDG_CONFIG_HOME/tilewright.toml, the program's settings; empty if the user has no home.
  std::string configuration;
  std::string fallback;  ///< why these paths lie in a temporary directory; empty if they do not
};
Places default_places();

/// Makes the directory and its parents; the directory is private to the user. Fails with
/// Environment if it cannot be made. Fails with Invalid if it belongs to another user or others may
/// write to it, since kernels in it would be run. `remedy` is the advice at the end of messages,
/// such as "name another with --cache".
Status make_private_directory(const std::string& path, std::string_view remedy = "name another");

/// Returns the path of the database that was installed with a program. For the program
/// PREFIX/bin/NAME it is PREFIX/share/tilewright/shipped.db. Empty if there is no such file.
std::string shipped_database(const std::string& program);

}  // namespace tw::tuner
