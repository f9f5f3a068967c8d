"""One file for each metric; importing it registers it."""

from whence.evaluation.measures import (
    aopc,
    au_mse,
    auac,
    comprehensiveness,
    conservation_error,
    lerf_morf,
    method_agreement,
    pixel_perturbation,
    randomization,
    segmentation,
    sufficiency,
    token_f1,
)

__all__ = [
    "aopc",
    "au_mse",
    "auac",
    "comprehensiveness",
    "conservation_error",
    "lerf_morf",
    "method_agreement",
    "pixel_perturbation",
    "randomization",
    "segmentation",
    "sufficiency",
    "token_f1",
]
