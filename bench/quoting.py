# SPDX-License-Identifier: Apache-2.0
"""Reads the files of bench/results, decides which of their rows may be quoted in pages, and makes tables in
Markdown."""
import json
import math
import pathlib
import statistics
import textwrap
from dataclasses import dataclass, field

RESULTS = pathlib.Path(__file__).resolve().parent / "results"

FEWEST_ROUNDS = 6  # the least number of rounds whose median has a 95 % interval
MOST_CALL_SHARE = 0.02  # a row is left out if the peer's call overhead is a larger share of the peer's time
MOST_REASON = 100  # the largest number of characters of another runtime's message in a note

# For each folder of bench/results: the name of the machine, and its description in the table of machines.
MACHINES = {
    "zen4_2_cores": ("Zen 4", "two virtual cores of an AMD Zen 4 server, AVX-512"),
    "zen3_2_cores": ("Zen 3", "two virtual cores of an AMD Zen 3 server, AVX2"),
    "emerald_rapids_2_cores": ("Emerald Rapids", "two virtual cores of an Intel Emerald Rapids server, "
                                                 "AVX-512"),
    "zen5_2_cores": ("Zen 5", "two virtual cores of an AMD Zen 5 server, AVX-512"),
    "h100": ("H100", "one NVIDIA H100 with 80 GB of HBM3, CUDA 13.0"),
    "h200": ("H200", "one NVIDIA H200, CUDA 13.0"),
}


class Failure(Exception):
    """An error whose text is one line for the user; it ends the script with exit code 1."""


# ---- documents ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """A file of bench/results."""
    machine: str  # the folder of the file, such as "zen4_2_cores"
    name: str  # the name of the file without .json
    json: dict

    @property
    def path(self):
        return f"bench/results/{self.machine}/{self.name}.json"

    @property
    def machine_name(self):
        return MACHINES.get(self.machine, (self.machine.replace("_", " "),))[0]

    @property
    def is_of_gpu(self):
        return self.json.get("machine", {}).get("target", "").startswith("cuda")

    @property
    def is_limited(self):
        """True if the processor has AVX-512, but kernels were limited to AVX2 (TILEWRIGHT_MAX_ISA)."""
        return self.name.endswith("_avx2")


@dataclass(frozen=True)
class Figure:
    """A median with its 95 % interval [low, high]."""
    value: float
    low: float
    high: float

    def __post_init__(self):
        if not self.low <= self.value <= self.high:
            raise Failure(f"[tables] {self.value} lies outside of its interval [{self.low}, {self.high}]: "
                          "they are of different statistics")

    def text(self, digits):
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass
class Table:
    """A table in Markdown, and the list of notes below it, such as the rows that were left out."""
    header: list
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def text(self, link):
        if not self.rows and not self.notes:
            return "No run is committed yet.\n"
        lines = ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        lines += ["| " + " | ".join(link(cell) for cell in row) + " |" for row in self.rows]
        text = "\n".join(lines) + "\n"
        if self.notes:
            text += "\n" + "\n".join(wrapped(f"- {note}") for note in self.notes) + "\n"
        return text


def wrapped(text, width=100):
    """Returns the text broken at spaces into lines of at most `width` columns. All lines but the first are indented
    by two spaces, as in an item of a list."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append(" ")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def load_documents(folder=RESULTS):
    paths = sorted(folder.glob("*/*.json"))
    if not paths:
        raise Failure(f"[tables] {folder}: expected files <machine>/<name>.json, found none")
    return [Document(path.parent.name, path.stem, json.loads(path.read_text())) for path in paths]


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def ratio_of(row, version):
    """Returns the median over the rounds of the peer's time divided by ours. `version` is the `schema_version` of the
    file. In files of version 1 this median is called `ratio_median`, and their `ratio` is computed from the smallest
    times."""
    return Figure(row["ratio_median" if version == 1 else "ratio"], row["ratio_low"], row["ratio_high"])


# ---- the rules ----------------------------------------------------------------------------------


def reason_text(reason):
    """Returns the message of another runtime, cut to the length that a note has room for."""
    return textwrap.shorten(reason.replace("|", "\\|"), MOST_REASON, placeholder="...")


def objection(row, document):
    """Returns the reason why a row is left out of the tables; None if the row is quoted."""
    wanted = document.json["options"]["rounds"]
    if "error" in row:
        return f"not timed ({row['error']})"
    if row.get("peers_error") == {}:
        return "no peer: " + "; ".join(f"{peer}: {reason_text(why)}" for peer, why in row["peers_failed"].items())
    cause = row.get("disturbed")
    if row["rounds"] < min(wanted, FEWEST_ROUNDS):
        count = f"{row['rounds']} of {wanted} rounds count"
        return count if not cause else cause if cause.startswith(count) else f"{count}: {cause}"
    if cause:
        return cause
    if wanted < FEWEST_ROUNDS:
        return f"only {wanted} rounds were asked for; a 95 % interval takes {FEWEST_ROUNDS}"
    call_us = row.get("peer_call_us", 0)
    if call_us > MOST_CALL_SHARE * row["peer_us"]:
        return f"call overhead is {100 * call_us / row['peer_us']:.0f} % of the peer's time"
    return None


def quotable(document):
    """Returns two lists: the rows that may be quoted, and a pair (row, reason) for each of the other rows."""
    rows, refused = [], []
    for row in document.json["rows"]:
        reason = objection(row, document)
        if reason is None:
            rows.append(row)
        else:
            refused.append((row, reason))
    return rows, refused


def refusal(document, refused):
    """Returns a note that names the rows that were left out. `refused` is the second list of quotable()."""
    reasons = "; ".join(f"{row['name']} ({reason})" for row, reason in refused)
    return f"Left out of `{document.machine}/{document.name}`: {reasons}."
