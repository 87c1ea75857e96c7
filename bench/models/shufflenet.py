# SPDX-License-Identifier: Apache-2.0
"""ShuffleNetV2 1.0x: Ma et al., ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture
Design, ECCV 2018."""


def branch(net, x, channels, stride):
    x = net.conv_bn(x, channels, 1)
    x = net.conv_bn(x, channels, 3, stride, groups=channels, activation=None)
    return net.conv_bn(x, channels, 1)


def basic_unit(net, x):
    kept, x = net.split(x, 2)
    return net.shuffle_channels(net.concat([kept, branch(net, x, x.channels, 1)]), 2)


def halving_unit(net, x, channels):
    left = net.conv_bn(x, x.channels, 3, 2, groups=x.channels, activation=None)
    left = net.conv_bn(left, channels // 2, 1)
    return net.shuffle_channels(net.concat([left, branch(net, x, channels // 2, 2)]), 2)


def shufflenet_v2(net, batch):
    x = net.input("image", [batch, 3, 224, 224])
    x = net.max_pool(net.conv_bn(x, 24, 3, stride=2), 3, stride=2, padding=1)
    for channels, depth in ((116, 4), (232, 8), (464, 4)):
        x = halving_unit(net, x, channels)
        for _ in range(depth - 1):
            x = basic_unit(net, x)
    net.output("logits", net.head(net.conv_bn(x, 1024, 1)))
