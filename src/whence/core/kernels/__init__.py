"""Attention as an operator that is never written down: P = softmax(q kᵀ · scale + mask).

attention_map    the map of a fused call: what it gives, and its transpose times anything, in torch
triton_map       the same transpose as Triton kernels, for GPUs
constant_map     fused attention whose backward pass is that product and nothing else
"""
