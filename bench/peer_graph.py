# SPDX-License-Identifier: Apache-2.0
"""The work of bench_graph.c done by ONNX's Python package (protobuf underneath) and by JAX's tracer: a
chain of additions. JAX at 10^4 nodes: its tracing recurses and slows down beyond."""
import statistics
import time

RUNS = 3


def median_of(work):
    """Seconds: the median, and what the work gave last."""
    samples, result = [], None
    for _ in range(RUNS):
        start = time.perf_counter()
        result = work()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples), min(samples), max(samples), result


def line(what, figures, nodes):
    median, low, high, result = figures
    print(f"  {what:<28} {median:10.4g} s       ({low:.4g} to {high:.4g})  {median / nodes * 1e9:.0f} ns a node")
    return result


def measure_onnx(n):
    import onnx
    from onnx import TensorProto, helper

    def build():
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [])
        y = helper.make_tensor_value_info(f"n{n - 1}", TensorProto.FLOAT, [])
        nodes = [helper.make_node("Add", ["x" if i == 0 else f"n{i - 1}", "x"], [f"n{i}"]) for i in range(n)]
        return helper.make_model(helper.make_graph(nodes, "main", [x], [y]))

    print(f"onnx {onnx.__version__}, chain of {n} nodes")
    model = line("build", median_of(build), n)
    line("verify", median_of(lambda: onnx.checker.check_model(model)), n)
    text = line("print text", median_of(lambda: onnx.printer.to_text(model)), n)
    line("parse text", median_of(lambda: onnx.parser.parse_model(text)), n)
    data = line("write binary", median_of(model.SerializeToString), n)
    line("read binary", median_of(lambda: onnx.load_model_from_string(data)), n)


def measure_jax(n):
    import jax

    def chain(x):
        y = x
        for _ in range(n):
            y = y + x
        return y

    print(f"jax {jax.__version__}, chain of {n} nodes")
    jaxpr = line("trace", median_of(lambda: jax.make_jaxpr(chain)(1.0)), n)
    line("print", median_of(lambda: str(jaxpr)), n)


measure_onnx(1000000)
measure_jax(10000)
