// SPDX-License-Identifier: Apache-2.0
// The program `tilewright`: lists the verbs, runs one of them, and turns its error into a line on
// standard error and an exit code.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/isa.h"
#include "base/text.h"
#include "cost_model/expected.h"
#include "tools/flags/command_line.h"
#include "tools/reports/report.h"
#include "tools/standard_streams.h"
#include "tools/surroundings.h"
#include "tools/verbs.h"
#include "tuner/tune.h"

namespace tw::tools {
namespace {

std::vector<Verb> verbs() {
  return {tune_verb(),   worker_verb(),          list_verb(),        show_verb(),   explain_verb(),
          run_verb(),    compile_verb(),         replay_verb(),      bench_verb(),  db_verb(),
          doctor_verb(), completion_verb(verbs), manual_verb(verbs), version_verb()};
}

/// Returns the message as it is printed, with control characters escaped. A line feed is kept only
/// if two spaces follow it, because messages indent their second and later lines by two spaces. All
/// other line feeds come from quoted texts and are escaped.
std::string printable(const std::string& message) {
  const std::string text(trim(message));  // messages of libraries end in a new line
  std::string line;
  for (size_t i = 0; i < text.size(); ++i)
    if (const char c = text[i]; c == '\n')
      line += text.compare(i + 1, 2, "  ") == 0 ? "\n" : "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      line += c;
  return line;
}

int report(const Error& error) {
  note(printable(error.message));
  return static_cast<int>(error.code);
}

Result<int> run(const std::vector<std::string>& arguments, const Surroundings& here) {
  const std::vector<Verb> all = verbs();
  TW_TRY(CommandLine line, parse_command_line(all, arguments, here));
  if (line.version) line.verb = &all.back();
  if (line.verb) return line.verb->run(here);
  TW_RETURN_IF_ERROR(print(line.help));
  return 0;
}

/// True if the program was called by a name that ends with "tune". Its other name `tune` stands for
/// `tilewright tune`.
bool is_called_tune(std::string_view name) {
  const size_t slash = name.rfind('/');
  return (slash == std::string_view::npos ? name : name.substr(slash + 1)).ends_with("tune");
}

int main_of(int argc, char** argv) {
  prepare_standard_streams();
  // A parent may have started the program with SIGCHLD ignored. Then the exit status of a command
  // would be lost.
  std::signal(SIGCHLD, SIG_DFL);
  if (const Status limit = check_max_isa(); !limit) return report(limit.error());
  const Result<bool> analytic = asks_for_the_analytic_model();
  if (!analytic) return report(analytic.error());
  std::optional<cost_model::AnalyticOnly> without_trees;
  if (*analytic) without_trees.emplace();
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  // `worker` has two meanings. With a role as its first argument, it starts a worker process of a
  // run. With flags, it is the verb `worker`.
  if (arguments.size() > 1 && arguments[0] == "worker" && !arguments[1].starts_with('-'))
    return tuner::worker_main({arguments.begin() + 1, arguments.end()});
  if (const Status stack = ensure_stack(); !stack) return report(stack.error());
  Surroundings here = look_around(argc > 0 ? argv[0] : nullptr);
  if (argc > 0 && is_called_tune(argv[0])) arguments.insert(arguments.begin(), "tune");
  here.arguments = arguments;
  tuner::Notes notes([](const std::string& line) { note(line); });
  here.environment.notes = &notes;
  const auto code = run(arguments, here);
  return code ? *code : report(code.error());
}

}  // namespace
}  // namespace tw::tools

int main(int argc, char** argv) {
  try {
    return tw::tools::main_of(argc, argv);
  } catch (const std::bad_alloc&) {
    tw::tools::print_error(
        "tilewright: [memory] there is not enough: free some, or raise ulimit -v\n");
    return static_cast<int>(tw::ErrorCode::Environment);
  } catch (const std::exception& error) {
    tw::tools::note(fmt::format("[internal] {}: please report it", error.what()));
    return static_cast<int>(tw::ErrorCode::Internal);
  }
}
