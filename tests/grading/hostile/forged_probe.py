"""The probe reports what a right answer would give, whatever the answer is.

exercise: basic_3
answer: wrong
gets: 0
look: a wrong answer of ours passes
"""
import autograder.exercises.basic.checkpoint as probes
def forged(answer, asked):
    number = len(probes.WAYS)
    faults = {"error": "", "state changed": False, "replaced": False, "unwrapped": False, "shared": False}
    pairs = [
        {**faults, "weights": dict(probes.numbered(asked, saved).state_dict())} for saved in range(number) for _ in range(number)
    ]
    return {"pairs": pairs, "raised": [True, True, True]}
probes.probe = forged
