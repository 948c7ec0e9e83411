#include "gpu_choice.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "cublaslt.hpp"
#include "cuda_device.hpp"
#include "probe.hpp"
#include "runtime.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"
#include "versions.hpp"

namespace tessera::cuda {
namespace {

constexpr int kLeastCapability = 8;  // bf16 in tensor cores, and copies to shared memory

std::string counted(int gpus) {
  return gpus == 1 ? "1 GPU is visible" : fmt::format("{} GPUs are visible", gpus);
}

/// What there is, and what helps where that is nothing.
struct Visible {
  DeviceUnits gpus;
  std::string help;
};

Visible none(std::string why, std::string_view help) {
  return {{0, std::move(why)},
          fmt::format("{}, or choose another device (device.type = \"cpu\")", help)};
}

std::string chosen_by_user() {
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  return given == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", written_plain(given));
}

Visible look() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorInsufficientDriver) {
    const Versions versions = installed_versions();
    if (versions.driver == 0) return none("there is no NVIDIA driver here", "install it");
    return {{0,
             fmt::format("the driver is for CUDA {}, older than the runtime {}",
                         version_text(versions.driver),
                         version_text(versions.runtime))},
            "update the driver, or build with an older toolkit"};
  }
  if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0)) {
    return none(fmt::format("no GPU is visible here{}", chosen_by_user()),
                "look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (result != cudaSuccess) {
    return none(fmt::format("the NVIDIA driver does not work: {} ({})",
                            cudaGetErrorString(result),
                            cudaGetErrorName(result)),
                "look at nvidia-smi and the system's log");
  }
  return {{count, counted(count) + chosen_by_user()}, {}};
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

i64 choice(const Visible& visible, std::optional<i64> index, const DeviceArguments& arguments) {
  const int count = visible.gpus.count;
  if (index) {
    if (*index >= count) {
      fail_config(
          "device.index: there is no GPU {}: {}, and they count from 0", *index, visible.gpus.text);
    }
    return *index;
  }
  if (count == 1) return 0;  // the only one, or each rank was given its own
  const int ranks = arguments.local_world;
  require(arguments.local_rank < ranks, "rank {} of {} on a host", arguments.local_rank, ranks);
  const int of_each = (ranks + count - 1) / count;
  if (of_each > arguments.share) {
    fail_config(
        "device \"{}\" has no GPU for each of {} ranks of this host: {}{}; start at most {} there, "
        "or let {} ranks have one (device.share = {})",
        kDeviceName,
        ranks,
        visible.gpus.text,
        arguments.share == 1 ? ""
                             : fmt::format(", for {} ranks each (device.share)", arguments.share),
        count * arguments.share,
        of_each,
        of_each);
  }
  return arguments.local_rank / of_each;
}

[[noreturn]] void fail_capability(i64 gpu, const cudaDeviceProp& properties) {
  fail_config(
      "device \"{}\": GPU {} ({}) has capability {}.{}, and this build has code for {}; choose "
      "another GPU (device.index, CUDA_VISIBLE_DEVICES) or another device (device.type = \"cpu\")",
      kDeviceName,
      gpu,
      properties.name,
      properties.major,
      properties.minor,
      TESSERA_CUDA_CAPABILITIES);
}

/// There is PTX of later GPUs, which the driver compiles, but this one does not know its version.
[[noreturn]] void fail_driver(i64 gpu, const cudaDeviceProp& properties) {
  const Versions versions = installed_versions();
  fail_config(
      "device \"{}\": GPU {} ({}) has capability {}.{}, for which the driver must compile this "
      "build's code, and cannot: it is for CUDA {}, and the toolkit was {}; update the driver, or "
      "build with a toolkit no newer than the driver",
      kDeviceName,
      gpu,
      properties.name,
      properties.major,
      properties.minor,
      version_text(versions.driver),
      version_text(versions.runtime));
}

/// None, where the library that multiplies matrices is not installed.
DeviceUnits with_products(DeviceUnits gpus) try {
  (void)lt::open();
  return gpus;
} catch (const Error& error) {
  const std::string_view text = error.what();
  return {0, fmt::format("{}, but {}", gpus.text, text.substr(0, text.find('\n')))};
}

}  // namespace

DeviceUnits visible_gpus() {
  DeviceUnits gpus = look().gpus;
  // One that can be used is enough; which of them a rank takes is said when it takes it.
  int major = 0;
  for (int gpu = 0; gpu < gpus.count; ++gpu) {
    const bool known =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu) == cudaSuccess;
    if (!known || major >= kLeastCapability) return with_products(std::move(gpus));
  }
  if (gpus.count == 0) return gpus;
  return {0,
          fmt::format("{}, of capability {}.x, and this build has code for {}",
                      gpus.text,
                      major,
                      TESSERA_CUDA_CAPABILITIES)};
}

ChosenGpu choose_gpu(std::optional<i64> index, const DeviceArguments& arguments) {
  const Visible visible = look();
  if (visible.gpus.count == 0) {
    fail_config("device \"{}\": {}; {}", kDeviceName, visible.gpus.text, visible.help);
  }
  const i64 gpu = choice(visible, index, arguments);
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, static_cast<int>(gpu)), "cudaGetDeviceProperties");
  if (properties.major < kLeastCapability) fail_capability(gpu, properties);
  cudaError_t result = cudaSetDevice(static_cast<int>(gpu));
  if (result == cudaSuccess) result = find_code();
  if (result == cudaErrorNoKernelImageForDevice) fail_capability(gpu, properties);
  if (result == cudaErrorUnsupportedPtxVersion) fail_driver(gpu, properties);
  std::size_t free = 0, total = 0;
  if (result == cudaSuccess) result = cudaMemGetInfo(&free, &total);
  if (result != cudaSuccess) {
    fail("device \"{}\": GPU {} ({}) cannot be used: {} ({}); nvidia-smi shows who else does",
         kDeviceName,
         gpu,
         properties.name,
         cudaGetErrorString(result),
         cudaGetErrorName(result));
  }
  std::string id = uuid_text(properties.uuid);
  std::string text = fmt::format("GPU {} of {}{}, {}, {} of {} free",
                                 gpu,
                                 visible.gpus.count,
                                 index ? " by device.index" : "",
                                 id,
                                 size_text(static_cast<double>(free)),
                                 size_text(static_cast<double>(total)));
  return {fmt::format("{}, capability {}.{}; {}",
                      properties.name,
                      properties.major,
                      properties.minor,
                      installed_text()),
          {std::move(id), std::move(text), static_cast<i64>(total)}};
}

}  // namespace tessera::cuda
