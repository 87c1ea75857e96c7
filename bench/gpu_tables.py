# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of what the cost model expects of a GPU, from the newest file that gpu_expected.py wrote."""
import collections
import statistics
from dataclasses import dataclass, field

import gpu_expected
from quoting import Failure, Table


@dataclass
class Sections:
    """Tables with a heading each."""
    tables: list = field(default_factory=list)  # pairs of a heading and a Table

    def text(self, link):
        return "\n".join(f"## {heading}\n\n{table.text(link)}" for heading, table in self.tables)


def expected_groups(documents):
    """Returns the newest document of gpu_expected.py and a dictionary from its groups to their rows; (None, {}) if
    there is none. Raises Failure if its rows may not be published."""
    found = [d for d in documents if d.json.get("suite") == "gpu_expected"]
    if not found:
        return None, {}
    newest = max(found, key=lambda d: d.json["date"])
    faults = gpu_expected.faults_of(newest.json["rows"])
    if faults:
        raise Failure(f"[tables] {newest.path}: " + "; ".join(faults))
    groups = {}
    for row in newest.json["rows"]:
        groups.setdefault(row["group"], []).append(row)
    return newest, groups


def counts_text(values):
    """Returns the values with their numbers, the most frequent first: "launches (3), DRAM to L2 (1)"."""
    return ", ".join(f"{value} ({count})" for value, count in collections.Counter(values).most_common())


def range_text(values, digits):
    return f"{min(values):.{digits}f}, {statistics.median(values):.{digits}f}, {max(values):.{digits}f}"


def gpu_expectations(documents):
    document, groups = expected_groups(documents)
    table = Table(["suite", "workloads", "expected time in µs: least, median, most", "launches (number of workloads)",
                   "limit of the time (number of workloads)", "processor time of a choice in s: least, median, most",
                   "processor time of NVRTC for a choice in ms: least, median, most"])
    for group, rows in groups.items():
        table.rows.append([
            group, str(len(rows)), range_text([row["expected_us"] for row in rows], 1),
            counts_text(row["launches"] for row in rows), counts_text(row["limited_by"] for row in rows),
            range_text([row["choice_cpu_s"] for row in rows], 1),
            range_text([min(row["compile_cpu_ms"]) for row in rows], 0)])
    if document:
        table.notes = [compile_note(document), f"Source: [JSON]({document.path})."]
    return table


def compile_note(document):
    nvrtc = document.json["nvrtc"]
    passes = [f"{p['median_ms']:.0f} ms (processor time {p['cpu_median_ms']:.0f} ms), or {p['kernel_median_ms']:.0f} ms "
              f"for each of its kernels, while other processes used {p['others_busy']:.1f} processors"
              for p in nvrtc["passes"]]
    return (f"NVRTC {nvrtc['version']} compiled the CUDA text of a choice on {document.machine_name} in a median of "
            + "; in a second pass ".join(passes) + ".")


def occupancy_text(row):
    """Returns the occupancy of each launch and what limits it: "25 %, registers; 100 %, threads"."""
    return "; ".join(f"{100 * occupancy:.0f} %, {limit}"
                     for occupancy, limit in zip(row["occupancy"], row["occupancy_limited_by"]))


def gpu_expected_rows(documents):
    sections = Sections()
    for group, rows in expected_groups(documents)[1].items():
        table = Table(["workload", "expected time, µs", "limit of the time", "launches",
                       "occupancy of each launch, and what limits it", "processor time of the choice, s"])
        for row in rows:
            table.rows.append([row["name"], f"{row['expected_us']:.1f}", row["limited_by"], str(row["launches"]),
                               occupancy_text(row), f"{row['choice_cpu_s']:.1f}"])
        sections.tables.append((group, table))
    return sections
