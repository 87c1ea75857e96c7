# SPDX-License-Identifier: Apache-2.0
"""SSD: Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016, on ResNet-50 with images of 512
pixels and the 20 classes of VOC, as GluonCV has it.

The outputs are what the network computes before boxes are decoded and suppressed: logits of each
class and offsets of each box, for 6132 anchors.
"""
from resnet import bottleneck, stages

CLASSES = 21  # with the background
ANCHORS = [4, 6, 6, 6, 4, 4]  # number of anchors of a pixel, for each map
EXTRA_CHANNELS = [512, 512, 256, 256]


def predictor(net, x, anchors, values):
    """A head: [batch, anchors of the map, values]"""
    n, _, h, w = x.shape
    y = net.conv(x, anchors * values, 3)
    return net.reshape(net.transpose(y, (0, 2, 3, 1)), (n, h * w * anchors, values))


def ssd_resnet50(net, batch):
    maps = stages(net, net.input("image", [batch, 3, 512, 512]), bottleneck, [3, 4, 6, 3])[2:]
    for channels in EXTRA_CHANNELS:
        maps.append(net.conv_bn(net.conv_bn(maps[-1], channels, 1), channels, 3, stride=2))
    for name, values in (("class_logits", CLASSES), ("box_offsets", 4)):
        heads = [predictor(net, x, anchors, values) for x, anchors in zip(maps, ANCHORS)]
        net.output(name, net.concat(heads))
