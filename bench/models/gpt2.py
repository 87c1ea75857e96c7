# SPDX-License-Identifier: Apache-2.0
"""One block of GPT-2 small: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
A sequence of 128 tokens, each of which sees those before it."""
import numpy as np

LENGTH, FEATURES, HEADS = 128, 768, 12


def causal_mask(net):
    """Returns a function that gives the scores of later tokens a very low value."""
    seen = net.constant(np.tril(np.ones((1, 1, LENGTH, LENGTH), bool)), bool)
    low = net.constant(np.finfo(np.float32).min)
    return lambda scores: net.node("Where", [seen, scores, low], scores.shape)


def gpt2_small_block(net, batch):
    x = net.input("hidden", [batch, LENGTH, FEATURES])
    joint = net.linear(net.layer_norm(x), 3 * FEATURES)
    query, key, value = net.split(joint, 3, axis=2)
    y = net.attention(query, key, value, HEADS, causal_mask(net))
    x = net.add(x, net.linear(y, FEATURES))
    y = net.gelu(net.linear(net.layer_norm(x), 4 * FEATURES), approximate="tanh")
    net.output("next_hidden", net.add(x, net.linear(y, FEATURES)))
