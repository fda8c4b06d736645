"""Prints a gigabyte.

exercise: basic_3
answer: wrong
gets: 0
cell: 60
says: printed more than a submission may
"""
for _ in range(1000):
    print("x" * 1_000_000)
