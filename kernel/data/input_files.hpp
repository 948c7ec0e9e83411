#pragma once
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// A file of documents.
struct InputFile {
  enum class Content : u8 { json_lines, text };  ///< an object a line; one document
  enum class Packing : u8 { none, gzip, zstd };
  std::string path;
  std::string shown;  ///< in errors and ids
  Content content = Content::json_lines;
  Packing packing = Packing::none;
};

/// The files that names, with * and ?, mean: in the order of the names, those of one name sorted by
/// bytes. `shown` is relative to `folder` where the file is below it. The caller writes `own`: of
/// what a pattern means these are no input. Throws ConfigError for a name without a file, a file
/// that two names mean, a name of one of `own`, and an ending that says of no content.
std::vector<InputFile> input_files(const std::vector<std::string>& names,
                                   const std::string& folder,
                                   const std::vector<std::string>& own = {});

}  // namespace tessera
