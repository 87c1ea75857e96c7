#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of measurements and predictions into the pages, from the JSON of bench/results.

    bench/tables.py            # rewrites the regions of the pages in PAGES
    bench/tables.py --check    # exit code 1 if a page differs from the JSON
    bench/tables.py --print    # every table on standard output

A region of a page begins with `<!-- begin table NAME -->` and ends with `<!-- end table -->`. The script replaces the
text between these two lines by the table NAME of TABLES. A figure is a median with its 95 % interval. quoting.py
has the rules by which rows are left out; a list below the table names these rows and the reasons.
"""
import argparse
import difflib
import pathlib
import posixpath
import re
import statistics
import sys

from gpu_tables import gpu_expectations, gpu_expected_rows
from quoting import (FEWEST_ROUNDS, MACHINES, RESULTS, Document, Failure, Figure, Table, geometric_mean,
                     load_documents, objection, quotable, ratio_of, refusal)

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ("README.md", "bench/README.md", "docs/scale.md", "docs/cost_model.md", "docs/gpu_expected.md")
REGION = re.compile(r"(<!-- begin table (\w+) -->\n).*?(<!-- end table -->)", re.DOTALL)

# Means are also given without the rows whose ratio is above this. In such rows the peer has no fast kernel for the
# shape, or our kernel uses another algorithm.
HIGH = 2.0

# Facts about a run that its JSON does not have, by the name of the file. A key with a folder, such as
# "zen5_2_cores/NAME", is for the file of that machine alone; a key without a folder is for all machines.
REMARKS = {
    "resnet50_conv_known": "46 s of tuning for all rows, from a database with the trials of `odd_conv`",
    "resnet50_conv_again": "the kernels of the run with 12 s of tuning, timed again by another process",
    "resnet50_qlinear_again": "second run, from an empty database again",
    "resnet50_conv_bf16_again": "second run, from the database of the run with 6 s",
    "few_bits_again": "second run",
    "network_pruned_1x16_again": "second run, from an empty database again",
    "zen5_2_cores/network_densenet121_2_threads": "tuned twice for 2 minutes, the second time from the database of the "
                                                  "first",
    "network_resnet50_20_s_2_threads": "tuned for 20 s, from a database of the other six networks; two earlier runs, "
                                       "whose files were not kept, were slower",
}

NETWORKS = {"resnet18": "ResNet-18", "resnet50": "ResNet-50", "vgg16": "VGG-16",
            "mobilenet_v2": "MobileNetV2", "densenet121": "DenseNet-121",
            "inception_v3": "Inception-v3", "ssd_resnet50": "SSD-ResNet-50, 512x512",
            "bert_base": "BERT-base encoder, 128 tokens", "squeezenet": "SqueezeNet",
            "pruned_1x16": "feed-forward part of a BERT layer, 80 % of the weights zero, in blocks of 1x16",
            "pruned_4x4": "feed-forward part of a BERT layer, 80 % of the weights zero, in blocks of 4x4"}
# Pruned networks, which no geometric mean includes: the peers also multiply by the zero weights, ours do not.
APART = ("pruned_1x16", "pruned_4x4")
# The text for the state of the caches at the start of a call, by the name that --state of bench takes.
STATES = {"hot": "", "cold": "weights in memory, not in caches",
          "network": "caches as in a network: weights and outputs in memory, inputs just written"}
PEERS = {"onednn": "oneDNN", "halide": "Halide's Adams2019", "ggml": "GGML of llama.cpp", "cublas": "cuBLAS", "cudnn": "cuDNN",
         "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "pytorch": "PyTorch"}


# ---- machines -----------------------------------------------------------------------------------


def machines(documents):
    table = Table(["machine", "folder of its results", "processor or GPU", "caches; of a GPU, memory and L2",
                   "measured peak of one core in f32, GFLOP/s"])
    measured = [d for d in documents if "optimum" not in d.json]
    for machine in sorted({d.machine for d in measured}):
        own = [d for d in measured if d.machine == machine]
        peaks = [row["peak_gflops"] for d in own if not d.is_limited and "peer" in d.json
                 for row in d.json["rows"] if row.get("threads") == 1 and row.get("peak_gflops")
                 and not d.is_of_gpu]
        device = statistics.mode(d.json["machine"]["device"] for d in own).split("; ")
        what = MACHINES.get(machine, (None, f"{own[0].json['machine']['cores']} cores, {device[0]}"))[1]
        table.rows.append([own[0].machine_name, f"`{machine}`", what, ", ".join(device[2:]),
                           f"{statistics.median(peaks):.0f}" if peaks else "-"])
    return table


# ---- kernels ------------------------------------------------------------------------------------

KERNEL_SUITES = ("resnet50_conv", "resnet50_qlinear", "vgg16_conv", "inception_conv", "odd_conv", "gemm",
                 "few_bits", "expressions")


def kernel_documents(documents):
    chosen = [d for d in documents if d.json.get("suite") in KERNEL_SUITES and "rows" in d.json
              and not d.is_of_gpu]
    return sorted(chosen, key=lambda d: (d.machine, d.is_limited, KERNEL_SUITES.index(d.json["suite"]),
                                         d.name))


def peer_name(document):
    peer = document.json["peer"]
    return f"{PEERS.get(peer['name'], peer['name'])} {peer['version']}"


def data_type_of(workload):
    """Returns the data type of the arrays of a workload. An expression declares types of its own; for it, f32 is
    returned."""
    words = workload.partition("{")[0].split()
    return next((word for word in words if word in ("f32", "f16", "bf16")), "f32")


def data_type(document):
    """Returns the data type of the arrays of the document's first row."""
    return data_type_of(document.json["rows"][0].get("workload", ""))


