// SPDX-License-Identifier: Apache-2.0
// Binds schedules/: schedules that are written by hand, and the programs to which they are lowered.
// The methods of the Python class Schedule, with their signatures, are derived from the fields of
// the scheduling steps (schedules/step.h).

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "codegen/c_emitter.h"
#include "dsl/workload.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "python/src/targets.h"
#include "schedules/adapt.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/step.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using schedules::Schedule;

/// Returns the value of a step's field as it is written in the text of a step.
std::string words_of(const py::handle& value) {
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    std::vector<std::string> words;
    for (const py::handle item : value) words.push_back(py::str(item));
    return fmt::format("{}", fmt::join(words, " "));
  }
  return py::str(value);
}

/// Returns a field as it is written in the text of a step: "as" if the field has names for new
/// loops, then its value. For example, "as i.0 i.1".
template <typename F>
std::string field_words(const F&, const py::handle& value) {
  constexpr bool are_own_names = std::is_same_v<typename F::Type, schedules::OwnNames<1>> ||
                                 std::is_same_v<typename F::Type, schedules::OwnNames<2>>;
  return (are_own_names ? "as " : "") + words_of(value);
}

/// Makes a step from the arguments of its Python method, which are given by position or by name.
/// The arguments are joined to the text of the step, and the text is parsed. So Python, C++ and the
/// database accept the same steps.
template <typename S>
schedules::Step step_of(const py::args& args, const py::kwargs& kwargs) {
  std::vector<std::string> words = {std::string(S::name)};
  const std::vector<std::string> known = std::apply(
      [](const auto&... field) { return std::vector<std::string>{std::string(field.name)...}; },
      S::fields());
  py::module_::import("tilewright.options")
      .attr("check_names")(std::string(S::name), kwargs, known);
  if (args.size() > known.size())
    throw py::type_error(fmt::format("{}() takes {}, and {} arguments were given", S::name,
                                     fmt::join(known, ", "), args.size()));
  size_t position = 0;
  const auto add = [&](const auto& field) {
    const std::string name(field.name);
    if (position < args.size() && kwargs.contains(name))
      throw py::type_error(
          fmt::format("{}(): '{}' is given by position and by name", S::name, name));
    if (position < args.size()) {
      words.push_back(field_words(field, args[position++]));
    } else if (kwargs.contains(name)) {
      words.push_back(field_words(field, kwargs[name.c_str()]));
    } else if (!field.is_optional) {
      throw py::type_error(fmt::format("{}(): argument '{}' is missing", S::name, name));
    }
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, S::fields());
  return value_of(schedules::parse_step(fmt::format("{}", fmt::join(words, " "))));
}

/// Returns the name of a field's type in Python, for signatures.
template <typename T>
std::string annotation() {
  if constexpr (std::is_integral_v<T>) return "int";
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::string>) return "str";
  return "collections.abc.Sequence[str]";
}

/// Returns a parameter of a signature: "NAME: TYPE", followed by the default value if the field may
/// be left out.
template <typename S, typename F>
std::string parameter(const F& field) {
  std::string text = fmt::format("{}: {}", field.name, annotation<typename F::Type>());
  if constexpr (std::is_enum_v<typename F::Type>) {
    if (field.is_optional) text += fmt::format(" = '{}'", to_string(S{}.*field.member));
  } else {
    if (field.is_optional) text += " = ...";
  }
  return text;
}

/// Returns the docstring of a step's method: its signature, which the generator of stubs reads, and
/// a description of the step.
template <typename S>
std::string documentation(const char* method) {
  std::string parameters = "self";
  const auto add = [&](const auto& field) { parameters += ", " + parameter<S>(field); };
  std::apply([&](const auto&... field) { (add(field), ...); }, S::fields());
  std::string usage;
  for (const std::string& line : schedules::step_usages())
    if (line.starts_with(fmt::format("{} ", S::name))) usage = line;
  return fmt::format(
      "{}({}) -> Schedule\n\nThe schedule with the step `{}`; docs/schedules.md shows its effect.",
      method, parameters, usage);
}

/// Returns the schedule with one more step. Raises InvalidError if the step is not legal there.
Schedule applied(const Schedule& schedule, schedules::Step step) {
  Schedule next = schedule.then(std::move(step));
  if (next.error()) raise(*next.error());
  return next;
}

