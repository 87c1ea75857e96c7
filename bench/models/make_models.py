#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the ONNX file of a standing network, with seeded weights and without downloads.

    make_models.py resnet50 -o resnet50.onnx
    make_models.py --list

The same arguments give the same bytes.
"""
import argparse
import sys

import onnx

from bert import bert_base, bert_base_tokens
from counts import multiply_adds
from densenet import densenet121, densenet161, densenet169, densenet201
from efficientnet import efficientnet_b0
from gpt2 import gpt2_small_block
from inception import inception_v3
from mobilenet import mobilenet_v2
from network import Network
from planted import disagreeing_branches, mixed_blocks, shared_transforms, three_layouts
from pruned import feed_forward_1x16, feed_forward_4x4
from resnet import resnet18, resnet34, resnet50, resnet101, resnet152
from shufflenet import shufflenet_v2
from squeezenet import squeezenet
from ssd import ssd_resnet50
from unet import unet
from vgg import vgg11, vgg13, vgg16, vgg19

NETWORKS = {
    "bert_base": bert_base,
    "bert_base_tokens": bert_base_tokens,
    "densenet121": densenet121,
    "densenet161": densenet161,
    "densenet169": densenet169,
    "densenet201": densenet201,
    "efficientnet_b0": efficientnet_b0,
    "gpt2_small_block": gpt2_small_block,
    "inception_v3": inception_v3,
    "mobilenet_v2": mobilenet_v2,
    "planted_branches": disagreeing_branches,
    "planted_mixed_blocks": mixed_blocks,
    "planted_shared_transforms": shared_transforms,
    "planted_three_layouts": three_layouts,
    "pruned_1x16": feed_forward_1x16,
    "pruned_4x4": feed_forward_4x4,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "resnet101": resnet101,
    "resnet152": resnet152,
    "shufflenet_v2": shufflenet_v2,
    "squeezenet": squeezenet,
    "ssd_resnet50": ssd_resnet50,
    "unet": unet,
    "vgg11": vgg11,
    "vgg13": vgg13,
    "vgg16": vgg16,
    "vgg19": vgg19,
}
FIRST_OPSET = 17  # LayerNormalization
DEFAULT_OPSET = 17


def network(name, batch=1, opset=DEFAULT_OPSET, outline=False):
    """Returns the network of this name. An outline has inputs in place of weights. Weights do not
    depend on the batch; they are those of the network with batch 1."""
    arrays = None
    if (batch, opset, outline) not in ((1, DEFAULT_OPSET, False), (batch, opset, True)):
        arrays = network(name).arrays
    net = Network(name, opset, arrays, outline)
    NETWORKS[name](net, batch)
    return net


def shape_text(value):
    return f"{value.name} " + "x".join(str(d.dim_value) for d in value.type.tensor_type.shape.dim)


def listed(name):
    """Returns a line of text about a network: its parameters and multiply-adds in millions, its
    inputs and its outputs."""
    net = network(name, outline=True)
    return (f"{name:17}{net.parameters / 1e6:8.2f} {multiply_adds(net.model()) / 1e6:9.1f}  "
            f"{', '.join(map(shape_text, net.inputs))} -> "
            f"{', '.join(map(shape_text, net.outputs))}")


def listing():
    heading = f"{'network':17}{'Mparams':>8} {'M mul-add':>9}  inputs -> outputs"
    return "\n".join([heading, *map(listed, NETWORKS)])


def parsed(arguments):
    newest = onnx.defs.onnx_opset_version()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", choices=NETWORKS, metavar="NETWORK")
    parser.add_argument("-o", "--output", help="the file; default: NETWORK.onnx")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--opset", type=int, default=DEFAULT_OPSET,
                        help=f"from {FIRST_OPSET} to {newest}; default: {DEFAULT_OPSET}")
    parser.add_argument("--list", action="store_true", help="networks, their sizes and shapes")
    options = parser.parse_args(arguments)
    if not options.list and not options.network:
        parser.error("name a network, or --list")
    if options.batch < 1:
        parser.error(f"--batch {options.batch}: expected 1 or more")
    if not FIRST_OPSET <= options.opset <= newest:
        parser.error(f"--opset {options.opset}: expected {FIRST_OPSET} to {newest}")
    return options


def main(arguments):
    options = parsed(arguments)
    if options.list:
        print(listing())
        return
    model = network(options.network, options.batch, options.opset).model()
    with open(options.output or options.network + ".onnx", "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(sys.argv[1:])
