# SPDX-License-Identifier: Apache-2.0
"""Shows values in notebooks, as text and as HTML with small drawings.

Importing this module adds _repr_mimebundle_ to the types of the package. No other package is needed. All
text in HTML passes through escaped(), because names come from databases and model files, which anybody may
have written.
"""
import collections
import html
import re

from tilewright import _tilewright, errors

__all__ = ["Records"]

# Control characters, and characters that reorder or hide text. With them one name could look like another.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e"
                     "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
_NUMBER = re.compile(r"-?\d[\d.]*( (ns|µs|ms|s|%|B|KiB|MiB|GiB))?|-")
_MOST_ROWS = 200
_BAR_PIXELS = 120
# Indentation shows the structure of programs, so the font must be monospaced. By itself, JupyterLab
# would use the font of prose.
PREFORMATTED = "line-height:1.25;font-family:monospace"
BLUE, ORANGE, GREEN, RED, GREY, DARK = "#4c78a8", "#e8883a", "#54a24b", "#d64550", "#8a8a8a", "#333333"


class Html(str):
    """Text that is HTML already and is not escaped again."""


# ---- text -----------------------------------------------------------------------------------


def visible(text):
    """Returns the text with control and bidirectional characters replaced by escapes such as
    "\\u202e"."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


def one_line(text, most=0):
    """Returns visible(text) with escapes for line breaks and tabs, cut to `most` characters unless
    `most` is 0."""
    line = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return line[:most - 1] + "…" if 0 < most < len(line) else line


def escaped(text):
    """Returns HTML that shows the text, for an element's content or an attribute's value."""
    return html.escape(visible(text), quote=True)


def time_text(ns):
    """Returns the text of a time in ns as the program prints times, such as "235.1 µs"."""
    return _tilewright._time_text(ns)


def times_text(times_ns):
    """Returns the texts of times that are compared with each other, for example in a table, all in
    one unit."""
    return _tilewright._times_text(list(times_ns))


def bytes_text(count):
    for limit, unit in ((10, "B"), (20, "KiB"), (30, "MiB")):
        if count < 1 << limit:
            return f"{count} B" if limit == 10 else f"{count / (1 << limit - 10):.1f} {unit}"
    return f"{count / (1 << 30):.1f} GiB"


def share_text(share):
    return f"{100 * share:.1f} %"


def status_text(status):
    """Returns the name of a trial status as the program shows it. Trials that were stopped early
    are "pruned"."""
    return "pruned" if status == "hopeless" else status


def count_text(count, noun):
    """Returns a number with its noun, such as "1 thread" and "2 threads"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def counts_text(counts):
    """Returns a text for numbers of trials by status, such as "45 ok, 3 pruned", the most frequent
    status first."""
    return ", ".join(f"{count} {status_text(status)}"
                     for status, count in sorted(counts.items(), key=lambda item: -item[1]))


# ---- HTML -----------------------------------------------------------------------------------


def _content(value):
    return value if isinstance(value, Html) else Html(escaped(value))


