#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/collective.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What a rank has begun last: its step, the actions of its plan, the collectives of each group.
/// The one record of it: the launcher, the pulse and the flight records read it. It may lie in
/// memory that the launcher shares with the rank, so what a killed rank did is known.
///
/// One thread at a time writes, in some nanoseconds and without allocating. Any thread reads step()
/// and actions_begun(), also of another process. The texts are for the writer's own thread, and for
/// others once the writer has ended. It may have died while it wrote an entry: the rings hold one
/// more than they show.
class TESSERA_API Progress {
 public:
  /// Bytes of one rank's record. It begins as zeros.
  static std::size_t bytes() noexcept;
  /// Takes memory of its own.
  Progress();
  /// Uses this memory, which outlives it: zeros, or what another Progress has written.
  explicit Progress(std::byte* memory);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin_step(i64 step) noexcept;
  /// "the forward pass of layer", "attention", 0; no `name`: empty; no microbatch: -1. Long texts
  /// are cut.
  void begin_action(std::string_view what, std::string_view name, i64 microbatch = -1) noexcept;
  /// A group of this rank, before its first collective. Returns its place in the record: one that
  /// was released, of the same name where there is such, and what the record said of that goes.
  /// Throws Error when a rank has more groups at once than a mesh.
  int add_group(std::string_view name);
  /// The group is gone. The record keeps what it began until another group takes the place: a rank
  /// that fails destroys its groups before anybody reads it.
  void release_group(int group) noexcept;
  /// `bytes`: what this rank sends, where the collective has no input.
  void begin_collective(int group,
                        CollectiveKind kind,
                        const CallName& name,
                        const TensorArg& input,
                        i64 bytes) noexcept;

  /// 0: the rank has not begun its first step.
  i64 step() const noexcept;
  /// How many actions the rank has begun.
  u64 actions_begun() const noexcept;
  /// The last eight actions, newest last: "the forward pass of layer attention, microbatch 0".
  std::vector<std::string> actions() const;
  /// The last 32 collectives of each group, group by group, newest last: "tp[0,1] #41 all_reduce
  /// layers.3.mlp.down fp32 [2048, 384]".
  std::vector<std::string> collectives() const;

  struct Memory;

 private:
  std::unique_ptr<Memory> own_;
  Memory* memory_;
};

}  // namespace tessera
