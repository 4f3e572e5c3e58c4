"""Speculative decoding in one file: a drafter writes candidates, the target checks them all as one batch.

Run `python examples/chain_of_draft.py`; it needs no download and a few seconds on a CPU. Both models are tiny and
random: the drafter is the target with noisy weights, so that it guesses well but not always. The text is greedy, and
whatever the drafter says, it is the text that plain decoding gives; the script asserts it.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn


class TinyModel(nn.Module):
    """A random two-layer transformer over bytes: tokens [N, T] -> logits [N, T, 256]."""

    def __init__(self, seed: int = 0, size: int = 64) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.tokens, self.places = nn.Embedding(256, size), nn.Embedding(1024, size)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(size, 4, 128, 0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(size, 256)

    def forward(self, tokens: Tensor) -> Tensor:  # noqa: D102  # torch's name for the call
        hidden = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def make_pair(noise: float) -> tuple[nn.Module, nn.Module]:
    target, drafter = TinyModel().eval(), TinyModel().eval()
    for weight in drafter.parameters():
        weight.add_(noise * weight.std() * torch.randn_like(weight))
    return target, drafter


def decode_plainly(target: nn.Module, prompt: list[int], count: int) -> list[int]:
    """One pass of the target for each token."""
    text = list(prompt)
    for _ in range(count):
        text.append(int(target(torch.tensor([text]))[0, -1].argmax()))
    return text[len(prompt) :]


def draft(drafter: nn.Module, text: list[int], num_candidates: int, length: int) -> Tensor:
    """Return candidates [N, L]: each begins with another of the drafter's N best tokens and goes on greedily."""
    first = drafter(torch.tensor([text]))[0, -1].topk(num_candidates).indices
    candidates = first[:, None]
    while candidates.shape[1] < length:
        known = torch.tensor([text]).expand(num_candidates, -1)
        logits = drafter(torch.cat([known, candidates], dim=1))[:, -1]
        candidates = torch.cat([candidates, logits.argmax(-1, keepdim=True)], dim=1)
    return candidates


def verify(target: nn.Module, text: list[int], candidates: Tensor) -> list[int]:
    """Score all candidates in one pass; return the longest part the target agrees with and its own next token."""
    known = torch.tensor([text]).expand(len(candidates), -1)
    logits = target(torch.cat([known, candidates], dim=1))
    choices = logits[:, len(text) - 1 :].argmax(-1)  # [N, L + 1] what the target would say at each place
    agreed = (choices[:, :-1] == candidates).long().cumprod(dim=1).sum(dim=1)  # [N]
    best = int(agreed.argmax())
    return choices[best, : int(agreed[best]) + 1].tolist()  # accepted tokens are the target's own choices


def decode_with_drafts(
    target: nn.Module, drafter: nn.Module, prompt: list[int], count: int, num_candidates: int
) -> tuple[list[int], int]:
    """Draft, verify, accept until there are enough tokens; also return the number of passes of the target."""
    text, num_passes = list(prompt), 0
    while len(text) < len(prompt) + count:
        text += verify(target, text, draft(drafter, text, num_candidates, length=4))
        num_passes += 1
    return text[len(prompt) : len(prompt) + count], num_passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--noise", type=float, default=0.3, help="0: the drafter is the target")
    options = parser.parse_args()
    prompt, count = list(b"Once upon a time"), options.tokens
    with torch.inference_mode():
        target, drafter = make_pair(options.noise)
        plain = decode_plainly(target, prompt, count)
        print(f"plain decoding: {count} passes of the target, 1.00 tokens each")
        for num_candidates in (1, 2, 4):
            tokens, passes = decode_with_drafts(target, drafter, prompt, count, num_candidates)
            assert tokens == plain, "drafts changed the text"
            print(f"candidates {num_candidates}: {passes} passes, {count / passes:.2f} tokens each, the same text")


if __name__ == "__main__":
    main()
