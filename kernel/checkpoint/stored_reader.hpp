#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Reads what an index lists and compares it with what the index says. `index` outlives it.
class StoredReader {
 public:
  StoredReader(std::filesystem::path folder, const CheckpointIndex& index);
  /// Takes the contents of a block, which is a rectangle of the tensor.
  using OnBlock = std::function<void(const Rectangle&, std::span<const std::byte>)>;
  /// Reads the blocks of a slice that `wanted` selects, and no other bytes. Throws Error naming the
  /// file when anything is wrong with it: the same each time where that concerns the whole file.
  void read(const std::string& dtype,
            const StoredSlice& slice,
            const std::function<bool(const Rectangle&)>& wanted,
            const OnBlock& on_block);
  /// A whole logical tensor, dense.
  std::vector<std::byte> read(const StoredTensor& tensor);

 private:
  const SafetensorsFile& file(const std::string& name);
  // Reads the bytes of a slice that lie in `where` into `together_`.
  void read_rectangle(const SafetensorsFile& in,
                      const SafetensorsEntry& entry,
                      const Rectangle& slice,
                      const Rectangle& where,
                      i64 element);
  std::filesystem::path folder_;
  const CheckpointIndex& index_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Error> unusable_;  // why, by name
  std::vector<std::byte> together_, block_;
};

/// Collects failures, so that an error lists all that is damaged and not only the first.
class Damage {
 public:
  /// Runs work on a tensor and keeps the Error that it may throw. Returns whether it threw none.
  bool collect(const std::string& tensor, const std::function<void()>& work);
  /// Throws Error with an indented line for each reason and its tensors, the first ones in full.
  void require_none(const std::filesystem::path& folder) const;

 private:
  std::vector<std::string> reasons_;                         // in the order in which they came
  std::map<std::string, std::vector<std::string>> tensors_;  // by reason
  Resource short_of_ = Resource::none;                       // what ran out meanwhile
};

/// "a, b, c and 7 more"
std::string name_list(const std::vector<std::string>& names);

/// Reads a whole checkpoint and compares it with its index. Throws Error that lists what is
/// damaged, with file and tensor.
CheckpointIndex verify_checkpoint(const std::filesystem::path& folder);

}  // namespace tessera
