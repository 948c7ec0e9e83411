#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/io/output_file.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// CRC-32C (Castagnoli) of bytes (RFC 3720, appendix B.4).
u32 crc32c(std::string_view bytes);

/// A file of events as TensorBoard reads them: records (length, checksum, bytes, checksum) that
/// each hold an `Event` in the wire format of Protocol Buffers
/// (tensorflow/core/util/event.proto, tensorflow/core/lib/io/record_writer.h).
class EventFile {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;

  /// Makes a file in `folder` whose name no other has. `begin`: events of this step and later ones
  /// in other files of the folder no longer count; 0: there are none.
  EventFile(const std::filesystem::path& folder, i64 begin);
  void add(i64 step, const Scalars& scalars);
  void sync() { file_.sync(); }

 private:
  void record(const std::string& event);

  OutputFile file_;
};

}  // namespace tessera
