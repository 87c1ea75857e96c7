// SPDX-License-Identifier: Apache-2.0
#pragma once
// The device of a record as text: what two machines must share for their records to be the same
// fact.

#include <string>
#include <string_view>

#include "base/target.h"
#include "db/record.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "runtime/devices/device_target.h"

namespace tw::tuner {

/// Text of a device in records: "AMD EPYC; 2 cores; L1 32 KiB; L2 1024 KiB; L3 32 MiB" of a
/// processor, "NVIDIA H200; 132 multiprocessors; 143771 MiB; L2 51200 KiB" of a GPU. The caches of
/// a processor are those that the system reports, whatever a calibration says of them.
std::string device_text(const Target& target);

/// The key by which the database is asked for the best schedule of the workload and its layouts on
/// this target, device and number of threads. The target of a GPU must have the numbers of its
/// device, as with_facts() sets them.
db::Key database_key(const dsl::Workload& workload, const Target& target, int threads);

/// True if the record was measured for this target and on a device with the same device_text(), so
/// that its latency holds for this machine.
bool is_of_device(const db::Record& record, const Target& target);

using runtime::with_facts;

/// The target of a GPU as a record's device text has it; unchanged where the text is of no GPU.
Target described_by(Target target, std::string_view device);

/// The target of a record, with its machine as the record's texts tell it: of a processor the
/// microarchitecture, the cores and the caches. Errors as parse_target().
Result<Target> target_of(const db::Record& record);

}  // namespace tw::tuner
