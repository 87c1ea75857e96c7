# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet 1.1: Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016,
in its authors' cheaper version."""


def fire(net, x, squeezed, expanded):
    x = net.relu(net.conv(x, squeezed, 1))
    return net.concat([net.relu(net.conv(x, expanded, 1)), net.relu(net.conv(x, expanded, 3))])


def squeezenet(net, batch):
    x = net.input("image", [batch, 3, 224, 224])
    x = net.relu(net.conv(x, 64, 3, stride=2, padding=0))
    for stage in ([(16, 64)] * 2, [(32, 128)] * 2, [(48, 192)] * 2 + [(64, 256)] * 2):
        x = net.max_pool(x, 3, stride=2, ceil_mode=True)
        for squeezed, expanded in stage:
            x = fire(net, x, squeezed, expanded)
    x = net.relu(net.conv(x, 1000, 1))
    net.output("logits", net.flatten(net.global_average(x)))
