#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/device/descriptor.hpp"

namespace tessera {

/// A file that a run writes into its folder. A symbolic link in its place is an error: whoever may
/// write into the folder could have put it there, and what it leads to is not the run's. A pipe is
/// not waited for. What goes wrong (a full disk) is an Error that names the file and why. For one
/// thread.
class TESSERA_API OutputFile {
 public:
  /// What becomes of a file that is there: it is emptied, or what is written goes to its end.
  enum class Start { empty, append };
  explicit OutputFile(std::filesystem::path file, Start start = Start::empty);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Until this returns, nothing is certain to be on the disk.
  void sync();

 private:
  std::filesystem::path file_;
  Descriptor descriptor_;
};

/// Opens a file in that way for who needs more than OutputFile gives: `flags` are open(2)'s, O_RDWR
/// or O_WRONLY | O_APPEND. Where there is no file, one is made. On failure errno says why.
TESSERA_API Descriptor open_output(const std::filesystem::path& file, int flags) noexcept;

/// Gives a file or folder its final name, unless something has that name: then false. Throws Error
/// when it cannot be renamed. On a file system that cannot do both at once, what takes the name
/// between the look and the renaming may be replaced.
TESSERA_API bool rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

/// Throws Error "cannot <what> <file>: <errno in words>".
[[noreturn]] TESSERA_API void fail_file(std::string_view what, const std::filesystem::path& file);

}  // namespace tessera
