"""A fitted transformation as scikit-learn's own PowerTransformer, or as an ONNX model.

The ONNX graph is in float64 and right for NaN. Its formulas are those of `numerics.yeojohnson`, for
all features at once. ONNX has neither log1p nor expm1: both are made from log and exp, with a
correction of what rounding does to them. skl2onnx has a converter for PowerTransformer, but in
float64 it fails, and in float32 it loses NaN.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import PowerTransformer, StandardScaler

from securefedyj.errors import InputError
from securefedyj.estimators.columns import ColumnReader, check_choice
from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Bools

if TYPE_CHECKING:
    from securefedyj.estimators.base import YeoJohnsonTransformer

T = TypeVar("T")
OnError = Literal["raise", "drop", "identity"]
_OPSET, _IR_VERSION = 17, 8  # of the year 2022: all runtimes in use read them
_LARGEST = float(np.finfo(np.float64).max)


def as_fitted(made: T, fitted: ColumnReader, kept: Any = slice(None), **learned: Any) -> T:
    """An estimator of scikit-learn, as if it had been fitted to some of the columns of another."""
    vars(made)["n_features_in_"] = len(np.arange(fitted.n_features_in_)[kept])
    if hasattr(fitted, "feature_names_in_"):
        vars(made)["feature_names_in_"] = fitted.feature_names_in_[kept]
    vars(made).update(learned)
    return made


def power_transformer(fitted: YeoJohnsonTransformer, on_error: OnError) -> PowerTransformer:
    """What `YeoJohnsonTransformer.to_sklearn` returns."""
    check_choice("SFY-FIT-014", "on_error", on_error, get_args(OnError))
    box_cox = fitted.method == "box-cox"
    offset = 0.0 if box_cox else 1.0
    if fitted.standardize:
        unfit = ~fitted._standardization.follows_from(fitted.mean_, fitted.var_, offset)
    else:
        unfit = ~_in_range(fitted, offset)
    if unfit.any():
        _report(fitted, unfit, on_error)
    kept = ~unfit if on_error == "drop" else np.ones(len(unfit), dtype=bool)
    passed = (unfit & (on_error == "identity"))[kept]

    lambdas = np.where(passed, 1.0, fitted.lambdas_[kept])
    made = PowerTransformer(fitted.method, standardize=fitted.standardize, copy=fitted.copy)
    as_fitted(made, fitted, kept, lambdas_=lambdas)
    if fitted.standardize:
        scaler = StandardScaler(copy=False).set_output(transform="default")
        scaler.n_features_in_ = made.n_features_in_
        # At lambda = 1 Box-Cox subtracts 1.
        scaler.mean_ = np.where(passed, -1.0 if box_cox else 0.0, fitted.mean_[kept])
        scaler.var_ = np.where(passed, 1.0, fitted.var_[kept])
        scaler.scale_ = np.where(scaler.var_ == 0, 1.0, np.sqrt(scaler.var_))
        scaler.n_samples_seen_ = fitted.n_samples_seen_[kept]
        made._scaler = scaler
    return made


def _in_range(fitted: YeoJohnsonTransformer, offset: float) -> Bools:
    """Features whose values in the fit are all transformed to numbers that fit float64.

    Each of n values is at most sqrt(n) standard deviations from their mean.
    """
    at = fitted._standardization
    u = np.where(at.center >= 0, fitted.lambdas_, 2 - fitted.lambdas_)
    with np.errstate(divide="ignore"):
        log_deviation = np.log(at.width) + u * np.log(offset + np.abs(at.center))
        log_reach = log_deviation + np.log(fitted.n_samples_seen_) / 2
        log_largest = np.logaddexp(np.log(np.abs(fitted.mean_)), log_reach)
    in_range: Bools = log_largest <= np.log(_LARGEST)
    return in_range


def _report(fitted: YeoJohnsonTransformer, unfit: Bools, on_error: OnError) -> None:
    lambdas = ", ".join(f"{lmbda:.6g}" for lmbda in fitted.lambdas_[unfit][:5])
    what = "mean and variance" if fitted.standardize else "transformed values"
    found = (
        f"{fitted._named(unfit)} cannot be handed to scikit-learn: at lambda = {lambdas} the "
        f"{what} do not fit float64."
    )
    # Without standardization, no lambda of Box-Cox leaves values unchanged.
    identity = fitted.standardize or fitted.method != "box-cox"
    possible = {"raise": False, "drop": not unfit.all(), "identity": identity}
    if not possible[on_error]:
        raise InputError(
            "SFY-FIT-015",
            f"{found} Use this estimator's own transform, or on_error='identity' to let the values "
            "of such features pass unchanged, or on_error='drop' to leave out those features where "
            "there are others.",
        )
    done = "left out" if on_error == "drop" else "passed on unchanged"
    warnings.warn(f"{found} Their values are {done}.", UserWarning, stacklevel=4)


class _Graph:
    """Nodes so far. Values are names; numbers and arrays become constants."""

    def __init__(self, helper: Any, from_array: Any) -> None:
        self._helper, self._from_array = helper, from_array
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operator: str, *inputs: str | ArrayLike) -> str:
        """Add a node and return the name of its output."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = f"v{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, names, [output]))
        return output

    def _constant(self, value: ArrayLike) -> str:
        array = np.atleast_1d(np.asarray(value))
        array = array if array.dtype == bool else array.astype(np.float64)
        name = f"c{len(self.constants)}"
        self.constants.append(self._from_array(array, name))
        return name

    def log1p(self, x: str) -> str:
        """log(w) x/(w - 1) with w = 1 + x rounded: its error cancels (Kahan)."""
        w = self("Add", x, 1.0)
        beyond = self("Sub", w, 1.0)
        corrected = self("Mul", self("Log", w), self("Div", x, beyond))
        is_small = self("Equal", beyond, 0.0)
        # x / x of the largest numbers is 1, of those beyond 2^53 w is x.
        return self("Where", is_small, x, corrected)

    def expm1(self, x: str) -> str:
        """(w - 1) x/log(w) with w = e^x rounded: its error cancels (Kahan)."""
        w = self("Exp", x)
        difference = self("Sub", w, 1.0)
        corrected = self("Mul", difference, self("Div", x, self("Log", w)))
        is_small = self("Equal", difference, 0.0)
        # Far from 0 there is nothing to correct, and log(w) may be infinite.
        is_large = self("Greater", self("Abs", x), 1.0)
        return self("Where", is_large, difference, self("Where", is_small, x, corrected))

    def power(self, L: str, u: Array) -> str:
        """(e^{uL} - 1)/u, which is L at u = 0."""
        z = self("Mul", L, u)
        series = self("Add", L, self("Mul", self("Mul", L, z), 0.5))
        divisor = np.where(u == 0, 1.0, u)
        closed = self("Div", self.expm1(z), divisor)
        # e^z may overflow where e^z/u does not.
        logs = self("Sub", z, np.log(np.abs(divisor)))
        huge = self("Mul", self("Exp", logs), np.sign(divisor))
        closed = self("Where", self("Greater", z, 700.0), huge, closed)
        return self("Where", self("Less", self("Abs", z), 1e-10), series, closed)

    def power_scaled(self, L: str, u: Array, log_scale: Array) -> str:
        """e^{log_scale} (e^{uL} - 1)/u for L > 0, where the factors may overflow apart."""
        z = self("Mul", L, u)
        with np.errstate(over="ignore"):
            scale = np.exp(log_scale)
        rest = self("Div", self("Neg", self.expm1(self("Neg", z))), np.where(u == 0, 1.0, u))
        large = self("Mul", self("Exp", self("Add", z, log_scale)), rest)
        return self("Where", self("Greater", z, 1.0), large, self("Mul", self.power(L, u), scale))


