// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names the device of a record as text. Records of two machines with the same text are comparable.

#include <string>
#include <string_view>

#include "base/target.h"
#include "db/record.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "runtime/devices/device_target.h"

namespace tw::tuner {

/// Returns the text of a device in records. A processor has a text such as "AMD EPYC; 2 cores; L1
/// 32 KiB; L2 1024 KiB; L3 32 MiB", and a GPU a text such as "NVIDIA H200; 132 multiprocessors;
/// 143771 MiB; L2 51200 KiB". The caches of a processor are those that the system reports, even if
/// a calibration found other sizes.
std::string device_text(const Target& target);

/// Returns the key by which the database finds the best schedule of the workload, with its layouts,
/// on this target, device and number of threads. A GPU target must have the numbers of its device,
/// as with_facts() sets them.
db::Key database_key(const dsl::Workload& workload, const Target& target, int threads);

/// True if the record was measured for this target on a device with the same device_text(). Its
/// latency then holds for this machine.
bool is_of_device(const db::Record& record, const Target& target);

using runtime::with_facts;

/// Returns a GPU target with the numbers of another device: its name, its number of
/// multiprocessors, its memory and the size of its L2. `device` is the device_text() of that GPU.
/// The target is returned unchanged if it is no GPU or the text describes no GPU.
Target described_by(Target target, std::string_view device);

/// Returns the target of a record, with the machine that the texts of the record describe. For a
/// processor these are its microarchitecture, cores and caches; for a GPU the numbers that
/// described_by() sets. Fails with the errors of parse_target().
Result<Target> target_of(const db::Record& record);

}  // namespace tw::tuner
