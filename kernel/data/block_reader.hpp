#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/data/byte_source.hpp"
#include "kernel/data/input_files.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A piece of the input that ends where a document ends: some lines of a file, or a file that is a
/// text. After its bytes is room for JsonDocuments::kPadding more.
struct InputBlock {
  const InputFile* file = nullptr;
  i64 first_line = 1;  ///< of the file
  std::vector<char> buffer;
  std::size_t size = 0;
  std::string_view bytes() const { return {buffer.data(), size}; }
};

/// Cuts files into blocks, in order: of about kBlockBytes, or of one document that is larger. Where
/// it cuts follows from the bytes alone. A mark of the byte order at a file's beginning is left
/// out. For one thread at a time.
class BlockReader {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
  static constexpr std::size_t kLargestDocument = std::size_t{256} << 20;

  explicit BlockReader(const std::vector<InputFile>& files) : files_(files) {}
  /// False: there are no more. Throws Error for a file that cannot be read, and a document that is
  /// too large.
  bool next(InputBlock& block);

 private:
  void begin_file();
  void fill(InputBlock& block, std::size_t wanted);

  const std::vector<InputFile>& files_;
  std::size_t file_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> rest_;  // of the file, read and not yet in a block
  i64 line_ = 1;
  bool ended_ = false;  // the file has no more than rest_
};

}  // namespace tessera
