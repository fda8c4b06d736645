"""Leaves politely.

exercise: basic_3
answer: right
gets: 0
says: is not defined
"""
import sys
sys.exit(0)
