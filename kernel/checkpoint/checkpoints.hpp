#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/checkpoint/background_work.hpp"
#include "kernel/checkpoint/checkpoint_tensor.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/initial_parameters.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/comm/control_plane/control_plane.hpp"
#include "tessera/device/device.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

struct CheckpointArguments {
  std::filesystem::path folder;  ///< where step-N folders go
  i64 keep = 3;                  ///< newest complete ones that stay; 0: all
  std::string run;               ///< distinguishes the temporary folders of runs
  const Mesh* mesh = nullptr;
  Device* device = nullptr;
  Store* store = nullptr;  ///< nullptr for a world of one
  WaitLimits limits = std::chrono::milliseconds(300000);
  int threads = 1;   ///< that write large files
  i64 failures = 0;  ///< calls of save_later() in a row that are tried again
};

/// Checkpoints of one run that do not depend on its layout. Calls are collective: every
/// rank makes the same ones. A failure on any rank is an Error on every rank and leaves older
/// checkpoints whole.
class Checkpoints {
 public:
  explicit Checkpoints(const CheckpointArguments& arguments);
  /// Takes the folder for this run before hours of training. Throws Error when it cannot be written
  /// to, when another run writes there, or when a rank does not see what rank 0 writes. Otherwise
  /// the first save() does it.
  void claim();
  /// Error where the disk has no room for a checkpoint of `tensors`, of which `saves` are to come.
  void require_room(const std::vector<CheckpointTensor>& tensors, i64 saves) const;
  /// Writes `step-N` in two phases and returns its folder; removes old ones after the commit.
  /// `before_commit` is called on rank 0 when all parts are on the disk. A failure that all ranks
  /// know of is a SharedError: save() may be called again, for this or a later step.
  std::filesystem::path save(const CheckpointInfo& info,
                             const std::vector<CheckpointTensor>& tensors,
                             const std::function<void()>& before_commit = {});
  /// Takes a snapshot of `tensors`, the same ones at each call, and returns; a thread of its own
  /// writes it and commits when all ranks' parts are on the disk, while training goes on. One save
  /// at a time: call saved_later(true) between two. A failure is tried again `failures` times, with
  /// the same snapshot. Its memory is kept for the next one.
  void save_later(const CheckpointInfo& info,
                  const std::vector<CheckpointTensor>& tensors,
                  std::function<void()> before_commit = {});
  struct Saved {
    i64 step = 0;
    std::filesystem::path folder;
    double seconds = 0;  ///< since save_later() began
  };
  /// Returns what save_later() has saved, once; nothing while it is under way, unless `wait`.
  /// Throws its failure. Calls `before_commit` when it is time for that, so call it now and then.
  std::optional<Saved> saved_later(bool wait);

  struct Loaded {
    CheckpointInfo info;
    std::filesystem::path folder;
  };
  /// Finds and loads what `resume` says: "auto" (the newest complete one, none is fine; a damaged
  /// one falls back to the one before, with a warning), "none", or what find_checkpoints() takes.
  /// `others` are tensors of the run that other pipeline stages hold. `judge` is called with each
  /// that is tried, before its tensors are compared; its ConfigError ends the search.
  /// Loads all tensors. A ConfigError lists missing, extra and mismatched ones, and no tensor was
  /// touched. An Error lists damaged ones; the tensors then hold a mixture, as a second copy of a
  /// state may not fit into memory: load another checkpoint or end the run.
  using Judge = std::function<void(const Loaded& from)>;
  std::optional<Loaded> load(const std::string& resume,
                             const std::vector<CheckpointTensor>& tensors,
                             const std::vector<std::string>& others = {},
                             const Judge& judge = {});

  /// Renames the checkpoint `bad`, of this folder, to "step-N.bad", which nothing finds any more,
  /// and returns the complete one before it. Where there is none, nothing is done.
  std::optional<std::filesystem::path> give_up(const std::filesystem::path& bad);

  /// Loads into `parameters`, which are this rank's, what the checkpoint `named` (as
  /// find_checkpoints takes it) has of them; `names` are those of the whole run. Skips what matches
  /// a pattern of `skip`. Throws ConfigError, and touches no tensor, when nothing can be taken,
  /// shapes or dtypes differ, or a pattern matches nothing; Error as load().
  InitialParameters initialize(const std::string& named,
                               const std::vector<CheckpointTensor>& parameters,
                               const std::vector<std::string>& names,
                               const std::vector<std::string>& skip);

 private:
  /// How a part is written: by whom, together with whom.
  struct Writing {
    const RankPart& part;
    RankPart::Values values;
    const ControlPlane& plane;
    int threads = 1;
  };
  void save(const CheckpointInfo& info,
            const Writing& writing,
            const std::function<void()>& before_commit);
  void write(const CheckpointInfo& info,
             const Writing& writing,
             const std::function<void()>& before_commit);
  void write_later(const CheckpointInfo& info, const std::stop_token& stop);
  void take_folder();
  void ask_before_commit(const ControlPlane& plane);
  void answer_before_commit();
  std::vector<std::filesystem::path> find(const std::string& resume) const;
  Loaded load_from(const std::filesystem::path& folder,
                   const std::vector<CheckpointTensor>& tensors,
                   const std::vector<std::string>& others,
                   const Judge& judge) const;
  void read(const std::filesystem::path& folder,
            const CheckpointIndex& index,
            const std::vector<CheckpointTensor>& tensors) const;

  CheckpointArguments arguments_;
  ControlPlane plane_;
  std::unique_ptr<FolderLock> lock_;  // on rank 0
  bool claimed_ = false;
  // State of save_later: what is written, from where, and how far it is.
  std::unique_ptr<RankPart> part_;
  HostBlock snapshot_;
  std::optional<Saved> later_;
  std::chrono::steady_clock::time_point later_begun_;
  std::function<void()> before_commit_;
  enum class Turn : u8 { none, asked, answered };
  std::atomic<Turn> turn_ = Turn::none;  // whose turn it is to use before_commit_'s error
  std::exception_ptr before_commit_error_;
  BackgroundWork background_;  // the last: it uses all of the above
};

}  // namespace tessera
