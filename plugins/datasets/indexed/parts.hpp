#pragma once
#include <memory>

#include "tessera/io/shares.hpp"
#include "tessera/io/token_file.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What a set has of one file: documents that follow each other. Those of the order "megatron" are
/// the file's sequences, as Megatron-LM's GPTDataset reads them (`sequences`).
struct Part {
  std::shared_ptr<const TokenFile> file;
  ItemRange items;
  bool sequences = false;

  i64 begin_of(i64 item) const {
    const TokenIndex& index = file->index();
    return sequences ? index.begin(item) : index.document_begin(item);
  }
  i64 begin() const { return begin_of(items.begin); }
  i64 end() const { return begin_of(items.end); }
  i64 tokens() const { return end() - begin(); }
};

}  // namespace tessera
