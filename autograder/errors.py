"""Errors that are expected: one clear sentence with the remedy, no traceback."""


class CourseError(Exception):
    """Something a person can put right; the message says how."""
