"""Piper's voices: VITS with its authors' entry names, exported to ONNX, in our networks.

Sizes follow from the shapes, and strides and dilations from the exported graph. Names are those of
transformers afterwards. The first spline flow and the posterior encoder were dropped by the
exporter, since inference does not need them.

Sources: `.onnx` and `.onnx.json` of rhasspy/piper-voices; entry names of jaywalnut310/vits (MIT);
specification sheet of the family, sections 5 and 6. Held to onnxruntime by tests with one voice of
medium quality.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from torch import Tensor

from voiceanon.components.tts.symbols import from_piper
from voiceanon.components.tts.vits_config import DecoderConfig, VitsConfig
from voiceanon.errors import WeightsError

Settings = Mapping[str, tuple[int, ...]]
"""Whole numbers of a convolution by name: ``strides``, ``dilations``."""

CONVOLUTIONS = ("Conv", "ConvTranspose")
EMBEDDINGS = ("enc_p.emb", "emb_g")
"""Layers whose weights the exporter may have given numbers, or other layers' names, for names."""

INVERSE_SCALE = "/dp/flows.0/Exp_output_0"
"""``exp(-logs)`` of the affine flow, which the exporter has computed once and for all."""

ATTENTION = re.compile(r"^enc_p\.encoder\.attn_layers\.(\d+)\.conv_([qkvo])\.")
"""Linear maps that are written as convolutions of one tap."""

_PROJECTIONS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}

_RENAMES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"^enc_p\.emb\.", lambda m: "text_encoder.embed_tokens."),
    (r"^enc_p\.proj\.", lambda m: "text_encoder.project."),
    (r"^enc_p\.encoder\.attn_layers\.(\d+)\.", lambda m: f"{_LAYERS}.{m[1]}.attention."),
    (r"^enc_p\.encoder\.ffn_layers\.(\d+)\.", lambda m: f"{_LAYERS}.{m[1]}.feed_forward."),
    (r"^enc_p\.encoder\.norm_layers_1\.(\d+)\.", lambda m: f"{_LAYERS}.{m[1]}.layer_norm."),
    (r"^enc_p\.encoder\.norm_layers_2\.(\d+)\.", lambda m: f"{_LAYERS}.{m[1]}.final_layer_norm."),
    (r"(?<=\.)conv_([qkvo])\.", lambda m: f"{_PROJECTIONS[m[1]]}."),
    # Between the flows stand layers without entries, which turn the channels round.
    (r"^dp\.flows\.([1-9]\d*)\.", lambda m: f"dp.flows.{(int(m[1]) + 1) // 2}."),
    (r"^flow\.flows\.(\d+)\.", lambda m: f"flow.flows.{int(m[1]) // 2}."),
    (r"^dp\.", lambda m: "duration_predictor."),
    (r"(?<=\.)pre\.", lambda m: "conv_pre."),
    (r"(?<=\.)post\.", lambda m: "conv_post."),
    (r"(?<=\.)proj\.", lambda m: "conv_proj."),
    (r"(?<=\.)convs\.(?=convs_|norms_)", lambda m: "conv_dds."),
    (r"(?<=\.)convs_sep\.", lambda m: "convs_dilated."),
    (r"(?<=\.)convs_1x1\.", lambda m: "convs_pointwise."),
    (r"^(flow\..*)\.enc\.", lambda m: f"{m[1]}.wavenet."),
    (r"\.m$", lambda m: ".translate"),
    (r"\.logs$", lambda m: ".log_scale"),
    (r"\.gamma$", lambda m: ".weight"),
    (r"\.beta$", lambda m: ".bias"),
    (r"^dec\.", lambda m: "decoder."),
    (r"^emb_g\.", lambda m: "embed_speaker."),
)
_LAYERS = "text_encoder.encoder.layers"


class ExportedLayer(Protocol):
    """An operation of the exported graph; see `voiceanon.hub.onnx.Layer`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it takes: for convolutions signal, weight, bias; else the weight first."""
        ...

    @property
    def settings(self) -> Settings:
        """Whole numbers by name."""
        ...


def entries_of(
    tensors: Mapping[str, Tensor], layers: Mapping[str, ExportedLayer]
) -> tuple[dict[str, Tensor], dict[str, Settings]]:
    """Finds the entries of the network in an exported graph.

    Args:
        tensors: Of the file, by name.
        layers: Operations by place and kind, such as ``"dec.ups.0/ConvTranspose"``.

    Returns:
        Entries by the authors' names, and settings of the convolutions by layer.
    """
    entries: dict[str, Tensor] = {}
    settings: dict[str, Settings] = {}
    for key, layer in layers.items():
        place, _, kind = key.rpartition("/")
        if kind in CONVOLUTIONS:
            settings[place] = layer.settings
            for entry, name in zip(("weight", "bias"), layer.inputs[1:], strict=False):
                if name in tensors:
                    entries[f"{place}.{entry}"] = tensors[name]
        elif kind == "Gather" and place in EMBEDDINGS and layer.inputs[0] in tensors:
            entries[f"{place}.weight"] = tensors[layer.inputs[0]]
    for name, tensor in tensors.items():
        if name.startswith(("enc_p.", "dp.", "flow.", "dec.")):
            entries[name] = tensor
    if INVERSE_SCALE in tensors:
        entries["dp.flows.0.logs"] = -tensors[INVERSE_SCALE].log()
    return entries, settings


