// SPDX-License-Identifier: Apache-2.0
// tilewright completion: prints the completion script for a shell.

#include "tools/flags/completion.h"

#include <memory>

#include "tools/reports/report.h"
#include "tools/verbs.h"

namespace tw::tools {

Verb completion_verb(std::function<std::vector<Verb>()> all) {
  auto shell = std::make_shared<std::string>();
  return {
      .name = "completion",
      .summary = "a completion script for bash, zsh or fish",
      .operands =
          {{"SHELL", Choice{shell.get(), {"bash", "zsh", "fish"}}, "bash, zsh or fish", {}, true}},
      .run = [shell, all = std::move(all)](const Surroundings&) -> Result<int> {
        const std::vector<Verb> verbs = all();
        TW_RETURN_IF_ERROR(print(*shell == "bash"  ? bash_completion(verbs)
                                 : *shell == "zsh" ? zsh_completion(verbs)
                                                   : fish_completion(verbs)));
        return 0;
      }};
}

}  // namespace tw::tools