def table(header, rows, more=0):
    """Returns an HTML table. `more` is the number of rows that are left out; a last line shows this
    number. Cells with numbers, also with units, are aligned to the right."""
    def cell(value):
        is_number = not isinstance(value, Html) and _NUMBER.fullmatch(str(value))
        style = "text-align:right;white-space:nowrap" if is_number else "text-align:left"
        return f'<td style="{style}">{_content(value)}</td>'

    lines = ["<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows]
    if more > 0:
        lines.append(f'<tr><td colspan="{len(header)}">… and {more} more</td></tr>')
    head = "".join(f'<th style="text-align:left">{_content(name)}</th>' for name in header)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>")


def facts(pairs):
    """Returns a list of names with their values, one pair on each line."""
    lines = (f'<tr><th style="text-align:left">{_content(name)}</th>'
             f'<td style="text-align:left">{_content(value)}</td></tr>' for name, value in pairs)
    return Html(f"<table><tbody>{''.join(lines)}</tbody></table>")


def heading(text):
    return Html(f"<div><b>{escaped(text)}</b></div>")


def code(text):
    return Html(f'<pre style="{PREFORMATTED}">{escaped(text)}</pre>')


def details(summary, content, is_open=False):
    return Html(f"<details{' open' if is_open else ''}><summary>{escaped(summary)}</summary>"
                f"{content}</details>")


def beside(*parts):
    """Returns the parts side by side, or below each other if there is no room."""
    columns = "".join(f'<div style="min-width:0;overflow-x:auto">{part}</div>' for part in parts)
    return Html(f'<div style="display:flex;flex-wrap:wrap;gap:1.5em">{columns}</div>')


def bar(share, color=BLUE):
    """Returns a bar that shows a share from 0 to 1."""
    length = _BAR_PIXELS * min(max(share, 0), 1)
    return Html(f'<svg width="{_BAR_PIXELS}" height="10" role="img">'
                f"<title>{share_text(share)}</title>"
                f'<rect width="{_BAR_PIXELS}" height="10" fill="{GREY}" opacity="0.2"/>'
                f'<rect width="{length:.1f}" height="10" fill="{color}"/></svg>')


# ---- programs -------------------------------------------------------------------------------

# Colours of the lines of a program, by the first word of the line.
_COLORS = {"phase": GREY, "for": BLUE, "unroll": GREEN, "vector": ORANGE, "thread": RED,
           "reduce": RED, "tensor": ORANGE, "bulk": ORANGE, "barrier": RED, "if": GREY,
           "uniform": GREY, "prefetch": GREY}
_LINE = re.compile(r"( *)(\S*)(.*)", re.DOTALL)


def program_html(text):
    """Returns the loops of a program, coloured by kind. A vertical line marks each level."""
    def line_html(line):
        indent, word, rest = _LINE.fullmatch(line).groups()
        rules = f'<span style="color:{GREY}">│</span> ' * (len(indent) // 2)
        if word in _COLORS:
            return f'{rules}<b style="color:{_COLORS[word]}">{word}</b>{escaped(rest)}'
        return rules + escaped(word + rest)

    lines = "\n".join(map(line_html, text.splitlines()))
    return Html(f'<pre style="{PREFORMATTED}">{lines}</pre>')


def schedule_html(schedule):
    """Returns the steps of a schedule, and beside them the loops to which they are lowered."""
    steps = "".join(f"<li><code>{escaped(step)}</code></li>" for step in schedule.steps)
    try:
        loops = program_html(str(schedule.program()))
    except errors.Error as error:
        loops = Html(f'<div style="color:{RED}">{code(error)}</div>')
    return beside(Html(f"{heading('steps')}<ol>{steps}</ol>"),
                  Html(f"{heading('loops')}{loops}"))


_INSTRUCTION = re.compile(r" *([0-9a-f]+):\t(.*)")
# Jumps of x86-64 and branches of AArch64 that name their destination. Calls do not match.
_JUMP = re.compile(r"(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s.*?\b([0-9a-f]+) <")


def innermost_loops(assembly):
    """Returns the addresses of the first and the last instruction of each loop without a loop
    inside."""
    loops = set()
    for line in assembly.splitlines():
        instruction = _INSTRUCTION.fullmatch(line)
        jump = _JUMP.match(instruction[2]) if instruction else None
        if jump and int(jump[1], 16) <= int(instruction[1], 16):
            loops.add((int(jump[1], 16), int(instruction[1], 16)))
    return sorted(loop for loop in loops
                  if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1]
                             for other in loops))


def assembly_html(assembly):
    """Returns the instructions of a kernel. Instructions of innermost loops are marked, because a
    kernel spends most of its time there."""
    loops = innermost_loops(assembly)

    def line_html(line):
        instruction = _INSTRUCTION.fullmatch(line)
        at = int(instruction[1], 16) if instruction else -1
        if any(begin <= at <= end for begin, end in loops):
            return f'<span style="background:{ORANGE}33">{escaped(line)}</span>'
        return escaped(line)

    lines = "\n".join(map(line_html, assembly.splitlines()))
    return Html(f'<pre style="{PREFORMATTED};max-height:40em;overflow-y:auto">{lines}</pre>')


