// SPDX-License-Identifier: Apache-2.0
// db/: records and the store.

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <filesystem>
#include <optional>
#include <string>

#include "codegen/abi.h"
#include "db/store.h"
#include "db/workload_text.h"
#include "dsl/workload.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "python/src/stores.h"
#include "tuner/environment.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using namespace py::literals;
using db::Record;

/// A field as Python has it: statuses are text.
template <typename T>
T python_value(const T& value) {
  return value;
}
std::string python_value(const db::TrialStatus& status) {
  return std::string(db::to_string(status));
}

void bind_records(py::module_& m) {
  py::class_<Record> record(m, "Record",
                            "One trial, as docs/database_format.md defines it: an immutable fact.");
#define X(name, since) \
  record.def_property_readonly(#name, [](const Record& r) { return python_value(r.name); });
  TW_RECORD_FIELDS(X)
#undef X
  record.def_property_readonly("workload_text", &db::workload_text,
                               "the workload, with what was asked besides in braces");
  record.def_readonly("hash", &Record::hash).def("__repr__", [](const Record& r) {
    return fmt::format("<Record {}: {}, {:.1f} us on {}>", r.op, db::to_string(r.status),
                       r.latency_ns / 1e3, r.device);
  });
}

db::OpenMode mode_of(const std::string& mode) {
  if (mode == "r") return db::OpenMode::ReadOnly;
  if (mode == "r+") return db::OpenMode::Update;
  if (mode == "a") return db::OpenMode::ReadWrite;
  throw py::value_error(fmt::format("mode '{}': expected r, r+ or a (created where absent)", mode));
}

db::TrialStatus status_of(const std::string& text) {
  if (const auto status = db::parse_trial_status(text)) return *status;
  throw py::value_error(
      fmt::format("status '{}': expected one of docs/database_format.md, such as ok", text));
}

}  // namespace

void bind_db(py::module_& m) {
  bind_records(m);
  py::class_<SharedStore>(
      m, "Store",
      "The tuning database: a file, or postgresql://user@host/database, which "
      "holds no password (give it in ~/.pgpass). Calls from several threads take "
      "turns.")
      .def(
          py::init([](const std::string& path, const std::string& mode) {
            const std::filesystem::path database = tuner::default_places().database;
            return SharedStore(value_of(db::Store::open(
                path, mode_of(mode),
                {.create_directories = true, .spool_directory = database.parent_path().string()})));
          }),
          "path"_a, "mode"_a = "a")
      .def_property_readonly("path", [](SharedStore& s) { return s.lock()->path(); })
      .def("__len__", [](SharedStore& s) { return value_of(s.lock()->info()).records; })
      .def(
          "query",
          [](SharedStore& s, std::optional<std::string> workload, std::optional<std::string> op,
             std::optional<std::string> device, std::optional<std::string> session,
             const std::optional<std::string>& status, int64_t limit) {
            db::Filter filter;
            filter.workload = std::move(workload);
            filter.op = std::move(op);
            filter.device = std::move(device);
            filter.session = std::move(session);
            if (status) filter.status = status_of(*status);
            filter.limit = limit;
            return py::typing::List<Record>(
                py::module_::import("tilewright.display")
                    .attr("Records")(value_of(s.lock()->query(filter))));
          },
          py::kw_only(), "workload"_a = std::nullopt, "op"_a = std::nullopt,
          "device"_a = std::nullopt, "session"_a = std::nullopt, "status"_a = std::nullopt,
          "limit"_a = 0,
          "A list of the matching records, oldest first; all of them where limit is 0.")
      .def(
          "merge",
          [](SharedStore& s, const std::string& path) {
            return value_of(s.lock()->merge_from(path)).inserted;
          },
          "path"_a,
          "The union with another database; returns the number of records that were new.");
}

}  // namespace tw::python
