#pragma once
#include <string>
#include <string_view>

#include "tessera/io/token_file.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Where tokens of samples come from. Thread-safe.
class TokenSource {
 public:
  /// Where a token is, for errors: "corpus" and "document 7".
  struct Place {
    std::string file, item;
  };

  virtual ~TokenSource() = default;
  virtual void copy(i64 begin, i64 count, i64* to) const = 0;
  virtual Place place(i64 token) const = 0;
};

/// Ids [begin, begin + count) of a source. They have to be of [0, vocabulary): else throws Error
/// that begins with the file and names the document. `owner` says whose vocabulary it is.
void copy_ids(const TokenSource& source,
              i64 begin,
              i64 count,
              i64* to,
              i64 vocabulary,
              std::string_view owner);

/// A token file.
class FileTokens final : public TokenSource {
 public:
  explicit FileTokens(const TokenFile& file) : file_(file) {}
  void copy(i64 begin, i64 count, i64* to) const override { file_.copy(begin, count, to); }
  Place place(i64 token) const override;

 private:
  const TokenFile& file_;
};

}  // namespace tessera
