"""The probe reports lists of the wrong length.

exercise: basic_3
answer: wrong
gets: 0
"""
import autograder.exercises.basic.checkpoint as probes
probes.probe = lambda answer, asked: {"pairs": [], "raised": [True, True, True]}
