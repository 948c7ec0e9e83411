#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm.hpp"
#include "tessera/device.hpp"
#include "tessera/mesh.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A logical tensor as this rank holds it: a parameter's main values, or optimizer state of its
/// layout. Named the same under every layout.
struct CheckpointTensor {
  std::string name;  ///< "layers.0.mlp.up.weight", "layers.0.mlp.up.weight/first_moment"
  const Parameter* layout = nullptr;
  Tensor tensor;
};

/// What a checkpoint says besides tensors.
struct CheckpointInfo {
  i64 step = 0;
  i64 samples = 0;  ///< consumed: the data position
  u64 seed = 0;
  std::string data;    ///< the dataset's fingerprint
  std::string config;  ///< the resolved configuration as TOML
};

struct CheckpointArguments {
  std::filesystem::path folder;  ///< where step-N folders go
  i64 keep = 3;                  ///< newest complete ones that stay; 0: all
  std::string run;               ///< distinguishes the temporary folders of runs
  const Mesh* mesh = nullptr;
  Device* device = nullptr;
  Store* store = nullptr;  ///< nullptr for a world of one
  std::chrono::milliseconds timeout{300000};
};

/// Checkpoints of one run that do not depend on its layout (DESIGN §7). Calls are collective: every
/// rank makes the same ones. A failure is an Error on every rank and leaves older checkpoints
/// whole.
class Checkpoints {
 public:
  explicit Checkpoints(const CheckpointArguments& arguments);
  /// Writes `step-N` in two phases and returns its folder; removes old ones behind the commit.
  std::filesystem::path save(const CheckpointInfo& info,
                             const std::vector<CheckpointTensor>& tensors);
  struct Loaded {
    CheckpointInfo info;
    std::filesystem::path folder;
  };
  /// Finds and loads what `resume` says: "auto" (the newest complete one, none is fine; a damaged
  /// one falls back to the one before, with a warning), "none", or a folder. All tensors, or an
  /// Error that lists missing, extra and damaged names.
  std::optional<Loaded> load(const std::string& resume,
                             const std::vector<CheckpointTensor>& tensors);

 private:
  CheckpointArguments arguments_;
};

}  // namespace tessera
