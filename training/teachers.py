"""The teachers: a pretrained encoder fine-tuned several times, whose averaged judgement the student learns."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from corpus import Corpus, mean_state
from recipe import adamw, half_precision, say, seed_everything, step, warm_cosine
from transformers import AutoModelForSequenceClassification, PreTrainedModel


def fine_tune(folder: Path, corpus: Corpus, labels: list[int], epochs: int, seed: int) -> PreTrainedModel:
    """Fine-tune the pretrained encoder in `folder` as a classifier."""
    seed_everything(seed)
    rng = np.random.default_rng(seed)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2, dtype=torch.float32)
    model.to(corpus.device).train()
    optimizer = adamw(model, lr=0.0, weight_decay=0.01)
    truth = torch.tensor(labels, device=corpus.device)
    batches = [index for _ in range(epochs) for index in corpus.plan(4096, 256, rng)]
    for number, index in enumerate(batches):
        logits = model(**corpus.batch(index)).logits
        loss = F.cross_entropy(logits, truth[torch.from_numpy(index).to(corpus.device)])
        step(optimizer, model, loss, 8e-5 * warm_cosine(number / len(batches)))
        if number % 400 == 0:
            say(f"  teacher step {number}/{len(batches)} loss {loss.item():.3f}")
    return model.eval()


@torch.no_grad()
def teach(teachers: list[PreTrainedModel], corpus: Corpus) -> tuple[torch.Tensor, torch.Tensor]:
    """Average logits of the teachers, and the first teacher's mean hidden state, for every text."""
    device = corpus.device
    logits = torch.zeros(len(corpus), 2, device=device)
    states = torch.zeros(len(corpus), teachers[0].config.hidden_size, device=device, dtype=torch.float16)
    for index in corpus.plan(65_536, 4096):
        rows = torch.from_numpy(index).to(device)
        inputs = corpus.batch(index)
        for number, teacher in enumerate(teachers):
            with half_precision(device):
                output = teacher(**inputs, output_hidden_states=True)
            logits[rows] += output.logits.float() / len(teachers)
            if number == 0:
                states[rows] = mean_state(output.hidden_states[-1], inputs["attention_mask"]).half()
    return logits, states


def joint_accuracy(teachers: list[PreTrainedModel], corpus: Corpus, labels: list[int]) -> float:
    """Accuracy of the teachers' averaged logits."""
    logits, _ = teach(teachers, corpus)
    return (logits.argmax(-1).cpu() == torch.tensor(labels)).double().mean().item()
