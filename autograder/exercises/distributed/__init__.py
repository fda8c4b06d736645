"""The exercises of lesson 6, one module each."""
