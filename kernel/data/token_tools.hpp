#pragma once
#include <string>
#include <vector>

#include "tessera/io/shares.hpp"
#include "tessera/io/token_file.hpp"

namespace tessera {

/// What `tessera data show` says of a token file.
struct TokenFileFacts {
  i64 documents = 0, empty_documents = 0, sequences = 0, tokens = 0;
  i64 shortest = 0, longest = 0;  ///< documents, in tokens
  double mean = 0;                ///< tokens of a document
};
TokenFileFacts facts_of(const TokenIndex& index);

/// What reading all of a file found.
struct TokenFileCheck {
  i64 least = 0, most = 0;  ///< ids
  /// Ids outside [0, vocabulary): how many, and the first of them.
  i64 outside = 0, first_outside = 0, document = 0;
};
/// `vocabulary` 0: only negative ids are outside.
TokenFileCheck check_tokens(const TokenFile& file, i64 vocabulary);

/// Writes the documents of all files, one after the other, as one file. Throws Error where types or
/// known tokenizers differ, where only some have modes, or where there is a file `to`.
void merge_token_files(const std::vector<std::string>& from, const std::string& to);

/// Writes documents of a file as several: `shares` of them, in their order, one for each of `to`.
/// Throws Error where there is a file of such a name, or as many names as shares are not given.
std::vector<ItemRange> split_token_file(const std::string& from,
                                        const Shares& shares,
                                        const std::vector<std::string>& to);

}  // namespace tessera