def rename_entries(entries: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gives entries the names and shapes of `voiceanon.components.tts.vits.Vits`.

    Args:
        entries: By the authors' names.
    """
    renamed = {}
    for old, tensor in entries.items():
        if ATTENTION.match(old) and old.endswith(".weight"):
            tensor = tensor.squeeze(2)
        name = old
        for pattern, replacement in _RENAMES:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    return renamed


def config_from_piper(
    voice: Mapping[str, Any], entries: Mapping[str, Tensor], settings: Mapping[str, Settings]
) -> VitsConfig:
    """Reads the sizes of a voice.

    Args:
        voice: Its ``.onnx.json``.
        entries: By the authors' names.
        settings: Of the convolutions, by layer.

    Raises:
        WeightsError: Something is missing that every Piper voice has.
    """
    try:
        embedding = entries["enc_p.emb.weight"]
        distances = entries["enc_p.encoder.attn_layers.0.emb_rel_k"]
        ffn = entries["enc_p.encoder.ffn_layers.0.conv_1.weight"]
        kernel = entries["flow.flows.0.enc.in_layers.0.weight"].shape[2]
        second = settings.get("flow.flows.0.enc.in_layers.1", {"dilations": (1,)})
        separable = entries["dp.convs.convs_sep.0.weight"]
        last_flow = max(_numbers(entries, r"^dp\.flows\.(\d+)\.pre\.weight$"))
        bins = entries[f"dp.flows.{last_flow}.proj.bias"]
        speakers = _speakers(voice)
        return VitsConfig(
            sample_rate=voice["audio"]["sample_rate"],
            speakers=speakers,
            speaker_width=_speaker_width(entries, len(speakers)),
            symbols=from_piper(voice["phoneme_id_map"]),
            embedded=embedding.shape[0],
            width=embedding.shape[1],
            layers=len(_numbers(entries, r"^enc_p\.encoder\.attn_layers\.(\d+)\.emb_rel_k$")),
            heads=embedding.shape[1] // distances.shape[2],
            ffn=ffn.shape[0],
            ffn_kernel=ffn.shape[2],
            window=distances.shape[1] // 2,
            flow_width=entries["enc_p.proj.bias"].shape[0] // 2,
            flows=len(_numbers(entries, r"^flow\.flows\.(\d+)\.pre\.weight$")),
            wavenet_layers=len(_numbers(entries, r"^flow\.flows\.0\.enc\.in_layers\.(\d+)\.bias$")),
            wavenet_kernel=kernel,
            wavenet_dilation=second["dilations"][0],
            duration_flows=(last_flow + 1) // 2,
            duration_kernel=separable.shape[2],
            duration_layers=len(_numbers(entries, r"^dp\.convs\.convs_sep\.(\d+)\.bias$")),
            duration_bins=(bins.shape[0] + 1) // 3,
            decoder=_decoder(entries, settings),
            noise_scale=voice["inference"]["noise_scale"],
            duration_noise_scale=voice["inference"]["noise_w"],
            speaking_rate=1 / voice["inference"]["length_scale"],
        )
    except (KeyError, ValueError, IndexError) as error:
        raise WeightsError(
            f"Piper: the voice lacks {error}, which all of rhasspy/piper-voices have; take both of "
            "its files from there."
        ) from error


def _speakers(voice: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the voices by number; numbers where they have no names."""
    count = max(1, voice.get("num_speakers", 1))
    names = {number: name for name, number in (voice.get("speaker_id_map") or {}).items()}
    return tuple(names.get(number, str(number)) for number in range(count))


def _speaker_width(entries: Mapping[str, Tensor], speakers: int) -> int:
    if speakers == 1:
        return 0
    return entries["emb_g.weight"].shape[1]


def _decoder(entries: Mapping[str, Tensor], settings: Mapping[str, Settings]) -> DecoderConfig:
    stages = len(_numbers(entries, r"^dec\.ups\.(\d+)\.weight$"))
    blocks = len(_numbers(entries, r"^dec\.resblocks\.(\d+)\.convs1?\.0\.weight$")) // stages
    paired = "dec.resblocks.0.convs1.0.weight" in entries
    convs = "convs1" if paired else "convs"
    rounds = _numbers(entries, rf"^dec\.resblocks\.0\.{convs}\.(\d+)\.weight$")
    return DecoderConfig(
        first_width=entries["dec.conv_pre.bias"].shape[0],
        strides=tuple(settings[f"dec.ups.{i}"]["strides"][0] for i in range(stages)),
        kernels=tuple(entries[f"dec.ups.{i}.weight"].shape[2] for i in range(stages)),
        residual_kernels=tuple(
            entries[f"dec.resblocks.{i}.{convs}.0.weight"].shape[2] for i in range(blocks)
        ),
        residual_dilations=tuple(
            tuple(settings[f"dec.resblocks.{i}.{convs}.{k}"]["dilations"][0] for k in rounds)
            for i in range(blocks)
        ),
        paired=paired,
    )


def _numbers(entries: Mapping[str, Tensor], pattern: str) -> list[int]:
    """Distinct numbers that stand in names, sorted; at least one."""
    found = {int(m[1]) for m in (re.match(pattern, name) for name in entries) if m}
    if not found:
        raise KeyError(pattern)
    return sorted(found)
