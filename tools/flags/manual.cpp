// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/manual.h"

#include <fmt/format.h>

#include "base/text.h"
#include "tools/flags/command_line.h"

namespace tw::tools {
namespace {

/// Escapes a text so that troff prints it literally. Backslashes would begin an escape, a "-" would
/// be printed as a hyphen, and a line that begins with "." or "'" would be a request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool begins_line = result.empty() || result.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result;
}

std::string item(const std::string& title, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", title, escaped(text));
}

/// Puts spaces around bars, so that troff can break a long list of choices: "a|b" becomes "a | b".
std::string spaced(std::string_view choices) { return join(split(choices, '|'), " | "); }

std::string flag_item(const Flag& flag) {
  const std::string value = spaced(value_hint(flag.value));
  const std::string title = fmt::format("\\fB{}\\fR", escaped("--" + flag.name));
  return item(value.empty() ? title : fmt::format("{} \\fI{}\\fR", title, escaped(value)),
              flag.help);
}

std::string synopsis(const std::string& path, const Verb& verb) {
  std::string line = fmt::format(".B tilewright {}\n", escaped(path));
  if (!verb.verbs.empty()) line += "VERB\n";
  for (const Flag& operand : verb.operands)
    line += escaped(operand.required ? operand.name : "[" + operand.name + "]") + "\n";
  if (!verb.flags.empty()) line += "[FLAGS]\n";
  return line;
}

void append_verb(const Verb& verb, const std::string& before, std::string& page) {
  if (verb.hidden) return;
  const std::string path = before.empty() ? verb.name : before + " " + verb.name;
  page += fmt::format(".SS {}\n{}.PP\n{}\n", escaped(path), synopsis(path, verb),
                      escaped(verb.summary));
  for (const Flag& operand : verb.operands)
    page += item(fmt::format("\\fI{}\\fR", escaped(operand.name)), operand.help);
  for (const Flag& flag : verb.flags) page += flag_item(flag);
  for (const Verb& inner : verb.verbs) append_verb(inner, path, page);
}

}  // namespace

std::string manual_page(const std::vector<Verb>& verbs, std::string_view version) {
  std::string page = fmt::format(
      ".TH TILEWRIGHT 1 \"\" \"tilewright {}\" \"User Commands\"\n"
      ".SH NAME\ntilewright \\- autotuner of tensor operators\n"
      ".SH SYNOPSIS\n.B tilewright\nVERB [FLAGS]\n.br\n.B tune\n[FLAGS]\n"
      ".SH DESCRIPTION\n{}\n.PP\n.B tune\nis another name of\n.BR \"tilewright tune\" .\n"
      "Results go to standard output, progress and messages to standard error.\n.SH VERBS\n",
      escaped(version), escaped(program_summary));
  for (const Verb& verb : verbs) append_verb(verb, "", page);
  page += fmt::format(
      ".SH ENVIRONMENT\nEach flag may be given as\n.BR TILEWRIGHT_ \\fIFLAG\\fR,\n"
      "or in the configuration file; the command line wins over the environment, and that over the "
      "file.\n"
      ".SH EXIT STATUS\n{}\n"
      ".SH FILES\n{}{}{}",
      escaped(exit_codes), item("$XDG_CONFIG_HOME/tilewright.toml", "defaults of flags"),
      item("$XDG_DATA_HOME/tilewright/tilewright.db", "the database"),
      item("$XDG_CACHE_HOME/tilewright", "compiled kernels"));
  return page;
}

}  // namespace tw::tools
