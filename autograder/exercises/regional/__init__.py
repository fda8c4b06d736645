"""Checks of lesson 7: regions that are compiled once and used often."""
