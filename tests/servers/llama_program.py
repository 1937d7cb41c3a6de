"""Serve llama.cpp's own HTTP server over a tiny model made here; runs in the servers' environment.

    python llama_program.py {calls|noise} FOLDER CONTEXT

`calls` is a model that calls tools wherever a grammar lets it, and is quick to end; `noise` writes on and on.
Prints its port once it serves, and ends when its standard input does.
"""

import socket
import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, KEY_HEADS, INNER, LAYERS, LONGEST = 64, 4, 2, 128, 2, 1 << 17
SEED = 2026
CONTROL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<tool_call>", "</tool_call>")
PIECES = ("▁", "▁the", "▁a", "ing", "er", "é", "ß", "世", "界", "🙂", "▁Oslo", "▁Ulm")
# What the model that calls tools is drawn to, and how strongly: to one call or two, and few blanks.
LEANINGS = {
    "<tool_call>": 20.0,
    "</tool_call>": 20.0,
    "<|im_end|>": 22.5,
    '"': 14.0,
    ":": 8.0,
    "}": 8.0,
}

# Hermes' way of calling, which llama.cpp knows and makes a grammar for.
TEMPLATE = """
{%- if tools -%}
<|im_start|>system
Functions, one signature a line, within <tools></tools>:
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>
To call one, answer with an object of its name and arguments:
<tool_call>{"name": "f", "arguments": {}}</tool_call><|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
<|im_start|>user
<tool_response>{{ message.content }}</tool_response><|im_end|>
{% else -%}
<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor -%}
<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def vocabulary() -> list[tuple[str, gguf.TokenType]]:
    kind = gguf.TokenType
    return [
        ("<unk>", kind.UNKNOWN),
        *((one, kind.CONTROL) for one in CONTROL),
        *((one, kind.USER_DEFINED) for one in MARKERS),
        *((f"<0x{byte:02X}>", kind.BYTE) for byte in range(256)),
        *((chr(code), kind.NORMAL) for code in range(0x21, 0x7F)),
        *((one, kind.NORMAL) for one in PIECES),
    ]


def write_model(path: Path, *, calls: bool) -> None:
    """Write a model of random weights, always the same ones."""
    words = vocabulary()
    names = [name for name, _ in words]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(LONGEST)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([name.encode() for name in names])
    writer.add_token_scores([-float(at) for at in range(len(words))])
    writer.add_token_types([kind for _, kind in words])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(names.index("<s>"))
    writer.add_eos_token_id(names.index("<|im_end|>"))
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in tensors(names, calls=calls):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(names: list[str], *, calls: bool) -> list[tuple[str, np.ndarray]]:
    random = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    embedding, head = matrix(len(names), WIDTH), matrix(len(names), WIDTH)
    # The first channel is the same for every word and no layer writes to it: what the head reads there leans.
    embedding[:, 0], head[:, 0] = 1.0, 0.0
    if calls:
        for name, strength in LEANINGS.items():
            head[names.index(name), 0] = strength
    else:
        head[[names.index(one) for one in CONTROL], 0] = -40.0
    ones = np.ones(WIDTH, np.float32)
    found = [
        ("token_embd.weight", embedding),
        ("output_norm.weight", ones),
        ("output.weight", head),
    ]
    keys = WIDTH // HEADS * KEY_HEADS
    for layer in range(LAYERS):
        back, down = matrix(WIDTH, WIDTH), matrix(WIDTH, INNER)
        back[0], down[0] = 0.0, 0.0
        parts = {
            "attn_norm": ones,
            "attn_q": matrix(WIDTH, WIDTH),
            "attn_k": matrix(keys, WIDTH),
            "attn_v": matrix(keys, WIDTH),
            "attn_output": back,
            "ffn_norm": ones,
            "ffn_gate": matrix(INNER, WIDTH),
            "ffn_up": matrix(INNER, WIDTH),
            "ffn_down": down,
        }
        found += [(f"blk.{layer}.{name}.weight", tensor) for name, tensor in parts.items()]
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def serve(model: Path, context: int) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.n_ctx = context
    params.n_parallel = 1
    params.n_predict = -1
    params.warmup = False
    params.use_jinja = True
    params.cpuparams.n_threads = 1
    params.endpoint_slots = True
    return xllamacpp.Server(params)


def main() -> None:
    kind, folder, context = sys.argv[1:]
    model = Path(folder) / f"{kind}.gguf"
    write_model(model, calls=kind == "calls")
    server = serve(model, int(context))
    print("serving", server.listening_address, flush=True)  # noqa: T201 -- what it tells its caller
    sys.stdin.read()


if __name__ == "__main__":
    main()
