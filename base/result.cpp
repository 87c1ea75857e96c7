// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace tw {

void check_failed(const char* condition, const char* file, int line, std::string_view note) {
  std::fprintf(stderr, "tilewright: internal error at %s:%d: %s does not hold %.*s\n", file, line,
               condition, static_cast<int>(note.size()), note.data());
  std::abort();
}

}  // namespace tw
