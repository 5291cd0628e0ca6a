"""Workloads to test and measure with."""