# ---- declarations ---------------------------------------------------------------------------


def _type_text(compute, tensor):
    shape = ", ".join(map(str, compute.shape_of(tensor)))
    return f"{str(compute.type_of(tensor)).rpartition('.')[2]}[{shape}]"


def compute_html(compute):
    rows = [(name, kind, _type_text(compute, name))
            for kind, names in (("input", compute.inputs), ("output", compute.outputs))
            for name in names]
    return Html(table(("tensor", "is", "type"), rows) + code(compute))


def workload_html(workload):
    flops = _tilewright.count_flops(workload.compute)
    read, written = _tilewright.compulsory_traffic(workload.compute)
    pairs = [("operator", workload.op)]
    if workload.attributes:
        pairs.append(("attributes", ", ".join(f"{name}={value}"
                                              for name, value in workload.attributes.items())))
    if workload.layouts:
        pairs.append(("layouts", ", ".join(f"{tensor}={layout}"
                                           for tensor, layout in workload.layouts.items())))
    pairs.append(("arithmetic", f"{flops / 1e6:.3f} MFLOP"))
    pairs.append(("compulsory traffic", f"{bytes_text(int(read))} read, "
                                        f"{bytes_text(int(written))} written"))
    if read + written > 0:
        pairs.append(("arithmetic intensity", f"{flops / (read + written):.2f} FLOP per byte"))
    return Html(facts(pairs) + details("definition", compute_html(workload.compute), is_open=True))


# ---- records --------------------------------------------------------------------------------


def gflops_of(record):
    return record.flops / record.latency_ns if record.latency_ns > 0 else 0


def efficiency_of(record):
    """Returns a record's speed as a share of the peak that was measured with the record; 0 if the
    peak is unknown."""
    return gflops_of(record) / record.peak_gflops if record.peak_gflops > 0 else 0


class Records(list):
    """Records of a database, as a query returns them: a list that displays itself as a table."""

    def __repr__(self):
        if not self:
            return "<Records: none>"
        counts = collections.Counter(record.status for record in self)
        workloads = len({record.workload_text for record in self})
        return (f"<Records: {len(self)} of {count_text(workloads, 'workload')}: "
                f"{counts_text(counts)}>")

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": visible(repr(self)), "text/html": records_html(self)}


def record_html(record):
    pairs = [("workload", record.workload_text), ("status", status_text(record.status))]
    if record.reason:
        pairs.append(("reason", record.reason))
    pairs.append(("latency", f"{time_text(record.latency_ns)} [{time_text(record.latency_low_ns)}, "
                             f"{time_text(record.latency_high_ns)}]"))
    if record.flops > 0:
        pairs.append(("speed", f"{gflops_of(record):.1f} GFLOP/s"))
    if efficiency_of(record) > 0:
        pairs.append(("of the peak", Html(f"{bar(efficiency_of(record))} "
                                          f"{share_text(efficiency_of(record))}")))
    pairs += [("threads", record.threads), ("target", record.target), ("device", record.device),
              ("session", f"{record.session}, trial {record.trial}"), ("hash", record.hash)]
    return Html(facts(pairs) + details("schedule", code(record.schedule)))


def records_html(records):
    fastest = {}
    for record in records:
        if record.latency_ns > 0:
            known = fastest.get(record.workload_text, record.latency_ns)
            fastest[record.workload_text] = min(known, record.latency_ns)

    def row(record, time):
        against_best = fastest[record.workload_text] / record.latency_ns \
            if record.latency_ns > 0 else 0
        color = BLUE if record.status == "ok" else GREY
        return (one_line(record.workload_text, 80), status_text(record.status),
                time, bar(against_best, color),
                f"{gflops_of(record):.1f}", f"{100 * efficiency_of(record):.1f}", record.threads,
                record.device.partition(";")[0], record.session, record.trial, record.hash[:12])

    header = ("workload", "status", "latency", "fastest / latency", "GFLOP/s", "% of peak",
              "threads", "device", "session", "trial", "record")
    shown = records[:_MOST_ROWS]
    times = times_text(record.latency_ns for record in shown)
    return Html(heading(repr(records)[1:-1]) + table(header, map(row, shown, times),
                                                     more=len(records) - _MOST_ROWS))


