"""The student: its vocabulary, its shape, where its embeddings start, and how it is taught."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from corpus import POSITIONS, Corpus, mean_state
from recipe import Clock, adamw, say, step, warm_cosine
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedModel

TEMPERATURE = 2.0
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def train_tokenizer(texts: list[str], size: int) -> Tokenizer:
    """Learn a lower-casing WordPiece vocabulary."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL.values()), limit_alphabet=120, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json, without the truncation that training switched on."""
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": POSITIONS, **SPECIAL}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def new_student(vocabulary: int) -> BertForSequenceClassification:
    """A three-layer BERT, of about 4.8 million parameters with 9,000 word pieces."""
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=256,
        num_hidden_layers=3,
        num_attention_heads=8,
        intermediate_size=1024,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    return BertForSequenceClassification(config)


@torch.no_grad()
def inherit_embeddings(
    student: PreTrainedModel, tokenizer: Tokenizer, teacher: PreTrainedModel, teacher_tokenizer: Tokenizer
) -> None:
    """Start the student's embeddings at the principal components of the teacher's.

    A piece that the teacher's vocabulary lacks gets the mean of the pieces that the teacher splits it into.
    """
    old, new = teacher.base_model.embeddings, student.base_model.embeddings
    known = teacher_tokenizer.get_vocab()
    rows = []
    for piece in sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id):
        ids = [known[piece]] if piece in known else teacher_tokenizer.encode(piece.removeprefix("##")).ids[1:-1]
        rows.append(old.word_embeddings.weight[ids or [known["[UNK]"]]].mean(0))
    rows = torch.stack(rows)
    centre = rows.mean(0)
    basis = torch.linalg.svd(rows - centre, full_matrices=False).Vh[: student.config.hidden_size].T
    new.word_embeddings.weight.copy_((rows - centre) @ basis)
    new.position_embeddings.weight.copy_(old.position_embeddings.weight[:POSITIONS] @ basis)
    # Word, position and type are summed, so the type can carry the words' centre.
    new.token_type_embeddings.weight.copy_((old.token_type_embeddings.weight + centre) @ basis)


@dataclass(frozen=True)
class Lessons:
    """What the student is taught: the texts, and the teachers' logits and hidden state for each."""

    corpus: Corpus
    logits: torch.Tensor
    states: torch.Tensor


def distil(student: PreTrainedModel, lessons: Lessons, epochs: int, seed: int, minutes: float) -> tuple[int, int]:
    """Teach the student the teachers' logits and, fading out, the direction of their hidden state.

    Returns the steps taken and the steps planned: the learning rate falls to zero within `minutes` of the start.
    """
    corpus, device = lessons.corpus, lessons.corpus.device
    rng = np.random.default_rng(seed)
    centre = lessons.states.float().mean(0)
    project = torch.nn.Linear(student.config.hidden_size, len(centre)).to(device)
    learner = torch.nn.ModuleList([student, project]).train()
    optimizer = adamw(learner, lr=0.0, weight_decay=0.02)
    batches = [index for _ in range(epochs) for index in corpus.plan(12_288, 640, rng)]
    say(f"student: {len(corpus)} texts, {corpus.lengths.sum()} tokens, {len(batches)} steps")
    clock = Clock(minutes)
    for done, index in enumerate(batches):
        progress = max(done / len(batches), clock.progress())
        if progress >= 1:
            return done, len(batches)
        rows = torch.from_numpy(index).to(device)
        inputs = corpus.batch(index)
        output = student(**inputs, output_hidden_states=True)
        soft = F.softmax(lessons.logits[rows] / TEMPERATURE, dim=-1)
        imitation = F.cross_entropy(output.logits / TEMPERATURE, soft) * TEMPERATURE**2
        state = project(mean_state(output.hidden_states[-1], inputs["attention_mask"]))
        direction = 1 - F.cosine_similarity(state, lessons.states[rows].float() - centre).mean()
        step(optimizer, learner, imitation + (1 - progress) * direction, 6e-4 * warm_cosine(progress))
        if done % 1000 == 0:
            say(f"  step {done}/{len(batches)} imitation {imitation.item():.3f} direction {direction.item():.3f}")
    return len(batches), len(batches)
