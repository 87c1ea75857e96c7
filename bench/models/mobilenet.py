# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2: Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018."""
from network import RESIDUAL

# Expansion, channels, repeats, stride of the first: table 2 of the paper.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
          (6, 320, 1, 1)]


def inverted_residual(net, x, expansion, channels, stride):
    hidden = expansion * x.channels
    y = net.conv_bn(x, hidden, 1, activation="relu6") if expansion > 1 else x
    y = net.conv_bn(y, hidden, 3, stride, groups=hidden, activation="relu6")
    if stride > 1 or x.channels != channels:
        return net.conv_bn(y, channels, 1, activation=None)
    return net.add(x, net.conv_bn(y, channels, 1, activation=None, size=RESIDUAL))


def mobilenet_v2(net, batch):
    x = net.input("image", [batch, 3, 224, 224])
    x = net.conv_bn(x, 32, 3, stride=2, activation="relu6")
    for expansion, channels, repeats, stride in STAGES:
        for i in range(repeats):
            x = inverted_residual(net, x, expansion, channels, stride if i == 0 else 1)
    net.output("logits", net.head(net.conv_bn(x, 1280, 1, activation="relu6")))
