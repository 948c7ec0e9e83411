#include <algorithm>
#include <utility>

#include "cut.hpp"

namespace tessera {
namespace {

// Documents end where the index says so.
void add_pieces(const TokenIndex& index, i64 begin, i64 end, std::vector<Piece>& pieces) {
  for (i64 document = index.document_at(begin); begin < end; ++document) {
    const i64 document_end = index.document_begin(document + 1);
    const i64 count = std::min(end, document_end) - begin;
    if (count == 0) continue;  // an empty one
    pieces.push_back({begin, count, begin + count == document_end});
    begin += count;
  }
}

}  // namespace

WindowCut::WindowCut(Part part, i64 length, bool tail) : part_(std::move(part)), length_(length) {
  const i64 targets = part_.tokens() - 1;  // the first token is none
  if (targets > 0) windows_ = (targets + (tail ? length - 1 : 0)) / length;
}

void WindowCut::find(i64 number, Sample& sample) const {
  const i64 begin = part_.begin() + number * length_;
  sample.file = part_.file.get();
  sample.pieces.clear();
  add_pieces(part_.file->index(), begin, std::min(begin + length_ + 1, part_.end()), sample.pieces);
}

}  // namespace tessera
