# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-B0: Tan and Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural
Networks, ICML 2019."""
from network import RESIDUAL

# Expansion, channels, repeats, stride of the first, kernel: table 1 of the paper.
STAGES = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
          (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]


def squeeze_and_excite(net, x, squeezed):
    y = net.swish(net.conv(net.global_average(x), squeezed, 1))
    return net.scale_channels(x, net.sigmoid(net.conv(y, x.channels, 1)))


def inverted_residual(net, x, expansion, channels, stride, kernel):
    hidden = expansion * x.channels
    y = net.conv_bn(x, hidden, 1, activation="swish") if expansion > 1 else x
    y = net.conv_bn(y, hidden, kernel, stride, groups=hidden, activation="swish")
    y = squeeze_and_excite(net, y, x.channels // 4)
    if stride > 1 or x.channels != channels:
        return net.conv_bn(y, channels, 1, activation=None)
    return net.add(x, net.conv_bn(y, channels, 1, activation=None, size=RESIDUAL))


def efficientnet_b0(net, batch):
    x = net.input("image", [batch, 3, 224, 224])
    x = net.conv_bn(x, 32, 3, stride=2, activation="swish")
    for expansion, channels, repeats, stride, kernel in STAGES:
        for i in range(repeats):
            x = inverted_residual(net, x, expansion, channels, stride if i == 0 else 1, kernel)
    net.output("logits", net.head(net.conv_bn(x, 1280, 1, activation="swish")))
