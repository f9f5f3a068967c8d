"""Tests of `whence.core`. They mirror its source tree."""
