# SPDX-License-Identifier: Apache-2.0
"""DenseNet: Huang et al., Densely Connected Convolutional Networks, CVPR 2017."""


def bn_relu_conv(net, x, channels, kernel):
    return net.conv(net.relu(net.batch_norm(x)), channels, kernel, bias=False)


def dense_block(net, x, depth, growth):
    features = [x]
    for _ in range(depth):
        x = net.concat(features) if len(features) > 1 else features[0]
        x = bn_relu_conv(net, x, 4 * growth, 1)
        features.append(bn_relu_conv(net, x, growth, 3))
    return net.concat(features)


def densenet(depths, growth=32):
    def build(net, batch):
        image = net.input("image", [batch, 3, 224, 224])
        x = net.max_pool(net.conv_bn(image, 2 * growth, 7, stride=2), 3, stride=2, padding=1)
        for depth in depths[:-1]:
            x = dense_block(net, x, depth, growth)
            x = net.average_pool(bn_relu_conv(net, x, x.channels // 2, 1), 2, stride=2)
        x = dense_block(net, x, depths[-1], growth)
        net.output("logits", net.head(net.relu(net.batch_norm(x))))
    return build


densenet121 = densenet([6, 12, 24, 16])
densenet161 = densenet([6, 12, 36, 24], growth=48)
densenet169 = densenet([6, 12, 32, 32])
densenet201 = densenet([6, 12, 48, 32])
