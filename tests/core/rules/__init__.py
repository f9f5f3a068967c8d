"""Tests of `whence.core.rules`."""
