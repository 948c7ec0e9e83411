#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernel/checkpoint/safetensors_file.hpp"
#include "tessera/converter.hpp"

namespace tessera {

/// A folder in the format of Hugging Face transformers: config.json, and model.safetensors or
/// several files with model.safetensors.index.json.
class ForeignModel {
 public:
  /// Has the folder a config.json?
  static bool in(const std::filesystem::path& folder);
  /// Throws Error naming the file that is missing or damaged.
  explicit ForeignModel(std::filesystem::path folder);

  /// With a null_key() for each outer key of config.json that is null.
  const Settings& settings() const { return settings_; }
  std::string settings_file() const;
  /// The files that were read: config.json, tensors and their index.
  const std::vector<std::string>& files() const { return read_; }
  /// Every tensor that a file has or the index lists.
  std::vector<std::string> names() const;
  /// Is there a tensor of this name, or one that a file's metadata gives this name too?
  bool has(const std::string& name) const { return places_.contains(name); }
  const SafetensorsEntry& entry(const std::string& name) const;
  std::vector<std::byte> read(const std::string& name) const;

 private:
  struct Place {
    std::string file, key;  // `key` is another name where the metadata says so
  };
  const SafetensorsFile& open(const std::string& file);
  void read_index();
  void take_tensors(const std::string& file);
  std::filesystem::path folder_;
  Settings settings_;
  std::vector<std::string> read_;
  std::map<std::string, Place> places_;  // by name
  std::set<std::string> listed_;         // in the index
  std::map<std::string, std::unique_ptr<SafetensorsFile>> open_;
};

inline constexpr i64 kForeignFileBytes = 5'000'000'000;

/// Writes such a folder. `contents(i, sink)` hands over entry i. More than `file_bytes` of tensors
/// go into several files, none with more of them unless a single tensor is larger. Throws Error
/// naming the file that cannot be written.
void write_foreign_model(const std::filesystem::path& folder,
                         const Settings& settings,
                         const std::vector<SafetensorsEntry>& entries,
                         const std::function<void(std::size_t, const ByteSink&)>& contents,
                         i64 file_bytes);

}  // namespace tessera
