"""A workload derived from TPC-H: its tables, its data at any scale factor, its 22 queries, and changes to its rows.

It is not a TPC-H benchmark and its results are not comparable with published ones: the refresh functions are our own.
Everything but the data is SQL text that the caller runs, on a session or on a connection of trickle.
"""