def suite_title(document):
    kind = data_type(document)
    return f"`{document.json['suite']}`" + ("" if kind == "f32" else f", {kind}")


def kernel_title(document):
    options = document.json["options"]
    remarks = [STATES[options["cache"]], remark_on(document)]
    if options.get("budget_s"):
        remarks.append(f"{options['budget_s']:g} s of tuning for each row")
    return ", ".join(filter(None, [suite_title(document), *remarks]))


def mean_text(ratios):
    """Returns a text with the geometric mean of the ratios. If some ratios are above HIGH, they would dominate the
    mean, so the text also has the mean without them."""
    values = [ratio.value for ratio in ratios]
    usual = [value for value in values if value <= HIGH]
    text = f"{geometric_mean(values):.3f}"
    if usual and len(usual) < len(values):
        count = len(values) - len(usual)
        text += f"; {geometric_mean(usual):.3f} without the {count} row{'' if count == 1 else 's'} above {HIGH:.0f}"
    return text


def verdicts(ratios):
    """Returns a text with the numbers of intervals that are above 1, contain 1, and are below 1."""
    above = sum(ratio.low > 1 for ratio in ratios)
    below = sum(ratio.high < 1 for ratio in ratios)
    return f"{above}, {len(ratios) - above - below}, {below}"


def named(row, ratio):
    """Returns a text such as "1.021 [0.933, 1.101] (r21)": a ratio and the name of its row."""
    return f"{ratio.text(3)} ({row['name']})"


def kernels(documents):
    table = Table(["machine", "suite and conditions", "instruction set", "threads", "rows quoted", "peer",
                   "peer's time / ours: geometric mean", "ours faster, same, slower", "lowest ratio", "highest ratio",
                   "source"])
    for document in kernel_documents(documents):
        rows, refused = quotable(document)
        if refused:
            table.notes.append(refusal(document, refused))
        if 2 * len(rows) < len(document.json["rows"]):
            table.notes.append(f"All of `{document.machine}/{document.name}` is left out, as fewer than half of its "
                               "rows may be quoted.")
            continue
        ratios = [ratio_of(row, document.json["schema_version"]) for row in rows]
        ordered = sorted(zip(ratios, rows), key=lambda pair: pair[0].value)
        table.rows.append([
            document.machine_name, kernel_title(document), "AVX2" if document.is_limited else "AVX-512",
            "/".join(sorted({str(row["threads"]) for row in rows})),
            f"{len(rows)} of {len(document.json['rows'])}", peer_name(document), mean_text(ratios),
            verdicts(ratios), named(*ordered[0][::-1]), named(*ordered[-1][::-1]),
            f"[JSON]({document.path})"])
    return table


# ---- GPUs ---------------------------------------------------------------------------------------


def gpu_title(document):
    """Returns the title of a row about a GPU. For a suite, it has the name of the suite and, from the suite's first
    row, the data type, the number of images and the layouts. For a network, it has the network's name."""
    row = document.json["rows"][0]
    if document.json["suite"] == "gpu_network":
        return ", ".join([NETWORKS[row["name"]], "f32, 1 image"])
    remarks = [remark_on(document)]
    if document.json["options"].get("budget_s"):
        remarks.append(f"{document.json['options']['budget_s']:g} s of tuning for each row")
    return ", ".join(filter(None, [f"`{document.json['suite']}`", *conditions_of(row["workload"]), *remarks]))


def conditions_of(workload):
    """Returns texts with the data type, the number of images and the layouts of a workload."""
    words = workload.split("{")
    batch = re.search(r"^conv2d n=(\d+) ", words[0])
    images = [f"{batch[1]} image{'' if batch[1] == '1' else 's'}"] if batch else []
    layouts = [words[1].rstrip("} ")] if len(words) > 1 else []
    return [data_type_of(workload), *images, *layouts]


def gpus(documents):
    table = Table(["machine", "suite or network, and conditions", "rows quoted", "peer",
                   "peer's time / ours: geometric mean", "ours faster, same, slower", "lowest ratio", "highest ratio",
                   "source"])
    for document in [d for d in documents if d.is_of_gpu and "optimum" not in d.json]:
        rows, refused = quotable(document)
        if refused:
            table.notes.append(refusal(document, refused))
        if not rows:
            continue
        ratios = [ratio_of(row, document.json["schema_version"]) for row in rows]
        ordered = sorted(zip(ratios, rows), key=lambda pair: pair[0].value)
        table.rows.append([
            document.machine_name, gpu_title(document), f"{len(rows)} of {len(document.json['rows'])}",
            peer_name(document), mean_text(ratios), verdicts(ratios), named(*ordered[0][::-1]),
            named(*ordered[-1][::-1]), f"[JSON]({document.path})"])
    return table


