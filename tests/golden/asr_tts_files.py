"""Small recognisers and voices in their published layouts, with seeded weights, for `t8-1`."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from golden import onnx_writer
from voiceanon.components.tts.vits import Vits
from voiceanon.components.tts.vits_config import VitsConfig

FOLDER = Path(__file__).parent / "asr_tts"

POSITIONS = 50
"""Of Whisper's window: 1 s."""

TEXT_TOKENS = 200
END, START, NO_TIMESTAMPS = 200, 201, 206
VOCABULARY = NO_TIMESTAMPS + 1 + POSITIONS + 1

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def hub_whisper(seed: int = 0, **settings: Any) -> Any:
    """transformers' own Whisper with weights that make it write something."""
    from transformers import GenerationConfig, WhisperForConditionalGeneration
    from transformers import WhisperConfig as HubConfig

    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_source_positions": POSITIONS,
        "max_target_positions": 60,
        "num_mel_bins": 80,
        "pad_token_id": END,
        "bos_token_id": END,
        "eos_token_id": END,
        "decoder_start_token_id": START,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    }
    model = WhisperForConditionalGeneration(HubConfig(**{**sizes, **settings})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "model.encoder.embed_positions.weight":
                scale = 0.3 if parameter.ndim > 1 else 0.05
                parameter.copy_(scale * torch.randn_like(parameter) + ("norm.weight" in name))
    model.generation_config = GenerationConfig(
        decoder_start_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
        bos_token_id=END,
        no_timestamps_token_id=NO_TIMESTAMPS,
        suppress_tokens=[1, 2, 7, 201, 202, 203, 204, 205],
        begin_suppress_tokens=[20, END],
        max_initial_timestamp_index=10,
        max_length=60,
        return_timestamps=False,
        is_multilingual=False,
    )
    return model


def whisper_vocabulary() -> dict[str, int]:
    """Tokens of two letters and a space in front, as ``vocab.json`` writes them."""
    return {f"Ġ{LETTERS[i // 26]}{LETTERS[i % 26]}": i for i in range(TEXT_TOKENS)}


def write_whisper(folder: Path, seed: int = 0) -> Path:
    """Writes a Whisper as the Hub has it."""
    hub_whisper(seed).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(whisper_vocabulary()))
    return folder


def vits_module() -> Any:
    """transformers' module, whose import warns of a decorator in older releases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return import_module("transformers.models.vits.modeling_vits")


def hub_vits(seed: int = 1, *, speakers: int = 5, stochastic: bool = True) -> Any:
    """transformers' own VITS in a small size."""
    from transformers import VitsConfig as HubConfig

    torch.manual_seed(seed)
    config = HubConfig(
        vocab_size=38,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        window_size=4,
        ffn_dim=48,
        flow_size=16,
        spectrogram_bins=17,
        use_stochastic_duration_prediction=stochastic,
        num_speakers=speakers,
        speaker_embedding_size=8 if speakers > 1 else 0,
        upsample_initial_channel=32,
        upsample_rates=[16, 4],
        upsample_kernel_sizes=[32, 8],
        resblock_kernel_sizes=[3, 5],
        resblock_dilation_sizes=[[1, 3], [1, 3]],
        duration_predictor_filter_channels=24,
        posterior_encoder_num_wavenet_layers=2,
        sampling_rate=22_050,
    )
    model = vits_module().VitsModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if "log_scale" in name or "translate" in name:
                parameter.copy_(0.3 * noise)
            elif "original0" in name:
                parameter.copy_(0.5 + torch.rand_like(parameter))
            elif parameter.ndim > 1:
                parameter.copy_(1.2 * noise / np.sqrt(parameter[0].numel()))
    return model


