"""The dialect of the public Hippocortex clients, under `/v1`: the same log, the same memory, their words.

Every answer is an envelope, and who asks is said by a key. Nothing here decides what is remembered or found.
"""
