#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Token = byte: any text, any language, nothing to train or to download.
class ByteTokenizer final : public Tokenizer {
 public:
  using Config = NoConfig;
  ByteTokenizer(const Config&, TokenizerArguments&) {}

  bool do_bytes_are_ids() const override { return true; }
  std::string do_fingerprint() const override { return "byte"; }
  i64 do_vocabulary() const override { return 256; }

  std::vector<i32> do_encode(std::string_view text) const override {
    std::vector<i32> ids(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<u8>(text[i]);
    return ids;
  }

  std::string do_decode(const std::vector<i32>& ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const i32 id : ids) {
      require(id >= 0 && id < 256, "the byte tokenizer has ids 0 … 255, not {}", id);
      text.push_back(static_cast<char>(id));
    }
    return text;
  }
};

}  // namespace tessera
