#pragma once
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Chooses text of at most `most` bytes from any number of documents, in one pass. Documents are
/// cut into runs of whole lines, of 4 KiB or a little more; each run has a random number of (seed,
/// place in the input), and those with the smallest numbers are kept, in the order of the input.
/// Where all fits, all is kept; a line of more than `most` never is.
class TextSample {
 public:
  TextSample(i64 most, u64 seed);
  void add(std::string_view document);
  /// Empties it.
  std::vector<std::string> take();

  i64 documents() const { return documents_; }
  i64 bytes() const { return bytes_; }  ///< of all documents
  i64 kept() const { return kept_; }    ///< bytes

 private:
  void add_run(std::string_view run);

  i64 most_;
  u64 key_, bar_ = ~u64{0};  // numbers from the bar on are out
  i64 documents_ = 0, bytes_ = 0, kept_ = 0;
  std::vector<std::string> runs_;                           // empty: it went
  std::priority_queue<std::pair<u64, std::size_t>> worst_;  // numbers and places in runs_
  u64 seen_ = 0;
};

}  // namespace tessera