MOST_BEHIND = 1.03  # the largest ratio of a choice that is not counted as behind


def optimum(documents):
    """Returns the table of the schedules that the program chooses before anything is measured. A file has a row in
    the table for each data type, number of images and set of layouts."""
    table = Table(["target", "suite and conditions", "choices", "predicted time of the choice / of the best sample: "
                   "geometric mean", "highest ratio", f"ratio above {MOST_BEHIND}", "source"])
    for document in [d for d in documents if "optimum" in d.json]:
        groups = {}
        for row in document.json["optimum"]:
            if "ratio" in row:  # a workload of which no sample is legal has none
                groups.setdefault(", ".join(conditions_of(row["workload"])), []).append(row)
        for conditions, rows in groups.items():
            most = max(rows, key=lambda row: row["ratio"])
            table.rows.append([
                f"`{document.json['machine']['target']}`", f"`{document.json['suite']}`, {conditions}", str(len(rows)),
                f"{geometric_mean([row['ratio'] for row in rows]):.3f}", f"{most['ratio']:.3f} ({most['name']})",
                str(sum(row["ratio"] > MOST_BEHIND for row in rows)), f"[JSON]({document.path})"])
    return table


# ---- networks -----------------------------------------------------------------------------------


def network_documents(documents):
    order = list(NETWORKS)
    chosen = [d for d in documents if d.json.get("suite") == "networks"]
    return sorted(chosen, key=lambda d: (d.machine, d.json["options"]["threads"],
                                         order.index(d.json["network"]["name"]), d.name))


def peers_of(document):
    """Returns a dictionary from the name of each peer to a pair: the peer's name with its version, and the ratio of
    the peer's time to ours. A peer is missing if its row is left out."""
    return {row["peer"].split()[0]: (row["peer"], ratio_of(row, document.json["schema_version"]))
            for row in document.json["rows"] if objection(row, document) is None}


def remark_on(document):
    """Returns the text of REMARKS about a file; an empty text if there is none."""
    return REMARKS.get(f"{document.machine}/{document.name}", REMARKS.get(document.name, ""))


def is_of_mean(document):
    """True if the geometric means of networks include this file."""
    return "20_s" not in document.name and document.json["network"]["name"] not in APART


def network_title(document):
    name = document.json["network"]["name"]
    return ", ".join(filter(None, [NETWORKS[name], remark_on(document)]))


def networks(documents):
    table = Table(["machine", "network", "threads", "our time of a call, ms", "ONNX Runtime's time / ours",
                   "OpenVINO's time / ours", "source"])
    means, versions = {}, set()
    for document in network_documents(documents):
        refused = [(row, reason) for row in document.json["rows"] if (reason := objection(row, document))]
        if refused:
            table.notes.append(refusal(document, refused))
        peers, threads = peers_of(document), document.json["options"]["threads"]
        ours = document.json["contenders"][0]
        time = Figure(*(ours[f"median_{key}us"] / 1e3 for key in ("", "low_", "high_")))
        versions.update(text for text, _ in peers.values())
        cells = []
        for name in ("onnxruntime", "openvino"):
            cells.append(peers[name][1].text(3) if name in peers else "-")
            if name in peers and is_of_mean(document):
                means.setdefault((document.machine_name, threads), {}).setdefault(name, []).append(
                    peers[name][1].value)
        table.rows.append([document.machine_name, network_title(document), str(threads),
                           time.text(2 if time.value < 10 else 1), *cells, f"[JSON]({document.path})"])
    for (machine, threads), of_peers in sorted(means.items()):
        counts = {len(values) for values in of_peers.values()}
        table.rows.append([machine, f"geometric mean of {'/'.join(map(str, counts))} networks", str(threads), "",
                           *(f"{geometric_mean(of_peers[name]):.3f}" if name in of_peers else "-"
                             for name in ("onnxruntime", "openvino")), ""])
    table.notes.append("Peers: " + ", ".join(
        f"{PEERS[text.split()[0]]} {text.split()[1]}" for text in sorted(versions)) +
        ".")
    table.notes.append("The comparison of networks does not detect disturbances by other processes, so no row is left "
                       "out for that reason. Only the intervals show how steady the rounds were.")
    table.notes.append("The geometric means leave out the run of 20 s and the pruned networks.")
    return table


# ---- the zoo ------------------------------------------------------------------------------------

# Values of the field `stage` in rows of the zoo.
REFUSED = ("import", "plan")  # no artifact was made: the model could not be imported, or not planned
FAILED = ("run", "wrong")  # an artifact was made, but it failed or computed wrong outputs


def zoo_stages(rows):
    """Returns the stage of each model, by name: "right" if all rows of the model are right, else the stage of its
    first row that is not."""
    stages = {}
    for row in rows:
        if stages.get(row["name"], "right") == "right":
            stages[row["name"]] = row["stage"]
    return stages


