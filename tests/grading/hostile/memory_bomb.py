"""Takes memory without end.

exercise: basic_3
answer: wrong
gets: 0
cell: 20
"""
taken = []
while True:
    taken.append(bytearray(100_000_000))
    for place in range(0, 100_000_000, 4096):
        taken[-1][place] = 1
