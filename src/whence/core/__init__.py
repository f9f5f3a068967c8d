"""The core: interception of torch functions, rules with another backward, and the books over every unit of relevance.

batch         sources: what is explained, where its padding is
numerics      the one division, and widening
naming        one name for each torch function
layout        where the examples and tokens lie in a tensor, followed from call to call
trail         which token an id came from
call          an intercepted call, its verbs, and the marks that tensors carry
backward      functions with another backward pass than torch's
recipe        the table of choices; presets
memory        which blocks keep what the backward pass needs, and which run again
kernels/      attention as an operator that is never written down
reweighing    a linear layer under LRP's ε, γ and z⁺
packed        linear layers that keep their weight quantised
rules/        what each choice does, one module for each kind of function
holding       values that are needed later, whatever the model writes over them
ledger        where relevance was absorbed
own_functions activations and softmaxes that a model brings itself
interception  the mode that sees every call
propagation   one forward, one backward
places        hidden tensors whose relevance is read on the way
place_watch   the rules and hooks that see them
crossing      one pass that does
overwriting   the same places with other values: true patching
gradients     ordinary gradients at the same places
relevance     the other currency: rules that carry relevance itself (Chefer)
questions     what a model asks of its tensors while it is recorded, and the answers
recording     passes over small batches, recorded on a GPU and played again
capture       attention maps with their gradients and relevance, held
streaming     attention maps that pass and are not held
replacement   the same model with other attention
weighing      who absorbed how much, by function and module
"""