def zoo_verdict(rows):
    """Returns a text with the number of models that were tried, and the numbers of models by result, such as
    "refused" or "right"."""
    stages = list(zoo_stages(rows).values())
    counts = {"refused": sum(stage in REFUSED for stage in stages),
              "failed or wrong": sum(stage in FAILED for stage in stages),
              "without a reference": stages.count("reference"), "right": stages.count("right")}
    return f"{len(stages)} models: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def zoo_runs(document):
    """Returns a list with a tuple for each combination of threads and seconds of tuning: (threads, seconds of tuning,
    rows with right outputs, those of these rows that may be quoted)."""
    runs = sorted({(row["threads"], row["budget_s"]) for row in document.json["rows"]})
    quoted, _ = quotable(document)
    return [(threads, budget_s, *(
        [row for row in rows if (row["threads"], row["budget_s"]) == (threads, budget_s)
         and row["stage"] == "right"] for rows in (document.json["rows"], quoted)))
        for threads, budget_s in runs]


def zoo_tuning(budget_s):
    return f"{budget_s:g} s" if budget_s else "none"


def zoo_summary(content):
    """Returns the summary that `bench --zoo` prints at its end: a line with the verdict, and a line for each element
    of zoo_runs(). `content` is the JSON of the run."""
    document = Document("", "", content)
    lines = [zoo_verdict(content["rows"])]
    for threads, budget_s, right, rows in zoo_runs(document):
        line = f"threads {threads}, tuning {zoo_tuning(budget_s)}: {len(right)} right, {len(rows)} timed undisturbed"
        if rows:
            values = [row["ratio"] for row in rows]
            line += (f", faster peer's time / ours: geometric mean {geometric_mean(values):.3f}, "
                     f"{min(values):.3f} to {max(values):.3f}")
        lines.append(line)
    return "\n".join(lines)


def zoo_documents(documents):
    return [d for d in documents if d.json.get("suite") == "zoo"]


def zoo(documents):
    table = Table(["machine", "threads", "tuning of each model", "models quoted, of those with right outputs",
                   "faster peer's time / ours: geometric mean", "ours faster, same, slower", "lowest ratio",
                   "highest ratio", "time to plan, tune and compile a model, s: median, longest", "source"])
    for document in zoo_documents(documents):
        for threads, budget_s, right, rows in zoo_runs(document):
            if not right:
                continue
            ratios = [ratio_of(row, document.json["schema_version"]) for row in rows]
            ordered = sorted(zip(ratios, rows), key=lambda pair: pair[0].value)
            seconds = [row["planning_s"] for row in right]
            means = [mean_text(ratios), verdicts(ratios), named(*ordered[0][::-1]),
                     named(*ordered[-1][::-1])] if rows else ["-"] * 4
            table.rows.append([document.machine_name, str(threads), zoo_tuning(budget_s),
                               f"{len(rows)} of {len(right)}", *means,
                               f"{statistics.median(seconds):.1f}, {max(seconds):.1f}",
                               f"[JSON]({document.path})"])
        place = f"`{document.machine}/{document.name}`"
        table.notes.append(f"Outcomes in {place}: {zoo_verdict(document.json['rows'])}.")
        reasons = [(row, objection(row, document)) for row in document.json["rows"] if row["stage"] == "right"]
        if disturbed := [f"{row['name']} on {threads_text(row)} ({reason})" for row, reason in reasons if reason]:
            table.notes.append(f"Left out of {place}: {'; '.join(disturbed)}.")
    return table


def threads_text(row):
    return f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"


def zoo_cell(row, document):
    """Returns the last two cells of a model's row: our time and the ratio; or the stage that failed and its message;
    or two dashes if the row is left out."""
    if "error" in row:
        return [row["stage"], row["error"].replace("|", "\\|")]
    if objection(row, document):
        return ["-", "-"]
    time = Figure(*(row[f"ours_{key}us"] / 1e3 for key in ("", "low_", "high_")))
    ratio = ratio_of(row, document.json["schema_version"])
    peer = PEERS[row["peer"].split()[0]]
    return [time.text(3 if time.value < 1 else 2 if time.value < 10 else 1), f"{ratio.text(3)}, {peer}"]


def zoo_models(documents):
    table = Table(["machine", "model", "origin", "threads", "tuning",
                   "our time of a call, ms; or the stage that failed",
                   "faster peer's time / ours, and this peer; or the message"])
    for document in zoo_documents(documents):
        for row in document.json["rows"]:
            table.rows.append([document.machine_name, f"`{row['name']}`", row["origin"], str(row["threads"]),
                               zoo_tuning(row["budget_s"]), *zoo_cell(row, document)])
    return table


# ---- the ablation -------------------------------------------------------------------------------

# Names of the ways of choosing layouts, by their names in JSON; docs/networks.md explains them.
CHOICES = {"row_major": "row-major", "blocked": "blocked", "uniform": "transforms eliminated",
           "local_best": "local best", "global": "global"}


def milliseconds(row):
    """Returns the cell with the measured time of a plan."""
    if "error" in row:
        return "not measured"
    figure = Figure(*(row[f"measured{key}_us"] / 1e3 for key in ("", "_low", "_high")))
    return figure.text(3 if figure.value < 1 else 2 if figure.value < 10 else 1)


