#pragma once
#include <optional>
#include <vector>

#include "order.hpp"
#include "tessera/data.hpp"
#include "token_source.hpp"

namespace tessera {

/// What is told of the documents within a sample, beside tokens, targets and loss_mask.
struct DocumentFields {
  bool positions = false;  ///< each document counts from 0
  bool attention = false;  ///< no token sees another document: "first" and "last"
  bool mask_ends = false;  ///< no loss on what follows the last token of a document
};

std::vector<FieldInfo> sample_fields(const DocumentFields& wanted);

/// Writes the fields of a sample, in the order of sample_fields. All that concerns documents comes
/// from the pieces: what a token's id is does not matter. Ids have to be of [0, vocabulary): else
/// throws Error that begins with the file and names the document. `owner` says whose vocabulary it
/// is. What a sample lacks is padding: token 0, without loss, which sees itself alone.
void write_fields(const Sample& sample,
                  const TokenSource& source,
                  const DocumentFields& wanted,
                  i64 length,
                  i64 vocabulary,
                  std::string_view owner,
                  const SampleBuffers& out);

}  // namespace tessera
