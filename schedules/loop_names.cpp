// SPDX-License-Identifier: Apache-2.0
#include "schedules/loop_names.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/text.h"

namespace tw::schedules {
namespace {

constexpr std::array<std::string_view, 3> stage_fields = {"stage", "consumer", "into"};

/// Returns the stage whose loops a step names; null if the step names no loops or there is no such
/// stage.
template <typename S>
const StageNest* stage_of_loops(const Nest& nest, const S& step) {
  if constexpr (requires { step.consumer; })
    return nest.find(step.consumer);
  else if constexpr (requires { step.stage; })
    return nest.find(step.stage);
  else
    return nullptr;
}

template <typename S, typename F>
void visit_fields(F&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, S::fields());
}

/// Calls `visit` with each loop name of a field's value.
template <typename T, typename F>
void visit_names(T& value, F&& visit) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, std::string>) {
    visit(value);
  } else {
    for (auto& name : value) visit(name);
  }
}

bool has_tensor(const Nest& nest, const std::string& name) {
  return nest.compute.find_input(name) || nest.compute.find_stage(name);
}

/// Returns the derived name of the loop that an own name stands for; null if `name` is no own name.
const std::string* own_name(const StageNest& stage, const std::string& name) {
  for (const StageNest::OwnName& own : stage.own_names)
    if (own.name == name) return &own.loop;
  return nullptr;
}

/// Translates one part of a name; parts are separated by `*`. If the part is an own name, perhaps
/// with suffixes of later splits, returns the derived name: "n.0.1" for "no.1" if `no` is n.0.
/// Returns any other part unchanged.
std::string derived_part(const StageNest& stage, const std::string& part) {
  std::string base = part;
  for (;;) {
    if (const std::string* loop = own_name(stage, base)) return *loop + part.substr(base.size());
    if (!base.ends_with(".0") && !base.ends_with(".1")) return part;
    base.resize(base.size() - 2);
  }
}

}  // namespace

bool has_own_names(const Nest& nest) {
  return std::any_of(nest.stages.begin(), nest.stages.end(),
                     [](const StageNest& stage) { return !stage.own_names.empty(); });
}

std::string derived_name(const StageNest& stage, const std::string& name) {
  if (stage.own_names.empty() || stage.find_loop(name) >= 0) return name;
  std::vector<std::string> parts = tw::split(name, '*');
  for (std::string& part : parts) part = derived_part(stage, part);
  std::string derived = join(parts, "*");
  return stage.find_loop(derived) >= 0 ? derived : name;
}

Step with_derived_names(const Nest& nest, Step step) {
  std::visit(
      [&]<typename S>(S& s) {
        const StageNest* stage = stage_of_loops(nest, s);
        if (!stage) return;
        visit_fields<S>([&](const auto& field) {
          using T = typename std::remove_cvref_t<decltype(field)>::Type;
          if constexpr (std::is_same_v<T, std::string> ||
                        std::is_same_v<T, std::vector<std::string>>)
            if (field.names_loops)
              visit_names(s.*field.member,
                          [&](std::string& name) { name = derived_name(*stage, name); });
        });
      },
      step);
  return step;
}

void forget_own_names(Step& step) {
  std::visit(
      [](auto& s) {
        if constexpr (requires { s.names.names; }) s.names.names.clear();
      },
      step);
}

size_t word_at_fault(const Nest& nest, const Step& step) {
  size_t fault = 0, word = 1;
  const auto check = [&](bool exists) {
    if (!exists && fault == 0) fault = word;
    ++word;
  };
  const auto visit = [&]<typename S>(const S& s) {
    const StageNest* stage = stage_of_loops(nest, s);
    visit_fields<S>([&](const auto& field) {
      using T = typename std::remove_cvref_t<decltype(field)>::Type;
      if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>) {
        const bool names_stage =
            std::find(stage_fields.begin(), stage_fields.end(), field.name) != stage_fields.end();
        const bool names_tensor = field.name == "tensor";
        visit_names(s.*field.member, [&](const std::string& name) {
          const bool is_wrong_loop =
              field.names_loops && stage && stage->find_loop(derived_name(*stage, name)) < 0;
          check(!is_wrong_loop && !(names_stage && !nest.find(name)) &&
                !(names_tensor && !has_tensor(nest, name)));
        });
      } else {
        ++word;
      }
    });
  };
  std::visit(visit, step);
  return fault;
}

}  // namespace tw::schedules