def joint_gain(network):
    """Returns a text with the time of the plan "transforms eliminated" divided by the time of the global plan. If the
    file has no interval of this ratio, the text says if the intervals of the two times overlap."""
    if known := network.get("global_to_uniform"):
        return Figure(known["ratio"], known["low"], known["high"]).text(3)
    rows = {row["name"]: row for row in network["rows"]}
    uniform, best = rows["uniform"], rows["global"]
    apart = best["measured_high_us"] < uniform["measured_low_us"]
    return (f"{uniform['measured_us'] / best['measured_us']:.3f}, "
            f"intervals {'do not overlap' if apart else 'overlap'}")


def ablation_objection(network):
    """Returns the reason why a network's plans are not quoted; None if they are quoted."""
    for row in network["rows"]:
        if row["name"] in ("uniform", "global") and "error" in row:
            return f"{CHOICES[row['name']]}: {row['error']}"
    if network["rounds"] < FEWEST_ROUNDS or network.get("disturbed"):
        return f"{network['rounds']} rounds count ({network.get('disturbed') or 'no more were asked for'})"
    return None


def ablation(documents):
    table = Table(["machine", "network, threads", "tuning of all plans, s",
                   *(f"{name}, ms" for name in CHOICES.values()),
                   "time of transforms eliminated / time of global", "source"])
    for document in documents:
        if document.json.get("suite") != "ablation":
            continue
        for network in document.json["networks"]:
            place = f"{network['network']} of `{document.machine}/{document.name}`"
            if reason := ablation_objection(network):
                table.notes.append(f"Left out: {place}: {reason}.")
                continue
            rows = {row["name"]: row for row in network["rows"]}
            title = NETWORKS.get(network["network"], f"`{network['network']}`")
            seconds = sum(tuning["seconds"] for tuning in network.get("tuning", []))
            table.rows.append([document.machine_name, f"{title}, {network['threads']}", f"{seconds:.0f}",
                               *(milliseconds(rows[name]) for name in CHOICES), joint_gain(network),
                               f"[JSON]({document.path})"])
    return table


# ---- searches -----------------------------------------------------------------------------------

# Texts for the strategies, by the names that --strategies of bench takes.
STRATEGIES = {"evolution": "our search, empty database", "taught": "our search, *taught*",
              "analytic": "our search without the pretrained model", "blind": "evolution without a model",
              "random": "random points", "tvm": "TVM's MetaSchedule", "adams2019": "Halide's Adams2019"}
TRIALS = ("1", "4", "16", "64")  # numbers of trials after which the table has the speed that a search reached


