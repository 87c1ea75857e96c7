# SPDX-License-Identifier: Apache-2.0
"""Small networks in which layouts have to be chosen together.

All consist of poolings and 1 x 1 convolutions with few channels on large images. A transform reads and
writes a whole tensor, so in these networks it takes as long as a kernel or longer. Poolings, and
convolutions whose channels fill the vectors, are fastest in blocks of channels; convolutions to few
channels are fastest row-major, with vectors along the rows of the image. If an operator uses the
layouts that are fastest for it alone, this saves less time than the transforms between it and its
neighbours take.

In `three_layouts` no single layout suits the whole network, and each change of layout saves time.
"""


def mixed_blocks(net, batch):
    """A chain of convolutions that are fastest row-major and poolings that are fastest in blocks."""
    x = net.input("image", [batch, 48, 112, 112])
    for channels in (24, 20, 24):
        x = net.max_pool(net.relu(net.conv(x, channels, 1)), 3, stride=1, padding=1)
    net.output("classes", net.head(x, 10))


def shared_transforms(net, batch):
    """A tensor that is fastest to write in blocks, with four readers that are fastest row-major.

    The readers' outputs are mostly negative, so few positions are left after ReLU. The average of many
    positions would be almost the same for all random inputs.
    """
    x = net.input("image", [batch, 32, 112, 112])
    x = net.relu(net.conv(x, 48, 1))
    means = [net.global_average(net.relu(net.conv(x, channels, 1, mean=-2)))
             for channels in (4, 8, 12, 16)]
    net.output("classes", net.classifier(net.flatten(net.concat(means)), 10))


def disagreeing_branches(net, batch):
    """Branches that are fastest in different layouts, and a concatenation that reads all of them in
    one layout."""
    x = net.input("image", [batch, 32, 112, 112])
    wide = net.max_pool(net.relu(net.conv(x, 48, 1)), 3, stride=1, padding=1)
    narrow = net.relu(net.conv(x, 12, 1))
    pooled = net.relu(net.conv(net.max_pool(x, 3, stride=1, padding=1), 16, 1))
    x = net.relu(net.conv(net.concat([wide, narrow, pooled]), 12, 1))
    net.output("classes", net.head(x, 10))


def three_layouts(net, batch):
    """Two parts that are fastest in different layouts, with a small tensor between them.

    The first part has convolutions with 17 channels on a wide image, which are fastest row-major, with
    vectors along the rows; blocks of 16 and channels last compute 32 channels for 17. The second part
    has blocks in the manner of ConvNeXt: a depthwise convolution, and linear maps of the channels of
    each position. The transposes between these are views where channels are last, and copies where the
    image is row-major or in blocks.
    """
    x = net.input("image", [batch, 17, 56, 56])
    for _ in range(2):
        x = net.relu(net.conv(x, 17, 3))
    x = net.relu(net.conv(net.max_pool(x, 2, stride=2), 96, 1))
    for _ in range(4):
        y = net.transpose(net.conv(x, 96, 3, groups=96), (0, 2, 3, 1))
        y = net.linear(net.relu(net.linear(y, 32)), 96)
        x = net.add(x, net.transpose(y, (0, 3, 1, 2)))
    net.output("classes", net.head(x, 10))
