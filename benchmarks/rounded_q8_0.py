"""A model as llama.cpp computes it in Q8_0, as far as rounding goes, in transformers.

Weights, and the inputs of every linear layer, are rounded by the gguf library's own Q8_0: groups of 32 with a scale in
f16. All else is fp32, where llama.cpp rounds a little more: it keeps keys and values in f16.
"""

from __future__ import annotations

import gguf
import torch
from gguf.quants import dequantize, quantize
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from paradraft.core.arrays import DoubleArray, IntArray
from paradraft.models.checkpoint import Checkpoint

Q8_0 = gguf.GGMLQuantizationType.Q8_0


def rounded(values: Tensor) -> Tensor:
    """Return values [..., a multiple of 32] in fp32 as Q8_0 holds them."""
    return torch.from_numpy(dequantize(quantize(values.detach().numpy(), Q8_0), Q8_0)).reshape(values.shape)


def log_laws(checkpoint: Checkpoint, prompts: list[IntArray]) -> list[DoubleArray]:
    """Return the log-probabilities behind every token of each prompt, [T, V]."""
    model = _rounded_model(checkpoint)
    laws = []
    with torch.inference_mode():
        for prompt in prompts:
            logits = model(torch.tensor(prompt[None, :], dtype=torch.long)).logits[0]
            laws.append(torch.log_softmax(logits.double(), dim=-1).numpy())
    return laws


def _rounded_model(checkpoint: Checkpoint) -> PreTrainedModel:
    values, weights = dict(checkpoint.config), checkpoint.weights
    config = AutoConfig.for_model(str(values.pop("model_type")), **values)
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    given = {name: weights[name].float() for name in weights}
    # Embeddings are matrices too, tied or not; norms and biases stay as they are.
    made.load_state_dict({name: rounded(part) if part.ndim > 1 else part for name, part in given.items()}, strict=False)
    made.tie_weights()
    for module in made.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0]),))
    model: PreTrainedModel = made.eval()
    return model
