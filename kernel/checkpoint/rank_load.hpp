#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoint_tensor.hpp"
#include "kernel/checkpoint/index.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// Tensors that a checkpoint lacks, has beyond those of a run, or has in another shape or dtype.
struct Misfit {
  std::vector<std::string> missing, extra;  ///< names
  std::vector<std::string> other;           ///< a line each
  bool empty() const { return missing.empty() && extra.empty() && other.empty(); }
  void add(const Misfit& more);  ///< what another rank found, each once
};
/// `others` are names that the checkpoint may hold beyond `tensors`, those of other pipeline
/// stages; nullptr: any. A parameter among `others` may have any state, "<parameter>/<state>",
/// unless the parameter or a state of it is in `tensors`: the ranks that load it judge that.
Misfit find_misfit(const CheckpointIndex& index,
                   const std::vector<CheckpointTensor>& tensors,
                   const std::vector<std::string>* others);
/// Throws ConfigError listing what does not fit, if anything does.
void require_none(const std::filesystem::path& folder, const Misfit& misfit);
/// Both.
void require_fit(const std::filesystem::path& folder,
                 const CheckpointIndex& index,
                 const std::vector<CheckpointTensor>& tensors,
                 const std::vector<std::string>* others);

/// Takes the contents of this rank's range of a tensor, padding zero.
using TakeContents = std::function<void(const CheckpointTensor& tensor, HostBytes contents)>;

/// Puts them into the tensor, on its device.
TakeContents into_tensors(Device& device);

/// Loads tensors that fit, one after the other: reads only blocks that hold an element of this
/// rank's range, and hands them to `take`. Throws Error listing all that is damaged, which `take`
/// did not get.
void read_tensors(const std::filesystem::path& folder,
                  const CheckpointIndex& index,
                  const std::vector<CheckpointTensor>& tensors,
                  const TakeContents& take);

}  // namespace tessera
