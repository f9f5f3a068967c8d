"""Slow, obvious float64 versions of what `whence.core` does, written from the formulas of the papers.

Nothing here imports `whence`. There are two ways of saying the same thing:

- `norms`, `linear`, `activations`, `attention` propagate relevance with explicit loops,
  R_i = Σ_j x_i ∂y_j/∂x_i R_j/y_j. They take `grad`, the gradient g_j = R_j / y_j at the output, so that y_j = 0 needs
  no special case;
- `detached` builds the forward function with `.detach()` calls placed by hand, as Ali et al. 2022 do, and leaves the
  rest to autograd. It serves whole blocks.
"""
