"""BiLRP [Eberle 2020, eq. 5] with plain gradients, one dimension after the other, in float64."""

from __future__ import annotations

import copy

import torch


def relevance(encoder, ids: torch.Tensor, pool) -> torch.Tensor:
    """R_i^m = x_i · ∂e_m/∂x_i of the looked-up words, (token, dimension); `pool` makes e of the tokens' embeddings."""
    wide = copy.deepcopy(encoder).double()
    words = wide.get_input_embeddings()(ids).detach().requires_grad_()
    embedding = pool(wide(inputs_embeds=words).last_hidden_state[0])
    columns = [torch.autograd.grad(e, words, retain_graph=True)[0] for e in embedding]
    return torch.stack([(words * column).sum(-1)[0] for column in columns], 1).detach()


def embedding(encoder, ids: torch.Tensor, pool) -> torch.Tensor:
    with torch.no_grad():
        return pool(copy.deepcopy(encoder).double()(ids).last_hidden_state[0])


def matrix(encoder, a: torch.Tensor, b: torch.Tensor, pool, cosine: bool) -> torch.Tensor:
    found = torch.zeros(a.shape[1], b.shape[1], dtype=torch.float64)
    one, two = relevance(encoder, a, pool), relevance(encoder, b, pool)
    for m in range(one.shape[1]):
        found += torch.outer(one[:, m], two[:, m])
    length = embedding(encoder, a, pool).norm() * embedding(encoder, b, pool).norm()
    return found / length if cosine else found
