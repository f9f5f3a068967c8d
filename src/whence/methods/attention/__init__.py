"""Methods that look at attention: maps alone, maps and their gradients, maps and their relevance. One file each."""

from whence.methods.attention import attcat, chefer, flow, gae, grad_cam, grad_sam, last, rollout

__all__ = ["attcat", "chefer", "flow", "gae", "grad_cam", "grad_sam", "last", "rollout"]
