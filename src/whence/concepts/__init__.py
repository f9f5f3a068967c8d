"""Concepts: what a class owes to an idea that people can show examples of.

collections  folders, lists and files as inputs        cav           the direction of a concept at a layer
layers       blocks of a model, layers by name         significance  scores against chance
probe        values and gradients at a layer           procedure     draws, vectors and their scores
pooling      one vector per example                    cache         activations on disk
"""
