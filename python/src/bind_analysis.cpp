// SPDX-License-Identifier: Apache-2.0
// Binds the functions that analyse a workload, a schedule or the file of a network without running
// anything. They return bounds of the machine, predicted times, and the plan of a network.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/target.h"
#include "base/time_text.h"
#include "cost_model/analytic.h"
#include "cost_model/expected.h"
#include "cost_model/facts/facts.h"
#include "dsl/workload.h"
#include "python/src/argument.h"
#include "python/src/bindings.h"
#include "python/src/callables.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/stores.h"
#include "python/src/targets.h"
#include "runtime/model.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/space/default_schedule.h"
#include "tuner/host_machine.h"
#include "tuner/measure/bandwidth.h"
#include "tuner/workers/device.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using schedules::Schedule;

int checked_threads(int threads) {
  if (threads < 1)
    raise({ErrorCode::Usage, fmt::format("[predict] threads {}: expected at least one", threads)});
  return threads;
}

// ---- bounds of the machine ------------------------------------------------------------------

/// A level of the memory hierarchy, with its size and bandwidth for all threads together.
struct MemoryRoof {
  std::string name;  ///< name of the level, as in tuner::MemoryLevel
  int64_t bytes = 0;
  double gb_per_s = 0;
};

struct Roofs {
  std::string machine;  ///< name and origin of the numbers
  double peak_gflops = 0;
  std::vector<MemoryRoof> levels;  ///< smallest first
};

double peak_gflops(const Machine& machine, int threads) {
  constexpr int f32_bytes = 4;
  if (machine.gpu) return 2 * machine.gpu->fma_lanes * machine.gpu->clock_ghz * machine.cores;
  const Core& core = machine.core;
  return 2 * core.fma_per_cycle * core.vector_bytes / f32_bytes * core.clock_ghz * threads;
}

double gb_per_s(const Machine& machine, const tuner::MemoryLevel& level, int threads) {
  const bool is_memory = level.name == "memory";
  if (machine.gpu) return is_memory ? machine.gpu->dram_gbps : machine.gpu->l2_gbps;
  const double clock = machine.core.clock_ghz;
  if (is_memory)
    return machine.memory_bytes_per_cycle * clock *
           std::min<double>(threads, machine.cores_that_fill_memory);
  const auto number = static_cast<size_t>(level.name.back() - '1');
  return machine.caches[number].bytes_per_cycle * clock * threads;
}

using StoreOrNone = Argument<py::typing::Optional<SharedStore>>;

Roofs roofs_of(const std::string& text, int threads, const StoreOrNone& database) {
  Target target = target_of(text);
  if (!database.is_none()) {
    if (!py::isinstance<SharedStore>(database))
      throw py::type_error(fmt::format("roofs(): db is {}: expected a Store or None",
                                       py::repr(database).cast<std::string>()));
    target = database.cast<SharedStore&>().use(
        [&](db::Store& store) { return tuner::with_known_machine(store, std::move(target)); });
  }
  Roofs roofs{describe(target.machine), peak_gflops(target.machine, checked_threads(threads)), {}};
  for (const tuner::MemoryLevel& level : tuner::memory_levels(target, threads))
    roofs.levels.push_back(
        {std::string(level.name), level.bytes, gb_per_s(target.machine, level, threads)});
  return roofs;
}

void bind_roofs(py::module_& m) {
  py::class_<MemoryRoof>(m, "MemoryRoof", "A level of the memory hierarchy.")
      .def_readonly("name", &MemoryRoof::name, "L1, L2, L3 or memory")
      .def_readonly("bytes", &MemoryRoof::bytes, "capacity for all threads together")
      .def_readonly("gb_per_s", &MemoryRoof::gb_per_s, "bandwidth of reads by all threads together")
      .def("__repr__", [](const MemoryRoof& roof) {
        return fmt::format("<MemoryRoof {}: {:.1f} GB/s>", roof.name, roof.gb_per_s);
      });
  py::class_<Roofs>(m, "Roofs", "Upper bounds of a machine's speed, from its description.")
      .def_readonly("machine", &Roofs::machine)
      .def_readonly("peak_gflops", &Roofs::peak_gflops, "of f32 multiply-adds")
      .def_readonly("levels", &Roofs::levels, "smallest first")
      .def("__repr__", [](const Roofs& roofs) {
        return fmt::format("<Roofs of {}: {:.1f} GFLOP/s>", roofs.machine, roofs.peak_gflops);
      });
  m.def("roofs", &roofs_of, "target"_a = "host", py::kw_only(), "threads"_a = 1,
        "db"_a = py::none(),
        "The peak and the bandwidths of the machine for which kernels of the target are tuned. "
        "With a Store `db` that has a calibration of this device, they are the calibrated ones.");
  m.def(
      "device", [](const std::string& text) { return tuner::device_text(target_of(text)); },
      "target"_a = "host", "The name of the device, as records of this machine have it.");
}

