"""Data from wherever the user has it: files, folders, frames, hub data sets, iterables.

dataset      what every data set offers: records from a row on    frames    pandas, polars, pyarrow, datasets
table_files  Parquet, JSON Lines, CSV, TSV, text; also .gz         opening   anything to a data set
remote       files of other machines: s3://…
rows         records to rows: which column is what                 labelled  rows with text, label, rationale, mask
"""

from whence.data.dataset import AbstractDataset
from whence.data.opening import open_dataset

__all__ = ["AbstractDataset", "open_dataset"]
