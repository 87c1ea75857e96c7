# SPDX-License-Identifier: Apache-2.0
"""U-Net: Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, MICCAI
2015, with padding and batch normalisation, as it is mostly used now. Two classes."""


def double_conv(net, x, channels):
    return net.conv_bn(net.conv_bn(x, channels, 3), channels, 3)


def unet(net, batch):
    skipped = [double_conv(net, net.input("image", [batch, 3, 256, 256]), 64)]
    for channels in (128, 256, 512, 1024):
        skipped.append(double_conv(net, net.max_pool(skipped[-1], 2, stride=2), channels))
    x = skipped.pop()
    while skipped:
        skip = skipped.pop()
        x = double_conv(net, net.concat([skip, net.conv_transpose(x, skip.channels, 2)]),
                        skip.channels)
    net.output("logits", net.conv(x, 2, 1))
