"""Exercises of lesson 2: clocks, warm-up, break-even, bytes, and benchmarks that lie."""
