#pragma once
#include "tessera/types.hpp"

namespace tessera {

/// How much text.
struct TextAmount {
  i64 documents = 0, characters = 0, tokens = 0;
  TextAmount& operator+=(const TextAmount& other) {
    documents += other.documents;
    characters += other.characters;
    tokens += other.tokens;
    return *this;
  }
};

/// What went into a stage, and what became of it.
struct StageCounts {
  TextAmount in, out;
  i64 changed = 0;  ///< documents, of those that went in
  i64 removed = 0;
  StageCounts& operator+=(const StageCounts& other) {
    in += other.in;
    out += other.out;
    changed += other.changed;
    removed += other.removed;
    return *this;
  }
};

}  // namespace tessera
