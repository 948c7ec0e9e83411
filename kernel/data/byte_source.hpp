#pragma once
#include <memory>
#include <span>

#include "kernel/data/input_files.hpp"

namespace tessera {

/// The bytes of a file, unpacked, from its beginning to its end. For one thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `to` as far as there are bytes: fewer than it has room for, at the end alone. Throws
  /// Error naming the file where it cannot be read, is damaged, or ends too early.
  virtual std::size_t read(std::span<char> to) = 0;

  static std::unique_ptr<ByteSource> open(const InputFile& file);
};

}  // namespace tessera
