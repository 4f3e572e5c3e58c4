"""A tiny target and a drafting network trained on its answers, both made in some seconds from a seed.

Taps for training come from transformers, not from our runner, so a layer or position that we count otherwise is a
difference between training and serving.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch
import torch.nn.functional as functional
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from paradraft.models.tiny import VOCAB_SIZE, write_tiny_model
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.build import build_net
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.networks.net import Net
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.vocabulary import DraftVocabulary

TARGET_LAYERS, TARGET_SIZE = 3, 48
PROMPT_LEN, ANSWER_LEN = 6, 42
STEPS, TEXTS_PER_STEP, ANCHORS = 160, 6, 16
BLOCK = 4
CALM = 0.3  # of what layers add; the last token then says so much of the next one that a small drafter can learn it
CHANGES = {"tie_word_embeddings": False}  # tied, a random model repeats its last token for ever


@dataclass(frozen=True)
class Pair:
    """ids [texts, T] are greedy answers with their prompts, hidden those of all layers [texts, T, d] (-1 first)."""

    folder: Path
    net: Net
    ids: Tensor
    hidden: tuple[Tensor, ...]

    def taps(self, text: int, shift: int = 0) -> Tensor:
        """Return a text's taps [T, m * d], of layers `shift` higher than those trained on."""
        layers = [layer + shift for layer in self.net.config.tap_layers]
        return torch.cat([self.hidden[layer + 1][text] for layer in layers], dim=-1)


def pair_config(method: str, **changes) -> NetConfig:
    values = {
        "method": method,
        "hidden_size": TARGET_SIZE,
        "intermediate_size": 64,
        "num_layers": 1,
        "num_heads": 4,
        "num_key_heads": 2,
        "head_dim": 12,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_positions": 512,
        "vocab_size": VOCAB_SIZE,
        "draft_vocab_size": VOCAB_SIZE,
        "block_size": BLOCK,
        "mask_token_id": 1,
        "tap_layers": (TARGET_LAYERS - 1,) if method == "medusa" else (0, 1),
        "num_target_layers": TARGET_LAYERS,
        "has_head_norms": True,
        "markov_rank": 8 if method == "dspark" else 0,
    }
    return NetConfig(**{**values, **changes})


@cache
def trained_pair(method: str = "dspark", seed: int = 1, *, calm: float = 1.0) -> Pair:
    """Return the pair; it is made once per process. The last eighth of the texts was not trained on."""
    folder = _calmed(write_tiny_model(Path(mkdtemp(prefix="pair-")), "llama", seed, CHANGES), calm)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = _answers(model, 96, seed)
    hidden = _hidden(model, ids)
    embedding, head = (table().weight.detach() for table in (model.get_input_embeddings, model.get_output_embeddings))
    torch.manual_seed(seed)
    net = build_net(pair_config(method), embedding, head, DraftVocabulary.full(VOCAB_SIZE))
    if isinstance(net, MedusaNet):
        net.use_final_norm(model.model.norm.weight.detach())
    pair = Pair(folder, net, ids, hidden)
    _train(pair)
    return pair


def _calmed(folder: Path, share: float) -> Path:
    """Make the layers of a written model add this share of what they did."""
    path = folder / "model.safetensors"
    adding = ("o_proj.weight", "down_proj.weight")
    weights = {name: part * (share if name.endswith(adding) else 1.0) for name, part in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    return folder


@torch.no_grad()
def _hidden(model, ids: Tensor) -> tuple[Tensor, ...]:
    """Return the outputs of all layers; transformers gives the last one behind the final norm."""
    last: list[Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, inputs: last.append(inputs[0]))
    hidden = model(ids, output_hidden_states=True).hidden_states
    hook.remove()
    return (*hidden[:-1], *last)


@torch.no_grad()
def _answers(model, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCAB_SIZE, (count, PROMPT_LEN), generator=generator)
    for _ in range(ANSWER_LEN):
        ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


def _train(pair: Pair) -> None:
    weights = torch.optim.AdamW(pair.net.parameters(), lr=4e-3)
    generator = torch.Generator().manual_seed(3)
    num_texts = len(pair.ids) * 7 // 8
    for step in range(STEPS):
        for group in weights.param_groups:
            group["lr"] = 4e-3 * (1.0 - step / STEPS)
        texts = torch.randint(num_texts, (TEXTS_PER_STEP,), generator=generator).tolist()
        example, labels = _example(pair, texts, generator)
        logits = pair.net.draft_training(example).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        weights.zero_grad()
        loss.backward()
        weights.step()


def _example(pair: Pair, texts: list[int], generator: torch.Generator) -> tuple[TrainingBatch, Tensor]:
    length = pair.ids.shape[1]
    ids = pair.ids[texts].flatten()
    places = torch.randint(PROMPT_LEN - 1, length - BLOCK - 1, (len(texts), ANCHORS // 2), generator=generator)
    anchors = (places + torch.arange(len(texts))[:, None] * length).flatten()
    example = TrainingBatch(
        ids=ids,
        taps=torch.cat([pair.taps(text) for text in texts]),
        anchors=anchors,
        doc=torch.repeat_interleave(torch.arange(len(texts)), length),
    )
    return example, ids[anchors[:, None] + torch.arange(1, BLOCK + 1)]


@torch.no_grad()
def accepted_at(pair: Pair, text: int, *, shift: int = 0) -> list[int]:
    """Return how many drafts stand behind each position of a text, by the training pass; -1 where the text ends."""
    ids, length = pair.ids[text], pair.ids.shape[1]
    anchors = torch.arange(1, length - BLOCK)  # the first token has no token before it
    example = TrainingBatch(
        ids=ids, taps=pair.taps(text, shift), anchors=anchors, doc=torch.zeros(length, dtype=torch.int64)
    )
    drafted = pair.net.draft_training(example).logits.argmax(-1)
    stands = drafted == ids[anchors[:, None] + torch.arange(1, BLOCK + 1)]
    return [-1, *stands.to(torch.int64).cumprod(-1).sum(-1).tolist(), *[-1] * BLOCK]
