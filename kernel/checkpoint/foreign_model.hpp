#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
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

  const Settings& settings() const { return settings_; }
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return files_.contains(name); }
  const SafetensorsEntry& entry(const std::string& name) const;
  std::vector<std::byte> read(const std::string& name) const;

 private:
  const SafetensorsFile& file_of(const std::string& name) const;
  std::filesystem::path folder_;
  Settings settings_;
  std::map<std::string, std::string> files_;  // by tensor
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
