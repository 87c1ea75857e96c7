// SPDX-License-Identifier: Apache-2.0
// Binds db/: records, and the store that keeps them.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/target.h"
#include "base/time_text.h"
#include "codegen/abi.h"
#include "db/demand.h"
#include "db/store.h"
#include "db/transfer.h"
#include "db/trust.h"
#include "db/workload_text.h"
#include "dsl/workload.h"
#include "python/src/argument.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "python/src/stores.h"
#include "python/src/targets.h"
#include "python/src/text.h"
#include "tools/team_layer.h"
#include "tuner/demand.h"
#include "tuner/workers/environment.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using db::Record;

/// Converts a field of a record to its Python value. A status becomes text; other fields stay as
/// they are.
template <typename T>
T python_value(const T& value) {
  return value;
}
std::string python_value(const db::TrialStatus& status) {
  return std::string(db::to_string(status));
}

/// Makes a Record that has only the fields on which the ranking of records depends. They are read
/// from the attributes of `given`, which may be any object, because tests pass plain objects.
Record ranked_fields(const py::handle& given) {
  Record record;
  const auto read = [&](const char* name, auto& member) {
    member = given.attr(name).cast<std::decay_t<decltype(member)>>();
  };
  read("hash", record.hash);
  read("schedule", record.schedule_hash);
  read("latency_ns", record.latency_ns);
  read("flops", record.flops);
  read("peak_gflops", record.peak_gflops);
  read("bytes", record.bytes);
  read("peak_gb_per_s", record.peak_gb_per_s);
  read("session", record.session);
  read("host", record.host);
  read("toolchain", record.toolchain);
  record.status = db::parse_trial_status(given.attr("status").cast<std::string>())
                      .value_or(db::TrialStatus::Timeout);
  return record;
}

using PyRanking =
    std::tuple<std::optional<size_t>, std::vector<double>, std::vector<std::string_view>>;

PyRanking rank(const std::vector<py::object>& records) {
  std::vector<Record> group;
  for (const py::object& record : records) group.push_back(ranked_fields(record));
  const db::Ranking ranking = db::rank_records(group);
  std::vector<std::string_view> doubts;
  for (const db::Judgement& judgement : ranking.judgements)
    doubts.push_back(db::to_string(judgement.doubt));
  return {ranking.best, ranking.counted_ns, doubts};
}

std::vector<std::string> times_text(const std::vector<double>& times_ns) {
  const TimeUnit unit(times_ns);
  std::vector<std::string> texts;
  for (const double ns : times_ns) texts.push_back(unit.text(ns));
  return texts;
}

