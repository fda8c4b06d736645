"""Exercises of lesson 5."""
