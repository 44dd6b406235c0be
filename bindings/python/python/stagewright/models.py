"""Models and clusters."""

from __future__ import annotations

import json
import os
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _native
from .errors import StagewrightError, StagewrightWarning, visible

if TYPE_CHECKING:
    import torch

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4"]


class Model:
    """A model: operators and the tensors between them, with their costs.

    Created by :func:`load`, :func:`from_torch`, :func:`Graph` and :func:`workload`.
    """

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        for note in native.notes:
            warnings.warn(visible(note), StagewrightWarning, stacklevel=3)

    @property
    def name(self) -> str:
        """Name of the model, or where it was read from."""
        return self._native.name

    @property
    def format(self) -> str:
        """The format in which the model was read, such as ``onnx``."""
        return self._native.format

    @property
    def operators(self) -> list[str]:
        """Names of the operators."""
        return self._native.operators

    def to_dict(self) -> dict[str, Any]:
        """The model as a document of ``stagewright.graph/1`` or ``/2``."""
        document: dict[str, Any] = json.loads(self._native.to_json())
        return document

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model as native JSON, which every command of the program reads."""
        self._native.save(os.fspath(path))

    def __len__(self) -> int:
        return len(self._native)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._native.state(),)

    def __repr__(self) -> str:
        return repr(self._native)


def load(
    path: str | os.PathLike[str],
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    context: int | None = None,
    sequences: int | None = None,
    precision: Precision | None = None,
    whole_layers: bool = False,
    tied: Literal["copy", "together"] = "copy",
    fusion: bool = True,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    keep_input_costs: bool = False,
    profile_class: str | None = None,
    gradients: Literal["mirrored", "reversed"] | None = None,
    format: str | None = None,
    phase: Literal["prefill", "decode", "training"] | None = None,
    sequence: int | None = None,
    cache: str | None = None,
    granularity: Literal["operator", "layer"] | None = None,
    expert_group: int | None = None,
    optimizer: Literal["sgd", "momentum", "adam"] | None = None,
    all_logits: bool = False,
    prediction: bool = False,
    tower_tokens: int | None = None,
    architecture: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """Reads a model, whose format is recognised by its content.

    Args:
        path: The file: ONNX, OpenVINO IR, native JSON, a profile, or the configuration, GGUF file or folder of a language
            model; files are optionally compressed with gzip.
        batch: Number of samples, if the batch is a symbolic dimension (ONNX); sequences in a step (language models).
        dims: Sizes of other symbolic dimensions by name; the model must have each of them (ONNX).
        context: Number of tokens in a key-value cache that the model leaves open (ONNX), or before the step (language
            models).
        sequences: Number of sequences with a key-value cache; by default the batch (ONNX, language models).
        precision: Cast all floating-point numbers to this precision (ONNX, OpenVINO); of language models only activations,
            and everything in training.
        whole_layers: Keep the operators of every layer on one device.
        tied: ``copy``: each device with readers of shared weights has a copy; ``together``: all readers share a device.
        fusion: Fuse the operators that runtimes run in one kernel (ONNX, OpenVINO).
        time_unit: Unit of profiled times; required for the files of Piper.
        keep_input_costs: Keep the profiled times of input nodes (PipeDream).
        profile_class: Device class of profiled times (PipeDream, Piper, cost graphs).
        gradients: How gradients are transferred if a profile lists only forward edges (PipeDream).
        format: The format, if it should not be detected.
        phase: Step of a language model: ``prefill`` by default, ``decode`` or ``training``. The arguments below are for
            language models, too.
        sequence: Number of new tokens of a sequence in prefill and training; 2048 by default, or as many as the model reads.
        cache: Encoding of cached keys and values, such as ``fp8`` or ``q8_0``.
        granularity: Whether an operator is a kernel or a layer.
        expert_group: Routed experts in an operator; all of a layer by default.
        optimizer: Update rule of training; ``adam`` by default.
        all_logits: Compute the logits of every token in prefill.
        prediction: Also run the layers of multi-token prediction.
        tower_tokens: Tokens of a sequence that encoders of images, audio or text read; without it, they do not run.
        architecture: Architecture to read a configuration as, instead of its ``model_type``.
        sizes: Widths and counts that override those of a configuration: ``{"layers": 4, "ffn": 8192}``.

    Raises:
        StagewrightError: If the file is not a valid model, or an option has no effect on its format.
    """
    given = {
        "format": format,
        "batch": batch,
        "dims": dict(dims) if dims else None,
        "context": context,
        "sequences": sequences,
        "precision": precision,
        "whole_layers": whole_layers or None,
        "tied_together": True if tied == "together" else None,
        "without_fusion": True if not fusion else None,
        "time_unit": time_unit,
        "keep_input_costs": keep_input_costs or None,
        "profile_class": profile_class,
        "gradients": gradients,
        "phase": phase,
        "sequence": sequence,
        "cache": cache,
        "granularity": granularity,
        "expert_group": expert_group,
        "optimizer": optimizer,
        "all_logits": all_logits or None,
        "prediction": prediction or None,
        "tower_tokens": tower_tokens,
        "architecture": architecture,
        "set": dict(sizes) if sizes else None,
    }
    if tied not in ("copy", "together"):
        raise StagewrightError("U001", f"tied is {tied!r}", "tied", "give copy or together")
    return Model(_native.Model.read(os.fspath(path), _options(given)))


def show(
    path: str | os.PathLike[str],
    *,
    context: int | None = None,
    cache: str | None = None,
    architecture: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Parameters, bytes of weights, cache and work of a language model, from its configuration or the headers of its weights.

    Args:
        path: A folder of Hugging Face, its ``config.json``, safetensors with their index, or a GGUF file.
        context: Tokens of a sequence for the figures at a context; by default the longest of the model.
        cache: Encoding of cached keys and values, such as ``fp8`` or ``q8_0``.
        architecture: Architecture to read a configuration as, instead of its ``model_type``.
        sizes: Widths and counts that override those of a configuration.

    Returns:
        The figures that ``stagewright show --json`` prints: ``parameters``, ``weight_bytes``, ``cache_bytes_per_token`` and
        others.

    Raises:
        StagewrightError: If the path describes no language model.
    """
    given = {
        "context": context,
        "cache": cache,
        "architecture": architecture,
        "set": dict(sizes) if sizes else None,
    }
    text, notes = _native.show(os.fspath(path), _options(given))
    for note in notes:
        warnings.warn(visible(note), StagewrightWarning, stacklevel=2)
    figures: dict[str, Any] = json.loads(text)
    return figures


