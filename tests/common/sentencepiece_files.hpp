#pragma once
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera::testing {

/// Writes a message in protobuf's wire format.
class WireMessageText {
 public:
  WireMessageText& number(u64 field, u64 value) {
    put(field << 3);
    put(value);
    return *this;
  }
  WireMessageText& real(u64 field, float value) {
    put(field << 3 | 5);
    const u32 bits = std::bit_cast<u32>(value);
    for (int i = 0; i < 4; ++i) text_ += static_cast<char>(bits >> (8 * i) & 0xFF);
    return *this;
  }
  WireMessageText& bytes(u64 field, std::string_view value) {
    put(field << 3 | 2);
    put(value.size());
    text_ += value;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void put(u64 value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>((value & 0x7F) | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

/// A model of SentencePiece, as its file has it. Tokens have the ids 0, 1, 2, …
struct SentencePieceFile {
  enum Type : u8 { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = normal;
  };
  std::vector<Piece> pieces = {{"<unk>", 0, unknown}, {"<s>", 0, control}, {"</s>", 0, control}};
  u64 model_type = 2;  // BPE; 1: unigram
  bool byte_fallback = false, add_dummy_prefix = true, remove_extra_whitespaces = true;
  std::string char_map;

  /// The id of the token.
  i32 add(std::string text, float score, Type type = normal) {
    pieces.push_back({std::move(text), score, type});
    return static_cast<i32>(pieces.size()) - 1;
  }
  void add_bytes() {
    byte_fallback = true;
    constexpr const char* kDigits = "0123456789ABCDEF";
    for (unsigned i = 0; i < 256; ++i) {
      add(std::string("<0x") + kDigits[i >> 4] + kDigits[i & 15] + ">", 0, byte);
    }
  }
  std::string text() const {
    WireMessageText model, trainer, normalizer;
    for (const Piece& piece : pieces) {
      WireMessageText one;
      one.bytes(1, piece.text).real(2, piece.score).number(3, piece.type);
      model.bytes(1, one.text());
    }
    trainer.number(3, model_type).number(4, pieces.size()).number(35, byte_fallback ? 1 : 0);
    normalizer.bytes(1, "identity").bytes(2, char_map);
    normalizer.number(3, add_dummy_prefix ? 1 : 0).number(4, remove_extra_whitespaces ? 1 : 0);
    return model.bytes(2, trainer.text()).bytes(3, normalizer.text()).text();
  }

  /// A table of characters that makes an "A" an "a".
  static std::string small_letters() {
    std::vector<u32> units(768, u32{1} << 31);  // no text reaches these
    units[0] = u32{256} << 10;                  // the root's children begin at 256
    units[256 ^ 'A'] = u32{321 ^ 512} << 10 | u32{1} << 8 | 'A';  // its own at 512, and it ends
    // Unit 512 is the end: the text at 0.
    std::string map;
    const auto put = [&](u32 value) {
      for (int i = 0; i < 4; ++i) map += static_cast<char>(value >> (8 * i) & 0xFF);
    };
    put(static_cast<u32>(units.size() * 4));
    for (const u32 unit : units) put(unit);
    return map + std::string("a\0", 2);
  }
};

}  // namespace tessera::testing
