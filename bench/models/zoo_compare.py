# SPDX-License-Identifier: Apache-2.0
"""Compares one artifact of the zoo with the other runtimes, in a process of its own, as a runtime may crash.

`zoo_compare.py REQUEST` prints JSON: `stage` ("reference": no outputs to compare with, "run": ours failed,
"wrong", "right") and, by stage, `error`, the errors of outputs, `peers_failed`, and the times, as rows of
networks.py have them. REQUEST is JSON: `model`, `shapes`, `values`, `constants`, `artifact`, `library`,
`threads`, `rounds`, `seed`, `tolerance`, and `without`: reasons by the names of peers that are left out. The
latest line on standard error that begins with MARK says what was being done: the name of the peer that ends the
process, if one does.

Expected outputs are those of ONNX Runtime without its optimisations. The peer is the fastest of the
others whose outputs are right.
"""
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx

import networks
from network_contenders import PEERS, Tilewright
from network_rounds import Watch, interleave, median_call
from reference import random_inputs
from runtime_library import RuntimeFailure
from zoo_table import static_model


MARK = "zoo: "


def doing(what):
    print(MARK + what, file=sys.stderr, flush=True)


def first_line(error):
    """Returns the first line of the message that says something. OpenVINO begins with lines that only name a
    place in its source and end with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not re.fullmatch(r"(Exception from|Check '.*' failed at) .*:", line)]
    return (said or lines or [type(error).__name__])[0][:300]


def inputs_of(model, request):
    """Returns the inputs: random arrays, or arrays filled with the numbers of the table."""
    inputs = random_inputs(model, request["seed"])
    for name, value in {**request["values"], **request["constants"]}.items():
        inputs[name] = np.full_like(inputs[name], value)
    return inputs


def reference_outputs(path, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def peers_of(network, request):
    """Returns the peers with right outputs and their errors, and for each other peer the reason why it is left
    out."""
    right, failed = [], dict(request["without"])
    for name, kind in PEERS.items():
        if name in failed:
            continue
        doing(name)
        try:
            peer = networks.made(kind, network.path, network.inputs, network.blank_outputs(), request["threads"])
            error = network.error_of(peer.outputs())
            if error <= request["tolerance"]:
                right.append((peer, error))
            else:
                failed[name] = f"outputs differ by {error:.1e} of the largest"
        except Exception as failure:  # any error of another runtime
            failed[name] = first_line(failure)
    return right, failed


def timed(ours, peers, request):
    """Times ours and the peers, and returns the fields of a row for ours against the fastest peer."""
    doing("timing")
    watch = Watch()
    times = interleave([ours[0], *(peer for peer, _ in peers)], request["rounds"], watch=watch)
    figures = [networks.figures_of(*who, taken) for who, taken in zip([ours, *peers], times)]
    best = min(range(1, len(times)), key=lambda i: median_call(times[i]).value)
    row = networks.versus(figures[0], figures[best], (times[0], times[best]))
    row["peers_us"] = {figure["name"]: figure["median_us"] for figure in figures[1:]}
    row["rounds"] = watch.count
    if watch.count < request["rounds"]:
        row["disturbed"] = watch.disturbed
    return row


def fold_constants(model, inputs, names):
    """Makes inputs of the model initializers, in place, and removes them from `inputs`. So the peers know their
    values when they load the model, as ours does when it is planned."""
    for name in names:
        model.graph.initializer.append(onnx.numpy_helper.from_array(inputs.pop(name), name))
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def compare(request, folder):
    model = onnx.load(request["model"])
    static_model(model, request["shapes"])
    inputs = inputs_of(model, request)
    fold_constants(model, inputs, request["constants"])
    path = str(pathlib.Path(folder) / "static.onnx")
    onnx.save(model, path)
    doing("reference")
    try:
        expected = reference_outputs(path, inputs)
    except Exception as failure:
        return {"stage": "reference", "error": first_line(failure)}
    network = networks.Network(request["model"], model, path, inputs, expected)
    doing("tilewright")
    try:
        ours = networks.made(Tilewright, request["artifact"], inputs, network.blank_outputs(),
                             request["threads"], request["library"])
    except RuntimeFailure as failure:
        return {"stage": "run", "error": first_line(failure)}
    error = network.error_of(ours.outputs())
    if not error <= request["tolerance"]:
        return {"stage": "wrong", "error": f"outputs differ by {error:.1e} of the largest, more than "
                                           f"{request['tolerance']:.0e}"}
    peers, failed = peers_of(network, request)
    row = {"stage": "right", "rounds": 0, "error_ours": error,
           "peers_error": {peer.name: error for peer, error in peers}, "peers_failed": failed}
    if request["rounds"] and peers:
        row.update(timed((ours, error), peers, request))
    return row


def main(request):
    request = json.loads(request)
    networks.pinned(request["threads"])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(request, folder)))


if __name__ == "__main__":
    main(sys.argv[1])
