#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/together.hpp"
#include "tessera/device.hpp"
#include "tessera/mesh.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A logical tensor as this rank holds it: a parameter's main values, or optimizer state of its
/// layout. Named the same under every layout.
struct CheckpointTensor {
  std::string name;  ///< "layers.0.mlp.up.weight", "layers.0.mlp.up.weight/first_moment"
  const Parameter* parameter = nullptr;
  FlatRange range;  ///< of the parameter's storage: all of it, or a part that other ranks complete
  Tensor tensor;    ///< [range.length]
  StateHolders holders = StateHolders::every_replica;
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

/// Checkpoints of one run that do not depend on its layout. Calls are collective: every
/// rank makes the same ones. A failure on any rank is an Error on every rank and leaves older
/// checkpoints whole.
class Checkpoints {
 public:
  explicit Checkpoints(const CheckpointArguments& arguments);
  /// Takes the folder for this run, before it trains for hours: Error when it cannot be written to
  /// or when another run writes there. Otherwise the first save() does it.
  void claim();
  /// Writes `step-N` in two phases and returns its folder; removes old ones after the commit.
  /// `before_commit` is called on rank 0 when all else is on the disk. A failure that all ranks
  /// know of is a TogetherError: save() may be called again, for this or a later step.
  std::filesystem::path save(const CheckpointInfo& info,
                             const std::vector<CheckpointTensor>& tensors,
                             const std::function<void()>& before_commit = {});
  struct Loaded {
    CheckpointInfo info;
    std::filesystem::path folder;
  };
  /// Finds and loads what `resume` says: "auto" (the newest complete one, none is fine; a damaged
  /// one falls back to the one before, with a warning), "none", or what find_checkpoints() takes.
  /// `others` are tensors of the run that other pipeline stages hold.
  /// All tensors, or an Error that lists damaged names, a ConfigError that lists missing, extra and
  /// mismatched ones; then no tensor was touched.
  std::optional<Loaded> load(const std::string& resume,
                             const std::vector<CheckpointTensor>& tensors,
                             const std::vector<std::string>& others = {});

  struct Initial {
    std::filesystem::path folder;
    std::vector<std::string> taken, fresh;  ///< names of this run: found there, and not
    std::vector<std::string> left_out;  ///< parameters of the checkpoint that are not in the run
  };
  /// Loads into `parameters`, which are this rank's, what the checkpoint `named` (as
  /// find_checkpoints takes it) has of them; `names` are those of the whole run. What matches a
  /// pattern of `skip` is not taken. ConfigError when nothing can be taken, shapes or dtypes
  /// differ, or a pattern matches nothing; then no tensor was touched.
  Initial initialize(const std::string& named,
                     const std::vector<CheckpointTensor>& parameters,
                     const std::vector<std::string>& names,
                     const std::vector<std::string>& skip);

 private:
  void write(const CheckpointInfo& info,
             const std::vector<CheckpointTensor>& tensors,
             const std::function<void()>& before_commit);
  std::vector<std::filesystem::path> find(const std::string& resume) const;
  Loaded load_from(const std::filesystem::path& folder,
                   const std::vector<CheckpointTensor>& tensors,
                   const std::vector<std::string>& others) const;

  CheckpointArguments arguments_;
  Together together_;
  std::unique_ptr<FolderLock> lock_;  // on rank 0
};

}  // namespace tessera
