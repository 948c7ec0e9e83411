"""Memory in use on the first GPU, as the driver's library (NVML) tells it: of all processes, so
that both sides of a comparison are measured alike, whatever their allocators say."""

import ctypes
import threading


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Nvml:
    def __init__(self):
        """Raises OSError where there is no driver."""
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        if (self.library.nvmlInit_v2() or
                self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle))):
            raise OSError("NVML finds no GPU")

    def used(self):
        memory = _Memory()
        if self.library.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(memory)):
            raise OSError("NVML does not tell the memory in use")
        return memory.used


class PeakOf:
    """with PeakOf(nvml) as peak: …; then peak.bytes is the most above what was in use before; None
    without NVML."""

    def __init__(self, nvml, every_s=0.02):
        self.nvml, self.every_s, self.bytes = nvml, every_s, None

    def __enter__(self):
        if self.nvml:
            self.before, self.most = self.nvml.used(), 0
            self.stop = threading.Event()
            self.thread = threading.Thread(target=self.watch)
            self.thread.start()
        return self

    def watch(self):
        while not self.stop.wait(self.every_s):
            self.most = max(self.most, self.nvml.used())

    def __exit__(self, *_):
        if self.nvml:
            self.stop.set()
            self.thread.join()
            self.bytes = max(0, self.most - self.before)


def nvml():
    try:
        return Nvml()
    except OSError:
        return None
