// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/completion.h"

#include <fmt/format.h>

#include "base/text.h"
#include "dsl/operators.h"
#include "tools/flags/quote.h"
#include "tools/suites.h"

namespace tw::tools {
namespace {

/// The completions of the value of a flag: a list of words, or paths of files. If the value can be
/// any text, there are no completions.
struct Following {
  std::vector<std::string> words;
  bool is_path = false;
  bool is_switch = false;  ///< true: no value follows the flag
};

Following following(const Flag& flag) {
  Following result;
  if (const auto* choice = std::get_if<Choice>(&flag.value)) result.words = choice->choices;
  result.is_path =
      std::holds_alternative<Path>(flag.value) || std::holds_alternative<Paths>(flag.value);
  result.is_switch = std::holds_alternative<Switch>(flag.value);
  if (flag.name == "op")
    for (const dsl::Operator& op : dsl::operators()) result.words.emplace_back(op.name);
  if (flag.name == "suite")
    for (const SuiteInfo& info : suites()) result.words.emplace_back(info.name);
  if (flag.name == "target") result.words = {"host", "x86-64-v3", "x86-64-v4", "arm-64-linux"};
  return result;
}

/// A verb with the names of the verbs above it.
struct Reached {
  std::string path;  ///< "db query"
  const Verb* verb;
};

void reach(const std::vector<Verb>& verbs, const std::string& prefix, std::vector<Reached>& all) {
  for (const Verb& verb : verbs) {
    if (verb.hidden) continue;
    const std::string path = prefix.empty() ? verb.name : prefix + " " + verb.name;
    all.push_back({path, &verb});
    reach(verb.verbs, path, all);
  }
}

std::vector<Reached> reached(const std::vector<Verb>& verbs) {
  std::vector<Reached> all;
  reach(verbs, "", all);
  return all;
}

std::vector<std::string> names(const std::vector<Verb>& verbs) {
  std::vector<std::string> result;
  for (const Verb& verb : verbs)
    if (!verb.hidden) result.push_back(verb.name);
  return result;
}

/// Returns the completions after a verb: its nested verbs, the choices of its operands, and its
/// flags.
std::vector<std::string> words_after(const Verb& verb) {
  std::vector<std::string> words = names(verb.verbs);
  for (const Flag& operand : verb.operands)
    if (const auto* choice = std::get_if<Choice>(&operand.value))
      words.insert(words.end(), choice->choices.begin(), choice->choices.end());
  for (const Flag& flag : verb.flags) words.push_back("--" + flag.name);
  words.push_back("--help");
  return words;
}

bool takes_path(const Verb& verb) {
  for (const Flag& operand : verb.operands)
    if (following(operand).is_path) return true;
  return false;
}

/// Returns the part of the script that is the same for bash and zsh. This part reads $verb, the
/// verb, and $before, the word before the completed word. It sets `choices`, the list of possible
/// words, and `files`, which is 1 if a path is possible and otherwise 0.
std::string cases(const std::vector<Verb>& verbs) {
  std::string text = "  case \"$verb $before\" in\n";
  for (const Reached& r : reached(verbs))
    for (const Flag& flag : r.verb->flags) {
      const Following f = following(flag);
      if (f.is_switch) continue;
      text += fmt::format("    '{} --{}') choices='{}'; files={}; return ;;\n", r.path, flag.name,
                          join(f.words, " "), f.is_path ? 1 : 0);
    }
  text += "  esac\n  case \"$verb\" in\n";
  for (const Reached& r : reached(verbs))
    text += fmt::format("    '{}') choices='{}'; files={} ;;\n", r.path,
                        join(words_after(*r.verb), " "), takes_path(*r.verb) ? 1 : 0);
  text += fmt::format("    *) choices='{} --help --version'; files=0 ;;\n  esac\n",
                      join(names(verbs), " "));
  return text;
}

/// Returns the part of the script that finds the verb among the words typed so far and sets $verb.
/// After a verb with nested verbs, such as `db`, the next word belongs to the verb too: "db query".
std::string verb_finder(const std::vector<Verb>& verbs) {
  std::string nested;
  for (const Verb& verb : verbs)
    if (!verb.verbs.empty()) nested += (nested.empty() ? "" : "|") + verb.name;
  return fmt::format(
      "  verb=''\n  for word in \"$@\"; do\n    case \"$word\" in -*) continue ;; esac\n"
      "    case \"$verb\" in\n      '') verb=$word ;;\n      {}) verb=\"$verb $word\" ;;\n"
      "    esac\n  done\n",
      nested.empty() ? "''" : nested);
}

}  // namespace

std::string bash_completion(const std::vector<Verb>& verbs) {
  return "# bash completion of tilewright: source it, or put it into\n"
         "# ~/.local/share/bash-completion/completions/tilewright\n"
         "_tilewright_choices() {\n  local word verb before=$1\n  shift\n" +
         verb_finder(verbs) + cases(verbs) +
         "}\n"
         "_tilewright() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} choices files\n"
         "  local typed=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
         "  [ \"${COMP_WORDS[0]##*/}\" = tune ] && typed=(tune \"${typed[@]}\")\n"
         "  _tilewright_choices \"${COMP_WORDS[COMP_CWORD-1]}\" \"${typed[@]}\"\n"
         "  COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
         "  [ \"$files\" = 1 ] && compopt -o filenames && COMPREPLY+=($(compgen -f -- "
         "\"$current\"))\n"
         "  return 0\n"
         "}\n"
         "complete -F _tilewright tilewright tune\n";
}

std::string zsh_completion(const std::vector<Verb>& verbs) {
  return "#compdef tilewright tune\n"
         "# zsh completion of tilewright: put it into a folder of $fpath as _tilewright\n"
         "_tilewright_choices() {\n  local word verb before=$1\n  shift\n" +
         verb_finder(verbs) + cases(verbs) +
         "}\n"
         "_tilewright() {\n"
         "  local choices files\n"
         "  local -a typed=(\"${(@)words[2,CURRENT-1]}\")\n"
         "  [[ ${words[1]:t} = tune ]] && typed=(tune $typed)\n"
         "  _tilewright_choices \"${words[CURRENT-1]}\" \"${typed[@]}\"\n"
         "  compadd -- ${=choices}\n"
         "  [[ $files = 1 ]] && _files\n"
         "  return 0\n"
         "}\n"
         "compdef _tilewright tilewright tune\n";
}

std::string fish_completion(const std::vector<Verb>& verbs) {
  std::string text =
      "# fish completion of tilewright: put it into ~/.config/fish/completions/tilewright.fish\n"
      "complete -c tilewright -f\n";
  const std::string all = join(names(verbs), " ");
  for (const Verb& verb : verbs)
    if (!verb.hidden)
      text += fmt::format(
          "complete -c tilewright -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n", all,
          verb.name, shell_quoted(verb.summary));
  for (const Reached& r : reached(verbs)) {
    const std::vector<std::string> path = split(r.path, ' ');
    std::string condition = "__fish_seen_subcommand_from " + path[0];
    if (path.size() > 1) condition += "; and __fish_seen_subcommand_from " + path[1];
    for (const Verb& inner : r.verb->verbs)
      text += fmt::format("complete -c tilewright -n '{}' -a {} -d {}\n", condition, inner.name,
                          shell_quoted(inner.summary));
    for (const Flag& flag : r.verb->flags) {
      const Following f = following(flag);
      text += fmt::format("complete -c tilewright -n '{}' -l {}{}{} -d {}\n", condition, flag.name,
                          f.is_switch ? ""
                          : f.is_path ? " -r -F"
                                      : " -x",
                          f.words.empty() ? "" : fmt::format(" -a '{}'", join(f.words, " ")),
                          shell_quoted(flag.help));
    }
  }
  return text;
}

}  // namespace tw::tools
