"""Tests of `whence.evaluation`."""
