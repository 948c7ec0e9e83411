#include "kernel/data/block_reader.hpp"

#include <algorithm>
#include <cstring>

#include "kernel/data/json_document.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

void BlockReader::begin_file() {
  source_ = ByteSource::open(files_[file_]);
  line_ = 1;
  constexpr std::string_view kByteOrder = "\xEF\xBB\xBF";
  rest_.resize(kByteOrder.size());
  rest_.resize(source_->read(rest_));
  ended_ = rest_.size() < kByteOrder.size();
  if (std::string_view(rest_.data(), rest_.size()) == kByteOrder) rest_.clear();
}

// Reads on until the block has `wanted` bytes, or the file ends.
void BlockReader::fill(InputBlock& block, std::size_t wanted) {
  if (ended_ || block.size >= wanted) return;
  block.buffer.resize(wanted + JsonDocuments::kPadding);
  block.size += source_->read(std::span(block.buffer).subspan(block.size, wanted - block.size));
  ended_ = block.size < wanted;
}

bool BlockReader::next(InputBlock& block) {
  for (; file_ < files_.size(); ++file_, source_ = nullptr) {
    if (source_ == nullptr) begin_file();
    const InputFile& file = files_[file_];
    const bool lines = file.content == InputFile::Content::json_lines;
    const bool whole_text = !lines && line_ == 1;  // also an empty one
    if (!whole_text && ended_ && rest_.empty()) continue;
    block.file = &file;
    block.first_line = line_;
    block.size = rest_.size();
    block.buffer.assign(rest_.begin(), rest_.end());
    rest_.clear();
    block.buffer.resize(block.size + JsonDocuments::kPadding);
    std::size_t searched = 0, end = 0;
    for (std::size_t wanted = std::max(kBlockBytes, block.size);; wanted *= 2) {
      fill(block, wanted);
      if (ended_) {
        end = block.size;
        break;
      }
      const std::string_view fresh = block.bytes().substr(searched);
      const std::size_t feed = lines ? fresh.rfind('\n') : fresh.npos;
      if (feed != fresh.npos) {
        end = searched + feed + 1;
        break;
      }
      searched = block.size;
      if (block.size >= kLargestDocument) break;
    }
    if (end == 0 && block.size > 0) {
      fail("{}:{}: a document has more than {}: cut it into several",
           written_path(file.shown),
           line_,
           size_text(static_cast<double>(kLargestDocument)));
    }
    const std::string_view left = block.bytes().substr(end);
    rest_.assign(left.begin(), left.end());
    block.size = end;
    line_ += lines ? std::ranges::count(block.bytes(), '\n') : 1;
    if (lines && block.size == 0) continue;
    return true;
  }
  return false;
}

}  // namespace tessera