def write_vits(folder: Path, *, binary: bool = True, **options: Any) -> Path:
    """Writes a voice as the Hub has it: in the older form, or as safetensors."""
    model = hub_vits(**options)
    model.save_pretrained(folder)
    if binary:
        (folder / "model.safetensors").unlink()
        halves = {"original0": "weight_g", "original1": "weight_v"}
        state = {}
        for name, value in model.state_dict().items():
            stem, _, end = name.rpartition(".parametrizations.weight.")
            state[f"{stem}.{halves[end]}" if end in halves else name] = value
        torch.save(state, folder / "pytorch_model.bin")
    vocabulary = {"_": 0, " ": 1, **{letter: 2 + i for i, letter in enumerate(LETTERS)}}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = {"add_blank": True, "is_uroman": False, "normalize": True, "phonemize": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def write_folder(folder: Path, **options: Any) -> Path:
    """Writes both parts of `t8-1` with its default names."""
    write_whisper(folder / "whisper-medium.en")
    write_vits(folder / "vits-vctk", **options)
    return folder


# A Piper voice, as its exporter would write the weights of a network.


def piper_network(config: VitsConfig, seed: int = 2) -> Vits:
    """A network with seeded weights, none of them at its initial value."""
    network = Vits(config).eval()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            scale = 1 / np.sqrt(parameter[0].numel()) if parameter.ndim > 1 else 0.1
            parameter.copy_(scale * torch.randn(parameter.shape, generator=draws))
    return network


def piper_entries(network: Vits) -> dict[str, Tensor]:
    """The network's entries under the authors' names."""
    entries = {}
    for name, value in network.state_dict().items():
        if name.endswith("_proj.weight") and ".attention." in name:
            value = value[..., None]
        entries[_authors_name(name)] = value
    return entries


def _authors_name(name: str) -> str:
    parts = name.split(".")
    end = parts[-1]
    if name.startswith("text_encoder.encoder.layers."):
        layer, kind = parts[3], parts[4]
        if kind == "attention":
            rest = {"q_proj": "conv_q", "k_proj": "conv_k", "v_proj": "conv_v"}
            rest["out_proj"] = "conv_o"
            middle = [rest[parts[5]], end] if len(parts) == 7 else [end]
            return ".".join(["enc_p.encoder.attn_layers", layer, *middle])
        if kind == "feed_forward":
            return ".".join(["enc_p.encoder.ffn_layers", layer, parts[5], end])
        norm = {"layer_norm": "norm_layers_1", "final_layer_norm": "norm_layers_2"}[kind]
        return f"enc_p.encoder.{norm}.{layer}.{_norm(end)}"
    if parts[0] == "text_encoder":
        return {"embed_tokens": "enc_p.emb", "project": "enc_p.proj"}[parts[1]] + f".{end}"
    if parts[0] == "duration_predictor":
        if parts[1] == "flows":
            number = int(parts[2])
            parts[2] = str(max(0, 2 * number - 1))
        return ".".join(["dp", *map(_duration_name, parts[1:-1]), _norm(end, parts[-3])])
    if parts[0] == "flow":
        short = {"conv_pre": "pre", "conv_post": "post", "wavenet": "enc"}
        middle = [short.get(part, part) for part in parts[3:]]
        return ".".join(["flow.flows", str(2 * int(parts[2])), *middle])
    return name.replace("decoder.", "dec.").replace("embed_speaker.", "emb_g.")


def _duration_name(part: str) -> str:
    return {
        "conv_pre": "pre",
        "conv_proj": "proj",
        "conv_dds": "convs",
        "convs_dilated": "convs_sep",
        "convs_pointwise": "convs_1x1",
    }.get(part, part)


def _norm(end: str, kind: str = "norms_1") -> str:
    if kind.startswith("norms_"):
        return {"weight": "gamma", "bias": "beta"}[end]
    return {"translate": "m", "log_scale": "logs"}.get(end, end)


def write_piper(folder: Path, stem: str, network: Vits) -> Path:
    """Writes ``stem.onnx`` and ``stem.onnx.json``; some names are lost, as by the exporter."""
    entries = piper_entries(network)
    tensors, nodes = {}, []
    for name, value in entries.items():
        place, _, end = name.rpartition(".")
        path = "/" + "/".join(_places(place))
        if name == "dp.flows.0.logs":
            tensors["/dp/flows.0/Exp_output_0"] = torch.exp(-value)
        elif place in ("enc_p.emb", "emb_g"):
            lost = "sid" if place == "enc_p.emb" else name
            tensors[lost] = value
            nodes.append(onnx_writer.node("Gather", [lost, "input"], name=f"{path}/Gather"))
        elif end == "weight":
            lost = f"onnx::Conv_{len(nodes)}" if ".enc." in place else name
            tensors[lost] = value
            kind = "ConvTranspose" if ".ups." in place else "Conv"
            inputs = ["x", lost, *([f"{place}.bias"] if f"{place}.bias" in entries else [])]
            settings = _settings(network, place)
            nodes.append(onnx_writer.node(kind, inputs, name=f"{path}/{kind}", settings=settings))
        else:
            tensors[name] = value
    tensors["/Constant_output_0"] = torch.tensor([3])
    onnx_writer.write_model(folder / f"{stem}.onnx", onnx_writer.graph(nodes, tensors))
    (folder / f"{stem}.onnx.json").write_text(json.dumps(_voice(network.config)))
    return folder


def _places(place: str) -> list[str]:
    """``dec.ups.0`` to ``dec``, ``ups.0``: numbers belong to the name in front of them."""
    parts: list[str] = []
    for part in place.split("."):
        if part.isdigit():
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return parts


def _settings(network: Vits, place: str) -> dict[str, list[int]]:
    names = {_authors_name(name): name for name in network.state_dict()}
    module: Any = network.get_submodule(names[f"{place}.weight"].removesuffix(".weight"))
    if not hasattr(module, "dilation"):
        return {"dilations": [1], "strides": [1]}
    return {"dilations": list(module.dilation), "strides": list(module.stride)}


def _voice(config: VitsConfig) -> dict[str, Any]:
    marks = {"_": [0], "^": [1], "$": [2]}
    symbols = {s: [n] for n, s in enumerate(config.symbols.symbols) if s}
    several = len(config.speakers) > 1
    return {
        "audio": {"sample_rate": config.sample_rate},
        "inference": {
            "noise_scale": config.noise_scale,
            "length_scale": 1 / config.speaking_rate,
            "noise_w": config.duration_noise_scale,
        },
        "phoneme_id_map": {**marks, **symbols},
        "num_speakers": len(config.speakers),
        "speaker_id_map": {n: i for i, n in enumerate(config.speakers)} if several else {},
    }