// ---- schedules ------------------------------------------------------------------------------

/// The time that the analytic model predicts, and the resources on which the time is spent.
struct PredictedTime {
  double total_ns = 0;
  /// Name and time in ns of each resource, the largest first; the times overlap.
  std::vector<std::pair<std::string, double>> resources;
};

/// Returns the numbers about a schedule's program that the analytic model reads.
Result<cost_model::KernelFacts> facts_of(const Schedule& schedule, const Target& target) {
  TW_TRY(const schedules::Program program, schedule.program(schedules::limits_of(target)));
  return cost_model::extract_facts(program, target);
}

PredictedTime predicted_time(const Schedule& schedule, const std::string& name, int threads) {
  checked_threads(threads);
  const Target target = target_of(name);
  const auto facts = value_of(facts_of(schedule, target));
  PredictedTime time;
  time.total_ns = cost_model::analytic_cost(facts, target.machine, threads).total_ns;
  for (auto& [resource, ns] : cost_model::resource_times(facts, target.machine, threads))
    time.resources.emplace_back(std::move(resource), ns);
  return time;
}

/// Returns the expected time in nanoseconds; nullopt if the schedule cannot be applied to the
/// workload.
std::optional<double> predicted_ns(const dsl::Workload& workload, const std::string& text,
                                   const Target& target, int threads) {
  const auto schedule = schedules::parse_schedule(workload.compute, text);
  if (!schedule) return std::nullopt;
  auto kernel = schedule->program(schedules::limits_of(target));
  if (!kernel) return std::nullopt;
  const auto ns =
      cost_model::expected_ns(std::move(*kernel), schedules::problem_of(workload), target, threads);
  return ns ? std::optional(*ns) : std::nullopt;
}

std::vector<std::optional<double>> predict(const dsl::Workload& workload,
                                           const std::vector<std::string>& texts,
                                           const std::string& target, int threads) {
  const Target chosen = target_of(target);
  checked_threads(threads);
  const WithoutGil released;
  std::vector<std::optional<double>> times;
  for (const std::string& text : texts)
    times.push_back(predicted_ns(workload, text, chosen, threads));
  return times;
}

Schedule default_schedule(const dsl::Workload& workload, const std::string& target) {
  const Target chosen = target_of(target);
  Result<Schedule> schedule = [&] {
    const WithoutGil released;
    return schedules::default_schedule(workload, chosen);
  }();
  return value_of(std::move(schedule));
}

void bind_predictions(py::module_& m) {
  m.def(
      "compulsory_traffic",
      [](const dsl::Compute& compute) {
        const dsl::Traffic traffic = dsl::compulsory_traffic(compute);
        return py::make_tuple(traffic.read_bytes, traffic.written_bytes);
      },
      "compute"_a, "The bytes that every kernel reads and writes at least.");
  py::class_<PredictedTime>(m, "PredictedTime", "The time that the analytic model predicts.")
      .def_readonly("total_ns", &PredictedTime::total_ns)
      .def_readonly("resources", &PredictedTime::resources,
                    "(resource, ns), most first; they overlap, so their sum exceeds total_ns")
      .def("__repr__", [](const PredictedTime& t) {
        return fmt::format("<PredictedTime {}>", time_text(t.total_ns));
      });
  m.def(
      "predicted_time", &predicted_time, "schedule"_a, py::kw_only(), "target"_a = "host",
      "threads"_a = 1,
      "Predicts the time of a schedule by the analytic model, without running it. Use it to order "
      "schedules; the nanoseconds are within a factor of two.");
  m.def("predict", &predict, "workload"_a, "schedules"_a, py::kw_only(), "target"_a = "host",
        "threads"_a = 1,
        "The expected time of each schedule text in ns; None for a text that does not apply.");
  m.def("default_schedule", &default_schedule, "workload"_a, "target"_a = "host",
        "The schedule with which a search begins, before anything is measured.");
}

// ---- plans ----------------------------------------------------------------------------------

struct PlanArgument {
  std::string tensor, dtype, layout;
  std::vector<int64_t> shape;
  std::string place;  ///< a text that is equal for arguments in the same memory at this step
  bool is_output = false, is_constant = false;
};

struct PlanStep {
  std::string name, workload, schedule;
  int threads = 0;
  double predicted_ns = 0;
  std::vector<PlanArgument> arguments;
};

/// The plan of one variant of a network, as Python shows it to people.
struct Plan {
  std::string name, target, inputs, text;
  int threads = 0;
  size_t variants = 0;
  int64_t arena_bytes = 0;
  std::vector<PlanStep> steps;
};

