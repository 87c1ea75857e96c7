# SPDX-License-Identifier: Apache-2.0
"""The feed-forward part of a BERT layer whose weights were pruned by blocks: four in five are zero."""


def feed_forward(net, batch, pruned):
    x = net.input("hidden", [128 * batch, 768])
    x = net.relu(net.linear(x, 3072, pruned))
    net.output("out", net.linear(x, 768, pruned))


def feed_forward_1x16(net, batch):
    feed_forward(net, batch, (1, 16))


def feed_forward_4x4(net, batch):
    feed_forward(net, batch, (4, 4))
