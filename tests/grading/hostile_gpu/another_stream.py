"""Does its work on another CUDA stream and does not wait for it.

exercise: basic_1
answer: own
"""

import torch


def compile_report(metrics):
    work = torch.compile(lambda prices: torch.stack([metric(prices) for metric in metrics]), backend="aot_eager")
    stream = torch.cuda.Stream()

    def report(prices):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            return work(prices)

    return report
