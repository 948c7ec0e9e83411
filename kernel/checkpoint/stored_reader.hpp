#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"

namespace tessera {

/// Reads what an index lists and compares it with what the index says. `index` outlives it.
class StoredReader {
 public:
  StoredReader(std::filesystem::path folder, const CheckpointIndex& index);
  /// Contents of a slice. Throws Error naming file and tensor when anything about it is wrong.
  std::vector<std::byte> read(const std::string& tensor,
                              const std::string& dtype,
                              const StoredSlice& slice);

 private:
  const SafetensorsFile& file(const std::string& name);
  std::filesystem::path folder_;
  const CheckpointIndex& index_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

/// Collects failures, so that an error lists all that is damaged and not only the first.
class Damage {
 public:
  /// Runs `work`; true when it did not throw Error.
  bool survives(const std::function<void()>& work);
  bool none() const { return count_ == 0; }
  /// One indented line each, the first ones in full.
  std::string text() const;

 private:
  std::vector<std::string> lines_;
  i64 count_ = 0;
};

/// "a, b, c and 7 more"
std::string name_list(const std::vector<std::string>& names);

/// Reads a whole checkpoint and compares it with its index. Throws Error that lists what is
/// damaged, with file and tensor.
CheckpointIndex verify_checkpoint(const std::filesystem::path& folder);

}  // namespace tessera
