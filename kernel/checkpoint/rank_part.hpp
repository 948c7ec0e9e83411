#pragma once
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoint_tensor.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/slices.hpp"
#include "tessera/device/device.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// What one rank writes of a checkpoint: its slices of every tensor that it stands for. Each of
/// equal replicas writes some of the tensors; a rank that alone holds its elements writes them.
class RankPart {
 public:
  RankPart(const Mesh& mesh, std::vector<CheckpointTensor> tensors);

  /// Returns the dense values of this rank's range of a tensor. May use the given memory.
  using Values =
      std::function<std::span<const std::byte>(const CheckpointTensor& tensor, HostBytes& memory)>;
  /// Writes the slices to `folder`/rank-N.safetensors, or large ones to several such files, which
  /// up to `threads` threads write at once, and describes them in rank-N.json. All is on the disk
  /// when it returns. `values` is called on the caller's thread. The result proves to rank 0 that
  /// it reads the same: pass it to commit_parts.
  std::string write(const std::filesystem::path& folder, const Values& values, int threads) const;

  /// The tensors that it writes.
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  /// Their bytes.
  i64 bytes() const;
  /// Bytes of the equal replica that writes most.
  i64 most_bytes() const { return bytes() + behind_; }
  /// Copies these tensors into `block`, in the order of the compute stream, and waits for that.
  void copy(Device& device, const HostBlock& block) const;
  /// The values that copy() put there.
  Values values_in(const HostBlock& block) const;

 private:
  struct File;
  std::vector<File> files(int threads) const;

  i64 rank_;
  i64 behind_ = 0;                               // bytes less than the fullest replica has
  std::vector<CheckpointTensor> tensors_;        // those with pieces
  std::vector<std::vector<LocalSlice>> pieces_;  // by tensor
};

/// The values on the device. For use on the rank's thread.
RankPart::Values values_on(Device& device);

/// "rank-00003.json" for rank 3 and "json".
std::string part_name(i64 rank, std::string_view extension);
/// A checksum as text.
std::string proof_of(const std::string& text);

}  // namespace tessera
