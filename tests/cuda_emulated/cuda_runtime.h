#pragma once
// What the device `cuda` uses of CUDA's runtime, for a GPU that is emulated on the CPU. Names,
// values and meanings are CUDA's; README.md says what differs. Types hold only what is used here,
// so only sources compiled against this header may be linked to it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// Its errors, as X(name, value, text).
#define TESSERA_CUDA_ERRORS(X)                                                         \
  X(cudaSuccess, 0, "no error")                                                        \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                      \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                     \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                \
  X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                          \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")          \
  X(cudaErrorInsufficientDriver, 35, "driver is older than the runtime")               \
  X(cudaErrorDevicesUnavailable, 46, "devices are busy or unavailable")                \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                      \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                             \
  X(cudaErrorNoKernelImageForDevice, 209, "no kernel image for the device")            \
  X(cudaErrorUnsupportedPtxVersion, 222, "PTX compiled with an unsupported toolchain") \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                    \
  X(cudaErrorIllegalState, 401, "operation not possible in this state")                \
  X(cudaErrorNotReady, 600, "device not ready")                                        \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                         \
  X(cudaErrorNotPermitted, 800, "operation not permitted")                             \
  X(cudaErrorSystemNotReady, 802, "system not yet initialized")                        \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted under capture")   \
  X(cudaErrorStreamCaptureInvalidated, 901, "a previous error spoiled the capture")    \
  X(cudaErrorStreamCaptureMerge, 902, "operation would merge separate captures")       \
  X(cudaErrorStreamCaptureUnmatched, 903, "capture did not begin in this stream")      \
  X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")         \
  X(cudaErrorStreamCaptureIsolation, 905, "dependency on uncaptured work")             \
  X(cudaErrorCapturedEvent, 907, "event was recorded in a capture")                    \
  X(cudaErrorStreamCaptureWrongThread, 908, "another thread began the capture")

enum cudaError_t {
#define TESSERA_ENUMERATOR(name, value, text) name = value,
  TESSERA_CUDA_ERRORS(TESSERA_ENUMERATOR)
#undef TESSERA_ENUMERATOR
};

cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// Devices.

struct cudaUUID_t {
  char bytes[16];
};

struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  int major;
  int minor;
};

enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
};

cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

// Streams and events.

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaHostFn_t = void (*)(void* data);

inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1,
                          cudaEventDisableTiming = 2;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

// Memory.

inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to,
                              std::size_t to_pitch,
                              const void* from,
                              std::size_t from_pitch,
                              std::size_t width,
                              std::size_t height,
                              cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);

// Capture and graphs.

using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec,
                                 cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

namespace tessera::cuda::emulated {

/// Enqueues work in the order of a stream, or records it where the stream is captured: kernels are
/// launched by this. What it returns is empty, or what went wrong in it: then every later call is
/// cudaErrorLaunchFailure, and cudaGetErrorString tells that text.
cudaError_t enqueue_kernel(cudaStream_t stream, std::function<std::string()> work);

/// The same for work that waits for other threads of the host: `begin` is called, then the stream
/// goes on once `done` says so. In a graph, what does not come after it goes on meanwhile, as on a
/// GPU.
cudaError_t enqueue_waiting(cudaStream_t stream,
                            std::function<void()> begin,
                            std::function<bool()> done);

/// What has been made and not destroyed, of all GPUs; and the requests for device memory so far.
struct Usage {
  std::int64_t device_bytes = 0, device_blocks = 0, host_blocks = 0;
  std::int64_t streams = 0, events = 0, graphs = 0;  ///< graphs: instantiated ones too
  std::int64_t mallocs = 0;
};
Usage usage();

/// As in a fresh process: destroys everything, forgets errors, reads the environment again. Work
/// that is queued ends first.
void reset();

}  // namespace tessera::cuda::emulated
