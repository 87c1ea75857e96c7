# SPDX-License-Identifier: Apache-2.0
"""Small networks in which layouts have to be chosen together.

All are poolings and convolutions of 1 x 1 with few channels on large images: their kernels take about
the same time under several layouts, and a transform, which reads and writes a whole tensor, takes about
as long as a kernel. An operator that looks at its own time alone picks its layouts by differences of a
few percent, and its neighbours have to copy.
"""


def mixed_blocks(net, batch):
    """A chain of convolutions, whose numbers of channels fit into different blocks, and of poolings, for
    which blocks matter little."""
    x = net.input("image", [batch, 48, 112, 112])
    for channels in (32, 48, 32):
        x = net.max_pool(net.relu(net.conv(x, channels, 1)), 3, stride=1, padding=1)
    net.output("classes", net.head(x, 10))


def shared_transforms(net, batch):
    """One tensor that six operators read: each copy of it can serve several of them."""
    x = net.input("image", [batch, 64, 112, 112])
    means = [net.global_average(net.relu(net.conv(x, channels, 1)))
             for channels in (4, 8, 12, 16, 20, 24)]
    net.output("classes", net.classifier(net.flatten(net.concat(means)), 10))


def disagreeing_branches(net, batch):
    """Branches that end in one concatenation, which reads all of them in one layout."""
    x = net.input("image", [batch, 32, 112, 112])
    branches = [net.relu(net.conv(net.relu(net.conv(x, inner, 1)), 32, 1)) for inner in (16, 24, 32)]
    x = net.relu(net.conv(net.concat(branches), 32, 1))
    net.output("classes", net.head(x, 10))
