"""The probe reports nothing.

exercise: basic_3
answer: wrong
gets: 0
says: cannot be judged
"""
import autograder.exercises.basic.checkpoint as probes
probes.probe = lambda answer, asked: {}
