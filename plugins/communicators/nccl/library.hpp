#pragma once
#include <cuda_runtime.h>

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The part of NCCL that collectives use, declared here: a build needs none of the vendor's files,
/// and a program opens the library when it makes a communicator. Numbers are those of nccl.h from
/// 2.17 on.
namespace tessera::nccl {

struct Comm;  ///< ncclComm_t

struct UniqueId {
  char bytes[128];
};

// Enumerations are passed as int, which the library's are.
enum Result : int {
  kSuccess = 0,
  kInternalError = 3,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum DataType : int {
  kU8 = 1,
  kI32 = 2,
  kI64 = 4,
  kFp16 = 6,
  kFp32 = 7,
  kFp64 = 8,
  kBf16 = 9,
};
enum Reduction : int { kSum = 0, kMax = 2, kMin = 3 };

/// How a communicator is made; the first fields of the library's own, which reads no more of it
/// than `version` had.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = 0;
  int cluster_size = INT_MIN;  // as the others: the library's choice
  int least_blocks = INT_MIN;
  int most_blocks = INT_MIN;
  const char* network = nullptr;
};

/// The library's functions.
struct Library {
  int (*version)(int* version);
  const char* (*error_text)(int result);
  const char* (*last_error)(Comm* comm);
  int (*unique_id)(UniqueId* id);
  int (*init)(Comm** comm, int ranks, UniqueId id, int rank, Config* config);
  int (*finalize)(Comm* comm);
  int (*destroy)(Comm* comm);
  int (*abort)(Comm* comm);
  int (*async_error)(Comm* comm, int* result);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void* input,
                    void* output,
                    std::size_t count,
                    int type,
                    int reduction,
                    Comm* comm,
                    cudaStream_t stream);
  int (*broadcast)(const void* input,
                   void* output,
                   std::size_t count,
                   int type,
                   int root,
                   Comm* comm,
                   cudaStream_t stream);
  int (*all_gather)(
      const void* input, void* output, std::size_t sent, int type, Comm* comm, cudaStream_t stream);
  int (*reduce_scatter)(const void* input,
                        void* output,
                        std::size_t received,
                        int type,
                        int reduction,
                        Comm* comm,
                        cudaStream_t stream);
  int (*send)(
      const void* data, std::size_t count, int type, int peer, Comm* comm, cudaStream_t stream);
  int (*receive)(
      void* data, std::size_t count, int type, int peer, Comm* comm, cudaStream_t stream);

  /// "NCCL 2.28.9"
  std::string name() const;
};

/// "2.28.9" of 22809.
std::string version_text(int version);

/// The library of this plugin: the vendor's, or for the emulator that of tests/cuda_emulated. It
/// stays open until the process ends. Throws ConfigError where there is none, or an older one than
/// 2.26.
const Library& open_nccl();

/// Opens the first of `sonames` that the system's loader finds, or that is in one of `folders`.
/// Throws ConfigError, whose first line says what helps, and the others what was tried.
Library load(const std::vector<std::string>& sonames, const std::vector<std::string>& folders);
/// Throws ConfigError where the version is too old.
void require_version(const Library& library);

#ifdef TESSERA_CUDA_EMULATED
inline constexpr std::string_view kName = "nccl_emulated", kTensorMemory = "cuda_emulated";
#else
inline constexpr std::string_view kName = "nccl", kTensorMemory = "cuda";
#endif

}  // namespace tessera::nccl
