#include "model_file.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "char_map.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/written.hpp"
#include "wire_reader.hpp"

namespace tessera {

namespace {

using Type = ModelPiece::Type;

[[noreturn]] void refuse_model(const std::string& name, std::string_view why) {
  fail_config("tokenizer.path: {} {}", written_plain(name), why);
}

// Calls `take` with each field of a message.
template <class F>
void for_fields(std::string_view message, const std::string& name, const F& take) {
  WireReader reader(message);
  WireReader::Field field;
  while (reader.next(field)) take(field);
  if (reader.damaged()) refuse_model(name, "is damaged, or is no model of SentencePiece");
}

ModelPiece piece_of(std::string_view message, const std::string& name, std::size_t id) {
  ModelPiece piece;
  float score = 0;
  for_fields(message, name, [&](const WireReader::Field& field) {
    if (field.number == 1 && field.type == 2) piece.text = field.bytes;
    if (field.number == 2 && field.type == 5) {
      score = std::bit_cast<float>(static_cast<u32>(field.value));
    }
    if (field.number == 3 && field.type == 0) {
      if (field.value < 1 || field.value > 6) {
        refuse_model(name, fmt::format("has a token {} of the type {}", id, field.value));
      }
      piece.type = static_cast<Type>(field.value);
    }
  });
  if (!std::isfinite(score)) {
    refuse_model(name,
                 fmt::format("has a token {} ({}) of the score {}", id, quote(piece.text), score));
  }
  // The library's tables end a text at its first zero byte.
  if (piece.text.empty() || piece.text.find('\0') != std::string::npos) {
    refuse_model(name, fmt::format("has a token {} that is {}", id, quote(piece.text)));
  }
  return piece;
}

// Of the tokens that are found in a text itself, the library notes 64 that begin each other.
void require_shallow(const ModelFile& file) {
  constexpr std::size_t kMost = 64;
  std::set<std::string_view> texts;
  for (const ModelPiece& piece : file.pieces) {
    if (piece.type == Type::user_defined) texts.insert(piece.text);
  }
  std::vector<std::string_view> begun;  // each begins the next one
  for (const std::string_view text : texts) {
    while (!begun.empty() && !text.starts_with(begun.back())) begun.pop_back();
    begun.push_back(text);
    if (begun.size() < kMost) continue;
    refuse_model(file.name,
                 fmt::format("has {} user-defined tokens that begin each other, up to {}",
                             kMost,
                             quote(std::string(text))));
  }
}

// What the trainer and the normalizer of the model say; of several values the last one counts.
void read_trainer(std::string_view message, ModelFile& file) {
  for_fields(message, file.name, [&](const WireReader::Field& field) {
    if (field.type != 0) return;
    if (field.number == 3) file.model_type = field.value;
    if (field.number == 24) file.spaces_are_suffixes = field.value != 0;
  });
}
void read_normalizer(std::string_view message, ModelFile& file, std::string_view& char_map) {
  for_fields(message, file.name, [&](const WireReader::Field& field) {
    if (field.number == 2 && field.type == 2) char_map = field.bytes;
    if (field.number == 3 && field.type == 0) file.space_before = field.value != 0;
    if (field.number == 5 && field.type == 0) file.spaces_are_marked = field.value != 0;
  });
}

}  // namespace

ModelFile parse_model(std::string bytes, const std::string& name) {
  ModelFile file{.name = name, .bytes = std::move(bytes)};
  constexpr u64 kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
  // The library makes one message of several.
  std::string_view char_map, char_map_back;
  for_fields(file.bytes, name, [&](const WireReader::Field& field) {
    if (field.type != 2) return;
    if (field.number == kPieces) {
      if (static_cast<i64>(file.pieces.size()) >= kMostVocabulary) {
        refuse_model(name, fmt::format("has more than {} tokens", kMostVocabulary));
      }
      file.pieces.push_back(piece_of(field.bytes, name, file.pieces.size()));
    } else if (field.number == kTrainer) {
      read_trainer(field.bytes, file);
    } else if (field.number == kNormalizer) {
      read_normalizer(field.bytes, file, char_map);
    } else if (field.number == kDenormalizer) {
      ModelFile back{.name = name, .bytes = {}};
      read_normalizer(field.bytes, back, char_map_back);
    }
  });
  if (file.pieces.empty()) refuse_model(name, "has no tokens: it is no model of SentencePiece");
  file.has_char_map = !char_map.empty();
  for (const std::string_view map : {char_map, char_map_back}) {
    if (const std::string_view why = char_map_damage(map); !why.empty()) {
      refuse_model(name, fmt::format("has a damaged table of characters: {}", why));
    }
  }
  require_shallow(file);
  return file;
}

ModelFile read_model(const std::string& path) {
  const DataFile file(path, "tokenizer.path");
  constexpr std::size_t kLargest = 1 << 28;  // the largest models have a fiftieth of it
  if (file.text().size() > kLargest) {
    refuse_model(path, fmt::format("has {} bytes, more than {}", file.text().size(), kLargest));
  }
  return parse_model(std::string(file.text()), path);
}

}  // namespace tessera
