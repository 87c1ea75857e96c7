// SPDX-License-Identifier: Apache-2.0
// tilewright manual: prints the manual page, which is installed with the program.

#include "tools/flags/manual.h"

#include "tools/reports/report.h"
#include "tools/verbs.h"

namespace tw::tools {

Verb manual_verb(std::function<std::vector<Verb>()> all) {
  return {.name = "manual",
          .summary = "the manual page, as troff",
          .run = [all = std::move(all)](const Surroundings& here) -> Result<int> {
            TW_RETURN_IF_ERROR(print(manual_page(all(), here.environment.program_version)));
            return 0;
          },
          .hidden = true};
}

}  // namespace tw::tools
