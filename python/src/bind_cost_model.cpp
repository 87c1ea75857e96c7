// SPDX-License-Identifier: Apache-2.0
// cost_model/: what the analytic model expects of a schedule.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "cost_model/analytic.h"
#include "cost_model/facts.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "schedules/schedule.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

/// The analytic model's time of a schedule, and the resources that it is spent on.
struct PredictedTime {
  double total_ns = 0;
  std::vector<std::pair<std::string, double>> resources;  ///< most first; they overlap
};

PredictedTime predicted(const schedules::Schedule& schedule, const std::string& name, int threads) {
  if (threads < 1) throw py::value_error("threads: expected 1 or more");
  const Target target = value_of(parse_target(name));
  const auto program = value_of(schedule.program(schedules::limits_of(target)));
  const auto facts = value_of(cost_model::extract_facts(program, target));
  PredictedTime time;
  time.total_ns = cost_model::analytic_cost(facts, target.machine, threads).total_ns;
  for (auto& [resource, ns] : cost_model::resource_times(facts, target.machine, threads))
    time.resources.emplace_back(std::move(resource), ns);
  return time;
}

}  // namespace

void bind_cost_model(py::module_& m) {
  py::class_<PredictedTime>(m, "PredictedTime", "The time that the analytic model expects.")
      .def_readonly("total_ns", &PredictedTime::total_ns)
      .def_readonly("resources", &PredictedTime::resources,
                    "(resource, ns), most first; they overlap, so their sum exceeds total_ns")
      .def("__repr__", [](const PredictedTime& t) {
        return fmt::format("<PredictedTime {:.1f} us>", t.total_ns / 1e3);
      });
  m.def("predicted_time", &predicted, "schedule"_a, py::kw_only(), "target"_a = "host",
        "threads"_a = 1,
        "The time that the analytic model expects of a schedule, without running it. It orders "
        "schedules; the nanoseconds are within a factor of two.");
}

}  // namespace tw::python
