// SPDX-License-Identifier: Apache-2.0
// Binds runtime/: kernels and networks that Python calls on arrays.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/target.h"
#include "codegen/export.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/callables.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/text.h"
#include "runtime/kernel.h"
#include "runtime/model.h"
#include "runtime/private_file.h"
#include "runtime/session.h"
#include "tuner/tune.h"
#include "tuner/workers/device.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using runtime::ArgumentInfo;
using runtime::Buffer;
using ArrayArguments = py::Args<py::object>;

runtime::ThreadPool& pool_of_process() {
  // The pool starts its threads at the first call that needs them, and starts them again in a child
  // process after fork().
  static runtime::ThreadPool& pool = *new runtime::ThreadPool();
  return pool;
}

/// The arrays of one call, in the order of the kernel's arguments: inputs, then outputs.
struct Bound {
  std::vector<Buffer> buffers;
  std::vector<py::object> owners;  ///< Python objects that keep the buffers' memory alive
  py::object result;  ///< what the call returns: the output, or a tuple of several outputs

  void add(BorrowedArray array) {
    buffers.push_back(std::move(array.buffer));
    owners.push_back(std::move(array.owner));
  }
};

size_t count_inputs(std::span<const ArgumentInfo> arguments) {
  return static_cast<size_t>(std::ranges::count(arguments, false, &ArgumentInfo::is_output));
}

/// Returns the arrays for the outputs of a call: those in `out`, or new arrays if `out` is None.
py::tuple outputs_of(std::span<const ArgumentInfo> arguments, const py::object& out) {
  const size_t inputs = count_inputs(arguments), count = arguments.size() - inputs;
  if (out.is_none()) {
    py::tuple made(count);
    for (size_t i = 0; i < count; ++i)
      made[i] = new_array(arguments[inputs + i].dtype, arguments[inputs + i].shape);
    return made;
  }
  const py::tuple given =
      py::isinstance<py::tuple>(out) ? out.cast<py::tuple>() : py::make_tuple(out);
  if (given.size() != count)
    throw py::type_error(fmt::format("out: expected {} arrays, got {}", count, given.size()));
  return given;
}

std::span<const ArgumentInfo> arguments_of(const runtime::Kernel& kernel) {
  return kernel.info().arguments;
}
std::span<const ArgumentInfo> arguments_of(const runtime::Model& model) {
  return model.arguments();
}

/// arguments_for() returns the descriptions of the arguments of a call with these inputs. If a
/// network has several variants, these are the arguments of the variant for the shapes of the
/// inputs.
std::span<const ArgumentInfo> arguments_for(const runtime::Kernel& kernel,
                                            const std::vector<Buffer>& /*inputs*/) {
  return arguments_of(kernel);
}
std::span<const ArgumentInfo> arguments_for(const runtime::Model& model,
                                            std::vector<Buffer> inputs) {
  inputs.resize(model.arguments().size());
  return model.arguments(value_of(model.variant_of(inputs)));
}

template <typename Callable>
Bound bind_arrays(const Callable& callable, const ArrayArguments& inputs, const py::object& out) {
  const std::span<const ArgumentInfo> types = arguments_of(callable);
  const size_t count = count_inputs(types);
  if (inputs.size() != count) {
    std::vector<std::string> names;
    for (const ArgumentInfo& argument : types.first(count)) names.push_back(argument.name);
    throw py::type_error(fmt::format("expected {} input arrays ({}), got {}", count,
                                     fmt::join(names, ", "), inputs.size()));
  }
  Bound bound;
  bound.buffers.reserve(types.size());
  bound.owners.reserve(types.size());
  for (size_t i = 0; i < count; ++i) bound.add(borrow_array(inputs[i], types[i]));
  const std::span<const ArgumentInfo> arguments = arguments_for(callable, bound.buffers);
  const py::tuple outputs = outputs_of(arguments, out);
  for (size_t i = 0; i < outputs.size(); ++i)
    bound.add(borrow_array(outputs[i], arguments[count + i]));
  bound.result = outputs.size() == 1 ? py::object(outputs[0]) : py::object(outputs);
  return bound;
}

