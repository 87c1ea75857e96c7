# SPDX-License-Identifier: Apache-2.0
"""ResNet: He et al., Deep Residual Learning for Image Recognition, CVPR 2016.

Networks with bottlenecks are v1.5: they halve the image in the 3x3 convolution, as torchvision
does.
"""
from network import RESIDUAL


def basic_block(net, x, width, stride):
    y = net.conv_bn(x, width, 3, stride)
    y = net.conv_bn(y, width, 3, activation=None, size=RESIDUAL)
    return net.relu(net.add(y, shortcut(net, x, width, stride)))


def bottleneck(net, x, width, stride):
    y = net.conv_bn(x, width, 1)
    y = net.conv_bn(y, width, 3, stride)
    y = net.conv_bn(y, 4 * width, 1, activation=None, size=RESIDUAL)
    return net.relu(net.add(y, shortcut(net, x, 4 * width, stride)))


def shortcut(net, x, channels, stride):
    if stride == 1 and x.channels == channels:
        return x
    return net.conv_bn(x, channels, 1, stride, activation=None)


def stages(net, image, block, depths):
    """Returns the activations after each of the four stages."""
    x = net.max_pool(net.conv_bn(image, 64, 7, stride=2), 3, stride=2, padding=1)
    results = []
    for stage, depth in enumerate(depths):
        for i in range(depth):
            x = block(net, x, 64 << stage, stride=2 if stage > 0 and i == 0 else 1)
        results.append(x)
    return results


def resnet(block, depths):
    def build(net, batch):
        image = net.input("image", [batch, 3, 224, 224])
        net.output("logits", net.head(stages(net, image, block, depths)[-1]))
    return build


resnet18 = resnet(basic_block, [2, 2, 2, 2])
resnet34 = resnet(basic_block, [3, 4, 6, 3])
resnet50 = resnet(bottleneck, [3, 4, 6, 3])
resnet101 = resnet(bottleneck, [3, 4, 23, 3])
resnet152 = resnet(bottleneck, [3, 8, 36, 3])