# ---- results --------------------------------------------------------------------------------


def tuned_html(tuned):
    best, progress = tuned.best, tuned.progress
    pairs = [("result", tuned.ended), ("workload", best.workload_text)]
    times = [("best", best.latency_ns, BLUE), ("untuned", progress.untuned_ns, ORANGE)]
    if best.flops > 0 and best.peak_gflops > 0:
        times.append(("arithmetic at the peak", best.flops / best.peak_gflops, GREEN))
    longest = max(ns for _, ns, _ in times)
    for name, ns, color in times:
        if ns > 0:
            pairs.append((name, Html(f"{bar(ns / longest, color)} {time_text(ns)}")))
    if best.flops > 0:
        pairs.append(("speed", f"{gflops_of(best):.1f} GFLOP/s"))
    if efficiency_of(best) > 0:
        pairs.append(("of the peak", share_text(efficiency_of(best))))
    pairs.append(("trials", f"{counts_text(progress.trials) or 'none new'}; "
                            f"{progress.known_trials} known before"))
    pairs += [("model", progress.model), ("threads", best.threads), ("target", best.target),
              ("session", best.session), ("record", best.hash)]
    parts = [facts(pairs), details("schedule", code(best.schedule)),
             details("loops and instructions", _loops_and_instructions(tuned))]
    if tuned.failures:
        rows = sorted(tuned.failures.items(), key=lambda item: -item[1])
        parts.append(details("rejected candidates",
                             table(("reason", "candidates"), rows)))
    return Html("".join(parts))


def _loops_and_instructions(tuned):
    """Returns the loops of the best kernel beside its instructions, or the reason why they cannot
    be shown. For example, kernels of GPUs have no instructions of the processor."""
    try:
        workload = _tilewright.parse_workload(tuned.best.workload_text)
        schedule = _tilewright.parse_schedule(workload, tuned.best.schedule)
        return beside(program_html(str(schedule.program(tuned.best.target))), assembly_html(tuned.assembly()))
    except errors.Error as error:
        return code(error)


def kernel_html(kernel):
    return Html(facts([("workload", kernel.workload), ("target", kernel.target)])
                + _arguments_html(kernel) + details("schedule", code(kernel.schedule)))


def _arguments_html(callable_):
    rows = [(argument.name, "output" if argument.is_output else "input",
             f"{str(argument.dtype).rpartition('.')[2]}[{', '.join(map(str, argument.shape))}]")
            for argument in callable_.arguments]
    return table(("array", "is", "type"), rows)


def model_html(model):
    return Html(facts([("network", model.name), ("constants", bytes_text(model.constant_bytes)),
                       ("memory of a call", bytes_text(model.call_bytes))])
                + _arguments_html(model))


# ---- networks -------------------------------------------------------------------------------


def computes(step):
    """Returns the operator that a step of a plan computes, or "transform" for a copy between
    layouts."""
    return "transform" if " -> " in step.name else step.workload.partition(" ")[0]


# Letters of the dimensions of images. Kernels that take any array of rank 4 call these dimensions A, B, C and D.
_IMAGE_LETTERS = str.maketrans("ABCDabcd", "NCHWnchw")


def layout_text(argument):
    """Returns the layout of a step's array. Layouts of images are spelled with N, C, H and W. For
    example, ACDB is shown as NHWC."""
    if not argument.layout:
        return "row-major"
    is_image = len(argument.shape) == 4 and re.fullmatch("[ABCDabcd0-9]*A[ABCDabcd0-9]*",
                                                         argument.layout)
    return argument.layout.translate(_IMAGE_LETTERS) if is_image else argument.layout