def onnx_model(fitted: YeoJohnsonTransformer) -> Any:
    """What `YeoJohnsonTransformer.to_onnx` returns."""
    if fitted.method != "yeo-johnson":
        raise InputError("SFY-FIT-020", f"to_onnx is for yeo-johnson only, not {fitted.method}")
    try:
        from onnx import TensorProto, checker, helper
        from onnx.numpy_helper import from_array
    except ImportError as error:
        raise ImportError('to_onnx needs onnx: pip install "securefedyj[onnx]"') from error

    graph = _Graph(helper, from_array)
    Z = _standardized(graph, fitted) if fitted.standardize else _plain(graph, fitted.lambdas_)
    largest = graph("Mul", graph("Sign", Z), _LARGEST)
    Z = graph("Where", graph("IsInf", Z), largest, Z)
    graph.nodes.append(helper.make_node("Identity", [Z], ["Z"]))
    shape = ["rows", len(fitted.lambdas_)]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "Yeo-Johnson transformation",
            [helper.make_tensor_value_info("X", TensorProto.DOUBLE, shape)],
            [helper.make_tensor_value_info("Z", TensorProto.DOUBLE, shape)],
            graph.constants,
        ),
        producer_name="securefedyj",
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    names = json.dumps(list(map(str, fitted.get_feature_names_out())))
    helper.set_model_props(model, {"feature_names": names})
    checker.check_model(model)
    return model


def _plain(graph: _Graph, lmbda: Array) -> str:
    """Psi(lambda, x) as `yeojohnson.transform`."""
    L = graph.log1p(graph("Abs", "X"))
    below = graph("Neg", graph.power(L, 2 - lmbda))
    return graph("Where", graph("GreaterOrEqual", "X", 0.0), graph.power(L, lmbda), below)


def _standardized(graph: _Graph, fitted: YeoJohnsonTransformer) -> str:
    """(Psi(lambda, x) - mean) / standard deviation as `yeojohnson.standardize`."""
    at, lmbda = fitted._standardization, fitted.lambdas_
    side = np.where(at.center >= 0, 1.0, -1.0)
    u = np.where(at.center >= 0, lmbda, 2 - lmbda)
    center, low = np.abs(at.center), side * at.center_low
    L_center = np.log1p(center)

    magnitude = graph("Abs", "X")
    L = graph.log1p(magnitude)
    # Among close values the logarithms would cancel.
    difference = graph("Sub", graph("Sub", magnitude, center), low)
    relative = graph("Div", difference, 1 + center)
    relative = graph("Where", graph("Less", relative, -0.5), -0.5, relative)
    is_near = graph("LessOrEqual", graph("Abs", difference), (1 + center) / 2)
    D = graph("Where", is_near, graph.log1p(relative), graph("Sub", L, L_center))
    same = graph.power(D, u)

    # Across zero Psi(x) and the mean have different signs: the distance is a sum.
    with np.errstate(over="ignore"):
        log_scale = -u * L_center
    zero = -yeojohnson.transform(center, -u)  # (e^{-uL} - 1)/u
    across = graph("Sub", zero, graph.power_scaled(L, 2 - u, log_scale))

    is_same = graph("GreaterOrEqual", graph("Mul", "X", side), 0.0)
    distance = graph("Where", is_same, same, across)
    return graph("Div", graph("Mul", distance, side), at.width)
