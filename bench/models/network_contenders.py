# SPDX-License-Identifier: Apache-2.0
"""The runtimes that are compared on networks.

Each is made from a file, the input arrays by name, arrays with the shapes and types of the outputs
by name (both in the network's order), and a number of threads. It has:

    name, version   as in results
    run()           makes one call; its outputs stay until the next call
    inputs()        the input arrays by name, to be written before a call
    outputs()       the output arrays by name

Arrays are bound once, outside of what is timed.
"""
from runtime_library import USAGE, Library, Model, RuntimeFailure, aligned


class Tilewright:
    name = "tilewright"

    def __init__(self, artifact, inputs, outputs, threads, library):
        library = Library(library)
        self.version = library.version
        model = Model(library, artifact, threads)
        arrays = {**inputs, **outputs}
        expected = [shape for _, shape, _ in model.arguments]
        if [array.shape for array in arrays.values()] != expected:
            raise RuntimeFailure(USAGE, f"[bench] --artifact {artifact}: its arrays have the shapes "
                                        f"{expected}: expected an artifact of this network")
        arrays = {name: aligned(array) for name, array in arrays.items()}
        self._inputs = {name: arrays[name] for name in inputs}
        self._outputs = {name: arrays[name] for name in outputs}
        self.run = model.bind(list(arrays.values()))

    def inputs(self):
        return self._inputs

    def outputs(self):
        return self._outputs


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, path, inputs, outputs, threads):
        import onnxruntime

        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._arrays = {name: aligned(array) for name, array in inputs.items()}
        self._outputs = {name: aligned(array) for name, array in outputs.items()}
        binding = session.io_binding()
        for bind, arrays in ((binding.bind_input, self._arrays),
                             (binding.bind_output, self._outputs)):
            for name, array in arrays.items():
                bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self.run = lambda: session.run_with_iobinding(binding)

    def inputs(self):
        return self._arrays

    def outputs(self):
        return self._outputs


class OpenVino:
    name = "openvino"

    def __init__(self, path, inputs, outputs, threads):
        import openvino

        self.version = openvino.__version__.partition("-")[0]
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(path), "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
        request = compiled.create_infer_request()
        self._arrays = {name: aligned(array) for name, array in inputs.items()}
        self._outputs = {name: aligned(array) for name, array in outputs.items()}
        for arrays in (self._arrays, self._outputs):
            for name, array in arrays.items():
                request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        self.run = request.infer

    def inputs(self):
        return self._arrays

    def outputs(self):
        return self._outputs


PEERS = {peer.name: peer for peer in (OnnxRuntime, OpenVino)}