def plan_times_text(plan):
    """Returns a text for the time of a plan, such as "42.0 µs: 41.0 µs in 2 kernels, 1.0 µs in 1
    transform"."""
    times = {True: [], False: []}
    for step in plan.steps:
        times[computes(step) == "transform"].append(step.predicted_ns)
    kernels = f"{time_text(sum(times[False]))} in {count_text(len(times[False]), 'kernel')}"
    if not times[True]:
        return f"{kernels}, no transforms"
    total = time_text(sum(times[True]) + sum(times[False]))
    return (f"{total}: {kernels}, {time_text(sum(times[True]))} in "
            f"{count_text(len(times[True]), 'transform')}")


def plan_html(plan):
    total = sum(step.predicted_ns for step in plan.steps)
    longest = max((step.predicted_ns for step in plan.steps), default=0)

    def row(number, step, time):
        color = RED if computes(step) == "transform" else BLUE
        share = step.predicted_ns / total if total > 0 else 0
        layouts = [layout_text(argument) for argument in step.arguments if not argument.is_constant]
        return (number, one_line(step.name, 60), computes(step), time,
                bar(step.predicted_ns / longest if longest > 0 else 0, color), share_text(share),
                ", ".join(layouts[:-1]) + " -> " + layouts[-1] if layouts else "")

    pairs = [("network", plan.name), ("inputs", plan.inputs), ("target", plan.target),
             ("threads", plan.threads), ("memory of a call", bytes_text(plan.arena_bytes)),
             ("time", plan_times_text(plan))]
    steps = table(("", "step", "computes", "time", "", "share", "layouts"),
                  map(row, range(len(plan.steps)), plan.steps,
                      times_text(step.predicted_ns for step in plan.steps)))
    return Html(facts(pairs) + details(count_text(len(plan.steps), "step"), steps, is_open=True)
                + details("plan", code(plan)))


# ---- databases, machines, predictions -------------------------------------------------------


def store_html(store):
    return Html(facts([("database", store.path), ("records", len(store)), ("workloads", store.workloads),
                       ("measured machines", store.calibrations)]))


def adapted_html(adapted):
    rows = [(step.given, step.applied or "left out", step.note) for step in adapted.steps]
    return Html(table(("step", "applied", "note"), rows) + details("schedule", code(adapted.schedule)))


def roofs_html(roofs):
    rows = [(level.name, bytes_text(level.bytes), f"{level.gb_per_s:.1f} GB/s") for level in roofs.levels]
    return Html(facts([("machine", roofs.machine), ("peak", f"{roofs.peak_gflops:.1f} GFLOP/s of f32")])
                + table(("level", "holds", "bandwidth"), rows))


def predicted_html(predicted):
    rows = zip((resource for resource, _ in predicted.resources),
               times_text(ns for _, ns in predicted.resources), strict=True)
    return Html(facts([("predicted", time_text(predicted.total_ns))]) + table(("resource", "time"), rows))


# ---- registration ---------------------------------------------------------------------------


def _bundle(draw):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": visible(repr(self)), "text/html": str(draw(self))}

    return _repr_mimebundle_


_DRAWN = ((_tilewright.Expr, lambda value: code(value)),
          (_tilewright.Compute, compute_html),
          (_tilewright.Workload, workload_html),
          (_tilewright.Schedule, schedule_html),
          (_tilewright.Program, lambda program: program_html(str(program))),
          (_tilewright.Record, record_html),
          (_tilewright.Tuned, tuned_html),
          (_tilewright.Kernel, kernel_html),
          (_tilewright.Model, model_html),
          (_tilewright.Plan, plan_html),
          (_tilewright.Store, store_html),
          (_tilewright.Adapted, adapted_html),
          (_tilewright.Roofs, roofs_html),
          (_tilewright.PredictedTime, predicted_html))
for _type, _draw in _DRAWN:
    _type._repr_mimebundle_ = _bundle(_draw)
