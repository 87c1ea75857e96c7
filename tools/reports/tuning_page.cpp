// SPDX-License-Identifier: Apache-2.0
// Makes the page of `tune --report` by calling the Python module tilewright.report.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "codegen/command.h"
#include "runtime/private_file.h"
#include "tools/flags/quote.h"
#include "tools/interrupts.h"
#include "tools/reports/report.h"
#include "tools/tuning.h"

namespace tw::tools {
namespace {

// Limit on the time of importing the package. Importing is slow if the files of the package are not
// in the page cache.
constexpr int64_t check_timeout_ns = 60'000'000'000;
// Limit on the time of making the page: enough for a database of a hundred thousand records.
constexpr int64_t page_timeout_ns = 600'000'000'000;

/// Returns the last line of the error output of a Python program. This line has the exception
/// without the stack frames.
std::string last_line_of(const Error& error) {
  return std::string(trim(split(trim(error.message), '\n').back()));
}

/// Returns the command that starts Python. The flag -P keeps the working directory out of Python's
/// search path for modules, because others may have put a package there.
std::vector<std::string> python_of(const TuneFlags& flags) { return {flags.python, "-P"}; }

Status run_report(const TuneFlags& flags, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = python_of(flags);
  command.insert(command.end(), {"-m", "tilewright.report"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--output", flags.report});
  if (const auto made =
          codegen::run_command(command, page_timeout_ns, stop_on_interrupt(&later_interrupts()));
      !made)
    return fail(ErrorCode::Environment,
                fmt::format("[tune] the kernels are stored, but the page {} was not written: {}",
                            shell_quoted(flags.report), last_line_of(made.error())));
  note("the report is " + shell_quoted(flags.report));
  return {};
}

}  // namespace

Status check_page(const TuneFlags& flags) {
  if (flags.report.empty()) return {};
  TW_RETURN_IF_ERROR(runtime::check_output(flags.report, "report.html"));
  std::vector<std::string> command = python_of(flags);
  command.insert(command.end(), {"-c", "import tilewright.report; tilewright.report.check()"});
  const auto checked = codegen::run_command(command, check_timeout_ns);
  if (checked) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[tune] --report takes a Python with the package tilewright[report], and "
                          "{} has none: {}; use ./tw tune in a checkout, or name another Python by "
                          "--python",
                          shell_quoted(flags.python), last_line_of(checked.error())));
}

Status write_page(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs) {
  if (flags.report.empty()) return {};
  std::vector<std::string> arguments = {"--db", database_path(flags.place, here)};
  for (const Job& job : jobs) arguments.insert(arguments.end(), {"--workload", job.workload.key()});
  return run_report(flags, arguments);
}

Status write_network_page(const TuneFlags& flags, const Surroundings& here,
                          const std::string& model) {
  if (flags.report.empty()) return {};
  std::vector<std::string> arguments = {"--model", model};
  if (flags.measures())
    arguments.insert(arguments.end(), {"--db", database_path(flags.place, here), "--session",
                                       here.environment.session});
  return run_report(flags, arguments);
}

void note_missing_page(const TuneFlags& flags) {
  if (!flags.report.empty())
    note(
        fmt::format("{} was not written, as the run was interrupted: the verb `report` makes a "
                    "page of what is stored",
                    shell_quoted(flags.report)));
}

}  // namespace tw::tools
