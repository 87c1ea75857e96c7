// SPDX-License-Identifier: Apache-2.0
// tilewright worker: makes this machine a member of a farm (tuner/workers/farm.h).

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "tools/flags/farm_flags.h"
#include "tools/flags/workload_flags.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/verbs.h"
#include "tuner/processes/sandbox.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"
#include "tuner/workers/farm_jobs.h"

namespace tw::tools {
namespace {

struct WorkerFlags {
  std::string join, target, labels, offers = "measure", python = "python3";
  PlaceFlags place;
};

/// Splits the text of --labels at its commas. Labels become names of Dask resources. Fails with
/// Usage if a label is empty, contains white space, or is a name that the program itself uses, such
/// as "build".
Result<std::vector<std::string>> checked_labels(const std::string& text) {
  std::vector<std::string> labels;
  for (const std::string& part : split(text, ',')) {
    const std::string label(trim(part));
    const bool is_ours = label == "device" || label == "build" || label.starts_with("device:") ||
                         label.starts_with("version:");
    if (label.empty() || is_ours || label.find_first_of(" \t\n") != std::string::npos)
      return fail(ErrorCode::Usage,
                  fmt::format("[farm] the label '{}': expected names without spaces, such as "
                              "gpu:sm_90, other than device and build",
                              label));
    labels.push_back(label);
  }
  return labels;
}

/// Returns the names of the Dask resources that this machine offers to a farm. They say whether the
/// machine measures, and on which device, whether it builds, its version of the program, and its
/// labels.
Result<std::vector<std::string>> offered(const WorkerFlags& flags, const Target& target) {
  std::vector<std::string> resources;
  if (flags.offers != "build") resources = {"device", tuner::device_resource(target)};
  if (flags.offers != "measure") resources.emplace_back("build");
  resources.push_back(tuner::version_resource());
  if (flags.labels.empty()) return resources;
  TW_TRY(const std::vector<std::string> labels, checked_labels(flags.labels));
  resources.insert(resources.end(), labels.begin(), labels.end());
  return resources;
}

/// Returns the command that starts a station, the process of a member that builds or measures
/// (tuner/workers/station.h).
std::vector<std::string> station_of(const WorkerFlags& flags, const Surroundings& here,
                                    const tuner::ChosenTarget& chosen) {
  std::vector<std::string> station = here.environment.worker;
  if (flags.place.no_sandbox) station.emplace_back(tuner::unconfined_role);
  for (const std::string& argument : {std::string("station"), chosen.target.to_string(),
                                      std::to_string(chosen.device), flags.place.code_generator})
    station.push_back(argument);
  return station;
}

Result<int> worker_command(const WorkerFlags& flags, const Surroundings& here) {
  if (flags.join.empty())
    return fail(ErrorCode::Usage,
                "[farm] a worker is a member of a farm: name its Dask scheduler, such as "
                "`worker --join HOST:8786`, which `dask scheduler` starts");
  TW_TRY(const tuner::ChosenTarget chosen,
         tuner::chosen_target(flags.target.empty() ? "host" : flags.target, here.environment));
  if (!chosen.missing.empty() && flags.offers != "build")
    return fail(ErrorCode::Environment,
                fmt::format("[farm] kernels for {} cannot be measured here, as this machine lacks "
                            "{}: choose another --target, or --offers build",
                            chosen.target.to_string(), tuner::missing_text(chosen)));
  TW_TRY(const std::vector<std::string> resources, offered(flags, chosen.target));
  if (flags.offers != "build") note("[farm] measuring on " + tuner::device_text(chosen.target));
  std::vector<std::string> command = farm_program(flags.python);
  for (const std::string& argument :
       {std::string("member"), flags.join, std::string("--resources"), join(resources, ","),
        std::string("--threads"), std::string(flags.offers == "both" ? "2" : "1"),
        std::string("--")})
    command.push_back(argument);
  for (const std::string& argument : station_of(flags, here, chosen)) command.push_back(argument);
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  return fail(ErrorCode::Environment,
              fmt::format("[farm] {} cannot be started: {}", command[0], std::strerror(errno)));
}

}  // namespace

Verb worker_verb() {
  auto f = std::make_shared<WorkerFlags>();
  return {.name = "worker",
          .summary = "make this machine a member of a farm, which `tune --workers` measures on",
          .flags = concatenated(
              {{{"join", Text{&f->join}, "address of the farm's Dask scheduler, HOST:8786"},
                {"target", Text{&f->target},
                 "the device to measure on: host (the default), cuda, cuda:1, opencl"},
                {"labels", Text{&f->labels}, "names to be chosen by, with commas: gpu:sm_90,rack2"},
                {"offers", Choice{&f->offers, {"measure", "build", "both"}},
                 "what to do for the farm; building disturbs what a processor measures"},
                {"python", Path{&f->python},
                 "that has the package tilewright and Dask; default: python3"}},
               worker_flags(f->place)}),
          .run = [f](const Surroundings& here) { return worker_command(*f, here); }};
}

}  // namespace tw::tools
