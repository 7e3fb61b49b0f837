"""The same lookup in other libraries, each in the form that its own users write."""

import functools
from typing import Any

from onehot.implementations.kernels import GRAPH_MINIBATCHES, graph_buffers
from onehot.implementations.registry import INDICES, get, implementation
from onehot.variant import CORRECTED, Variant

gather_on = functools.partial(implementation, geometry=CORRECTED, reads=INDICES)
on_torch_cpu = functools.partial(gather_on, backends=("torch_cpu",), threaded=True)
on_torch_cuda = functools.partial(gather_on, backends=("torch_cuda",))


@on_torch_cpu()
@on_torch_cuda()
def torch_index_select(xp: Any, W0: Any, J: Any) -> Any:
    """Select rows: torch's narrowest function for it, which on the GPU moves 16 bytes a thread."""
    return xp.index_select(W0, 0, J)


@on_torch_cpu()
@on_torch_cuda()
def torch_embedding(xp: Any, W0: Any, J: Any) -> Any:
    """Look rows up as a network's embedding layer does."""
    return xp.nn.functional.embedding(J, W0)


@on_torch_cpu()
@on_torch_cuda()
def torch_index(xp: Any, W0: Any, J: Any) -> Any:
    """Index with the vector of tokens, as the answer says, in torch."""
    return W0[J]


def _captured(gather: Any) -> Any:
    """Return the preparation that captures a graph of many minibatches of a gather."""

    def prepare(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
        torch = backend.xp
        group = get(variant.implementation, variant.backend).group(variant)
        shape = (group, variant.minibatch)
        buffer = torch.zeros(shape, dtype=getattr(torch, variant.index_dtype), device=W0.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # loads the kernels, which a capture must not do
            gather(torch, W0, buffer[0])
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = [gather(torch, W0, J) for J in buffer]
        return graph, buffer, results

    return prepare


captured = functools.partial(on_torch_cuda, temporaries=graph_buffers, minibatches_per_call=GRAPH_MINIBATCHES)


@captured(name="torch_index_select_graph", prepare=_captured(torch_index_select))
@captured(name="torch_embedding_graph", prepare=_captured(torch_embedding))
@captured(name="torch_index_graph", prepare=_captured(torch_index))
def torch_graph(xp: Any, W0: Any, J: Any, graph: Any, buffer: Any, results: Any) -> Any:
    """Copy fresh indices of many minibatches to where torch's graph reads them, and replay it."""
    buffer.copy_(J)
    graph.replay()
    return results


def _jitted(mode: str | None) -> Any:
    """Return the preparation that compiles ``take`` for this shape; another shape would be compiled again."""

    def prepare(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
        jnp = backend.xp
        gather = backend.jax.jit(lambda W, J: jnp.take(W, J, axis=0, mode=mode))
        gather(W0, jnp.zeros(variant.minibatch, variant.index_dtype)).block_until_ready()
        return gather, backend.latest

    return prepare


on_jax_cpu = functools.partial(gather_on, backends=("jax_cpu",), threaded=True)
on_jax_cuda = functools.partial(gather_on, backends=("jax_cuda",))


@on_jax_cpu(name="jax_take_clip", prepare=_jitted("clip"))
@on_jax_cuda(name="jax_take_clip", prepare=_jitted("clip"))
@on_jax_cpu(name="jax_take", prepare=_jitted(None))
@on_jax_cuda(name="jax_take", prepare=_jitted(None))
def jax_take(xp: Any, W0: Any, J: Any, gather: Any, latest: Any) -> Any:
    """Take rows in a compiled function; JAX's own mode fills with NaN past the end, mode clip only clips."""
    latest[0] = gather(W0, J)  # what the backend's synchronize waits for
    return latest[0]


def _compiled(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return the loop over the rows, compiled for these dtypes, its rows shared among the threads."""
    numba = backend.numba

    def gather(W: Any, J: Any, h: Any) -> None:
        for row in numba.prange(len(J)):
            source = J[row]
            for column in range(W.shape[1]):
                h[row, column] = W[source, column]

    kernel = numba.njit(parallel=True, cache=True)(gather)
    kernel(W0, backend.xp.zeros(1, variant.index_dtype), backend.xp.empty((1, variant.embedding), W0.dtype))
    return (kernel,)


def _compiled_and_output(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return the same, and the array that every call overwrites."""
    h = backend.xp.empty((variant.minibatch, variant.embedding), W0.dtype)
    return *_compiled(backend, variant, W0), h


on_numba = functools.partial(gather_on, backends=("numba",), threaded=True)


@on_numba(prepare=_compiled)
def numba_prange(xp: Any, W0: Any, J: Any, gather: Any) -> Any:
    """Write the loop over the rows after all, and let a compiler spread it over the cores."""
    h = xp.empty((len(J), W0.shape[1]), W0.dtype)
    gather(W0, J, h)
    return h


@on_numba(prepare=_compiled_and_output)
def numba_prange_out(xp: Any, W0: Any, J: Any, gather: Any, h: Any) -> Any:
    """Do the same into an array that exists already: no page of it is new to the operating system."""
    gather(W0, J, h)
    return h
