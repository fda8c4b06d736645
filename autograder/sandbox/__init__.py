"""Runs cells of a submission where they can reach nothing: what comes out is values, never pickles.

`bubble.Bubble` starts one bubblewrap sandbox with a process in it that has torch imported (`zygote`); each job is a
fork of that process in namespaces, scratch and limits of its own (`namespaces`, `inside`). `visible` writes what a job
may see of this package: probes without the answers beside them. Jobs speak frames of `autograder.wire`.

From inside a job there is no network, no other file than the read-only system and course library, no other process,
and no gradebook, submission, solution, secret or environment of the grader.
"""
