#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/io/json.hpp"
#include "tessera/testing/local_world.hpp"

namespace tessera::gpu_check {

/// What is checked, and how much of it.
struct Options {
  std::string device = "cuda";
  std::vector<std::string> dtypes;      ///< of `operations`; empty: fp32, bf16, fp16
  std::vector<std::string> operations;  ///< of `operations`; empty: all
  int times = 1;                        ///< of `contract`
  bool quick = false;                   ///< sizes of a rehearsal
};

class Target {
 public:
  Target(Options options, std::vector<std::filesystem::path> plugins);
  const Options& options() const { return options_; }
  /// The device under test, or another by name.
  std::shared_ptr<Device> make(DeviceArguments arguments = {}) const;
  std::shared_ptr<Device> make(std::string_view name, DeviceArguments arguments = {}) const;

 private:
  Options options_;
  testing::LocalWorld world_;
};

/// Prints one line of JSON, at once: whoever reads it keeps what came before an end by force.
void print(const Json& line);
/// A check that found `problem`; empty: it passed.
Json checked(std::string_view name, std::string_view problem);

// Parts, by their names on the command line.
void versions(const Target& target);    ///< the GPU, and what decides its bits
void rates(const Target& target);       ///< copies, products, launches: what the GPU can do
void contract(const Target& target);    ///< device_check
void operations(const Target& target);  ///< op_check of every core operation against `reference`
void large(const Target& target);       ///< tensors of more than 2^31 elements
void masks(const Target& target);       ///< dropout, bit for bit as on `cpu`

}  // namespace tessera::gpu_check
