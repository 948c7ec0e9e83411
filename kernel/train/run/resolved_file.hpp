#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// resolved.toml in a run's folder: the configuration that the folder's files were written with.
class ResolvedFile {
 public:
  /// `text` is the configuration of this run; it outlives the object.
  ResolvedFile(const std::filesystem::path& folder, const std::string& text)
      : file_(folder / "resolved.toml"), text_(text) {}
  bool exists() const { return std::filesystem::is_regular_file(file_); }
  /// The file is there and says what this run's configuration is.
  bool is_of_this_run() const;
  /// Writes this run's configuration. An earlier file is kept under another name. Throws Error.
  void replace() const;

 private:
  std::filesystem::path file_;
  const std::string& text_;
};

/// Whether a checkpoint keeps the text as it is: its index is JSON.
bool is_utf8(std::string_view text);

}  // namespace tessera
