#include "token_source.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

void copy_ids(const TokenSource& source,
              i64 begin,
              i64 count,
              i64* to,
              i64 vocabulary,
              std::string_view owner) {
  source.copy(begin, count, to);
  u64 most = 0;
  for (i64 i = 0; i < count; ++i) most = std::max(most, static_cast<u64>(to[i]));
  if (most < static_cast<u64>(vocabulary)) return;
  for (i64 i = 0; i < count; ++i) {
    if (to[i] >= 0 && to[i] < vocabulary) continue;
    const auto [file, item] = source.place(begin + i);
    fail("{}: token {} of {} is outside the {}'s vocabulary of {}",
         file,
         to[i],
         item,
         owner,
         vocabulary);
  }
}

TokenSource::Place FileTokens::place(i64 token) const {
  return {written_path(file_.prefix()),
          fmt::format("document {}", file_.index().document_at(token))};
}

}  // namespace tessera
