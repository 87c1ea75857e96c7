// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/command_line.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/visit.h"

namespace tw::tools {
namespace {

tl::unexpected<Error> usage(std::string_view verb, const std::string& why) {
  return fail(ErrorCode::Usage, fmt::format("[{}] {}", verb.empty() ? "tilewright" : verb, why));
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const auto guess = nearest(word, candidates);
  return guess ? fmt::format("; did you mean '{}'?", *guess) : "";
}

std::vector<std::string> names_of(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs)
    if (!verb.hidden) names.push_back(verb.name);
  return names;
}

std::vector<std::string> flags_of(const Verb& verb) {
  std::vector<std::string> names = {"--help", "--config"};
  for (const Flag& flag : verb.flags) names.push_back("--" + flag.name);
  return names;
}

const Verb* find_verb(const std::vector<Verb>& verbs, std::string_view name) {
  for (const Verb& verb : verbs)
    if (verb.name == name) return &verb;
  return nullptr;
}

bool has_flag(const Verb& verb, const std::string& name) {
  return std::any_of(verb.flags.begin(), verb.flags.end(),
                     [&](const Flag& flag) { return flag.name == name; });
}

bool is_repeatable(const Value& value) {
  return std::holds_alternative<Texts>(value) || std::holds_alternative<Paths>(value);
}

// ---- what a text means ----------------------------------------------------------------------

/// Parses the value of a switch. nullopt for a text that is no such value.
std::optional<bool> switched(std::string_view text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  return std::nullopt;
}

Status check_text(std::string_view verb, const std::string& name, const std::string& text) {
  if (!text.empty()) return {};
  return usage(verb, fmt::format("{}: an empty text; give one, or leave the flag out", name));
}

Status check_path(std::string_view verb, const std::string& name, const std::string& text) {
  if (!text.empty() && text.find('\0') == std::string::npos) return {};
  return usage(verb, fmt::format("{}: an empty path; give one", name));
}

Status set_value(std::string_view verb, const std::string& name, const Value& value,
                 const std::vector<std::string>& texts) {
  const std::string& text = texts.back();
  return std::visit(
      Overloaded{
          [&](const Switch& s) -> Status {
            const std::optional<bool> on = switched(text);
            if (!on) return usage(verb, fmt::format("{} '{}': expected true or false", name, text));
            s.set(*on);
            return {};
          },
          [&](const Text& t) -> Status {
            TW_RETURN_IF_ERROR(check_text(verb, name, text));
            *t.value = text;
            return {};
          },
          [&](const Path& p) -> Status {
            TW_RETURN_IF_ERROR(check_path(verb, name, text));
            *p.value = text;
            return {};
          },
          [&](const Choice& c) -> Status {
            if (std::find(c.choices.begin(), c.choices.end(), text) == c.choices.end())
              return usage(verb, fmt::format("{} '{}': expected one of {}{}", name, text,
                                             join(c.choices, ", "), suggestion(text, c.choices)));
            c.choose(text);
            return {};
          },
          [&](const Whole& w) -> Status {
            const auto number = parse_int(text);
            if (!number || *number < w.least || *number > w.most)
              return usage(verb, fmt::format("{} '{}': expected a whole number from {} to {}", name,
                                             text, w.least, w.most));
            *w.value = *number;
            return {};
          },
          [&](const Seconds& s) -> Status {
            const auto seconds = parse_seconds(text);
            if (!seconds) return usage(verb, fmt::format("{} {}", name, seconds.error().message));
            *s.value = *seconds;
            return {};
          },
          [&](const Texts& t) -> Status {
            for (const std::string& each : texts) TW_RETURN_IF_ERROR(check_text(verb, name, each));
            *t.values = texts;
            return {};
          },
          [&](const Paths& p) -> Status {
            for (const std::string& path : texts) TW_RETURN_IF_ERROR(check_path(verb, name, path));
            *p.values = texts;
            return {};
          }},
      value);
}

// ---- the configuration file -----------------------------------------------------------------

/// The verbs to which a key of the configuration file applies. Each verb is the list of its names,
/// such as {"db", "query"}. If the key is wrong, `problem` says why.
struct Placement {
  std::vector<std::vector<std::string>> parents;
  std::string problem = {};
};

Placement place(const std::vector<Verb>& verbs, const CLI::ConfigItem& item) {
  Placement result;
  const std::vector<Verb>* level = &verbs;
  const Verb* verb = nullptr;
  for (const std::string& parent : item.parents) {
    verb = find_verb(*level, parent);
    if (!verb) {
      result.problem = fmt::format("[{}] is the section of no verb{}", join(item.parents, "."),
                                   suggestion(parent, names_of(*level)));
      return result;
    }
    level = &verb->verbs;
  }
  if (verb) {
    result.parents.push_back(item.parents);
    if (!has_flag(*verb, item.name))
      result.problem = fmt::format("'{}' is no flag of '{}'{}", item.name, join(item.parents, " "),
                                   suggestion("--" + item.name, flags_of(*verb)));
    return result;
  }
  for (const Verb& each : verbs) {
    if (has_flag(each, item.name)) result.parents.push_back({each.name});
    for (const Verb& inner : each.verbs)
      if (has_flag(inner, item.name)) result.parents.push_back({each.name, inner.name});
  }
  if (result.parents.empty())
    result.problem = fmt::format("'{}' is no flag of any verb", item.name);
  return result;
}

/// Reads the configuration file. Keys of flags that the environment sets are left out, because the
/// environment has precedence, but CLI11 would prefer the file.
class ConfigurationFile : public CLI::ConfigTOML {
 public:
  explicit ConfigurationFile(const std::vector<Verb>* verbs) : verbs_(verbs) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(in), placed;
    // If a flag has several values, CLI11 uses the first. So keys of sections are put before keys
    // for all verbs.
    std::ranges::stable_sort(items, std::greater(),
                             [](const CLI::ConfigItem& item) { return item.parents.size(); });
    for (const CLI::ConfigItem& item : items) {
      if (item.name == "++" || item.name == "--") continue;  // the begin or end of a section
      const Placement placement = place(*verbs_, item);
      if (!placement.problem.empty())
        throw CLI::ConfigError(placement.problem, CLI::ExitCodes::ConfigError);
      if (is_in_environment(item.name)) continue;
      for (const auto& parents : placement.parents) {
        placed.push_back(item);
        placed.back().parents = parents;
      }
    }
    return placed;
  }

