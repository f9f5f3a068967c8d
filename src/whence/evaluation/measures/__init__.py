"""One file for each metric; importing it registers it."""

from whence.evaluation.measures import (
    agreement,
    aopc,
    au_mse,
    auac,
    comprehensiveness,
    conservation,
    lerf_morf,
    pixel_perturbation,
    randomization,
    segmentation,
    sufficiency,
    token_f1,
)

__all__ = [
    "agreement",
    "aopc",
    "au_mse",
    "auac",
    "comprehensiveness",
    "conservation",
    "lerf_morf",
    "pixel_perturbation",
    "randomization",
    "segmentation",
    "sufficiency",
    "token_f1",
]