def Graph(
    operators: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    tensors: Sequence[Mapping[str, Any]] = (),
    *,
    name: str = "",
    parameters: Sequence[Mapping[str, Any]] = (),
    whole_layers: bool = False,
) -> Model:
    """A model from dictionaries, or from arrays.

    Args:
        operators: A dictionary for each operator, with the fields of ``stagewright.graph/2``: ``name``, ``seconds`` by
            device class or ``flop`` and ``bytes_moved``, ``parameter_bytes``, ``pass`` and others. Or a whole document,
            in which case ``tensors``, ``name`` and ``parameters`` must be omitted. Or a dictionary of
            columns: ``name``, ``flop`` and others, each a sequence with an entry for every operator.
        tensors: A dictionary for each tensor: ``producer``, ``consumers``, ``bytes``. Operators are given by name.
        name: Name of the model.
        parameters: Parameters that several operators read: ``name``, ``bytes``, ``readers``.
        whole_layers: Keep the operators of every layer on one device.

    Raises:
        StagewrightError: If the arguments are not a valid graph; the place names the operator or tensor.

    Example:
        >>> model = Graph(
        ...     [{"name": "first", "seconds": {"gpu": 1e-3}}, {"name": "second", "seconds": {"gpu": 1e-3}}],
        ...     [{"producer": "first", "consumers": ["second"], "bytes": 1e6}],
        ... )
        >>> len(model)
        2
    """
    if isinstance(operators, Mapping) and "operators" in operators:
        for argument, value in (("tensors", tensors), ("name", name), ("parameters", parameters)):
            if len(value) > 0:
                cause = f"`{argument}` is given beside a whole document"
                raise StagewrightError("U001", cause, argument, "leave it out, or put it into the document")
        document = dict(operators)
    else:
        rows = _rows(operators) if isinstance(operators, Mapping) else [dict(operator) for operator in operators]
        document = {
            "schema": "stagewright.graph/2",
            "name": name,
            "operators": rows,
            "tensors": [dict(tensor) for tensor in tensors],
        }
        if parameters:
            document["parameters"] = [dict(parameter) for parameter in parameters]
    text = json.dumps(document, default=_plain)
    return _from_text(name or "graph", text, whole_layers)