 private:
  const std::vector<Verb>* verbs_;
};

// ---- verbs as CLI11 sees them ---------------------------------------------------------------

struct Bound {
  const Flag* flag;
  CLI::Option* option;
  std::string name;  ///< name in messages: "--op" for a flag
};

struct Declared {
  const Verb* verb;
  CLI::App* app;
  std::string path;  ///< "db query"
  std::vector<Bound> flags;
  std::vector<Bound> operands;
};

bool accept(const CLI::results_t&) { return true; }

CLI::Option* declare_flag(CLI::App& app, const Flag& flag) {
  CLI::Option* option;
  if (std::holds_alternative<Switch>(flag.value)) {
    option = app.add_flag("--" + flag.name, flag.help);
  } else {
    option = app.add_option("--" + flag.name, CLI::callback_t(accept), flag.help);
    option->type_name(value_hint(flag.value));
  }
  option->multi_option_policy(is_repeatable(flag.value) ? CLI::MultiOptionPolicy::TakeAll
                                                        : CLI::MultiOptionPolicy::TakeLast);
  return option->envname(environment_name(flag.name));
}

CLI::Option* declare_operand(CLI::App& app, const Flag& flag) {
  CLI::Option* option = app.add_option(flag.name, CLI::callback_t(accept), flag.help);
  option->type_name(" ");
  if (!is_repeatable(flag.value)) return option;
  option->expected(1, CLI::detail::expected_max_vector_size);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option->allow_extra_args();  // without this, CLI11 gives an operand only one word
}