/// A call that can be repeated on the same arrays. The arrays are checked once, when the object is
/// made, so each call costs no more than a call in C.
template <typename Callable>
struct BoundCall {
  Callable callable;
  Bound arrays;
  int threads = 0;

  py::object call() const {
    Status done = [&] {
      const WithoutGil released;
      return callable.call(arrays.buffers, pool_of_process(), threads);
    }();
    value_of(std::move(done));
    return arrays.result;
  }
};

/// Returns the number of threads of a call: `given`, or `otherwise` if the caller gave none. 0
/// means all threads. Raises UsageError for an impossible number.
int threads_of_call(std::optional<int> given, int otherwise) {
  const int threads = given.value_or(otherwise);
  if (threads < 0 || threads > tuner::most_kernel_threads)
    raise({ErrorCode::Usage, fmt::format("[call] threads is {}; 0 (all) to {} was expected",
                                         threads, tuner::most_kernel_threads)});
  return threads;
}

/// Returns the inputs of a call in the order of the kernel's arguments. Inputs that are given by
/// position come first; the remaining inputs are given by name. Raises TypeError if an input is
/// missing, unknown or given twice.
ArrayArguments ordered_inputs(std::span<const ArgumentInfo> arguments,
                              const ArrayArguments& by_position, const py::kwargs& by_name) {
  std::vector<std::string> names;
  for (const ArgumentInfo& argument : arguments.first(count_inputs(arguments)))
    names.push_back(argument.name);
  for (const auto& [name, array] : by_name) {
    const auto given = name.template cast<std::string>();
    const auto known = std::ranges::find(names, given);
    if (known == names.end())
      throw py::type_error(
          fmt::format("'{}' is no input; the inputs are {}, the options out and threads", given,
                      fmt::join(names, ", ")));
    if (known - names.begin() < std::ssize(by_position))
      throw py::type_error(fmt::format("input '{}' is given by position and by name", given));
  }
  py::list inputs;
  for (const py::handle input : by_position) inputs.append(input);
  for (size_t i = inputs.size(); i < names.size(); ++i) {
    const py::str name(names[i]);
    if (!by_name.contains(name))
      throw py::type_error(fmt::format("input '{}' is missing: the inputs are {}", names[i],
                                       fmt::join(names, ", ")));
    inputs.append(by_name[name]);
  }
  return py::tuple(inputs);
}

template <typename Callable>
BoundCall<Callable> bound_call(const CallableOf<Callable>& called, const ArrayArguments& inputs,
                               const py::object& out, std::optional<int> threads,
                               const py::kwargs& by_name) {
  const int chosen = threads_of_call(threads, called.threads);
  if (by_name.empty()) return {called.callable, bind_arrays(called.callable, inputs, out), chosen};
  const ArrayArguments ordered = ordered_inputs(arguments_of(called.callable), inputs, by_name);
  return {called.callable, bind_arrays(called.callable, ordered, out), chosen};
}

