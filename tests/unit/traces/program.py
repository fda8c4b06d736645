"""What the traces beside it were written from: a break, recompiles, a training step with kernels."""

import torch


def shout(y):
    print("half way")
    return y * 2


def price(x, n):
    y = torch.sin(x) * n
    if y.sum() > 0:
        y = y + 1
    return shout(y)


def in_a_loop(x):
    for _ in range(2):
        x = x + 1
        print("again")
    return x


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)

    def forward(self, x):
        return torch.relu(self.up(x)).sum()


def main():
    torch.manual_seed(0)
    compiled = torch.compile(price, backend="aot_eager")
    compiled(torch.ones(4), 2)
    compiled(torch.ones(6), 2)
    torch.compile(in_a_loop, backend="eager")(torch.ones(3))
    layer = Layer()
    torch.compile(layer)(torch.ones(5, 8)).backward()


if __name__ == "__main__":
    main()
