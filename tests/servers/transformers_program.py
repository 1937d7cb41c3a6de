"""Serve two tiny models, made here, with `transformers serve`; runs in the servers' environment.

    python transformers_program.py FOLDER

Each is a chain: its weights say which token follows which, and no more.  With tools it calls one, after a
result or without tools it talks.  `qwen` has calls that the server reads itself, `llama` some that it passes
on as text.  Prints its address once it serves, and ends when its standard input does.
"""

import asyncio
import os
import socket
import sys
from itertools import pairwise
from pathlib import Path

import torch
import uvicorn
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.cli.serve import Serve

CONTROL = ("<|im_start|>", "<|im_end|>")
BREAK = "\n\n"  # a token of its own: a prompt that ends with it asks for words
CALL = (
    "<tool_call>",
    '\n{"name": "get_weather", "arguments": ',
    '{"city": "Paris", ',
    '"unit": "celsius", "days": 3}}',
    "\n</tool_call>",
)
TALK = ("It", " is", " eleven", " degrees", " in", " Zürich", ".")
# What follows the last token of a prompt, and so on; anything else ends the answer.
CHAINS = (("Ċ", *CALL, "<|im_end|>"), (BREAK, *TALK, "<|im_end|>"))

TEMPLATE = """
{%- for tool in tools or [] -%}
<|im_start|>system
{{ tool | tojson }}<|im_end|>
{% endfor -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{{ call.function.name }} {{ call.function.arguments | tojson }}</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% if not tools or messages[-1].role == 'tool' %}{{ "\\n" }}{% endif -%}
{%- endif -%}
"""


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one of bytes, and of the words that the chains are made of."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={one: at for at, one in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(one, special=True) for one in CONTROL])
    made.add_tokens([AddedToken(one, normalized=False) for one in (BREAK, *CALL, *TALK)])
    found = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>")
    found.chat_template = TEMPLATE
    return found


def write_model(folder: Path, config_class: type, model_class: type) -> None:
    words = tokenizer()
    size = len(words)
    config = config_class(
        vocab_size=size,
        hidden_size=-(-size // 8) * 8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=8,
        max_position_embeddings=1 << 16,
        tie_word_embeddings=False,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
        pad_token_id=words.eos_token_id,
    )
    model = model_class(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        layers = model.model
        layers.norm.weight.fill_(1.0)
        for at in range(size):
            layers.embed_tokens.weight[at, at] = 1.0
        model.lm_head.weight[words.eos_token_id] = 0.1
        for chain in CHAINS:
            numbers = [words.convert_tokens_to_ids(one) for one in chain]
            for before, after in pairwise(numbers):
                model.lm_head.weight[after, before] = 1.0
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    words.save_pretrained(folder)


class Server(uvicorn.Server):
    """Serve on any free port, tell it, and stop with the standard input."""

    def run(self) -> None:
        asyncio.run(self._until_input_ends())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = sockets[0].getsockname()
        print(f"serving http://{host}:{port}", file=OUTPUT, flush=True)

    async def _until_input_ends(self) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            serving = asyncio.create_task(self.serve([one]))
            await asyncio.to_thread(sys.stdin.read)
            self.should_exit = self.force_exit = True
            await serving


if __name__ == "__main__":
    # What it prints belongs into the log.
    OUTPUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    write_model(place / "qwen", Qwen3Config, Qwen3ForCausalLM)
    write_model(place / "llama", LlamaConfig, LlamaForCausalLM)
    uvicorn.Server = Server
    Serve(device="cpu")