void declare(CLI::App& parent, const std::vector<Verb>& verbs, const std::string& path,
             std::vector<Declared>& all) {
  for (const Verb& verb : verbs) {
    CLI::App* app = parent.add_subcommand(verb.name, verb.summary);
    app->require_subcommand(0, 1);
    if (verb.hidden) app->group("");
    Declared declared{&verb, app, path.empty() ? verb.name : path + " " + verb.name, {}, {}};
    for (const Flag& flag : verb.flags)
      declared.flags.push_back({&flag, declare_flag(*app, flag), "--" + flag.name});
    for (const Flag& flag : verb.operands)
      declared.operands.push_back({&flag, declare_operand(*app, flag), flag.name});
    const std::string inner = declared.path;
    all.push_back(std::move(declared));
    declare(*app, verb.verbs, inner, all);
  }
}

/// Returns the innermost verb on the command line; null if there is none.
const Declared* chosen(const std::vector<Declared>& all) {
  const Declared* found = nullptr;
  for (const Declared& declared : all)
    if (declared.app->parsed()) found = &declared;
  return found;
}

bool is_given(const Bound& bound) {
  if (bound.option->count() == 0) return false;
  return !std::holds_alternative<Switch>(bound.flag->value) ||
         switched(bound.option->results().back()).value_or(false);
}

/// Returns the names of flags whose values are ignored: values from the environment or the
/// configuration file that contradict a flag on the command line. Fails with Usage if two flags of
/// the command line contradict each other, or two values from the environment or the file.
Result<std::set<std::string>> overruled(const Declared& declared,
                                        const std::set<std::string>& typed) {
  std::set<std::string> names;
  for (const Bound& bound : declared.flags) {
    if (!is_given(bound)) continue;
    for (const Bound& other : declared.flags) {
      const auto& excludes = bound.flag->excludes;
      if (std::find(excludes.begin(), excludes.end(), other.flag->name) == excludes.end() ||
          !is_given(other))
        continue;
      if (typed.contains(bound.name) == typed.contains(other.name))
        return usage(declared.path, fmt::format("{} and {} contradict each other: give one of them",
                                                bound.name, other.name));
      names.insert(typed.contains(bound.name) ? other.name : bound.name);
    }
  }
  return names;
}

/// Fails with Usage if a flag for one value has several values.
Status check_one_value(const Declared& declared, const Bound& bound) {
  if (bound.option->count() <= 1 || is_repeatable(bound.flag->value)) return {};
  return usage(
      declared.path,
      fmt::format("{} is given more than once, and takes one value: give it once", bound.name));
}

Status fill(const Declared& declared, const std::set<std::string>& typed) {
  TW_TRY(const std::set<std::string> left_out, overruled(declared, typed));
  for (const auto* list : {&declared.flags, &declared.operands})
    for (const Bound& bound : *list) {
      if (left_out.contains(bound.name)) continue;
      TW_RETURN_IF_ERROR(check_one_value(declared, bound));
      if (bound.option->count() > 0)
        TW_RETURN_IF_ERROR(
            set_value(declared.path, bound.name, bound.flag->value, bound.option->results()));
      else if (bound.flag->required)
        return usage(declared.path, fmt::format("{} is missing: {}; see tilewright {} --help",
                                                bound.name, bound.flag->help, declared.path));
    }
  return {};
}

tl::unexpected<Error> unexpected_words(const std::vector<std::string>& extras,
                                       const Declared* where, const std::vector<Verb>& verbs) {
  const std::string& word = extras.front();
  if (!where)
    return usage("", word[0] == '-' ? fmt::format("{} is no flag here: flags follow a verb", word)
                                    : fmt::format("'{}' is no verb: use one of {}{}", word,
                                                  join(names_of(verbs), ", "),
                                                  suggestion(word, names_of(verbs))));
  if (word[0] == '-' && word.size() > 1) {
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> known = flags_of(*where->verb);
    if (std::find(known.begin(), known.end(), name) != known.end())
      return usage(where->path, fmt::format("{} has to follow `{}`", name, where->path));
    return usage(where->path, fmt::format("{} is no flag of `{}`{}; see tilewright {} --help", name,
                                          where->path, suggestion(name, known), where->path));
  }
  if (!where->verb->verbs.empty())
    return usage(where->path, fmt::format("'{}' is none of its verbs: use one of {}{}", word,
                                          join(names_of(where->verb->verbs), ", "),
                                          suggestion(word, names_of(where->verb->verbs))));
  return usage(where->path,
               fmt::format("'{}' was not expected: see tilewright {} --help", word, where->path));
}

