"""Tiny random specimens of every transformer architecture, to test against."""
