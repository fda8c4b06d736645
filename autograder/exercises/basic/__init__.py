"""The exercises of lesson 1, one module each."""
