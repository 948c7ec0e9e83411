#include "kernel/data/corpus_reader.hpp"

#include <algorithm>

#include "kernel/data/text_check.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

void BlockDocuments::use_line(const InputBlock& block,
                              std::string_view line,
                              i64 number,
                              const std::function<void(const ReadDocument&)>& use) {
  if (is_blank(line)) return;
  const std::string place = fmt::format("{}:{}", block.file->shown, number);
  JsonDocuments::Read read;
  std::string mended;
  try {
    read = json_.read(line, place);
  } catch (const Error&) {
    if (!mends_) throw;
    mended = mended_json(line);
    if (mended == line) throw;
    mended.reserve(mended.size() + JsonDocuments::kPadding);
    read = json_.read(mended, place);
  }
  use({read.id.empty() ? std::string_view(place) : read.id, read.text});
}

void BlockDocuments::each(const InputBlock& block,
                          const std::function<void(const ReadDocument&)>& use) {
  const std::string_view bytes = block.bytes();
  if (block.file->content == InputFile::Content::text) {
    const std::string& name = block.file->shown;
    if (!mends_) {
      if (const auto bad = first_no_utf8(bytes)) {
        fail("{}: byte {} is no UTF-8; a build mends such text whose first stage is \"clean\"",
             name,
             *bad + 1);
      }
    }
    use({name, bytes});
    return;
  }
  i64 number = block.first_line;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t feed = std::min(bytes.find('\n', at), bytes.size());
    use_line(block, bytes.substr(at, feed - at), number++, use);
    at = feed + 1;
  }
}

void read_corpus(const std::vector<InputFile>& files,
                 const JsonFields& fields,
                 const std::function<void(std::string_view)>& use) {
  BlockReader reader(files);
  BlockDocuments documents(fields, false);
  InputBlock block;
  while (reader.next(block)) {
    documents.each(block, [&](const ReadDocument& document) { use(document.text); });
  }
}

void read_corpus(const std::vector<std::string>& names,
                 const JsonFields& fields,
                 const std::function<void(std::string_view)>& use) {
  read_corpus(input_files(names, ""), fields, use);
}

}  // namespace tessera
