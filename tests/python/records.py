# SPDX-License-Identifier: Apache-2.0
"""Makes records, plans and pages for tests, as values and as a database."""
import hashlib
import html.parser
import json
import pathlib
import subprocess
import types

import tilewright as tw
from tilewright import paths

# As HTML it would be a script, would end an attribute or a style, and would show text backwards.
HOSTILE = """<script>document.title='owned'</script>"'&</style>\u202egnp\u2066\x07\nnext"""
DENSE = tw.make_workload("dense", m=16, n=32, k=24).key
_TEXTS = ("op", "target", "device", "toolchain", "layouts", "status", "program_version", "host",
          "session", "reason", "workload", "schedule", "machine", "configuration")
_FIELDS = ("op target device toolchain codegen_abi threads layouts status latency_ns latency_low_ns "
           "latency_high_ns flops peak_gflops noise verified_error program_version host session seed "
           "trial created_ms reason samples_ns workload schedule machine configuration").split()


def record(**changes):
    """Returns a record like those of Store.query(), with the fields that the Python package
    reads."""
    made = dict.fromkeys(_TEXTS, "")
    made.update(op="dense", target="x86-64-linux-avx2-fma", device="a processor", toolchain="a",
                codegen_abi=4, threads=1, status="ok", latency_ns=1500.5, flops=24576.5,
                peak_gflops=100.5, noise=0.5, verified_error=0, program_version="1", host="h",
                session="s1", seed=1, trial=1, created_ms=1001, samples_ns=[1500.5],
                workload=DENSE, schedule="tw1\n", machine="Zen; table; 0",
                configuration="out: cpu_tile x_tile=4 y_tile=8")
    made.update(changes)
    made.setdefault("bytes", 0.0)
    made.setdefault("peak_gb_per_s", 0.0)
    made.setdefault("latency_low_ns", made["latency_ns"])
    made.setdefault("latency_high_ns", made["latency_ns"])
    made.setdefault("hash", hashlib.sha256(repr(made).encode()).hexdigest())
    made.setdefault("unreadable", "")
    asked = f" {{{made['layouts']}}}" if made["layouts"] else ""
    return types.SimpleNamespace(workload_text=made["workload"] + asked, **made)


def failed(**changes):
    return record(**{"status": "wrong", "latency_ns": 0, "samples_ns": [],
                     "reason": "element 17 differs by 0.25", **changes})


def search(count=24, **changes):
    """Returns the records of a search. Every fourth trial fails; the others are faster if x_tile is
    larger."""
    made = []
    for i in range(count):
        tile = 1 << i % 4
        common = dict(trial=i + 1, created_ms=1001 + 500 * i, **changes,
                      schedule=f"tw1\nsplit out m {2 + i % 6}\nsplit out n {2 + i // 6}\n",
                      configuration=f"out: cpu_tile x_tile={tile} y_tile={i % 3}")
        made.append(failed(**common) if i % 4 == 3 else
                    record(latency_ns=9000.5 / tile + i, samples_ns=[9000.5 / tile + i], **common))
    return made


def _line(made):
    """Returns the line of JSON that `tilewright db export` would write
    (docs/database_format.md)."""
    def text(value):
        if isinstance(value, list):
            return " ".join(map(text, value))
        return value if isinstance(value, str) else repr(value)

    fields = {name: getattr(made, name) for name in _FIELDS}
    canonical = "tilewright-record 2\n" + "".join(
        f"{name}:{len(text(value).encode())}:{text(value)}\n" for name, value in fields.items())
    return json.dumps({"record": 2, **fields, "hash": hashlib.sha256(canonical.encode()).hexdigest()})


def write_database(path, records):
    lines = pathlib.Path(path).with_suffix(".jsonl")
    lines.write_text("".join(_line(made) + "\n" for made in records), encoding="utf-8")
    subprocess.run([paths.program(), "db", "import", "--db", str(path), str(lines)], check=True,
                   capture_output=True)


def argument(tensor, place, layout="", is_output=False, is_constant=False, channels=16):
    """Returns an argument of a step. An array with 16 channels has 4096 bytes."""
    return types.SimpleNamespace(tensor=tensor, dtype="f32", shape=[1, channels, 8, 8], place=place,
                                 layout=layout, is_output=is_output, is_constant=is_constant)


def make_step(name, workload, ns, *arguments):
    return types.SimpleNamespace(name=name, workload=workload, schedule="tw1\n", threads=1,
                                 predicted_ns=ns, arguments=list(arguments))


def plan(name="net", step="conv"):
    """Returns a plan of three steps: a copy of the input to another layout, a kernel that reads the
    copy, and a kernel that adds the input to the result."""
    steps = [make_step(f"{step}: NCHW -> NCHW16c", "transpose n=1", 500, argument("x", "input 0"),
                       argument("x", "arena 0", "NCHW16c", is_output=True)),
             make_step(step, "conv2d n=1", 3000, argument("x", "arena 0", "NCHW16c"),
                       argument("w", "constant 0", "OIHW16i16o", is_constant=True),
                       argument("y", "arena 4096", "NCHW16c", is_output=True)),
             make_step("sum", "add n=1", 1500, argument("y", "arena 4096", "NCHW16c"),
                       argument("x", "input 0"), argument("z", "output 0", is_output=True))]
    return types.SimpleNamespace(name=name, target="x86-64-linux", inputs="x [1, 16, 8, 8]", threads=1,
                                 variants=1, arena_bytes=8192, steps=steps)


class Markup(html.parser.HTMLParser):
    """Parses a piece of HTML into the names of its elements and its text. Raises a ValueError if
    tags do not match."""

    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        if self._open:
            raise ValueError(f"open at the end: {self._open}")

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            raise ValueError(f"</{tag}> ends no element that is open")

    def handle_data(self, data):
        self.text += data
