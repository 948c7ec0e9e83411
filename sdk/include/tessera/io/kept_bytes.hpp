#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/io/data_file.hpp"

namespace tessera {

/// Bytes that take time to make and follow from their name. In a folder one rank makes them and
/// writes the file, while others wait; all map it, and later runs do. Without a folder they are
/// made and kept in memory. Moving it does not move the bytes.
class TESSERA_API KeptBytes {
 public:
  /// `name`: of the file; has a hash of all that decides the bytes. `valid` says whether those that
  /// were found are whole; they are made again otherwise.
  KeptBytes(const std::string& folder,
            const std::string& name,
            const std::function<std::string()>& make,
            const std::function<bool(std::string_view)>& valid);
  std::string_view bytes() const { return file_ ? file_->text() : std::string_view(*memory_); }

 private:
  std::optional<DataFile> file_;
  std::unique_ptr<const std::string> memory_;
};

}  // namespace tessera
