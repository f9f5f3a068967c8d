"""Train the bundled sentiment classifier: fine-tune teachers on SST-2, then distil them into a small BERT.

    python training/train_sentiment.py --data DIR --teacher DIR --out DIR

`--quick` runs the whole script on a few texts within a minute on a CPU; its model is of no use.
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from corpus import POSITIONS, Corpus, accuracy
from recipe import exact_float32, pick_device, save_half, say, seed_everything, versions
from sentiment_data import (
    Augmenter,
    Labelled,
    LeakFilter,
    common_words,
    distillation_texts,
    neighbours,
    read_imdb,
    read_polarity,
    read_tsv,
    split_sentences,
    squash,
)
from student import TEMPERATURE, Lessons, distil, inherit_embeddings, new_student, save_tokenizer, train_tokenizer
from teachers import fine_tune, joint_accuracy, teach
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2/, sentence_polarity/ and imdb/")
    parser.add_argument("--teacher", type=Path, required=True, help="folder of a pretrained BERT-like encoder")
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--epochs", type=int, default=5, help="passes of the student over the distillation texts")
    parser.add_argument("--teacher-epochs", type=int, default=3)
    parser.add_argument("--teachers", type=int, default=3, help="how many fine-tuned teachers to average")
    parser.add_argument("--vocabulary", type=int, default=9000, help="word pieces of the student")
    parser.add_argument("--copies", type=float, default=1.0, help="scale of the augmentation")
    parser.add_argument("--minutes", type=float, default=60, help="finish training this long after the start at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a dry run")
    options = parser.parse_args()
    if options.quick:
        options.epochs = options.teacher_epochs = options.teachers = 1
        options.vocabulary, options.copies = 1000, 0.1
    return options


@dataclass(frozen=True)
class Texts:
    """Everything that is read: three labelled training sets, single sentences, and the sets held out."""

    phrases: Labelled
    polarity: Labelled
    reviews: Labelled
    sentences: list[str]
    held_out: dict[str, Labelled]


def read_texts(folder: Path, quick: bool) -> Texts:
    """Read all data and keep the evaluation sentences out of the training texts."""
    dev, test, phrases = (read_tsv(folder / "sst2" / f"{part}.tsv.gz") for part in ("dev", "test", "train"))
    polarity = read_polarity(folder / "sentence_polarity" / "sentence_polarity.zip")
    reviews, imdb = (read_imdb(folder / "imdb" / f"{part}.tsv.gz") for part in ("train", "test"))
    leak = LeakFilter(dev.texts + test.texts)
    if quick:
        dev, test, imdb = dev.sample(40, 0), test.sample(40, 0), imdb.sample(4, 0)
        phrases, polarity, reviews = phrases.sample(100, 0), polarity.sample(40, 0), reviews.sample(3, 0)
    before = f"{len(phrases)} phrases, {len(polarity)} sentences, {len(reviews)} reviews"
    phrases = phrases.only([not leak.equals(text) for text in phrases.texts])
    twins = {squash(text) for text in imdb.texts}
    reviews = reviews.only([squash(text) not in twins for text in reviews.texts])
    polarity, reviews = leak.clean(polarity), leak.clean(reviews)
    say(f"{before}; {len(phrases)}, {len(polarity)}, {len(reviews)} without evaluation sentences")
    parts = [text for review in reviews.texts for text in split_sentences(review) if 3 <= len(text.split()) <= 60]
    sentences = [text for text in parts if not leak.leaks(text)] + polarity.texts
    return Texts(phrases, polarity, reviews, sentences, {"dev": dev, "test": test, "imdb": imdb})


def train_teachers(options: argparse.Namespace, texts: Texts, tokenizer: Tokenizer, device: torch.device):
    """Fine-tune every teacher on all labelled texts."""
    labelled = texts.phrases + texts.polarity + texts.reviews
    corpus, dev = (Corpus(tokenizer, data.texts, device) for data in (labelled, texts.held_out["dev"]))
    teachers = []
    for seed in range(options.seed, options.seed + options.teachers):
        model = fine_tune(options.teacher, corpus, labelled.labels, options.teacher_epochs, seed)
        say(f"teacher of seed {seed}: dev {accuracy(model, dev, texts.held_out['dev'].labels):.4f}")
        teachers.append(model)
    return teachers


def augmented(options: argparse.Namespace, texts: Texts, teacher: PreTrainedModel, tokenizer: Tokenizer) -> list[str]:
    """All texts to distil on, in random order."""
    known = tokenizer.get_vocab()
    words = common_words(texts.phrases.texts + texts.sentences, set(known), 500 if options.quick else 14_000)
    vectors = teacher.get_input_embeddings().weight.detach().cpu()
    augment = Augmenter(neighbours(words, vectors[[known[word] for word in words]]), texts.phrases.texts, options.seed)
    result = distillation_texts(
        texts.phrases.texts, texts.sentences, texts.reviews.texts, augment, options.copies, options.seed
    )
    random.Random(options.seed).shuffle(result)
    say(f"{len(result)} texts to distil on, e.g. {result[:3]}")
    return result


CARD = """# sentiment: a small English sentiment classifier

A BERT with {layers} layers of width {width} and {parameters:,} parameters that calls an English sentence *negative*
or *positive*. It is meant for examples, tests and tutorials of explanation methods: small, quick on a CPU, and good
enough that its decisions are worth explaining. It loads with plain `transformers`; the weights are stored as float16
({megabytes:.2f} MB) and loaded as float32. Its lower-casing WordPiece vocabulary is its own ({vocabulary:,} pieces).
It reads at most {positions} tokens.