dsl::Compute compute_of(const py::object& given) {
  if (py::isinstance<dsl::Workload>(given)) return given.cast<dsl::Workload>().compute;
  if (py::isinstance<dsl::Compute>(given)) return given.cast<dsl::Compute>();
  throw py::type_error(fmt::format("Schedule: compute is {}: expected a Workload or a Compute",
                                   py::repr(given).cast<std::string>().substr(0, 80)));
}

}  // namespace

void bind_schedules(py::module_& m) {
  py::class_<schedules::Program>(m, "Program", "The loops to which a schedule is lowered.")
      .def("__str__", [](const schedules::Program& p) { return schedules::to_string(p); })
      .def("__repr__", [](const schedules::Program& p) {
        return fmt::format("<Program of {} phases>", p.phases.size());
      });

  py::class_<Schedule> schedule(m, "Schedule",
                                "A compute, and the steps that say how to compute it. Each method "
                                "returns a new schedule with one "
                                "more step, or raises InvalidError if the step does not apply. "
                                "docs/schedules.md shows all steps.");
  using schedules::Adapted, schedules::AdaptedStep;
  py::class_<AdaptedStep>(
      m, "AdaptedStep",
      "A step of a schedule that was applied to another workload, and what became of it.")
      .def_readonly("given", &AdaptedStep::given, "the step as it was written")
      .def_readonly("applied", &AdaptedStep::applied,
                    "the step in the new schedule; '': it was left out")
      .def_readonly("note", &AdaptedStep::note,
                    "why it was changed or left out, or how many iterations its last tile has");
  py::class_<Adapted>(m, "Adapted", "A schedule applied to another workload.")
      .def_readonly("schedule", &Adapted::schedule)
      .def_readonly("steps", &Adapted::steps)
      .def_property_readonly("is_unchanged", &Adapted::is_unchanged)
      .def("__repr__",
           [](const Adapted& a) {
             return fmt::format("<Adapted schedule of {} steps>", a.steps.size());
           })
      .def("__str__", [](const Adapted& a) {
        return fmt::format("{}", fmt::join(schedules::notes_of(a), "\n"));
      });

  schedule
      .def(py::init([](const py::object& compute) { return Schedule(compute_of(compute)); }),
           "compute"_a)
      .def(
          "program",
          [](const Schedule& s, const std::string& target) {
            return value_of(s.program(schedules::limits_of(target_of(target))));
          },
          "target"_a = "host",
          "Lowers and checks the schedule. Sizes must be within the limits of the target, such as "
          "the shared memory of a GPU. Raises InvalidError if the schedule is illegal.")
      .def_property_readonly("compute", &Schedule::compute)
      .def_property_readonly("steps",
                             [](const Schedule& s) {
                               std::vector<std::string> lines;
                               for (const auto& step : s.steps())
                                 lines.push_back(schedules::to_string(step));
                               return lines;
                             })
      .def("__str__", &Schedule::to_string)
      .def(
          "__repr__",
          [](const Schedule& s) { return fmt::format("<Schedule of {} steps>", s.steps().size()); })
      .def(
          "__eq__",
          [](const Schedule& a, const Schedule& b) { return a.to_string() == b.to_string(); },
          py::is_operator())
      .def("__hash__", [](const Schedule& s) { return py::hash(py::str(s.to_string())); })
      .def(
          "then",
          [](const Schedule& s, const std::string& line) {
            return applied(s, value_of(schedules::parse_step(line)));
          },
          "line"_a, "Returns the schedule with one more step, given as text: 'split out x 14'.");
  schedule.def(
      "applied_to",
      [](const Schedule& s, const py::object& compute) {
        return schedules::adapt(s.steps(), compute_of(compute));
      },
      "workload"_a,
      "Applies the schedule to another workload or compute, such as another shape. Factors and "
      "tails are adapted, and steps that do not apply are left out. str() of the result says "
      "which.");
  py::options written;  // documentation() has the signatures of the steps' methods
  written.disable_function_signatures();
#define X(Type, method)                                                       \
  schedule.def(                                                               \
      #method,                                                                \
      [](const Schedule& s, const py::args& args, const py::kwargs& kwargs) { \
        return applied(s, step_of<schedules::Type>(args, kwargs));            \
      },                                                                      \
      documentation<schedules::Type>(#method).c_str());
  TW_STEPS(X)
#undef X
  written.enable_function_signatures();
  m.def(
      "parse_schedule",
      [](const py::object& compute, const std::string& text) {
        return value_of(schedules::read_schedule(compute_of(compute), text, "the text"));
      },
      "compute"_a, "text"_a,
      "Reads a schedule from its text, which begins with 'tw1'. Raises InvalidError with line and "
      "column of a fault.");
}

}  // namespace tw::python