/// Returns the reason why this version cannot read the target, the layouts or the device of a
/// record; empty if it can read them. An unknown workload is no reason, because records of unknown
/// workloads are shown as text.
std::string why_unreadable(const Record& record) {
  if (const auto target = parse_target(record.target); !target) return target.error().message;
  const bool is_text = std::ranges::none_of(
      record.device, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  if (!is_text)
    return fmt::format("[device] '{}' is no device: it has control characters", record.device);
  auto workload = dsl::parse_workload(record.workload);
  if (!workload || record.layouts.empty()) return "";
  const auto asked = dsl::with_asked(std::move(*workload), record.layouts);
  return asked ? "" : asked.error().message;
}

void bind_records(py::module_& m) {
  py::class_<Record> record(m, "Record",
                            "One trial, as docs/database_format.md defines it: an immutable fact.");
#define X(name, since) \
  record.def_property_readonly(#name, [](const Record& r) { return python_value(r.name); });
  TW_RECORD_FIELDS(X)
#undef X
  record.def_property_readonly("unreadable", &why_unreadable,
                               "The reason why this version cannot read the target, the layouts or "
                               "the device; \"\" if it can.");
  record.def_property_readonly(
      "workload_text", py::overload_cast<const db::Record&>(&db::workload_text),
      "key of the workload, followed by the layouts that were asked for, in braces");
  record.def_readonly("hash", &Record::hash).def("__repr__", [](const Record& r) {
    return fmt::format("<Record {}: {}, {} on {}>", r.op, db::to_string(r.status),
                       time_text(r.latency_ns), r.device);
  });
}

db::OpenMode mode_of(const std::string& mode) {
  if (mode == "r") return db::OpenMode::ReadOnly;
  if (mode == "r+") return db::OpenMode::Update;
  if (mode == "a") return db::OpenMode::ReadWrite;
  throw py::value_error(fmt::format("mode '{}': expected r, r+ or a (created where absent)", mode));
}

/// Returns the layers below the user's database: the team's database and the shipped database. An
/// empty argument is replaced by the environment variable that the program reads, such as
/// TILEWRIGHT_TEAM.
std::vector<db::Layer> layers_of(std::string team, std::string team_key, std::string shipped,
                                 const std::filesystem::path& home) {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (team.empty()) team = variable("TILEWRIGHT_TEAM");
  if (team_key.empty()) team_key = variable("TILEWRIGHT_TEAM_KEY");
  if (shipped.empty()) shipped = variable("TILEWRIGHT_SHIPPED");
  if (shipped.empty())
    shipped = tuner::shipped_database(
        py::module_::import("tilewright.paths").attr("program")().cast<std::string>());
  std::string heard;
  Result<std::vector<db::Layer>> layers = [&] {
    // Other threads run while this thread waits for a server.
    const py::gil_scoped_release others_run;
    return tools::layers_below({team, team_key, (home / "layers").string()}, shipped,
                               {.on_message = [&](std::string_view text) { heard = text; }});
  }();
  if (!heard.empty()) warn(PyExc_RuntimeWarning, heard);
  return value_of(std::move(layers));
}

db::StoreInfo info_of(const SharedStore& shared) {
  return value_of(shared.use([](db::Store& store) { return store.info(); }));
}

using StoreArgument = Argument<py::typing::Union<SharedStore, std::filesystem::path>>;

/// Returns the path of a database. `given` is a Store or already a path.
std::string path_of(const StoreArgument& given) {
  if (py::isinstance<SharedStore>(given))
    return given.cast<const SharedStore&>().use(
        [](const db::Store& store) { return store.path(); });
  try {
    return given.cast<std::filesystem::path>().string();
  } catch (const py::cast_error&) {
    throw py::type_error(
        fmt::format("Store.merge(): other is {}: expected a Store, or the path of one",
                    py::repr(given).cast<std::string>()));
  }
}

db::TrialStatus status_of(const std::string& text) {
  if (const auto status = db::parse_trial_status(text)) return *status;
  raise({ErrorCode::Usage,
         fmt::format("[query] status '{}': expected one of docs/database_format.md, such as ok",
                     text)});
}

void bind_demand(py::module_& m) {
  py::class_<db::WantedKernel>(m, "WantedKernel", "A kernel that a network or an operator uses.")
      .def_readonly("op", &db::WantedKernel::op)
      .def_readonly("workload", &db::WantedKernel::workload)
      .def_readonly("layouts", &db::WantedKernel::layouts)
      .def_readonly("schedule", &db::WantedKernel::schedule,
                    "schedule in use when the demand was stored; \"\": there was none")
      .def_readonly("runs", &db::WantedKernel::runs, "number of runs in one call")
      .def_readonly("latency_ns", &db::WantedKernel::latency_ns,
                    "ns of one run when the demand was stored; 0: unknown")
      .def_readonly("is_measured", &db::WantedKernel::is_measured,
                    "True if latency_ns was measured, False if it was predicted")
      .def_readonly("trials", &db::WantedKernel::trials,
                    "number of trials of the workload on this class of devices")
      .def_readonly("used_ns", &db::WantedKernel::used_ns,
                    "measured ns of one run with `schedule`; 0: it was not timed")
      .def_readonly("best_ns", &db::WantedKernel::best_ns,
                    "measured ns of one run of the best kernel now; 0: there is none")
      .def_property_readonly(
          "workload_text",
          [](const db::WantedKernel& kernel) {
            return db::workload_text(db::WorkloadName{kernel.workload, kernel.layouts});
          },
          "key of the workload, followed by the layouts that were asked for, in braces")
      .def("__repr__", [](const db::WantedKernel& kernel) {
        return fmt::format("<WantedKernel {}: {} trials, best {}>", kernel.op, kernel.trials,
                           time_text(kernel.best_ns));
      });
  py::class_<db::Demand>(
      m, "Demand",
      "The kernels of one network or operator on one class of devices (docs/cli.md, \"Demand\").")
      .def_readonly("hash", &db::Demand::hash,
                    "name of the demand, which `db demand --entry` takes")
      .def_readonly("source", &db::Demand::source,
                    "64 hex digits that name the network or the operator")
      .def_readonly("name", &db::Demand::name)
      .def_readonly("target", &db::Demand::target)
      .def_readonly("device", &db::Demand::device)
      .def_readonly("threads", &db::Demand::threads)
      .def_readonly("codegen_abi", &db::Demand::codegen_abi)
      .def_readonly("first_ns", &db::Demand::first_ns,
                    "ns that one call was expected to take when the demand was first stored")
      .def_readonly("latency_ns", &db::Demand::latency_ns,
                    "ns that one call was expected to take when the demand was last stored")
      .def_readonly("first_ms", &db::Demand::first_ms, "when it was first stored, ms since 1970")
      .def_readonly("asked_ms", &db::Demand::asked_ms, "when it was last stored, ms since 1970")
      .def_readonly("asked", &db::Demand::asked, "number of times that it was stored")
      .def_readonly("kernels", &db::Demand::kernels)
      .def_property_readonly(
          "used_ns", [](const db::Demand& demand) { return tuner::times_of(demand).used_ns; },
          "ns of one call with the kernels in use when the demand was stored. A kernel without a "
          "measured time counts with its predicted time")
      .def_property_readonly(
          "best_ns", [](const db::Demand& demand) { return tuner::times_of(demand).best_ns; },
          "ns of one call with the best kernels that are known now")
      .def_property_readonly(
          "measured_share",
          [](const db::Demand& demand) { return tuner::times_of(demand).measured_share; },
          "share of used_ns, 0 to 1, spent in kernels whose time in use and best time are measured")
      .def_property_readonly(
          "expected_saving",
          [](const db::Demand& demand) { return tuner::expected_saving(demand); },
          "share of the time of a call, 0 to 1, that another minute of tuning each kernel is "
          "expected to save")
      .def("__repr__", [](const db::Demand& demand) {
        const tuner::DemandTimes times = tuner::times_of(demand);
        return fmt::format("<Demand of {}: {} kernels, {} as used, {} with the best ones>",
                           demand.name, demand.kernels.size(), time_text(times.used_ns),
                           time_text(times.best_ns));
      });
}

}  // namespace

void bind_db(py::module_& m) {
  bind_records(m);
  bind_demand(m);
  m.def("_rank", &rank, "records"_a,
        "(index of the best record or None, for each record the ns that count for its schedule or "
        "0, and for each record why it is not believed) of the records of one group.");
  m.def("_time_text", &time_text, "ns"_a);
  m.def("_times_text", &times_text, "times_ns"_a,
        "The texts of times that are shown in one table, all in one unit.");
  py::class_<SharedStore>(
      m, "Store",
      "The tuning database: a file, or postgresql://user@host/database. The address has no "
      "password; give it in ~/.pgpass. The databases `team` and `shipped` are read in addition. By "
      "default they are the databases that TILEWRIGHT_TEAM and TILEWRIGHT_SHIPPED name; if the "
      "latter is not set, `shipped` is the records that came with the package. shipped=\"none\" "
      "leaves those records out. `team` may be a published layer "
      "(\"https://host/NAME.layer.json\"), which is fetched, and checked by the public key "
      "`team_key` (TILEWRIGHT_TEAM_KEY). A Store may be used from several threads and while "
      "tune() runs, because each call is one query.")
      .def(py::init([](const std::filesystem::path& path, const std::string& mode,
                       const std::string& team, const std::string& shipped,
                       const std::string& team_key) {
             const std::filesystem::path database = tuner::default_places().database;
             db::StoreOptions options;
             options.create_directories = path == database;  // another path may be a typing error
             options.spool_directory = database.parent_path().string();
             options.below = layers_of(team, team_key, shipped, database.parent_path());
             return value_of(SharedStore::open(path, mode_of(mode), std::move(options)));
           }),
           "path"_a, "mode"_a = "a", py::kw_only(), "team"_a = "", "shipped"_a = "",
           "team_key"_a = "")
      .def_property_readonly(
          "path",
          [](const SharedStore& s) {
            return path_text(s.use([](const db::Store& store) { return store.path(); }));
          })
      .def_property_readonly(
          "calibrations", [](const SharedStore& s) { return info_of(s).calibrations; },
          "number of measured machines")
      .def_property_readonly(
          "workloads", [](const SharedStore& s) { return info_of(s).workloads; },
          "number of workloads that have records")
      .def("__repr__",
           [](const SharedStore& s) {
             const db::StoreInfo info = info_of(s);
             return message_text(fmt::format("<Store {}: {} records of {} workloads>", info.path,
                                             info.records, info.workloads));
           })
      .def("__len__", [](const SharedStore& s) { return info_of(s).records; })
      .def(
          "query",
          [](const SharedStore& s, std::optional<std::string> workload,
             std::optional<std::string> op, std::optional<std::string> device,
             std::optional<std::string> session, const std::optional<std::string>& status,
             int64_t limit) {
            db::Filter filter;
            filter.workload = std::move(workload);
            filter.op = std::move(op);
            filter.device = std::move(device);
            filter.session = std::move(session);
            if (status) filter.status = status_of(*status);
            if (limit < 0)
              raise({ErrorCode::Usage,
                     fmt::format("[query] limit is {}; a whole number from 0 on was expected",
                                 limit)});
            filter.limit = limit;
            std::vector<Record> records =
                value_of(s.use([&](db::Store& store) { return store.query(filter); }));
            return py::typing::List<Record>(
                py::module_::import("tilewright.display").attr("Records")(std::move(records)));
          },
          py::kw_only(), "workload"_a = std::nullopt, "op"_a = std::nullopt,
          "device"_a = std::nullopt, "session"_a = std::nullopt, "status"_a = std::nullopt,
          "limit"_a = 0,
          "A list of the matching records, oldest first. A limit of 0 returns all of them.")
      .def(
          "demands",
          [](const SharedStore& s, const std::optional<std::string>& target,
             std::optional<std::string> device, int64_t limit) {
            db::DemandFilter filter;
            if (target) filter.target = target_of(*target).to_string();
            filter.device = std::move(device);
            if (limit < 0)
              raise({ErrorCode::Usage,
                     fmt::format("[demand] limit is {}; a whole number from 0 on was expected",
                                 limit)});
            filter.limit = limit;
            return value_of(s.use([&](db::Store& store) { return db::demands(store, filter); }));
          },
          py::kw_only(), "target"_a = std::nullopt, "device"_a = std::nullopt, "limit"_a = 0,
          "The demands of networks and operators, the newest first, with the times measured by "
          "now. "
          "A limit of 0 returns all of them. `target` is as in tune().")
      .def(
          "merge",
          [](const SharedStore& s, const StoreArgument& other) {
            const std::string path = path_of(other);
            return value_of(s.use([&](db::Store& store) { return db::merge_from(store, path); }))
                .inserted;
          },
          "other"_a,
          "Adds the records of another database, a Store or the path of one. Returns the number of "
          "records that were new.");
}

}  // namespace tw::python