| accuracy, from the stored weights in float32 | this model | its teachers |
| --- | --- | --- |
| SST-2 dev ({dev_size:,} sentences) | {dev:.2%} | {teacher_dev:.2%} |
| SST-2 test ({test_size:,} sentences) | {test:.2%} | {teacher_test:.2%} |
| IMDB test ({imdb_size:,} whole reviews, cut at {positions} tokens) | {imdb:.2%} | {teacher_imdb:.2%} |

## Training
Made by `training/train_sentiment.py`, seed {seed}, with {versions}.

1. {teachers} teachers: MiniLM (`all-MiniLM-L6-v2`, 22.7 M parameters) fine-tuned for {teacher_epochs} epochs on
   {phrases:,} phrases of SST-2's training set, {polarity:,} sentences of Sentence Polarity and {reviews:,} IMDB
   reviews. The table gives the accuracy of their averaged logits.
2. The student's embeddings start at the principal components of a teacher's; its layers start at random.
3. The student learns the teachers' averaged logits (temperature {temperature:g}) and, fading out, the direction of
   their mean hidden state, on {texts:,} texts: those above, single sentences and runs of sentences of the IMDB
   reviews, and variants with words masked, dropped or replaced, spans cut out and phrases joined. It took {steps:,} of
   {planned:,} planned steps (`--epochs {epochs} --minutes {minutes:g}`), the learning rate falling to zero.

No dev or test sentence or label was used, neither to train nor to choose a checkpoint or a setting: the numbers are
those of the last step. Training phrases of SST-2 that equal a dev or test sentence were dropped. Sentence
Polarity contains SST-2's sentences, so every extra text was dropped that equals a dev or test sentence, lies within
one, contains one of 15 characters or more, or shares a run of 30 characters with one (letters and digits alone, so
that "is n't" meets "isn't"). Training reviews that equal one of the IMDB test reviews were dropped too.

## Limits
- Two classes only: neutral, mixed or off-topic text is still called negative or positive, often with confidence.
- It learnt from English film reviews of the 1990s and 2000s. Other domains, dialects and languages, irony, long chains
  of negation and facts about the world are beyond it, and text after {positions} tokens is not read.
- Names, nationalities, genders and genres can shift its score, since the reviews and the pretrained teacher carry such
  associations. Do not use it to decide anything about people.
- A model this small leans on single words; an explanation that shows this is right.

## Data and licences
- SST-2: Socher et al. 2013, Stanford research data, redistributed in GLUE.
- Sentence Polarity v1.0: Pang and Lee 2005, CC BY 4.0.
- IMDB: Maas et al. 2011, for research; 5,000 of its training reviews, and 5,000 of its test reviews to evaluate.
- Teacher: all-MiniLM-L6-v2, Apache-2.0.

The weights contain none of these texts; the vocabulary lists single words and word pieces.
"""


def evaluate(folder: Path, held_out: dict[str, Labelled], device: torch.device) -> dict[str, float]:
    """Accuracy of the model as a user loads it: from its folder, in float32."""
    exact_float32()
    model = AutoModelForSequenceClassification.from_pretrained(folder).to(device)
    assert model.dtype == torch.float32, model.dtype
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    return {
        name: accuracy(model, Corpus(tokenizer, data.texts, device), data.labels) for name, data in held_out.items()
    }


def main() -> None:
    """Run the whole recipe."""
    options = parse_arguments()
    device = pick_device()
    say(f"device {device}, {versions()}")
    texts = read_texts(options.data, options.quick)
    tokenizer = train_tokenizer(texts.phrases.texts + texts.sentences, options.vocabulary)

    teacher_tokenizer = Tokenizer.from_file(str(options.teacher / "tokenizer.json"))
    teachers = train_teachers(options, texts, teacher_tokenizer, device)
    teacher_scores = {
        f"teacher_{name}": joint_accuracy(teachers, Corpus(teacher_tokenizer, data.texts, device), data.labels)
        for name, data in texts.held_out.items()
    }
    say(f"teachers together: {teacher_scores}")
    lines = augmented(options, texts, teachers[0], teacher_tokenizer)
    logits, states = teach(teachers, Corpus(teacher_tokenizer, lines, device))
    say("labelled by the teachers")

    seed_everything(options.seed)
    student = new_student(tokenizer.get_vocab_size())
    inherit_embeddings(student, tokenizer, teachers[0].cpu(), teacher_tokenizer)
    lessons = Lessons(Corpus(tokenizer, lines, device), logits, states)
    steps, planned = distil(student.to(device), lessons, options.epochs, options.seed, options.minutes)

    size = save_half(student, options.out)
    save_tokenizer(tokenizer, options.out)
    scores = evaluate(options.out, texts.held_out, device)
    card = CARD.format(
        layers=student.config.num_hidden_layers,
        width=student.config.hidden_size,
        parameters=student.num_parameters(),
        megabytes=size / 1e6,
        vocabulary=student.config.vocab_size,
        positions=POSITIONS,
        **{f"{name}_size": len(data) for name, data in texts.held_out.items()},
        **scores,
        **teacher_scores,
        seed=options.seed,
        versions=versions(),
        teachers=options.teachers,
        teacher_epochs=options.teacher_epochs,
        phrases=len(texts.phrases),
        polarity=len(texts.polarity),
        reviews=len(texts.reviews),
        temperature=TEMPERATURE,
        texts=len(lines),
        steps=steps,
        planned=planned,
        epochs=options.epochs,
        minutes=options.minutes,
    )
    (options.out / "README.md").write_text(card, encoding="utf-8")
    say(f"{student.num_parameters()} parameters, {size / 1e6:.2f} MB, {steps} steps, accuracy {scores}")


if __name__ == "__main__":
    main()
