#pragma once
#include <optional>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// Reads the fields of a message in protobuf's wire format, one after the other. The message
/// outlives it.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  struct Field {
    u64 number = 0;
    u32 type = 0;  ///< 0: `value`; 2: `bytes`; 1 and 5: `value` has 8 and 4 bytes
    u64 value = 0;
    std::string_view bytes = {};
  };
  /// False at the end of the message, and where it is damaged.
  bool next(Field& field);
  bool damaged() const { return damaged_; }

 private:
  std::optional<u64> number();
  std::optional<u64> fixed(std::size_t size);

  std::string_view rest_;
  bool damaged_ = false;
};

}  // namespace tessera
