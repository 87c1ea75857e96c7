# SPDX-License-Identifier: Apache-2.0
"""VGG: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition,
ICLR 2015, without normalisation."""


def vgg(depths):
    def build(net, batch):
        x = net.input("image", [batch, 3, 224, 224])
        for depth, channels in zip(depths, [64, 128, 256, 512, 512]):
            for _ in range(depth):
                x = net.relu(net.conv(x, channels, 3))
            x = net.max_pool(x, 2, stride=2)
        x = net.relu(net.classifier(net.flatten(x), 4096))
        x = net.relu(net.classifier(x, 4096))
        net.output("logits", net.classifier(x, 1000))
    return build


vgg11 = vgg([1, 1, 2, 2, 2])
vgg13 = vgg([2, 2, 2, 2, 2])
vgg16 = vgg([2, 2, 3, 3, 3])
vgg19 = vgg([2, 2, 4, 4, 4])
