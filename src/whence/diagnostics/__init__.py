"""Is attention an explanation? Questions to one model on one data set.

agreement       does it rank tokens as gradients and leave-one-out do?
counterfactual  does another attention give another prediction?
adversarial     how different can attention be at the same prediction?
guided          do its weights help a model that has nothing else?
"""