def from_torch(
    model: torch.nn.Module | torch.export.ExportedProgram,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    name: str = "",
    fuse: bool = True,
    whole_layers: bool = False,
    measure: str | None = None,
    device: str | None = None,
) -> Model:
    """A PyTorch model for inference. Weights are not needed: a model on the device ``meta`` is enough.

    Args:
        model: A module, or a program returned by ``torch.export.export``.
        inputs: Example inputs of a module: a sequence, or a mapping by name.
        name: Name of the model.
        fuse: Fuse the operators that compilers run in one kernel.
        whole_layers: Keep the operators of every layer on one device.
        measure: A device class: run the program on random inputs, and use the measured seconds for this class.
        device: Device on which to measure, by its PyTorch name; by default CUDA if available.

    Raises:
        StagewrightError: If the program is not a valid model.
    """
    exporter = _exporter()
    if hasattr(model, "graph_signature"):
        program, inside = model, ""
    elif inputs is None:
        raise TypeError("a module needs example inputs; without them, give an ExportedProgram")
    else:
        program, inside = exporter.program_of(model, inputs), exporter.INSIDE
    document = exporter.document(program, name, fuse, inside, measure, device)
    return _from_text(name or type(model).__name__, json.dumps(document), whole_layers)


def from_torch_training(
    model: torch.nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    loss: Any = None,
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = "adamw",
    name: str = "",
    fuse: bool = True,
    whole_layers: bool = False,
) -> Model:
    """One training step of a PyTorch model: forward, backward and the optimiser.

    Args:
        model: A module.
        inputs: Example inputs: a sequence, or a mapping by name.
        loss: A function that maps the model's output to a single number; by default the output's field ``loss``.
        optimizer: The optimiser.
        name: Name of the model.
        fuse: Fuse the operators that compilers run in one kernel.
        whole_layers: Keep the operators of every layer on one device.
    """
    exporter = _exporter()
    program = exporter.program_of(model, inputs, loss or (lambda given: given.loss))
    document = exporter.training_document(program, name, optimizer, fuse, exporter.INSIDE)
    return _from_text(name or type(model).__name__, json.dumps(document), whole_layers)


def workload(
    family: str,
    variant: str | None = None,
    *,
    training: bool = False,
    optimizer: Literal["sgd", "momentum", "adam"] = "adam",
    precision: Literal["fp32", "fp16", "bf16", "fp8"] | None = None,
    granularity: Literal["operator", "layer"] | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    image: int | None = None,
    hidden: int | None = None,
    layers: int | None = None,
    vocabulary: int | None = None,
) -> Model:
    """The graph of a well-known model; :func:`families` lists families and variants.

    Args:
        family: The family, such as ``llama``.
        variant: The variant; by default the first.
        training: Generate a training step: forward, backward and update.
        optimizer: Optimiser of the training step.
        precision: Number format of weights, activations and gradients.
        granularity: Whether an operator is a kernel or a layer.
        batch: Number of samples.
        sequence: Number of steps or tokens in a sample.
        image: Side of the input image, in pixels.
        hidden: Width of the hidden state, or number of filters of a convolutional network.
        layers: Number of layers.
        vocabulary: Size of the vocabulary.
    """
    given = {
        "variant": variant,
        "training": training or None,
        "optimizer": optimizer if training else None,
        "precision": precision,
        "granularity": granularity,
        "batch": batch,
        "sequence": sequence,
        "image": image,
        "hidden": hidden,
        "layers": layers,
        "vocabulary": vocabulary,
    }
    return Model(_native.workload(family, _options(given)))


def cluster(name: str | os.PathLike[str]) -> dict[str, Any]:
    """A cluster as a document of ``stagewright.cluster/1``.

    Args:
        name: A built-in name such as ``dgx-a100``, a shorthand such as ``8xv100:fp32@nvlink``, or a file.
    """
    document: dict[str, Any] = json.loads(_native.cluster(os.fspath(name)))
    return document


def _options(given: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in given.items() if value is not None}, default=_plain)


def _restored(state: str) -> Model:
    """A copy of a model from another process."""
    return Model(_native.Model.restored(state))


def _from_text(label: str, text: str, whole_layers: bool) -> Model:
    options = _options({"whole_layers": whole_layers or None})
    return Model(_native.Model.from_bytes(label, text.encode(), options))


def _rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Converts columns to rows; unknown numbers (NaN) are left out."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        cause = f"the columns have different lengths: {lengths}"
        raise StagewrightError("U001", cause, "operators", "give every column an entry for each operator")
    if "name" not in columns:
        raise StagewrightError("U001", "the column `name` is missing", "operators", "name the operators")
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return [{name: value for name, value in row.items() if not _is_nan(value)} for row in rows]


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _plain(value: Any) -> Any:
    """Converts NumPy's numbers and arrays to Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of a document")


def _exporter() -> types.ModuleType:
    """The script that `stagewright exporter torch` prints, as a module, which imports PyTorch."""
    global _EXPORTER
    if _EXPORTER is None:
        module = types.ModuleType("stagewright_exporter")
        script = compile(_native.torch_exporter(), "stagewright_exporter.py", "exec")
        exec(script, module.__dict__)
        _EXPORTER = module
    return _EXPORTER


_EXPORTER: types.ModuleType | None = None