def share(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def search(documents):
    table = Table(["machine", "suite", "budget for a workload", "strategy",
                   *(f"after {count} trial{'' if count == '1' else 's'}" for count in TRIALS), "at the end", "source"])
    for document in documents:
        if "search" not in document.json:
            continue
        options, rows = document.json["options"], document.json["search"]["rows"]
        budget = f"{options['budget_s']:g} s" + (
            f", at most {options['trials']} trials" if options["trials"] else "")
        for summary in document.json["search"]["summary"]:
            table.rows.append([document.machine_name, f"`{options['suite']}`, {summary['rows']} workloads",
                               budget, STRATEGIES.get(summary["strategy"], summary["strategy"]),
                               *(share(summary["shares"].get(count)) for count in TRIALS),
                               share(summary["winner"]), f"[JSON]({document.path})"])
        disturbed = [f"{row['name']} ({row['disturbed']})" for row in rows if row.get("disturbed")]
        if disturbed:
            table.notes.append(
                f"In `{document.machine}/{document.name}` other processes disturbed {', '.join(disturbed)}. The means "
                f"over its {len(rows)} workloads include what was disturbed, because the file has no figures of single "
                "workloads from which means without it could be computed.")
        if any(s["strategy"] == "tvm" for s in document.json["search"]["summary"]):
            table.notes.append(
                "In this budget TVM measures one round of 16 candidates, before its model has learned anything. So the "
                "row shows what 16 trials reach, not what MetaSchedule can reach. Its arrays are row-major and its "
                "weights are not packed ahead; our layouts are free and our weights are packed ahead.")
    table.notes.append("If a suite was run twice, the table has both runs. A geometric mean over workloads has no "
                       "interval; the difference between two runs shows how much it varies.")
    return table


# ---- planning and the rest ----------------------------------------------------------------------


def planning(documents):
    table = Table(["machine", "network", "operators", "schemes", "predicting all schemes, s",
                   "finding the cheapest plan, ms", "finding the three cheapest plans, ms",
                   "cheapest plan of these schemes", "source"])
    for document in documents:
        for row in document.json.get("rows", []) if "series_parallel" in document.json else []:
            proof = "proved" if row["is_optimal"] else f"not proved, gap {100 * row['gap']:.1f} %"
            table.rows.append([document.machine_name, NETWORKS[row["network"]], str(row["operators"]),
                               str(row["schemes"]), f"{row['predicting_s']:.2f}", f"{row['plan_ms']:.1f}",
                               f"{row['three_plans_ms']:.1f}", proof, f"[JSON]({document.path})"])
    table.notes.append("A scheme is one way to run an operator: the layouts of its tensors, and its time. A plan "
                       "chooses a scheme for each operator. Planning without records takes the time of predicting "
                       "all schemes and the time of finding a plan.")
    table.notes.append("Times of finding plans are the least of several rounds.")
    return table


def row_key(row, document):
    """Returns the name of a row's workload or model, its threads and its seconds of tuning, if the row has these, and
    its peer if the document has a row for each peer."""
    peer = row["peer"].split()[0] if "network" in document.json else None
    return row["name"], row.get("threads"), row.get("budget_s"), peer


def repeated(documents):
    """Returns the rows of a table about second runs, whose files are named *_again. Each row has the largest change
    of a ratio between the first and the second run. The second run may have tuned its kernels anew."""
    lines = []
    for again in documents:
        if not again.name.endswith("_again"):
            continue
        first = next(d for d in documents
                     if d.machine == again.machine and d.name == again.name.removesuffix("_again"))
        before = {row_key(row, first): ratio_of(row, first.json["schema_version"]) for row in quotable(first)[0]}
        after = {row_key(row, again): ratio_of(row, again.json["schema_version"]) for row in quotable(again)[0]}
        moved = [abs(after[key].value / before[key].value - 1) for key in after if key in before]
        if not moved:
            raise Failure(f"[tables] {again.path}: no row that may be quoted is also one of {first.path}")
        lines.append([again.machine_name, f"{suite_title(again)}, second run: largest change of a ratio to the peer",
                      f"{100 * max(moved):.1f} %, {len(moved)} rows compared", f"[JSON]({again.path})"])
    return lines


def service(documents):
    table = Table(["machine", "figure", "measured", "source"])
    for d in documents:
        def row(what, value):
            table.rows.append([d.machine_name, what, value, f"[JSON]({d.path})"])
        if "twins" in d.json:
            s = d.json["summary"]
            row("two copies of one kernel are compared: found different",
                f"{s['equal_apart']} of {s['equal']} comparisons")
            row(f"one of the two copies is slowed by {100 * s['slowdown']:.0f} %: found slower",
                f"{s['slowed_found']} of {s['slowed']} comparisons")
        if "throughput" in d.json and "total" in d.json:
            row("candidates that a search tries, valid or not",
                f"{d.json['total']['candidates_per_s']:.1f} a second")
        if "of_best" in d.json:
            speed = (f"first kernels of {len(d.json['results'])} workloads, speed as a share of the best found "
                     "(geometric mean)")
            row(f"{speed}: chosen from records of another machine", f"{d.json['of_best']['shipped']:.3f}")
            row(f"{speed}: chosen by the cost model alone", f"{d.json['of_best']['model']:.3f}")
        if "database" in d.json and d.name in ("database", "database_postgresql"):
            b = d.json["database"]
            engine = b["engine"].split(",")[0]
            row(f"{engine}, {b['records']:,} records: time of a look-up, of a commit",
                f"{b['lookup_us']:.0f} µs, {b['commit_ms']:.1f} ms")
            row(f"{engine}: merging a file of records", f"{b['merged_per_s']:,.0f} records a second")
        if "scoring" in d.json:
            row(f"points whose times the cost model predicts, on {d.json['threads']} threads",
                f"{d.json['points_per_s']:,.0f} a second")
    table.rows += repeated(documents)
    return table


def databases(documents):
    """Returns the table of the times of databases of synthetic records, with a column for each engine and size. All
    columns are of the machine that has the most such files."""
    found = [d for d in documents if "growth" in d.json.get("database", {})]
    machine = max((d.machine for d in found), key=lambda name: sum(d.machine == name for d in found), default=None)
    found = sorted((d for d in found if d.machine == machine),
                   key=lambda d: (d.json["database"]["engine"].startswith("Postgre"), d.json["database"]["records"]))
    bases = [d.json["database"] for d in found]
    table = Table(["", *(f"{b['engine'].split(' ')[0]}, {b['records']:,} records" for b in bases)])
    figures = [("bytes for each record, with indexes", lambda b: f"{b['bytes'] / b['records']:.0f}"),
               ("look-up of a key among many, the first time", lambda b: f"{b['first_lookup_us']:.0f} µs"),
               ("look-up of a key among many, again", lambda b: f"{b['lookup_us']:.1f} µs"),
               ("look-up of a single key", lambda b: f"{b['lookup_alone_us']:.0f} µs"),
               ("commit of one record", lambda b: f"{b['commit_ms']:.1f} ms"),
               ("merging a file of records", lambda b: f"{b['merged_per_s']:,.0f} records a second"),
               ("reading the first page of `db serve`", lambda b: f"{b['first_page_ms']:.0f} ms"),
               ("`db info`", lambda b: f"{b['info_ms']:.1f} ms"),
               ("`db prune` that deletes nothing", lambda b: f"{b['pruning_s']:.1f} s"),
               ("peak memory of the process", lambda b: f"{b['filling_mb']:.0f} MB")]
    for k, group in enumerate(bases[0]["growth"] if bases else []):
        name = f"in a group of {group['trials']:,} trials: "
        figures += [(name + "commit of one trial", lambda b, k=k: f"{b['growth'][k]['commit_ms']:.1f} ms"),
                    (name + "start of a run", lambda b, k=k: f"{b['growth'][k]['start_ms']:.0f} ms")]
    for title, figure in figures:
        table.rows.append([title, *(figure(b) for b in bases)])
    if found:
        table.rows.append(["", *(f"[JSON]({d.path})" for d in found)])
    return table


def by_size(documents, suite, title, figures):
    """A table with a column for each row of the suite's first file, and a line for each figure.

    `title(row)` is the heading of a column. `figures` are pairs of the name of a line and a function from a row to the
    text of a cell."""
    found = [d for d in documents if d.json.get("suite") == suite][:1]
    rows = found[0].json["rows"] if found else []
    table = Table(["", *(title(row) for row in rows)])
    table.rows = [[name, *(figure(row) for row in rows)] for name, figure in figures] if rows else []
    for d in found:
        table.rows.append(["", f"[JSON]({d.path})", *[""] * (len(rows) - 1)])
    return table


def farms(documents):
    return by_size(documents, "farm", lambda r: f"{r['members']} member{'' if r['members'] == 1 else 's'}", [
        ("processes of the members",
         lambda r: "3 for each member" if r["processes"] == r["members"] else f"{r['processes']} for all"),
        ("jobs that sleep as long as recorded", lambda r: f"{r['jobs_per_s']:.0f} a second"),
        ("share of the time in which members measure", lambda r: f"{100 * r['working_share']:.0f} %"),
        ("time on the device for each job, beyond the recorded time", lambda r: f"{r['beyond_ms']:.1f} ms"),
        ("processor time of the scheduler for each job", lambda r: f"{r['scheduler_processor_ms']:.2f} ms"),
        ("processor time of the client for each job", lambda r: f"{r['client_processor_ms']:.2f} ms"),
        ("jobs that do nothing, many together", lambda r: f"{r['empty_jobs_per_s']:.0f} a second"),
        ("a single job that does nothing, until its reply", lambda r: f"{r['single_job_ms']:.0f} ms"),
        ("scheduler killed and restarted: time until all members work again",
         lambda r: f"{r['all_work_again_s']:.1f} s"),
        ("scheduler killed and restarted: jobs lost",
         lambda r: f"{r['jobs_lost']} of {r['jobs_meanwhile'] + r['jobs_lost']:,}"),
        ("peak memory of the scheduler", lambda r: f"{r['scheduler_mb']:.0f} MB"),
        ("peak memory of the client", lambda r: f"{r['client_mb']:.0f} MB")])


def convolution(row):
    """Returns the name of a convolution in a table: "input 64 x 56 x 56, kernel 3 x 3, 64 output channels". The input
    is channels x height x width, the kernel height x width."""
    values = dict(word.split("=") for word in row["workload"].split() if "=" in word)
    return (f"input {values['c']} x {values['h']} x {values['w']}, kernel {values['r']} x {values['s']}, "
            f"{values['k']} output channels")


def side_by_side(documents):
    return by_size(documents, "side_by_side", convolution, [
        ("one run: time of all its 512 trials", lambda r: f"{r['one']['ended_s']:.0f} s"),
        ("one run: time until its best kernel was found", lambda r: reached(r["one"])),
        ("eight runs: time until a kernel as fast was found", lambda r: reached(r["all"])),
        ("eight runs: this time / time of all trials of the one run", lambda r: share_of_one(r, "all")),
        ("eight runs: schedules that several runs measured",
         lambda r: f"{r['all']['repeated']} of {r['all']['trials']:,} trials"),
        ("eight runs, two killed: time until a kernel as fast was found", lambda r: reached(r["killed"])),
        ("eight runs, two killed: this time / time of all trials of the one run", lambda r: share_of_one(r, "killed")),
        ("eight runs, two killed: schedules that several runs measured",
         lambda r: f"{r['killed']['repeated']} of {r['killed']['trials']:,} trials"),
        ("eight runs, two killed: number of the other six that failed", lambda r: str(r["killed"]["failed"]))])


def reached(runs):
    """Returns a text with the seconds and trials until the runs had a kernel as fast as the best one of the single
    run."""
    if runs["reached_s"] == 0:
        return f"not within {runs['trials']:,} trials"
    return f"{runs['reached_s']:.0f} s, {runs['reached_trials']:,} trials"


def share_of_one(row, runs):
    """Returns a text with the time of reached(), divided by the time of all trials of the single run; "-" if the runs
    never had such a kernel. `runs` is the name of the case in JSON: "all" or "killed"."""
    return f"{row[runs]['reached_s'] / row['one']['ended_s']:.2f}" if row[runs]["reached_s"] > 0 else "-"


def networks_by_size(documents):
    return by_size(documents, "networks_by_size", lambda r: f"{r['operators']:,} operators", [
        ("nodes of the ONNX file", lambda r: f"{r['nodes']:,}"),
        ("distinct operators", lambda r: f"{r['distinct_operators']:,}"),
        ("reading the file and running graph passes", lambda r: f"{r['importing_s']:.2f} s"),
        ("predicting the times of all schemes", lambda r: f"{r['predicting_s']:.1f} s"),
        ("finding the cheapest plan", lambda r: f"{r['planning_s']:.2f} s"),
        ("plan, among all plans of these schemes", lambda r: "proved cheapest" if r["is_optimal"] else "not proved"),
        ("building the kernels and the file", lambda r: f"{r['building_s']:.1f} s"),
        ("`tune --model` in all", lambda r: f"{r['seconds']:.1f} s"),
        ("peak memory of the process", lambda r: f"{r['peak_mb']:.0f} MB"),
        ("the file that the runtime loads", lambda r: f"{r['output_mb']:.0f} MB"),
        ("largest error of an output / largest output", lambda r: f"{r['error']:.0e}")])


# ---- the first page -----------------------------------------------------------------------------


def kernel_cell(documents, machine, suite):
    """Returns a text with the mean ratio of a suite on one thread of a machine, without a limit on instruction sets.
    If several versions of the peer were measured, the version with the lowest mean ratio counts. "-" if no run may be
    quoted."""
    found = [d for d in documents if d.machine == machine and d.json.get("suite") == suite
             and d.name.split("_onednn")[0] == suite and "rows" in d.json]
    cells = []
    for document in found:
        rows, _ = quotable(document)
        if 2 * len(rows) < len(document.json["rows"]):
            continue
        ratios = [ratio_of(row, document.json["schema_version"]) for row in rows]
        cells.append((geometric_mean([ratio.value for ratio in ratios]),
                      f"{mean_text(ratios)} ({len(rows)} rows, {peer_name(document)})"))
    return min(cells)[1] if cells else "-"


def network_cell(documents, machine, peer):
    """Returns a text with the mean, the lowest and the highest ratio of the networks of a machine, on one thread; "-"
    if there are none."""
    ratios = []
    for document in network_documents(documents):
        if (document.machine == machine and document.json["options"]["threads"] == 1
                and is_of_mean(document)):
            peers = peers_of(document)
            if peer in peers:
                ratios.append(peers[peer])
    if not ratios:
        return "-"
    values = [ratio.value for _, ratio in ratios]
    return (f"{geometric_mean(values):.3f}, from {min(values):.3f} to {max(values):.3f} ({len(values)} networks, "
            f"{PEERS[peer]} {ratios[0][0].split()[1]})")


def overview(documents):
    machines = sorted({d.machine for d in kernel_documents(documents) + network_documents(documents)})
    names = [next(d.machine_name for d in documents if d.machine == m) for m in machines]
    table = Table(["time of the other library / ours", *names])
    for title, suite in (("convolutions of ResNet-50", "resnet50_conv"),
                         ("convolutions of unusual shapes", "odd_conv"), ("matrix products", "gemm")):
        table.rows.append([title, *(kernel_cell(documents, m, suite) for m in machines)])
    for title, peer in (("whole networks, ONNX Runtime", "onnxruntime"),
                        ("whole networks, OpenVINO", "openvino")):
        table.rows.append([title, *(network_cell(documents, m, peer) for m in machines)])
    return table


# ---- pages --------------------------------------------------------------------------------------

TABLES = {"machines": machines, "kernels": kernels, "gpus": gpus, "gpu_expectations": gpu_expectations,
          "gpu_expected_rows": gpu_expected_rows, "optimum": optimum, "networks": networks, "zoo": zoo,
          "zoo_models": zoo_models, "ablation": ablation, "search": search, "planning": planning,
          "service": service, "databases": databases, "farms": farms,
          "side_by_side": side_by_side, "networks_by_size": networks_by_size, "overview": overview}


def linking(page):
    """Returns a function that rewrites links to files of bench/ in a cell, so that they are relative to the folder of
    the page. For bench/README.md it turns `](bench/results/a.json)` into `](results/a.json)`."""
    folder = posixpath.dirname(page) or "."
    return lambda cell: re.sub(r"\]\((bench/[^)]*)\)",
                               lambda link: f"]({posixpath.relpath(link[1], folder)})", cell)


def filled(page, text, documents):
    """Returns the text of a page with its regions filled from the JSON. Raises Failure if a region names no table of
    TABLES."""
    def table(match):
        if match[2] not in TABLES:
            raise Failure(f"[tables] {page}: '{match[2]}': expected one of {', '.join(TABLES)}")
        return match[1] + "\n" + TABLES[match[2]](documents).text(linking(page)) + "\n" + match[3]
    return REGION.sub(table, text)


def run(options):
    documents = load_documents(options.results)
    if options.print:
        for name, table in TABLES.items():
            print(f"{name}\n\n{table(documents).text(lambda cell: cell)}")
        return 0
    differs = False
    for page in PAGES:
        path = options.root / page
        before = path.read_text()
        after = filled(page, before, documents)
        if before != after and options.check:
            differs = True
            sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), page,
                                                       "bench/results"))
        elif before != after:
            path.write_text(after)
    if differs:
        raise Failure("[tables] the pages differ from bench/results: run bench/tables.py, which writes them")
    return 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="tables.py", description=__doc__.splitlines()[0],
                                     allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="compare the pages and change nothing")
    parser.add_argument("--print", action="store_true", help="print all tables")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="the folder of JSON")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the folder of the pages")
    try:
        return run(parser.parse_args(arguments))
    except Failure as failure:
        print(f"tables.py: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
