"""What the driver tells of the GPU under test. It is found by its UUID, as gpu_check tells it: the
driver's tools know nothing of CUDA_VISIBLE_DEVICES, and count in another order."""

import ctypes
import subprocess
import threading


def driver_facts(uuid):
    """What nvidia-smi tells; nothing where it is absent or does not know this GPU."""
    fields = ("name", "driver_version", "memory.total")
    command = ["nvidia-smi", f"--id={uuid}", f"--query-gpu={','.join(fields)}",
               "--format=csv,noheader"]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}
    return dict(zip(("gpu", "driver", "gpu_memory"), map(str.strip, told.split(","))))


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Nvml:
    """Memory in use on a GPU, as the driver's library tells it: of all processes, so that both
    sides of a comparison are measured alike, whatever their allocators say."""

    def __init__(self, uuid, library=None):
        """Raises OSError where there is no driver, or not this GPU."""
        self.library = library or ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        if (self.library.nvmlInit_v2() or
                self.library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self.handle))):
            raise OSError(f"NVML finds no GPU {uuid}")

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


def nvml(uuid):
    try:
        return Nvml(uuid)
    except OSError:
        return None