template <typename Callable>
void bind_callable(py::module_& m, py::class_<CallableOf<Callable>>& type, const char* bound_name) {
  py::class_<BoundCall<Callable>>(m, bound_name, "A call with its arrays, which can be repeated.")
      .def("__call__", &BoundCall<Callable>::call);
  type.def_property_readonly(
          "arguments",
          [](const CallableOf<Callable>& c) {
            const auto arguments = arguments_of(c.callable);
            return std::vector<ArgumentInfo>(arguments.begin(), arguments.end());
          },
          "inputs, then outputs")
      .def(
          "__call__",
          [](const CallableOf<Callable>& c, const ArrayArguments& inputs, const py::object& out,
             std::optional<int> threads, const py::kwargs& by_name) {
            return bound_call<Callable>(c, inputs, out, threads, by_name).call();
          },
          py::kw_only(), "out"_a = py::none(), "threads"_a = py::none(),
          "Runs on arrays of NumPy, or of any library with DLPack. Inputs are given by name, or in "
          "the order of `arguments`, in which the expression first reads them. Returns the output, "
          "or a tuple of several. `out` is an array, or a tuple of arrays, to write to. `threads` "
          "is the largest number of threads; 0: all. Thread-safe; the GIL is released.")
      .def(
          "bind",
          [](const CallableOf<Callable>& c, const ArrayArguments& inputs, const py::object& out,
             std::optional<int> threads, const py::kwargs& by_name) {
            return bound_call<Callable>(c, inputs, out, threads, by_name);
          },
          py::kw_only(), "out"_a = py::none(), "threads"_a = py::none(),
          "Checks the arrays of a call once, and returns the call, which can be repeated.");
}

py::str export_kernel(const CallableOf<runtime::Kernel>& kernel, const std::filesystem::path& path,
                      const std::string& name) {
  const runtime::KernelInfo& info = kernel.callable.info();
  value_of(codegen::check_export(path, name));
  codegen::ExportOptions options;
  options.name = name.empty() ? codegen::export_name(path) : name;
  options.kernel.cpu.plugin_directories = {
      py::module_::import("tilewright.paths").attr("code_generator")().cast<std::string>()};
  const Target target = value_of(parse_target(info.target));
  Status done = [&]() -> Status {
    const WithoutGil released;
    TW_TRY(const codegen::ExportedKernel exported,
           codegen::export_kernel(info.workload, info.schedule, target, options));
    return codegen::write_exported(path, exported);
  }();
  value_of(std::move(done));
  return path_text(codegen::header_path(path));
}

void bind_kernels(py::module_& m) {
  m.def(
      "_check_replaceable",
      [](const std::filesystem::path& path) { value_of(runtime::check_replaceable(path)); },
      "path"_a, "Raises UsageError if a device or a pipe is at the path.");
  py::class_<CallableOf<runtime::Kernel>> kernel(m, "Kernel", "A compiled kernel that is loaded.");
  kernel
      .def_static(
          "load",
          [](const std::filesystem::path& path) {
            runtime::Artifact artifact = value_of(runtime::read_artifact(path));
            return CallableOf<runtime::Kernel>{value_of(runtime::Kernel::load(std::move(artifact))),
                                               0};
          },
          "path"_a, "Loads a kernel that `tilewright compile` or Tuned.save() wrote.")
      .def_property_readonly(
          "workload",
          [](const CallableOf<runtime::Kernel>& k) { return k.callable.info().workload; })
      .def_property_readonly(
          "schedule",
          [](const CallableOf<runtime::Kernel>& k) { return k.callable.info().schedule; })
      .def_property_readonly(
          "target", [](const CallableOf<runtime::Kernel>& k) { return k.callable.info().target; })
      .def("export", &export_kernel, "path"_a, "name"_a = "",
           "Writes the kernel as a shared object that needs no runtime, with a C header beside it "
           "(x.so, x.h). `name` is the name of the function, by default that of the file. This "
           "compiles the kernel anew, which needs the package halide and a C compiler. Returns the "
           "header's path.")
      .def("__repr__", [](const CallableOf<runtime::Kernel>& k) {
        return fmt::format("<Kernel {}>", k.callable.info().workload);
      });
  bind_callable<runtime::Kernel>(m, kernel, "BoundKernel");
}

