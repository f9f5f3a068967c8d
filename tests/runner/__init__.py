"""Tests of data set runs."""
