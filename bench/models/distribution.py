# SPDX-License-Identifier: Apache-2.0
"""How the activations of a tensor are distributed, channel by channel, without running the network.

A distribution is an array [channels, LEVELS] of quantiles, ascending, each level equally likely. The
rules take samples and channels as independent. That holds on average over random weights, so each
layer's variance is right in expectation, and nothing grows or fades with the depth.
"""
from statistics import NormalDist

import numpy as np

LEVELS = 64
_PROBABILITIES = (np.arange(LEVELS) + 0.5) / LEVELS
_NORMAL = np.array([NormalDist().inv_cdf(p) for p in _PROBABILITIES])
_NORMAL /= _NORMAL.std()


def gaussian(mean, variance):
    return np.asarray(mean)[:, None] + np.sqrt(variance)[:, None] * _NORMAL


def moments(quantiles):
    """Mean and variance of each channel."""
    return quantiles.mean(axis=1), quantiles.var(axis=1)


def applied(function, quantiles):
    """Distribution of function(x)."""
    return np.sort(function(quantiles), axis=1)


def largest_of(quantiles, count):
    """Distribution of the largest of `count` independent samples."""
    place = np.clip(_PROBABILITIES ** (1 / count) * LEVELS - 0.5, 0, LEVELS - 1)
    below = np.minimum(place.astype(int), LEVELS - 2)
    share = place - below
    return quantiles[:, below] * (1 - share) + quantiles[:, below + 1] * share


def mean_of(quantiles, count):
    """Distribution of the mean of `count` independent samples."""
    mean, variance = moments(quantiles)
    return gaussian(mean, variance / count)


def sum_of(a, b):
    (mean_a, variance_a), (mean_b, variance_b) = moments(a), moments(b)
    return gaussian(mean_a + mean_b, variance_a + variance_b)


def product_of(a, b):
    (mean_a, variance_a), (mean_b, variance_b) = moments(a), moments(b)
    mean = mean_a * mean_b
    return gaussian(mean, (variance_a + mean_a**2) * (variance_b + mean_b**2) - mean**2)


def weighted_sum(weights, mean, variance):
    """Mean and variance of the outputs of a linear map: weights [groups, outputs, inputs], moments
    of the inputs [groups, inputs]. Sums in double."""
    sums = np.einsum("goi,gi->go", weights, mean, dtype=np.float64)
    squares = np.einsum("goi,goi,gi->go", weights, weights, variance, dtype=np.float64)
    return sums.ravel(), squares.ravel()