void bind_models(py::module_& m) {
  py::class_<CallableOf<runtime::Model>> model(m, "Model", "A tuned network that is loaded.");
  model
      .def_static(
          "open",
          [](const std::filesystem::path& path) {
            Result<runtime::Model> opened = [&] {
              const WithoutGil released;
              return runtime::Model::open(path);
            }();
            runtime::Model made = value_of(std::move(opened));
            const int threads = made.info().threads;
            return CallableOf<runtime::Model>{std::move(made), threads};
          },
          "path"_a, "Opens a network that `tilewright tune --model` wrote.")
      .def_property_readonly(
          "name", [](const CallableOf<runtime::Model>& c) { return c.callable.info().name; })
      .def_property_readonly(
          "constant_bytes",
          [](const CallableOf<runtime::Model>& c) { return c.callable.constant_bytes(); })
      .def_property_readonly(
          "call_bytes", [](const CallableOf<runtime::Model>& c) { return c.callable.call_bytes(); })
      .def(
          "profile",
          [](const CallableOf<runtime::Model>& c, const ArrayArguments& inputs,
             std::optional<int> threads) {
            const int chosen = threads_of_call(threads, c.threads);
            const Bound bound = bind_arrays(c.callable, inputs, py::none());
            Result<runtime::ModelProfile> profiled = [&] {
              const WithoutGil released;
              return c.callable.profile(bound.buffers, pool_of_process(), chosen);
            }();
            const runtime::ModelProfile profile = value_of(std::move(profiled));
            const auto& steps = c.callable.info().variants[profile.variant].steps;
            py::list rows;
            for (const runtime::StepTime& time : profile.steps)
              rows.append(py::make_tuple(steps[static_cast<size_t>(time.step)].name, time.begin_ns,
                                         time.end_ns));
            return rows;
          },
          py::kw_only(), "threads"_a = py::none(),
          "A call that says when each step ran: (name, begin, end) in ns.")
      .def("__repr__", [](const CallableOf<runtime::Model>& c) {
        return fmt::format("<Model {}>", c.callable.info().name);
      });
  bind_callable<runtime::Model>(m, model, "BoundModel");
}

/// A runtime::Session for kernels of this machine's processor.
struct HostSession {
  runtime::Session session;
  int threads = 0;
};

HostSession open_session(const std::filesystem::path& database, const std::filesystem::path& cache,
                         int threads) {
  runtime::SessionOptions options = {
      .database = database, .cache = cache, .threads = threads, .device = {}};
  options.device = tuner::device_text(options.machine);
  Result<runtime::Session> opened = [&] {
    const WithoutGil released;
    return runtime::Session::open(std::move(options));
  }();
  return {value_of(std::move(opened)), threads};
}

void bind_sessions(py::module_& m) {
  py::class_<HostSession>(
      m, "Session",
      "Finds kernels by workload. The database says which schedule is best on this machine, and "
      "its kernel is loaded from the folder of compiled kernels, which Tuned.save_in() and "
      "`tilewright compile` write. A session compiles nothing. Thread-safe.")
      .def(py::init(&open_session), "db"_a, "cache"_a, py::kw_only(), "threads"_a = 1)
      .def(
          "kernel",
          [](HostSession& s, const std::string& workload) {
            Result<runtime::Kernel> kernel = [&] {
              const WithoutGil released;
              return s.session.kernel(workload);
            }();
            return CallableOf<runtime::Kernel>{value_of(std::move(kernel)), s.threads};
          },
          "workload"_a,
          "The kernel for a workload's key. Raises NoCandidateError if the database has no record "
          "of the workload, and NotCompiledError if the folder lacks the kernel of the best "
          "record.");
}

}  // namespace

void bind_runtime(py::module_& m) {
  py::class_<ArgumentInfo>(m, "Argument", "An array that a kernel or a network takes.")
      .def_readonly("name", &ArgumentInfo::name)
      .def_readonly("dtype", &ArgumentInfo::dtype)
      .def_readonly("shape", &ArgumentInfo::shape)
      .def_readonly("is_output", &ArgumentInfo::is_output)
      .def("__repr__", [](const ArgumentInfo& a) {
        return fmt::format("<{} {}: {}[{}]>", a.is_output ? "output" : "input", a.name,
                           to_string(a.dtype), fmt::join(a.shape, ", "));
      });
  bind_kernels(m);
  bind_models(m);
  bind_sessions(m);
}

}  // namespace tw::python
