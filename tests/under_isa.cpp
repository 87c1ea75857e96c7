// SPDX-License-Identifier: Apache-2.0
//
//   tw_under_isa <isa> [<wider isa> ...] -- <command> [<argument> ...]
//
// Runs the command with TILEWRIGHT_MAX_ISA=<isa>. Each <wider isa> is another instruction set under
// which the same command is tested. Under TW_NIGHTLY the command always runs. By day it runs only
// if <isa> is below the processor's own instruction set, or below the limit that TILEWRIGHT_MAX_ISA
// sets already, and no <wider isa> is below it as well. Otherwise the program prints the reason and
// exits with 77, which ctest takes for a skipped test. With AVX2, for example, `tw_under_isa avx2
// -- x` would repeat what `x` does by itself, and is skipped; `tw_under_isa sse41 avx2 -- x` runs.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/isa.h"
#include "base/target.h"
#include "tests/nightly.h"

namespace tw {
namespace {

constexpr int skipped = 77;  // SKIP_RETURN_CODE in cmake/tw_modules.cmake

/// Returns the index of `isa` in isa_names(), or -1 if it is not among them.
int rank_of(const std::string& isa) {
  const auto& names = isa_names();
  const auto found = std::find(names.begin(), names.end(), isa);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

/// Returns the rank of the largest instruction set that this process may use, or -1 if it may use
/// none of those of x86-64.
int own_rank() {
  const Target host = host_target();
  int rank = -1;
  for (const std::string& isa : isa_names()) {
    const auto features = *features_of_isa(isa);
    if (std::all_of(features.begin(), features.end(), [&](const auto& f) { return host.has(f); }))
      rank = rank_of(isa);
  }
  return rank;
}

int skip(const std::string& reason) {
  std::printf("[SKIP] %s\n", reason.c_str());
  return skipped;
}

int usage() {
  std::fputs("usage: tw_under_isa <isa> [<wider isa> ...] -- <command> [<argument> ...]\n", stderr);
  return 2;
}

int run(int argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string("--"));
  if (dashes == end || dashes + 1 == end || dashes - argv < 2) return usage();
  const std::vector<std::string> isas(argv + 1, dashes);
  if (!std::all_of(isas.begin(), isas.end(), [](const auto& isa) { return rank_of(isa) >= 0; }))
    return usage();
  if (!is_nightly()) {
    const int own = own_rank();
    if (rank_of(isas[0]) >= own)
      return skip("the processor has nothing beyond " + isas[0] + ": the plain test is the same");
    for (size_t i = 1; i < isas.size(); ++i)
      if (rank_of(isas[i]) < own)
        return skip(isas[i] + " is tested here; " + isas[0] + " in ./tw test --nightly");
  }
  setenv(max_isa_variable, isas[0].c_str(), 1);
  execvp(dashes[1], dashes + 1);
  std::perror(dashes[1]);
  return 127;
}

}  // namespace
}  // namespace tw

int main(int argc, char** argv) { return tw::run(argc, argv); }
