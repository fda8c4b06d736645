"""Facts in, display out: one view a file, each with its text twin."""
