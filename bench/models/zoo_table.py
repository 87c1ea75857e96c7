# SPDX-License-Identifier: Apache-2.0
"""The table of the zoo (zoo.toml): models of packages, with pinned hashes, and exports with random weights.

    [wheels.NAME]                    a package of PyPI: version, sha256 of the wheel
    [[wheels.NAME.models]]           name, file (its path in the wheel), sha256, and where the model needs them:
                                     shapes     of inputs whose dimensions are not all known
                                     values     an input is filled with the number
                                     constants  the same, and the number is known when the model is planned
                                     tolerance  largest error of an output, in place of --tolerance
    [exports.LIBRARY]                models: names, or tables of what zoo_export.py takes, and where they are
                                     needed a name that differs from the model's, and tolerance
    [quantized]                      tolerance, and models: `of`, the name of another entry, and the form in which
                                     zoo_quantize.py quantizes it

Reads no model; `static_model` and `dimensions` work on a model that was read.
"""
import tomllib
from dataclasses import dataclass, field

LIBRARIES = ("torchvision", "timm", "transformers")
FORMS = ("qdq", "operators", "dynamic", "4-bit")
MODEL_KEYS = {"name", "file", "sha256", "shapes", "values", "constants", "tolerance"}
EXPORT_KEYS = {"model", "name", "dtype", "dynamic", "shape", "class", "config", "part", "inputs", "tolerance"}


class TableError(Exception):
    """One line for the user."""


@dataclass(frozen=True)
class Wheel:
    """A pinned package of PyPI."""
    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Entry:
    """A model of the zoo."""
    name: str
    source: str  # "wheels", the library of an export, or "quantized"
    wheel: Wheel | None = None
    file: str = ""
    sha256: str = ""
    export: dict = field(default_factory=dict)
    base: "Entry | None" = None  # that is quantized
    form: str = ""
    shapes: dict = field(default_factory=dict)
    values: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    tolerance: float | None = None

    @property
    def origin(self):
        """Returns the package that has the model, as documents name it."""
        if self.base:
            return f"{self.base.origin}, quantized"
        return f"{self.wheel.name} {self.wheel.version}" if self.wheel else self.source

    @property
    def kind(self):
        """Returns the value of --source that selects the entry."""
        return "exports" if self.source in LIBRARIES else self.source


def _checked(row, known, required, where):
    unknown, missing = sorted(set(row) - known), sorted(set(required) - set(row))
    if unknown or missing:
        what = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
        raise TableError(f"[zoo] {where}: {what}: expected {', '.join(sorted(known))}")
    for key in ("sha256",):
        if key in row and (len(row[key]) != 64 or set(row[key]) - set("0123456789abcdef")):
            raise TableError(f"[zoo] {where}: {key} '{row[key]}': expected 64 hexadecimal digits")
    return row


def _of_wheels(wheels):
    for name, row in wheels.items():
        where = f"[wheels.{name}]"
        _checked(row, {"version", "sha256", "models"}, {"version", "sha256", "models"}, where)
        wheel = Wheel(name, row["version"], row["sha256"])
        for model in row["models"]:
            _checked(model, MODEL_KEYS, {"name", "file", "sha256"}, f"{where} {model.get('name', '')}")
            yield Entry(source="wheels", wheel=wheel, **model)


def _of_exports(exports):
    for library, row in exports.items():
        where = f"[exports.{library}]"
        if library not in LIBRARIES:
            raise TableError(f"[zoo] {where}: expected one of {', '.join(LIBRARIES)}")
        _checked(row, {"models"}, {"models"}, where)
        for model in row["models"]:
            model = dict(_checked({"model": model} if isinstance(model, str) else model, EXPORT_KEYS,
                                  {"model"}, where))
            name, tolerance = model.pop("name", model["model"]), model.pop("tolerance", None)
            shapes = model.get("inputs") or {"x": model.setdefault("shape", [1, 3, 224, 224])}
            yield Entry(name=f"{library}/{name}", source=library, shapes=shapes, tolerance=tolerance,
                        export={"library": library, **model})


def _quantized(row, entries):
    _checked(row, {"models", "tolerance"}, {"models", "tolerance"}, "[quantized]")
    bases = {entry.name: entry for entry in entries}
    for model in row["models"]:
        _checked(model, {"of", "form"}, {"of", "form"}, f"[quantized] {model.get('of', '')}")
        name, form = model["of"], model["form"]
        if name not in bases:
            raise TableError(f"[zoo] [quantized]: there is no model '{name}'")
        if form not in FORMS:
            raise TableError(f"[zoo] [quantized] {name}: form '{form}': expected one of {', '.join(FORMS)}")
        base = bases[name]
        yield Entry(name=f"quantized/{name.rpartition('/')[2]}_{form}", source="quantized", base=base, form=form,
                    shapes=base.shapes, values=base.values, constants=base.constants, tolerance=row["tolerance"])


def parsed(text):
    """Parses a table in TOML and returns its entries. Raises TableError for an unknown or missing key and for a
    name that occurs twice."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"[zoo] the table is no TOML: {error}") from None
    _checked(content, {"wheels", "exports", "quantized"}, set(), "the table")
    entries = [*_of_wheels(content.get("wheels", {})), *_of_exports(content.get("exports", {}))]
    if "quantized" in content:
        entries += list(_quantized(content["quantized"], entries))
    names = [entry.name for entry in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TableError(f"[zoo] given twice: {', '.join(twice)}")
    return entries


# ---- shapes -----------------------------------------------------------------------------------


def _data_inputs(model):
    constants = {array.name for array in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def _unknown_axes(value, shapes):
    """Yields (axis, name of the dimension or "", extent) for each dimension that the model leaves open."""
    dims = value.type.tensor_type.shape.dim
    is_open = [not dim.dim_value > 0 for dim in dims]
    if not any(is_open) and value.name not in shapes:
        return []
    if value.name not in shapes:
        raise TableError(f"[zoo] input '{value.name}' has unknown dimensions: expected shapes = "
                         f"{{{value.name} = [...]}}")
    shape = shapes[value.name]
    if len(shape) != len(dims) or any(
            not unknown and dim.dim_value != extent
            for dim, unknown, extent in zip(dims, is_open, shape)):
        raise TableError(f"[zoo] input '{value.name}' cannot have the shape {shape}: its model says "
                         f"{[dim.dim_param or dim.dim_value for dim in dims]}")
    return [(axis, dim.dim_param, shape[axis])
            for axis, dim in enumerate(dims) if is_open[axis]]


def dimensions(model, shapes):
    """Returns the values of --dim with which the inputs of the model have these shapes. A dimension is given by
    its name, or by input and axis if it has no name or if dimensions with its name have different extents."""
    found = [(value.name, *axis) for value in _data_inputs(model) for axis in _unknown_axes(value, shapes)]
    extents = {}
    for _, _, name, extent in found:
        extents.setdefault(name, set()).add(extent)
    flags = []
    for value, axis, name, extent in found:
        is_named = name and len(extents[name]) == 1 and not set(name) & set("=,")
        flags.append(f"{name if is_named else f'{value}.{axis}'}={extent}")
    return list(dict.fromkeys(flags))


def static_model(model, shapes):
    """Sets the extents of the inputs, in place. Shapes of outputs that are not static, and the shapes of all
    inner tensors, are removed, so that they are inferred again."""
    for value in _data_inputs(model):
        for axis, _, extent in _unknown_axes(value, shapes):
            value.type.tensor_type.shape.dim[axis].dim_value = extent
    for value in model.graph.output:
        if not all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim):
            value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
