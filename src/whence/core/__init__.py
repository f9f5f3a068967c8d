"""The core: interception of torch functions, rules with another backward, and the books over every unit of relevance.

naming        one name for each torch function
call          an intercepted call, and the marks tensors carry
provenance    which token an id came from
recipe        the table of choices; presets
rules/        what each choice does, one module for each kind of function
ledger        where relevance was absorbed
interception  the mode
propagation   one forward, one backward
"""