tl::unexpected<Error> explain(const CLI::ParseError& error, const Declared* where) {
  const std::string path = where ? where->path : "";
  std::string text = error.what();
  if (error.get_name() == "ArgumentMismatch")
    text = fmt::format("{}: a value has to follow", text.substr(0, text.find(": ")));
  if (error.get_name() == "ConfigError") text = "configuration file: " + text;
  return usage(path,
               fmt::format("{}; see tilewright {}--help", text, path.empty() ? "" : path + " "));
}

}  // namespace

std::set<std::string> typed_flags(const std::vector<std::string>& arguments) {
  std::set<std::string> names;
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.starts_with("--")) names.insert(argument.substr(0, argument.find('=')));
  }
  return names;
}

std::string value_hint(const Value& value) {
  return std::visit(
      Overloaded{[](const Switch&) { return std::string(); },
                 [](const Choice& c) { return join(c.choices, "|"); },
                 [](const Path&) { return std::string("PATH"); },
                 [](const Paths&) { return std::string("PATH"); },
                 [](const Whole& w) { return fmt::format("N={}", *w.value); },
                 [](const Seconds& s) { return fmt::format("TIME={}s", format_double(*s.value)); },
                 [](const auto&) { return std::string("TEXT"); }},
      value);
}

Result<double> parse_seconds(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  // "ms" comes before "s", because a text that ends with "ms" also ends with "s".
  for (const Unit unit :
       {Unit{"ms", 1e-3}, Unit{"s", 1}, Unit{"m", 60}, Unit{"h", 3600}, Unit{"", 1}}) {
    if (text.size() < unit.name.size() || !text.ends_with(unit.name)) continue;
    const auto number = parse_double(text.substr(0, text.size() - unit.name.size()));
    const double seconds = number.value_or(-1) * unit.seconds;
    if (number && seconds > 0 && seconds <= 1e7) return seconds;
    break;
  }
  return fail(
      ErrorCode::Usage,
      fmt::format("'{}': expected a positive time such as 500ms, 60s, 5m or 2h, of at most 1e7 "
                  "seconds",
                  text));
}

Result<CommandLine> parse_command_line(const std::vector<Verb>& verbs,
                                       const std::vector<std::string>& arguments,
                                       const Surroundings& here) {
  for (const Verb& verb : verbs) {
    if (!verb.everything || arguments.empty() || arguments[0] != verb.name) continue;
    verb.everything->assign(arguments.begin() + 1, arguments.end());
    return CommandLine{&verb, "", false};
  }
  CLI::App app(std::string(program_summary), "tilewright");
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.footer(
      fmt::format("Each flag may also be given as TILEWRIGHT_<FLAG> in the environment, or in the\n"
                  "configuration file. Exit codes: {}.",
                  exit_codes));
  app.config_formatter(std::make_shared<ConfigurationFile>(&verbs));
  app.set_config("--config", here.places.configuration, "TOML file of defaults")
      ->envname(environment_name("config"));
  CLI::Option* version = app.add_flag("--version")->description("print the version");
  std::vector<Declared> all;
  declare(app, verbs, "", all);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return CommandLine{nullptr, app.help(), false};
  } catch (const CLI::ExtrasError& error) {
    const auto extras = app.remaining(true);
    return extras.empty() ? explain(error, chosen(all))
                          : unexpected_words(extras, chosen(all), verbs);
  } catch (const CLI::ParseError& error) {
    return explain(error, chosen(all));
  }
  if (version->count() > 0) return CommandLine{nullptr, "", true};
  const Declared* declared = chosen(all);
  if (!declared) return usage("", "no verb is given: use one of " + join(names_of(verbs), ", "));
  TW_RETURN_IF_ERROR(fill(*declared, typed_flags(arguments)));
  if (!declared->verb->run)
    return usage(declared->path, "expects one of " + join(names_of(declared->verb->verbs), ", "));
  return CommandLine{declared->verb, "", false};
}

}  // namespace tw::tools