const char* name_of(runtime::Place place) {
  switch (place) {
    case runtime::Place::Input:
      return "input";
    case runtime::Place::Output:
      return "output";
    case runtime::Place::Constant:
      return "constant";
    case runtime::Place::Arena:
      return "arena";
  }
  return "";
}

PlanArgument argument_of(const runtime::ModelTensor& tensor, bool is_output) {
  return {tensor.name,
          std::string(to_string(tensor.dtype)),
          tensor.layout,
          tensor.shape,
          fmt::format("{} {}", name_of(tensor.place), tensor.at),
          is_output,
          tensor.place == runtime::Place::Constant};
}

PlanStep step_of(const runtime::ModelFile& model, const runtime::ModelVariant& variant,
                 const runtime::ModelStep& step) {
  const runtime::KernelInfo& kernel = model.kernels[static_cast<size_t>(step.kernel)].info;
  PlanStep made{step.name,         kernel.workload,
                kernel.schedule,   step.threads > 0 ? step.threads : model.threads,
                step.predicted_ns, {}};
  const std::vector<runtime::ArgumentInfo> buffers = runtime::call_buffers(kernel);
  for (size_t i = 0; i < step.arguments.size(); ++i)
    made.arguments.push_back(
        argument_of(variant.tensors[static_cast<size_t>(step.arguments[i])], buffers[i].is_output));
  return made;
}

Plan plan_of(const runtime::ModelFile& model, size_t number) {
  if (number >= model.variants.size())
    throw py::index_error(
        fmt::format("variant {}: the network has {}", number, model.variants.size()));
  const runtime::ModelVariant& variant = model.variants[number];
  Plan plan{model.name,    model.target,          runtime::show_inputs(variant), variant.plan,
            model.threads, model.variants.size(), variant.arena_bytes,           {}};
  for (const runtime::ModelStep& step : variant.steps)
    plan.steps.push_back(step_of(model, variant, step));
  return plan;
}

void bind_plans(py::module_& m) {
  py::class_<PlanArgument>(m, "PlanArgument", "An array that a step reads or writes.")
      .def_readonly("tensor", &PlanArgument::tensor)
      .def_readonly("dtype", &PlanArgument::dtype)
      .def_readonly("shape", &PlanArgument::shape)
      .def_readonly("layout", &PlanArgument::layout, "empty: row-major")
      .def_readonly("place", &PlanArgument::place,
                    "where it lies; equal for a tensor and its reshape")
      .def_readonly("is_output", &PlanArgument::is_output)
      .def_readonly("is_constant", &PlanArgument::is_constant);
  py::class_<PlanStep>(m, "PlanStep", "One call of a kernel in a network.")
      .def_readonly("name", &PlanStep::name, "operator, or 'tensor: NCHW -> NCHW16c'")
      .def_readonly("workload", &PlanStep::workload)
      .def_readonly("schedule", &PlanStep::schedule)
      .def_readonly("threads", &PlanStep::threads)
      .def_readonly("predicted_ns", &PlanStep::predicted_ns,
                    "ns of one call: a measured time if the plan had one, else a predicted time")
      .def_readonly("arguments", &PlanStep::arguments)
      .def("__repr__", [](const PlanStep& step) {
        return fmt::format("<PlanStep {}: {}>", step.name, time_text(step.predicted_ns));
      });
  py::class_<Plan>(m, "Plan",
                   "The steps that a network's file runs, for one variant of the network.")
      .def_readonly("name", &Plan::name)
      .def_readonly("target", &Plan::target)
      .def_readonly("inputs", &Plan::inputs, "names and shapes that the variant is for")
      .def_readonly("threads", &Plan::threads)
      .def_readonly("variants", &Plan::variants, "number of variants of the network")
      .def_readonly("arena_bytes", &Plan::arena_bytes, "memory of one call")
      .def_readonly("steps", &Plan::steps)
      .def("__str__", [](const Plan& plan) { return plan.text; })
      .def("__repr__", [](const Plan& plan) {
        return fmt::format("<Plan of {}: {} steps>", plan.name, plan.steps.size());
      });
  m.def(
      "read_plan",
      [](const std::filesystem::path& path, size_t variant) {
        Result<runtime::MappedModel> mapped = [&] {
          const WithoutGil released;
          return runtime::map_model(path, runtime::Trust::Own, host_target(),
                                    runtime::Constants::Trusted);
        }();
        return plan_of(value_of(std::move(mapped)).model, variant);
      },
      "path"_a, "variant"_a = 0,
      "Reads the plan from a file that `tilewright tune --model` wrote.");
}

}  // namespace

void bind_analysis(py::module_& m) {
  bind_roofs(m);
  bind_predictions(m);
  bind_plans(m);
}

}  // namespace tw::python
