"""Data sets: from rows in to Parquet shards out, so that nothing is lost whatever happens in between.

shards    Parquet files, written whole or not at all
plan      settings, shards, windows             manifest   what was asked and what is done
budget    tokens in a batch, by measuring       explaining one window of rows
encoding  rows to examples beside the model     work       shards through encoder, model and writer
local     this machine's devices                ray_executor   a cluster's
mapping   one batch, for other schedulers
preflight what a run will cost                  summary, show  reading what came out; verify   is it whole?

A *shard* is a range of rows and one file. A *window* is a part of a shard; batches never leave it. Both are fixed by
the plan before the first row is explained, so every row meets the same neighbours and comes out bit for bit the same
whichever process explains it, however often the run was interrupted.
"""

from whence.runner.launch import Run, run
from whence.runner.mapping import BatchExplainer, explainer
from whence.runner.show import show
from whence.runner.summary import Summary, summary
from whence.runner.verify import Verification, verify

__all__ = ["BatchExplainer", "Run", "Summary", "Verification", "explainer", "run", "show", "summary", "verify"]
