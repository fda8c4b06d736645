"""The only door to private torch and triton names: one function per fact, plain dictionaries and strings out."""
