# SPDX-License-Identifier: Apache-2.0
"""BERT-base: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding, NAACL 2019, for sequences of 128 tokens.

`bert_base` is the encoder; its inputs are embeddings. `bert_base_tokens` has tokens and a mask of the
valid tokens as inputs, and the pooled output.
"""
import numpy as np

from network import FLOAT

LENGTH, FEATURES, HEADS, LAYERS = 128, 768, 12, 12
TOKENS, POSITIONS, TYPES = 30522, 512, 2
EPSILON = 1e-12


def layer(net, x, mask):
    query, key, value = (net.linear(x, FEATURES) for _ in range(3))
    y = net.linear(net.attention(query, key, value, HEADS, mask), FEATURES)
    x = net.layer_norm(net.add(y, x), EPSILON)
    y = net.linear(net.gelu(net.linear(x, 4 * FEATURES)), FEATURES)
    return net.layer_norm(net.add(y, x), EPSILON)


def encoder(net, x, mask=None):
    for _ in range(LAYERS):
        x = layer(net, x, mask)
    return x


def bert_base(net, batch):
    x = net.input("embeddings", [batch, LENGTH, FEATURES])
    net.output("last_hidden", encoder(net, x))


def embedded(net, batch):
    ids = net.input("token_ids", [batch, LENGTH], TOKENS)
    types = net.input("type_ids", [batch, LENGTH], TYPES)
    x = net.add(net.embedding(ids, TOKENS, FEATURES), net.embedding(types, TYPES, FEATURES))
    positions = net.constant([range(LENGTH)], np.int64)
    return net.layer_norm(net.add(x, net.embedding(positions, POSITIONS, FEATURES)), EPSILON)


def additive_mask(net, batch):
    """Returns a function that masks the attention scores of invalid tokens with a very low value."""
    shown = net.input("attention_mask", [batch, LENGTH], rows=2)
    shown = net.node("Unsqueeze", [shown, net.constant([1, 2], np.int64)], (batch, 1, 1, LENGTH))
    shown = net.node("Cast", [shown], shown.shape, to=FLOAT)
    hidden = net.node("Sub", [net.constant(1), shown], shown.shape)
    low = net.node("Mul", [hidden, net.constant(-1e4)], shown.shape)
    return lambda scores: net.node("Add", [scores, low], scores.shape)


def bert_base_tokens(net, batch):
    x = encoder(net, embedded(net, batch), additive_mask(net, batch))
    first = net.node("Gather", [x, net.constant(0, np.int64)], (batch, FEATURES), axis=1)
    pooled = net.classifier(first, FEATURES)
    net.output("last_hidden", x)
    net.output("pooled", net.node("Tanh", [pooled], pooled.shape))
