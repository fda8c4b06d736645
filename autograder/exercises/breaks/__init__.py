"""Exercises of lesson 3: graph breaks and torch.cond, one module each."""
