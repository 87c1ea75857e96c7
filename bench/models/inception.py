# SPDX-License-Identifier: Apache-2.0
"""Inception-v3: Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016,
without the auxiliary classifier. The modules are named after the grids that they work on.

Each of its many layers normalises its input anew, and no input is added to an output. With outputs of
mean 0, of which ReLU cuts off half, rounding errors would grow from layer to layer, to 1e-4 of the
largest output. So the mean of each normalised layer is positive here.
"""

MEAN = 1


def conv(net, x, *arguments, **options):
    return net.conv_bn(x, *arguments, epsilon=1e-3, mean=MEAN, **options)


def chain(net, x, *convolutions):
    """Adds a sequence of convolutions, each given as (channels, kernel)."""
    for channels, kernel in convolutions:
        x = conv(net, x, channels, kernel)
    return x


def pooled(net, x, channels):
    return conv(net, net.average_pool(x, 3, stride=1, padding=1), channels, 1)


def halved(net, x, channels):
    return conv(net, x, channels, 3, stride=2, padding=0)


def module_35(net, x, pool_channels):
    return net.concat([conv(net, x, 64, 1), chain(net, x, (48, 1), (64, 5)),
                       chain(net, x, (64, 1), (96, 3), (96, 3)), pooled(net, x, pool_channels)])


def reduction_35(net, x):
    return net.concat([halved(net, x, 384), halved(net, chain(net, x, (64, 1), (96, 3)), 96),
                       net.max_pool(x, 3, stride=2)])


def module_17(net, x, width):
    row, column = (1, 7), (7, 1)
    return net.concat([conv(net, x, 192, 1),
                       chain(net, x, (width, 1), (width, row), (192, column)),
                       chain(net, x, (width, 1), (width, column), (width, row), (width, column),
                             (192, row)),
                       pooled(net, x, 192)])


def reduction_17(net, x):
    return net.concat([halved(net, conv(net, x, 192, 1), 320),
                       halved(net, chain(net, x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192),
                       net.max_pool(x, 3, stride=2)])


def both_ways(net, x):
    return net.concat([conv(net, x, 384, (1, 3)), conv(net, x, 384, (3, 1))])


def module_8(net, x):
    return net.concat([conv(net, x, 320, 1), both_ways(net, conv(net, x, 384, 1)),
                       both_ways(net, chain(net, x, (448, 1), (384, 3))), pooled(net, x, 192)])


def stem(net, x):
    x = conv(net, halved(net, x, 32), 32, 3, padding=0)
    x = net.max_pool(conv(net, x, 64, 3), 3, stride=2)
    x = conv(net, conv(net, x, 80, 1), 192, 3, padding=0)
    return net.max_pool(x, 3, stride=2)


def inception_v3(net, batch):
    x = stem(net, net.input("image", [batch, 3, 299, 299]))
    for pool_channels in (32, 64, 64):
        x = module_35(net, x, pool_channels)
    x = reduction_35(net, x)
    for width in (128, 160, 160, 192):
        x = module_17(net, x, width)
    x = reduction_17(net, x)
    for _ in range(2):
        x = module_8(net, x)
    net.output("logits", net.head(x))
