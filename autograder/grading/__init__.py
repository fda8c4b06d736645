"""Grades many submissions: `python -m autograder grade LESSON`.

`cells` picks the cells that an exercise needs; `referee` asks, listens and judges one exercise of one submission in
one job of the sandbox; `examiner` does all exercises of a submission and is what a worker runs; `pool` runs examiners
in processes; `journal` remembers what is done; `gradebook` lets nbgrader write it; `command` is the command line.

A result is a dict of JSON, so that any engine can carry it: see `examiner.Result`.
"""

from autograder.grading.quick import import_jsonschema

import_jsonschema()
