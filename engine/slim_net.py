"""A TF-slim function as a `tf.Module`: below the nets, the one place that knows TensorFlow 1's way of making variables.

A slim function makes its variables by name when it is first called. `tf.compat.v1.make_template` lets every later
call find the same ones. The first call is an eager one, since variables made while a `tf.function` is traced cost some
50 ms each; after a trace an eager call can return symbolic tensors, so from then on a net is called inside
`tf.function` only.
"""

import contextlib
import contextvars
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import tensorflow as tf

# TF-slim calls TensorFlow's own legacy layers, which warn about that at every trace.
warnings.filterwarnings("ignore", message=r"`layer\.(apply|updates)`")

# The graph collection into which the nets put the activations that are worth a histogram in TensorBoard.
ACTIVATIONS = "activations"

# References to the variables that must not move while a net is being traced.
_frozen: contextvars.ContextVar[frozenset] = contextvars.ContextVar("frozen", default=frozenset())


def is_frozen(variable: tf.Variable) -> bool:
    """For layers that learn outside the optimizer: whether the net being built keeps this variable as it is."""
    return variable.ref() in _frozen.get()


class SlimNet(tf.Module):
    """A slim function with its variables.

    Args:
        scope: first part of every variable's name, such as "ssd_300_vgg"; "" for names without one.
        function: `function(images, is_training)` -> any structure of tensors.
        image_shape: (height, width, channels) of the pictures it takes.
        compute_dtype: type in which weights and biases are used and pictures come in; they are kept in float32.

    Attributes:
        scope: as given.
        variables_by_name: all variables, "scope/conv1/weights" -> variable, in the order of their names.
        trainable_by_name: those that are trained.
    """

    def __init__(
        self, scope: str, function: Callable[..., Any], image_shape: Sequence[int], compute_dtype: tf.DType = tf.float32
    ):
        super().__init__()
        self.scope, self._compute_dtype = scope, compute_dtype
        self._template = tf.compat.v1.make_template(
            scope or "net", function, create_scope_now_=True, custom_getter_=self._in_compute_dtype
        )
        self._frozen: frozenset = frozenset()
        self._template(tf.zeros([1, *image_shape], compute_dtype), is_training=False)
        # What that call has put into collections would keep this net's tensors for ever.
        for collection in tf.compat.v1.get_default_graph().get_all_collection_keys():
            tf.compat.v1.get_default_graph().clear_collection(collection)
        # A second net of the same name in one process gets a scope with a suffix; our names never show it.
        made = len(self._template.variable_scope.name)
        names = {f"{scope}{v.name[made:].split(':')[0]}".lstrip("/"): v for v in self._template.variables}
        self.variables_by_name = dict(sorted(names.items()))
        self.trainable_by_name = {name: v for name, v in self.variables_by_name.items() if v.trainable}

    def __call__(self, images: tf.Tensor, *, is_training: bool) -> Any:
        """images [B, H, W, C] float32 -> what the slim function returns; inside a `tf.function` only."""
        if tf.executing_eagerly():
            raise RuntimeError("a SlimNet is called inside tf.function only")
        with self._freezing():
            return self._template(tf.cast(images, self._compute_dtype), is_training=is_training)

    def _in_compute_dtype(self, getter: Callable[..., tf.Variable], name: str, *args: Any, **kwargs: Any) -> Any:
        if self._compute_dtype == tf.float32 or not name.endswith(("weights", "biases")):
            return getter(name, *args, **kwargs)
        return tf.cast(getter(name, *args, **(kwargs | {"dtype": tf.float32})), self._compute_dtype)

    def freeze(self, names: Collection[str]) -> None:
        """From the next trace on these variables stay as they are; a batch norm with a frozen shift uses its moving
        statistics in training too, and leaves them alone."""
        self._frozen = frozenset(self.variables_by_name[name].ref() for name in names)

    @contextlib.contextmanager
    def _freezing(self) -> Iterator[None]:
        token = _frozen.set(self._frozen)
        try:
            yield
        finally:
            _frozen.reset(token)

    def look_inside(self, images: tf.Tensor) -> tuple[Any, dict[str, tf.Tensor]]:
        """What the net returns, not training, and the outputs of the layers in its collection `ACTIVATIONS`, by layer."""
        before = len(tf.compat.v1.get_collection(ACTIVATIONS))
        returned = self(images, is_training=False)
        outputs = tf.compat.v1.get_collection(ACTIVATIONS)[before:]
        return returned, {"/".join(output.op.name.split("/")[1:-1]): output for output in outputs}
