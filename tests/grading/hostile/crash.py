"""Crashes the interpreter.

exercise: basic_3
answer: wrong
gets: 0
says: ended the Python process
"""
import ctypes
ctypes.string_at(0)
